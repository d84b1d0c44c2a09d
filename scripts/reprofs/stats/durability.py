"""What no failure in a number of tests still allows."""

from __future__ import annotations

import scipy

LEVEL = 0.95


def unseen(tests: int) -> float:
    """The largest share of failures with which so many tests show none in one case of twenty; 1 without tests.

    Clopper and Pearson's one-sided 95 % bound (Biometrika 26, 1934).
    """
    if not tests:
        return 1.0
    return float(scipy.stats.binomtest(0, tests, alternative="less").proportion_ci(LEVEL).high)
