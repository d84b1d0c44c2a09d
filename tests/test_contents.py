"""The report's contents: each part is a notebook, and is in the reports of the studies that have its subject."""

import subprocess
import sys
from pathlib import Path

import make
import pytest
from conftest import ROOT
from helpers import CATALOG, device, plan_with
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.device import Device
from reprofs.plan.disk import ACCESSES
from reprofs.plan.machine import Machine
from reprofs.plan.network import EXCHANGES
from reprofs.plan.phase import Crash, Outage
from reprofs.plan.plan import Plan, write_plan
from reprofs.plan.processor import Processor
from reprofs.plan.published import Published
from reprofs.plan.recording import Recording
from reprofs.plan.study import Factor, Profiled
from reprofs.report import contents
from reprofs.report.contents import CONTENTS
from reprofs.stats import series

NOTEBOOKS = ROOT / "notebooks"
ALWAYS = ["answer", "operations", "methods", "environment", "statistics"]
TOPICS = {topic.name: topic for topic in CONTENTS}


KNOWN: dict[str, Plan] = {}


def plan(*arguments, **options) -> Plan:
    """A small plan, made once; nobody changes it."""
    key = repr((arguments, options))
    if key not in KNOWN:
        KNOWN[key] = make.plan(*arguments, **options)
    return KNOWN[key]


def workload(**more) -> Plan:
    return plan_with(plan(), **more)


def phase(**more) -> Plan:
    return plan_with(plan(), phase=0, **more)


def phases(*names: str) -> Plan:
    """A plan of a workload with phases of these names."""
    first = plan().workloads["metadata"].phases[0]
    return workload(phases=[first.model_copy(update={"name": name}) for name in names])


def having(**more) -> Plan:
    """A small plan with other parts, which are not checked."""
    return plan().model_copy(update=more)


def trials_of(**differing) -> list[PlannedTrial]:
    """Trials of a plan that differ in one name."""
    ((key, values),) = differing.items()
    return [plan().trials[0].model_copy(update={key: value}) for value in values]


def sized(*sizes: int, size: str | None = "files", role="contender") -> Plan:
    """A plan with a workload for each size, named as the sizes of one workload are."""
    small = plan()
    entry, ext4 = small.workloads["metadata"], small.filesystems["ext4"]
    workloads = {
        f"metadata@{number}": entry.model_copy(update={"size": size, "scale": entry.scale.resized("files", number)})
        for number in sizes
    }
    systems = {"ext4": ext4.model_copy(update={"role": role})}
    return having(workloads=workloads, filesystems=systems, trials=trials_of(workload=workloads))


def kept_up(found: Plan) -> Plan:
    """The same plan with a phase of each workload that is upkeep."""
    for name in found.workloads:
        found = plan_with(found, name, phase=0, upkeep="check")
    return found


def elsewhere_too(found: Plan) -> Plan:
    """The same plan in another lab as well."""
    again = [trial.model_copy(update={"lab": "host"}) for trial in found.trials]
    return found.model_copy(update={"trials": [*found.trials, *again]})


def modelled(*profiles: str, samples=None) -> Plan:
    """A plan of a modelled disk's jobs on these profiles."""
    jobs = {name: "A job" for name in ACCESSES} if samples is None else samples
    devices = {name: CATALOG.get(Device, "hdd-7200") if name == "hdd" else device() for name in profiles}
    return phase(samples=jobs).model_copy(update={"devices": devices, "trials": trials_of(profile=profiles)})


def flushing(run: str, profile: str) -> Plan:
    """A plan of this command on a profile."""
    return phase(run=run).model_copy(update={"devices": {profile: CATALOG.get(Device, profile)}})


def rounds(number: int, **more) -> Plan:
    found = plan(number)
    return found.model_copy(update={"study": found.study.model_copy(update=more)})


def wired(*names: str, samples=None) -> Plan:
    """A plan of the networks' jobs on these networks."""
    jobs = {name: "A job" for name in EXCHANGES} if samples is None else samples
    return phase(samples=jobs).model_copy(update={"trials": trials_of(network=names)})


def profiled(modelling: bool) -> Plan:
    """A plan that asks for profiles, in a lab that models its processor or in one that does not."""
    found = plan()
    processor = CATALOG.get(Processor, "v2-0.5ns") if modelling else None
    labs = {name: lab.model_copy(update={"processor": processor}) for name, lab in found.labs.items()}
    return having(labs=labs, study=found.study.model_copy(update={"profile": Profiled(phases=["create"])}))


PUBLISHED, RECORDING = Published.model_construct(title="t"), Recording.model_construct()
SAMPLES = {
    "fill": {"write": "Write", "full": "Full", "capacity": "Capacity"},
    "sweep": {f"sweep-{name}": name for name in series.TESTS},
    "windows": {"write": "Write", "read": "Read", "alone": "Alone"},
    "iterations": {"file-create": "Create", "file-stat": "Stat", "file-remove": "Remove"},
}


def named(study: str) -> Plan:
    """A plan of a study of this name."""
    found = plan()
    return found.model_copy(update={"study": found.study.model_copy(update={"name": study})})


def plans() -> dict:
    """Part -> plans that have it, plans that do not."""
    return {
        "space": ([plan(), workload(size="compress", phases=[])], [plan(workloads=["repository"])]),
        "flushes": (
            [flushing("--flush file", "ssd"), flushing("fio --fsync=1", "ssd-nvme")],
            [plan(), flushing("--flush file", "hdd-7200"), flushing("rsync -a a b", "ssd")],
        ),
        "wear": (
            [flushing("rm a", "ssd-worn")],
            # Phases that only run commands do not say how many bytes they write.
            [plan(), flushing("rm a", "ssd-nvme"), plan_with(flushing("rm a", "ssd-worn"), phases=[])],
        ),
        "stacks": (
            [plan(stacks=["single", "md-raid5"]), plan(stacks=["md-raid5-rebuilding"])],
            [plan(), plan(stacks=["md-raid5"])],
        ),
        "effects": ([named("known-causes"), named("known-causes+exact")], [plan(), named("unknown-causes")]),
        "options": ([plan(systems=["btrfs"])], [plan(systems=["ext4", "xfs"])]),  # btrfs has two variants
        "snapshots": ([phases("chmod", "snapshot", "chmod-kept", "read-snapshot", "delete-snapshot")], [plan()]),
        "upkeep": ([phase(upkeep="mount")], [plan()]),
        "age": ([workload(size="pulls")], [plan(), workload(fill=50), workload(pulls=10)]),
        "recorded": ([workload(recording=RECORDING)], [plan(), workload(clients=2)]),
        "samples": (
            [
                *(phase(samples=SAMPLES[name]) for name in SAMPLES),
                phase(run="rsync -a --stats a b"),
                phase(samples={"create": "Create", "compile": "Compile"}),
            ],
            [plan(), phase(run="rsync -a a b"), phase(run="du --stats")],
        ),
        "scaling": (
            [
                sized(1000, 2000),
                workload(clients=2),
                workload(fill=50),
                workload(pulls=10),
                workload(runs=2),
                rounds(6, published="datalad-2015"),
                having(trials=trials_of(memory_mib=[None, 64])),
            ],
            [
                plan(),
                sized(1000),
                rounds(5, published="datalad-2015"),
                rounds(6),
                workload(clients=1),
                having(trials=trials_of(memory_mib=[64])),
                *(sized(1000, 2000, size=size) for size in (None, "compress", "pulls")),
                sized(1000, 2000, role="ceiling"),
                kept_up(sized(1000, 2000)),
            ],
        ),
        "durability": (
            [phase(crash=Crash()), phase(outage=Outage(what="link-cut", after_s=1, for_s=1))],
            [plan()],
        ),
        "labs": (
            [
                plan(labs=["exact", "host"]),
                modelled("hdd", "reference", "ram"),
                wired("lan-1g", "reference"),
                wired("lan-1g", "loopback"),
            ],
            [
                plan(),
                plan(labs=["host"]),
                modelled("hdd", "reference", "ram", samples={"a": "A"}),
                wired("lan-1g"),
                wired("reference", "loopback"),
                wired("lan-1g", "loopback", samples={"a": "A"}),
            ],
        ),
        "kernels": (
            [having(trials=trials_of(kernel=["debian-6.1", "debian-7.3"])), profiled(modelling=True)],
            [plan(), having(trials=trials_of(kernel=[None, "debian-7.3"])), profiled(modelling=False)],
        ),
        "predicted": ([having(machines={"mine": Machine.model_construct()})], [plan()]),
        "published": ([having(published=PUBLISHED)], [plan()]),
        "factors": ([having(factors=[Factor(cells=[])])], [plan()]),
    }


def test_every_part_has_a_notebook_of_its_name():
    names = [topic.name for topic in CONTENTS]
    assert len(set(names)) == len(names)
    assert set(names) <= {path.stem for path in NOTEBOOKS.glob("*.ipynb")}


@pytest.mark.parametrize("topic", CONTENTS, ids=lambda topic: topic.name)
def test_every_topic_asks_a_question_and_can_be_asked_of_a_plan(topic):
    assert topic.question.endswith("?") and topic.question[0].isupper()
    assert {topic.applies(plan()), topic.asked(plan())} <= {True, False}


def test_a_topic_applies_where_the_plan_has_it():
    assert all(TOPICS[name].applies(plan()) for name in ALWAYS)
    for name, (having, lacking) in plans().items():
        assert [TOPICS[name].applies(found) for found in having] == [True] * len(having), name
        assert [TOPICS[name].applies(found) for found in lacking] == [False] * len(lacking), name


def asked() -> dict:
    """Part -> plans that ask for it above all, plans that only have it."""
    return {
        "stacks": (
            [
                plan(stacks=["md-raid5", "md-raid5-degraded"]),
                plan(stacks=["single", "md-raid5", "md-raid6"]),
                plan(stacks=["md-raid5", "md-raid5-rebuilding"]),
            ],
            [
                plan(stacks=["single", "md-raid5"], systems=["ext4", "xfs", "jfs"]),
                plan(stacks=["single", "md-raid5-rebuilding"], systems=["ext4", "xfs", "jfs"]),
            ],
        ),
        "space": ([workload(size="compress")], [plan()]),
        "scaling": ([sized(1000, 2000)], [elsewhere_too(sized(1000, 2000)), workload(fill=50)]),
        "samples": ([phase(samples=SAMPLES["fill"])], [phase(samples=SAMPLES["sweep"])]),
    }


def test_what_a_plan_asks_above_all_follows_from_what_it_has():
    for name, (asking, having) in asked().items():
        assert all(TOPICS[name].applies(found) for found in asking + having), name
        assert [name in contents.first(found) for found in asking] == [True] * len(asking), name
        assert [name in contents.first(found) for found in having] == [False] * len(having), name


def test_only_some_parts_are_ever_asked_above_all():
    known = plans()
    for name in ALWAYS:
        assert not any(TOPICS[name].asked(found) for found in [plan(), *known.get(name, [[]])[0]]), name
    for name in ("durability", "labs", "published", "factors", "kernels"):
        assert all(name in contents.first(found) for found in known[name][0]), name
    assert contents.first(plan()) == []  # power cuts, for one, are asked for where there are some


def test_the_topics_of_a_plan_are_found_without_what_figures_are_drawn_with(tmp_path):
    """Importing that takes seconds, at each start of the workflow."""
    write_plan(plan(), tmp_path / "plan.json")
    code = (
        "import sys; from pathlib import Path; from reprofs.report import contents\n"
        "from reprofs.plan.plan import read_plan\n"
        "plan = read_plan(Path(sys.argv[1]))\n"
        "print(len(contents.topics(plan)), *{'pandas', 'matplotlib', 'scipy', 'seaborn'} & set(sys.modules))\n"
    )
    words = [sys.executable, "-c", code, tmp_path / "plan.json"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(len(contents.topics(plan())))]


def test_notebooks_of_a_plan_are_in_the_order_of_the_contents():
    every = [f"{topic.name}.ipynb" for topic in CONTENTS]
    names = [path.name for path in contents.notebooks(plan(), NOTEBOOKS)]
    assert names == [name for name in every if name in names] and names[0] == "answer.ipynb"
    more = [path.name for path in contents.notebooks(plan(systems=["ext4", "xfs"], labs=["exact", "host"]), NOTEBOOKS)]
    assert more == [name for name in every if name in more] and "labs.ipynb" in set(more) - set(names)


def test_notebooks_of_the_study_itself_come_last():
    found = plan()
    own = contents.notebooks(found, Path("here"))
    # A topic that it has stays where it is.
    study = found.study.model_copy(update={"notebooks": ["mine.ipynb", "operations.ipynb"]})
    assert contents.notebooks(having(study=study), Path("here")) == [*own, Path("here/mine.ipynb")]
