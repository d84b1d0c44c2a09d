"""Predicted effects of one changed option: what is predicted, that it is written once, and how it is judged."""

import dataclasses

import make
import numpy as np
import pandas as pd
import pytest
import run
from reprofs.errors import UserError
from reprofs.report.sentences import labs
from reprofs.stats import effects


def frame(*rows: tuple) -> pd.DataFrame:
    """Rows of `effects.measured`: changed, ratio, low, high."""
    found = pd.DataFrame(rows, columns=["changed", "ratio", "low", "high"])
    return found.assign(filesystem="ext4", workload="w", scale="smoke", phase="create", cache="warm", n=6)


def test_only_large_and_sure_effects_are_predicted():
    found = frame(("a", 1.5, 1.4, 1.6), ("b", 0.8, 0.7, 0.9), ("c", 1.05, 1.04, 1.06), ("d", 1.5, 0.9, 2.4))
    assert list(effects.predictions(found)["changed"]) == ["a", "b"]


def test_a_prediction_is_right_wrong_undecided_or_not_measured():
    predicted = frame(("a", 1.5, 1.4, 1.6), ("b", 0.8, 0.7, 0.9), ("c", 2, 1.9, 2.1), ("d", 2, 1.9, 2.1))
    other = frame(("a", 1.2, 1.1, 1.3), ("b", 1.1, 1.05, 1.2), ("c", 1.1, 0.9, 1.3))
    found = effects.judged(predicted, other)
    assert list(found["outcome"]) == ["same", "contradicted", "inconclusive", "not measured"]
    np.testing.assert_allclose(found["off"][:2], [1.2 / 1.5, 0.8 / 1.1])
    assert labs.predicted(found, "host") == (
        "Of 3 predicted effects host shows 1 in the predicted direction and 1 in the opposite; 1 stay undecided. Right:"
        " 50 % (1 to 99 %) of those that it decides. 0 of 3 have the predicted size within its interval."
    )
    found = effects.judged(predicted, other, {("ext4", "b")})
    assert list(found["outcome"]) == ["same", "not made", "inconclusive", "not measured"]
    assert labs.predicted(found, "host").endswith(
        " 1 effect cannot be judged: mkfs of host makes ext4+b like the base."
    )
    assert labs.predicted(found[3:], "host") == "None of 1 predicted effect is measured in host yet."
    assert effects.share(12, 12)[1] == pytest.approx(0.735, abs=0.001)
    assert all(np.isnan(effects.share(0, 0)))


def test_a_change_is_compared_with_the_first_variant_and_written_before_a_real_lab(tmp_path, monkeypatch):
    make.make(tmp_path, rounds=3, systems=["btrfs", "xfs"], workloads=["metadata"], failures={})
    study = run.build(tmp_path, results=False)
    factor = np.where(study.phases["variant"] == "zstd", 2.0, 1.0)
    seeds = study.phases["round"].to_numpy(float)
    phases = study.phases.assign(wall_ns=(1e6 * (1 + seeds) * factor * (1 + 0.001 * seeds * (factor > 1))).round())
    study = dataclasses.replace(study, phases=phases)
    found = effects.measured(study, "exact")
    assert set(found["filesystem"]) == {"btrfs"} and set(found["changed"]) == {"zstd"}
    np.testing.assert_allclose(found["ratio"], 2 * 1.002, rtol=1e-4)
    monkeypatch.setattr(effects, "place", lambda path: tmp_path / path)
    assert effects.read(study).empty
    assert effects.register(study) == f"data/predictions/{study.plan.study.name}.csv"
    assert len(effects.read(study)) == len(found)
    with pytest.raises(UserError, match="is written already"):
        effects.register(study)
    real = dataclasses.replace(study, phases=phases.assign(lab="host"))
    facts = study.plan.labs["exact"].model_copy(update={"exact": False})
    plan = study.plan.model_copy(update={"labs": {"host": facts}})
    with pytest.raises(UserError, match="Lab host is measured already"):
        effects.register(dataclasses.replace(real, plan=plan))
