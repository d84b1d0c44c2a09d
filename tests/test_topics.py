"""Topics: each has a module and a notebook, and is in the report of the studies that have it, in its order."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import make
import pytest
from conftest import ROOT
from reprofs.plan import disks, networks
from reprofs.report import topics
from reprofs.stats import series

NOTEBOOKS = ROOT / "notebooks"
ALWAYS = ["answer", "operations", "quality", "methods", "threats", "environment", "statistics"]
MODULES = sorted(path.stem for path in Path(topics.__file__).parent.glob("[a-z]*.py"))


def plan(labs=("exact",), stacks=("single",), systems=("ext4",), workloads=("metadata",), profile="ssd") -> dict:
    """A plan of one round."""
    return make._plan(1, list(systems), list(workloads), list(labs), list(stacks), profile)


def changed(change) -> dict:
    """A small plan after `change(plan)`."""
    found = copy.deepcopy(plan())
    change(found)
    return found


def workload(**more) -> dict:
    return changed(lambda found: found["workloads"]["metadata"].update(more))


def phase(**more) -> dict:
    return changed(lambda found: found["workloads"]["metadata"]["phases"][0].update(more))


def sized(*sizes: int, size: str | None = "files", role="contender") -> dict:
    """A plan with a workload for each size, named as the sizes of one workload are."""

    def change(found):
        entry, trial = found["workloads"]["metadata"], found["trials"][0]
        found["filesystems"]["ext4"]["role"] = role
        found["workloads"] = {
            f"metadata@{number}": entry | {"scale": {"files": number}} | ({"size": size} if size else {})
            for number in sizes
        }
        found["trials"] = [dict(trial, workload=name) for name in found["workloads"]]

    return changed(change)


def changed_labs(found: dict) -> dict:
    """The same plan in another lab as well."""
    return found | {"trials": found["trials"] + [dict(trial, lab="host") for trial in found["trials"]]}


def modelled(*profiles: str, samples=None) -> dict:
    """A plan of a modelled disk's jobs on these profiles."""

    def change(found):
        trial = found["trials"][0]
        jobs = {name: "A job" for name in disks.JOBS} if samples is None else samples
        found["workloads"]["metadata"]["phases"][0]["samples"] = jobs
        found["trials"] = [dict(trial, profile=name) for name in profiles]
        found["devices"] = {name: {"title": name} | ({"disk": {}} if name == "hdd" else {}) for name in profiles}

    return changed(change)


def rounds(number: int, **more) -> dict:
    found = make._plan(number, ["ext4"], ["metadata"], ["exact"], ["single"], "ssd")
    found["study"].update(more)
    return found


def wired(*names: str, samples=None) -> dict:
    """A plan of the networks' jobs on these networks; an empty name is a file system without hosts."""

    def change(found):
        trial = found["trials"][0]
        jobs = {name: "A job" for name in networks.JOBS} if samples is None else samples
        found["workloads"]["metadata"]["phases"][0]["samples"] = jobs
        found["trials"] = [dict(trial, variant=f"default@{name}" if name else "default") for name in names]

    return changed(change)


SAMPLES = {
    "fill": {"write": "Write", "full": "Full", "capacity": "Capacity"},
    "sweep": {f"sweep-{name}": name for name in series.TESTS},
    "windows": {"write": "Write", "read": "Read", "alone": "Alone"},
    "iterations": {"file-create": "Create", "file-stat": "Stat", "file-remove": "Remove"},
}
# Topic -> plans that have it, plans that do not.
PLANS = {
    "ranks": (
        [plan(systems=["ext4", "xfs"]), plan(systems=["btrfs"])],  # btrfs has two variants
        [plan(), plan(systems=["ext4", "tmpfs"])],
    ),
    "stacks": ([plan(stacks=["single", "md-raid5"])], [plan(), plan(stacks=["md-raid5"])]),
    "rebuilds": ([plan(stacks=["md-raid5-rebuilding"])], [plan(stacks=["md-raid5", "md-raid5-degraded"])]),
    "clients": ([workload(clients=2)], [plan(), workload(clients=1)]),
    "fill": ([phase(samples=SAMPLES["fill"])], [plan(), phase(samples=SAMPLES["windows"])]),
    "sweep": ([phase(samples=SAMPLES["sweep"])], [plan(), phase(samples=SAMPLES["fill"])]),
    "windows": ([phase(samples=SAMPLES["windows"])], [plan(), phase(samples=SAMPLES["fill"])]),
    "scaling": (
        [sized(1000, 2000)],
        [plan(), sized(1000), sized(1000, 2000, size=None), sized(1000, 2000, role="ceiling")],
    ),
    "ageing": ([workload(fill=50), workload(runs=2)], [plan(), workload(runs=1)]),
    "runs": (
        [rounds(6, published="datalad-2015"), workload(runs=2)],
        [rounds(5, published="datalad-2015"), rounds(6), workload(runs=1)],
    ),
    "power_cuts": ([phase(crash={"after": 0.5})], [plan()]),
    "outages": ([phase(outage={"what": "link-cut"})], [plan()]),
    "disks": ([modelled("hdd", "reference", "ram")], [plan(), modelled("hdd", "reference", "ram", samples={"a": "A"})]),
    "networks": (
        [wired("lan-1g", "reference"), wired("lan-1g", "loopback")],
        [plan(), wired("lan-1g"), wired("reference", "loopback"), wired("lan-1g", "loopback", samples={"a": "A"})],
    ),
    "iterations": ([phase(samples=SAMPLES["iterations"])], [plan(), phase(samples=SAMPLES["fill"])]),
    "lists": ([phase(run="rsync -a --stats a b")], [plan(), phase(run="rsync -a a b"), phase(run="du --stats")]),
    "rates": ([phase(samples={"create": "Create", "compile": "Compile"})], [plan(), phase(samples=SAMPLES["fill"])]),
    "labs": ([plan(labs=["exact", "host"])], [plan(), plan(labs=["host"])]),
    "factors": ([changed(lambda found: found.update(factors=[{"title": None}]))], [plan()]),
    "published": (
        [changed(lambda found: found.update(published={"title": "t"}))],
        [plan(), changed(lambda found: found.update(published={"title": "t"}, factors=[{"title": None}]))],
    ),
}


def test_every_topic_has_a_notebook_and_every_notebook_a_topic():
    """But 00-explore, which is for those who work with a study."""
    found = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if not path.stem.startswith("00-")]
    assert sorted(map(topics.name_of, found)) == MODULES == sorted([*ALWAYS, *PLANS])
    numbers = [path.stem.partition("-")[0] for path in found]
    assert len(set(numbers)) == len(numbers) and all(len(number) == 2 for number in numbers)


@pytest.mark.parametrize("name", ALWAYS)
def test_these_are_in_every_report(name):
    assert topics.applies(name, plan())


@pytest.mark.parametrize("name", PLANS)
def test_a_topic_applies_where_the_plan_has_it(name):
    having, lacking = PLANS[name]
    assert [topics.applies(name, found) for found in having] == [True] * len(having)
    assert [topics.applies(name, found) for found in lacking] == [False] * len(lacking)


# Topic -> plans that ask for it above all, plans that only have it.
ASKED = {
    "stacks": (
        [plan(stacks=["md-raid5", "md-raid5-degraded"]), plan(stacks=["single", "md-raid5", "md-raid6"])],
        [plan(stacks=["single", "md-raid5"], systems=["ext4", "xfs", "jfs"])],
    ),
    "rebuilds": (
        [plan(stacks=["md-raid5", "md-raid5-rebuilding"])],
        [plan(stacks=["single", "md-raid5-rebuilding"], systems=["ext4", "xfs", "jfs"])],
    ),
    "scaling": ([sized(1000, 2000)], [changed_labs(sized(1000, 2000))]),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_a_plan_asks_above_all_follows_from_what_it_has(name):
    asking, having = ASKED[name]
    assert all(topics.applies(name, found) for found in asking + having)
    assert [topics.asked(name, found) for found in asking] == [True] * len(asking)
    assert [topics.asked(name, found) for found in having] == [False] * len(having)


def test_only_some_topics_are_ever_asked_above_all():
    for name in [*ALWAYS, "ranks", "ageing", "clients", "sweep"]:
        assert not topics.asked(name, plan())
    for name in ("power_cuts", "disks", "labs", "published", "factors", "fill", "windows"):
        assert all(topics.asked(name, found) for found in PLANS[name][0]), name
    assert not topics.asked("nothing", plan())


def test_the_topics_of_a_plan_are_found_without_what_figures_are_drawn_with(tmp_path):
    """Importing that takes seconds, at each start of the workflow."""
    (tmp_path / "plan.json").write_text(json.dumps(plan()))
    code = (
        "import json, sys; from pathlib import Path; from reprofs.report import topics\n"
        "plan = json.loads(Path(sys.argv[1]).read_text())\n"
        "print(len(topics.notebooks(plan, Path(sys.argv[2]))), *{'pandas', 'matplotlib', 'scipy'} & set(sys.modules))\n"
    )
    words = [sys.executable, "-c", code, tmp_path / "plan.json", NOTEBOOKS]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(len(ALWAYS))]


def test_notebooks_of_a_plan_are_in_the_order_of_their_numbers():
    names = [path.name for path in topics.notebooks(plan(), NOTEBOOKS)]
    assert names == sorted(names) and [topics.name_of(name) for name in names] == ALWAYS
    assert names[0] == "01-answer.ipynb" and names[-1] == "27-statistics.ipynb"
    more = topics.notebooks(plan(systems=["ext4", "xfs"], labs=["exact", "host"]), NOTEBOOKS)
    assert {path.name for path in more} - set(names) == {"03-ranks.ipynb", "14-labs.ipynb"}
    assert [path.name for path in more] == sorted(path.name for path in more)


def test_notebooks_of_the_study_itself_come_last(tmp_path):
    (tmp_path / "02-operations.ipynb").write_text("{}")
    (tmp_path / "01-answer.ipynb").write_text("{}")
    (tmp_path / "00-explore.ipynb").write_text("{}")  # has no topic
    (tmp_path / "mine.ipynb").write_text("{}")
    found = plan()
    assert [path.name for path in topics.notebooks(found, tmp_path)] == ["01-answer.ipynb", "02-operations.ipynb"]
    found["study"]["notebooks"] = ["mine.ipynb"]
    assert topics.notebooks(found, tmp_path)[2:] == [tmp_path / "mine.ipynb"]


def test_names_of_notebooks_and_modules():
    assert topics.name_of("12-power-cuts.ipynb") == topics.name_of(Path("a/12-power-cuts.ipynb")) == "power_cuts"
    assert topics.name_of("mine.ipynb") == "mine"
