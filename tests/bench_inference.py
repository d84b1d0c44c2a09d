"""`make bench`: whether the statistics hold what they promise, by simulation: coverage, false verdicts, power.

python tests/bench_inference.py [STUDIES]        prints the tables of docs/methods/statistics.md

What is simulated are log ratios and times of rounds; everything else is the package's own code.
"""

import sys

import numpy as np
import pandas as pd
from reprofs.data.keys import SETTING
from reprofs.plan.study import Rounds
from reprofs.stats import compare, rounds
from reprofs.stats.cells import interval

SEED, ROUNDS, OPERATIONS = 20260101, (3, 6, 10, 30), 24
# Noise of logarithms, of mean 0, in an array of a shape whose last axis is the rounds.
SHAPES = {
    "lognormal": lambda rng, shape: rng.normal(size=shape),
    "skewed (exponential logarithms)": lambda rng, shape: rng.exponential(size=shape) - 1,
    "bimodal (two values, 70 and 30 %)": lambda rng, shape: (
        np.where(rng.random(shape) < 0.7, -0.3, 0.7) + rng.normal(0, 0.02, shape)
    ),
    "autocorrelated (0.6 to the next repetition)": lambda rng, shape: _autocorrelated(rng, shape, 0.6),
}


def _autocorrelated(rng: np.random.Generator, shape: tuple[int, ...], rho: float) -> np.ndarray:
    noise = rng.normal(size=shape)
    noise[..., 1:] *= np.sqrt(1 - rho**2)
    for i in range(1, shape[-1]):
        noise[..., i] += rho * noise[..., i - 1]
    return noise


def coverage(shape: str, n: int, times: int, sigma: float = 0.2) -> float:
    """How often the 95 % interval of a cell holds the true geometric mean, 1."""
    rng = np.random.default_rng(SEED)
    bounds = [interval(np.exp(sigma * SHAPES[shape](rng, (n,)))) for _ in range(times)]
    return float(np.mean([low <= 1 <= high for low, high in bounds]))


def verdicts(
    contenders: int, n: int, cv: float, lead: float, operations: int, times: int, shape: str = "lognormal"
) -> list[pd.DataFrame]:
    """The verdicts of so many simulated studies; contender c0 is faster than all others by `lead`."""
    rng = np.random.default_rng(SEED)
    # Rounds differ by their input, which pairing removes.
    base = rng.normal(0, 0.05, (times, operations, n, 1))
    noise = SHAPES[shape](rng, (times, operations, contenders, n))
    logs = base + cv * noise.swapaxes(2, 3)
    logs[..., 1:] += np.log1p(lead)
    return [judged(study) for study in logs]


def judged(study: np.ndarray, caution: float = 1) -> pd.DataFrame:
    """The verdicts of a study, from the logarithms of its times: operations by rounds by contenders."""
    operations, n, contenders = study.shape
    labels = [f"c{i}" for i in range(contenders)]
    place = dict.fromkeys([*SETTING, "workload", "scale", "cache"], "x")
    first, second = np.triu_indices(contenders, 1)
    names = {"a": [labels[i] for i in first], "b": [labels[i] for i in second]}
    phases = [f"p{number:02}" for number in range(operations)]
    mean = np.exp(study.mean(axis=1)).ravel()
    more = {"role": "contender", "position": 0, "n": n, "low_ns": mean, "high_ns": mean}
    keys = {"phase": np.repeat(phases, contenders), "label": labels * operations}
    cells = pd.DataFrame(place | keys | {"geometric_mean_ns": mean} | more)
    ratios = (study[..., first] - study[..., second]).swapaxes(0, 1).reshape(n, -1)
    keys = {"phase": np.repeat(phases, len(first))} | {name: value * operations for name, value in names.items()}
    tested = compare.cautious(compare.paired(ratios, level=compare.joint(caution)), caution)
    pairs = pd.DataFrame(place | keys | {"contenders": True} | tested)
    return compare.winners(cells, pairs, caution=caution)


def stopped(
    contenders: int, workloads: int, cv: float, lead: float, rule: dict, times: int, shape: str = "lognormal"
) -> pd.DataFrame:
    """Simulated studies whose rounds adapt; contender c0 is faster than all others by `lead`.

    Columns: rounds (when each stopped); with and without the correction for that: whether the interval of c1 to c0 in
    the first workload holds the true ratio (holds, plain_holds), whether a fastest one is named that is not (false,
    plain_false), and whether contenders of a workload are said to be equivalent (equal, plain_equal).
    """
    rng = np.random.default_rng(SEED)
    labels, most = [f"c{i}" for i in range(contenders)], rule["max"]
    found = []
    for _ in range(times):
        logs = cv * SHAPES[shape](rng, (workloads, contenders, most)).swapaxes(1, 2)
        logs += rng.normal(0, 0.05, (workloads, most, 1))
        logs[..., 1:] += np.log1p(lead)
        known = {
            tuple(f"{number}" for _ in rounds.KEYS): pd.DataFrame(own, index=range(1, most + 1), columns=labels)
            for number, own in enumerate(logs)
        }
        n = rounds.stopping(known, Rounds(**rule), compare.WIN, most).looks[-1].rounds
        row: dict = {"rounds": n}
        for prefix, caution in (("plain_", 1), ("", compare.CAUTION)):
            ratio = compare.paired(logs[0, :n, 1:2] - logs[0, :n, :1], level=compare.joint(caution))
            row[f"{prefix}holds"] = bool(ratio["low"][0] <= 1 + lead <= ratio["high"][0])
            ends = judged(logs[:, :n], caution)
            named = ends[ends["verdict"] == "fastest"]
            row[f"{prefix}false"] = bool(len(named) if not lead else (named["best"] != "c0").any())
            row[f"{prefix}equal"] = bool((ends["verdict"] == "equivalent").any())
        found.append(row)
    return pd.DataFrame(found)


def shares(found: list[pd.DataFrame], lead: float) -> dict[str, float]:
    """Of studies with a false claim, and of operations with each verdict.

    false_fastest: studies that name a fastest one that is not. false_slower: studies that leave one of the fastest out
    of those that may be. any_equivalent: studies with an operation said to be equivalent, false where the lead is more.
    """
    false, left = [], []
    for study in found:
        named = study[study["verdict"] == "fastest"]
        # Where all are equal none is the fastest, and c0 stands for those that may not be left out.
        false.append(bool(len(named) if not lead else (named["best"] != "c0").any()))
        left.append(any("c0" not in (row.best, *row.level) for row in study.itertuples()))
    worst = [bool((study["verdict"] == "equivalent").any()) for study in found]
    every = pd.concat(found)["verdict"]
    return (
        {"false_fastest": np.mean(false), "false_slower": np.mean(left), "any_equivalent": np.mean(worst)}
        | {name: float((every == name).mean()) for name in ("fastest", "equivalent")}
        | {"undecided": float(every.isin(["undecided", compare.FEW]).mean())}
    )


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(studies: int) -> None:
    """Print the tables."""
    rows = [[name, *(percent(coverage(name, n, 10 * studies)) for n in ROUNDS)] for name in SHAPES]
    print("Coverage of the 95 % interval of a configuration, in percent, by repetitions:\n")
    print(table(["logarithms are", *(f"{n}" for n in ROUNDS)], rows))
    rows = []
    for contenders, cv in ((2, 0.05), (7, 0.05), (7, 0.01)):
        for n in ROUNDS[:3]:
            got = shares(verdicts(contenders, n, cv, 0.0, OPERATIONS, studies), 0.0)
            names = ("false_fastest", "false_slower", "equivalent", "undecided")
            rows.append([f"{contenders}", f"{100 * cv:g}", f"{n}", *(percent(got[name]) for name in names)])
    print(f"\nEqual file systems, {OPERATIONS} operations; studies with a false claim, and operations, in percent:\n")
    head = [
        "file systems",
        "CV, %",
        "repetitions",
        "studies with a false fastest",
        "studies that leave out one of the fastest",
    ]
    print(table([*head, "operations equivalent", "undecided"], rows))
    rows = []
    for name in SHAPES:
        for n in ROUNDS[:3]:
            equal = shares(verdicts(2, n, 0.05, 0.0, OPERATIONS, studies, name), 0.0)
            # As far apart as the margin within which they would be equivalent: the worst case of that claim.
            margin = shares(verdicts(2, n, 0.02, 0.05, 1, 4 * studies, name), 0.05)
            rows.append([name, f"{n}", percent(equal["false_fastest"]), percent(margin["equivalent"])])
    print("\nTwo file systems where the assumptions hold and where not; false claims, in percent:\n")
    head = ["logarithms are", "repetitions", f"equal, CV 5 %: studies of {OPERATIONS} operations with a false fastest"]
    print(table([*head, "5 % apart, CV 2 %: operations called equivalent"], rows))
    rows = []
    for lead, cv in ((0.05, 0.02), (0.1, 0.01)):
        for n in ROUNDS[:3]:
            cells = [f"{100 * lead:g}", f"{100 * cv:g}", f"{n}"]
            for operations in (1, OPERATIONS):
                for contenders in (2, 7):
                    found = verdicts(contenders, n, cv, lead, operations, studies if operations == 1 else studies // 10)
                    cells.append(percent(shares(found, lead)["fastest"]))
            rows.append(cells)
    print("\nPower: operations in which the faster file system is named fastest, in percent:\n")
    head = ["difference, %", "CV, %", "repetitions", "1 operation, 2 file systems", "1, 7"]
    head += [f"{OPERATIONS}, 2", f"{OPERATIONS}, 7"]
    print(table(head, rows))
    rule, rows = {"min": 3, "max": 20, "until": "5 %"}, []
    cases = [(2, 1, 0.02, 0.0), (2, 1, 0.05, 0.0), (2, 1, 0.05, 0.3), (7, 1, 0.05, 0.0), (2, 4, 0.05, 0.0)]
    for case, shape in [*((case, "lognormal") for case in cases), *((cases[1], shape) for shape in list(SHAPES)[1:])]:
        got, (contenders, workloads, cv, lead) = stopped(*case, rule, studies, shape).mean(), case
        what = [shape, f"{contenders}", f"{workloads}", f"{100 * cv:g}", f"{100 * lead:g}", f"{got['rounds']:.1f}"]
        rows.append([*what, *(percent(got[name]) for name in ("plain_holds", "holds", "plain_false", "false"))])
    print(f"\n{rule['min']} to {rule['max']} repetitions, until ratios are known within {rule['until']}, in percent:\n")
    head = ["logarithms are", "file systems", "workloads", "CV, %", "difference, %", "repetitions (mean)"]
    head += ["intervals that hold, uncorrected", "corrected"]
    print(table([*head, "studies with a false fastest, uncorrected", "corrected"], rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
