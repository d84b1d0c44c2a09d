"""The report on one page: its topics in their order, the question that each answers, and which studies have it.

A topic is a module in topics/ (facts, tables, figures) and a notebook in notebooks/ (prose; it decides what is shown),
both of its name. To add one, make these two files and put a line where the report should have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reprofs.plan.plan import Plan
from reprofs.report import when
from reprofs.report.when import Condition, always, never, sampled, with_key


class Topic(NamedTuple):
    """A topic; its conditions are asked of the plan of a study."""

    name: str  # of its module and of its notebook
    question: str
    applies: Condition  # whether the study has the topic
    asked: Condition = never  # whether it asks for this topic above all, so that its answer stands first


CONTENTS = (
    Topic("answer", "What does each workload cost, and what would change that?", always),
    Topic("changes", "What changed beside another run?", never, always),  # `make report BESIDE=`, which no plan says
    Topic(
        "recorded", "Your workload: where does its time go, and why do two file systems differ?", when.recorded, always
    ),
    Topic("operations", "Which file system is the fastest in each operation, and by how much?", when.contended),
    Topic("ranks", "Who is ahead over all operations?", when.ranked),
    Topic("stacks", "What do RAID, LVM, more disks and faults cost?", when.several_stacks, when.on_stacks),
    Topic("rebuilds", "How long does an array take to be whole again?", when.rebuilding, when.on_stacks),
    Topic("clients", "What do several clients get that start together?", when.several_clients),
    Topic("fill", "How steady is the rate until a device is full?", sampled("write", "full"), always),
    Topic("sweep", "How do rates depend on the sizes of file and record?", when.swept),
    Topic("windows", "What does a reader do to a writer?", sampled("write", "read", "alone"), always),
    Topic("profiles", "Where do the instructions go, and why do two file systems differ?", when.profiled, always),
    Topic("kernels", "What does each operation cost on other kernels?", when.several_kernels, always),
    Topic("memory", "What does each operation cost with less memory?", when.limited_memory, always),
    Topic("cores", "What do more cores and more workers give?", when.several_workers, always),
    Topic("scaling", "How do times grow with the size of the workload?", when.several_sizes, when.one_lab),
    Topic("ageing", "What does a file system lose that is no longer new?", when.aged),
    Topic(
        "space",
        "How much space do the files take, and on which file system the least?",
        when.makes_files,
        when.compressible,
    ),
    Topic("power_cuts", "Who keeps what fsync promised when the power is cut?", with_key("crash"), always),
    Topic("disks", "Do the modelled disks behave as their models say?", when.modelled_disks, always),
    Topic("labs", "Do two labs order the file systems alike?", when.several_labs, when.no_factors),
    Topic("published", "Does the study give what was published?", when.published, always),
    Topic("factors", "What explains the distance to the published numbers?", when.factors, always),
    Topic("networks", "Do the networks behave as their files say?", when.modelled_networks, always),
    Topic(
        "iterations",
        "Do rates change over the iterations of a command?",
        sampled("file-create", "file-stat", "file-remove"),
    ),
    Topic("runs", "How are all times of an operation spread?", when.many_runs),
    Topic("lists", "How much of its time does rsync take for its list of files?", when.rsync_lists),
    Topic("rates", "What are the rates of kernel trees that compilebench reports?", sampled("compile")),
    Topic("outages", "What does a client notice of a lost server?", with_key("outage"), always),
    Topic("quality", "What completed, and what proves that the numbers are valid?", always),
    Topic("methods", "What was run, and how was it compared?", always),
    Topic("threats", "What could make these numbers mean something else?", always),
    Topic("environment", "On what was it run, and how is it run again?", always),
    Topic("statistics", "What are all the numbers behind the findings?", always),
)


BESIDE = "changes"  # the topic that a study has which is set beside another run


def topics(plan: Plan, beside: bool = False) -> list[Topic]:
    """The topics of a planned study, in order; beside: it is set beside another run."""
    return [topic for topic in CONTENTS if topic.applies(plan) or (beside and topic.name == BESIDE)]


def notebooks(plan: Plan, folder: Path, beside: bool = False) -> list[Path]:
    """The notebooks of a planned study's report, in order: those of its topics, then its own.

    `folder` has the notebooks; the key `notebooks` of a study names further ones in it.
    """
    names = [f"{topic.name}.ipynb" for topic in topics(plan, beside)] + (plan.study.notebooks or [])
    return [folder / name for name in dict.fromkeys(names)]


def first(plan: Plan, beside: bool = False) -> list[str]:
    """The names of those topics whose answers stand before all others: a planned study asks for them above all."""
    return [topic.name for topic in topics(plan, beside) if topic.asked(plan)]
