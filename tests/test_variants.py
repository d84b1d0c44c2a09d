"""Variants of one file system: compared with the first of them, and no contenders beside other file systems."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from reprofs.data.rows import label
from reprofs.plan.catalog import Catalog
from reprofs.plan.study import Study
from reprofs.stats import cells, compare, totals
from reprofs.trial.planning import make_plan


def roles(systems: list[str]) -> dict[str, str]:
    catalog = Catalog()
    quick = catalog.get(Study, "quick").as_json()
    catalog.add(Study, "mine", quick | {"filesystems": systems, "rounds": 1})
    plan = make_plan("mine", catalog)
    return {label(trial, plan): plan.role_of(trial) for trial in plan.trials}


def test_two_that_hardly_differ_are_no_rivals():
    # In the order of the file of ext4, whatever the study's.
    found = roles(["ext4+stride-4", "ext4+no-lazy-init", "ext4", "xfs+large-log", "xfs", "tmpfs", "jfs"])
    assert found == {
        "ext4": "contender",
        "ext4+no-lazy-init": "variant",
        "ext4+stride-4": "variant",
        "xfs": "contender",
        "xfs+large-log": "variant",
        "tmpfs": "ceiling",
        "jfs": "no-promise",
    }


def test_one_variant_of_a_file_system_is_a_contender_and_so_are_all_where_no_other_is():
    assert set(roles(["ext4+no-lazy-init", "xfs"]).values()) == {"contender"}
    assert set(roles(["zfs", "zfs+ashift12"]).values()) == {"contender"}


def study(times: dict[str, list[float]]) -> SimpleNamespace:
    """A study of one workload whose totals are these, a value a repetition."""
    place = {"lab": "exact", "stack": "single", "profile": "ssd", "workload": "w", "scale": "smoke"}
    rows = pd.DataFrame(
        place
        | {"phase": compare.TOTAL, "cache": "", "label": name, "role": "variant" if "+" in name else "contender"}
        | {"status": "ok", "position": 0, "round": number, "order": number, "wall_ns": ns, "items": 1}
        for name, values in times.items()
        for number, ns in enumerate(values, 1)
    )
    trials = rows[["label"]].drop_duplicates().assign(filesystem=lambda t: t.label.str.partition("+")[0])
    table, pairs = cells.statistics(rows), compare.pairwise(rows)
    winners = compare.winners(table, pairs)
    results = SimpleNamespace(totals=table, rivals=pairs, cheapest=winners)
    return SimpleNamespace(results=results, margins={"win": 0.02, "equal": 0.05}, trials=trials)


def test_a_variant_is_told_beside_its_parent_and_the_parent_can_be_fastest():
    base, more = np.array([100.0, 102, 101, 99, 100, 103]), np.array([1.001, 0.999, 1.002, 1.0, 0.998, 1.0])
    own = {"ext4": base, "ext4+twin": base * more, "ext4+slow": base * 1.2 * more, "xfs": base * 1.1 * more}
    found = study(own | {"xfs+quick": own["xfs"] / 1.3 * more})
    (winner,) = found.results.cheapest.itertuples()
    assert (winner.verdict, winner.best) == ("fastest", "ext4")
    told = totals.variants(found).set_index("label")
    assert told["verdict"].to_dict() == {"ext4+slow": "slower", "ext4+twin": "equally fast", "xfs+quick": "faster"}
    assert told.loc["xfs+quick", "parent"] == "xfs" and told.loc["ext4+slow", "ratio"].round(2) == 1.2
    few = study({"ext4": [100, 120, 90], "ext4+twin": [110, 100, 95], "xfs": [300, 310, 320]})
    assert list(totals.variants(few)["verdict"]) == [compare.FEW]
    assert totals.variants(study({"ext4": [1, 2], "xfs": [3, 4]})).empty
