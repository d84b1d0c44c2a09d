"""The report on one page: its parts in their order, the question that each answers, and which studies have it.

A part is a notebook in notebooks/. To add one, write it there and put a line where the report should have it; a
notebook of one study alone is named in the study's file, under `notebooks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reprofs.plan.plan import Plan
from reprofs.report import when
from reprofs.report.when import Condition, always, any_of, never, sampled


class Topic(NamedTuple):
    """A part of the report. Its conditions are functions of a study's plan.

    name: of its notebook; applies: whether a study has it; asked: whether the study asks for it above all, so that its
    answer alone is in the first section.
    """

    name: str
    question: str
    applies: Condition
    asked: Condition = never


SAMPLES = any_of(
    sampled("write", "full"),
    sampled("write", "read", "alone"),
    when.swept,
    sampled("file-create", "file-stat", "file-remove"),
    when.rsync_lists,
    sampled("compile"),
)
SCALING = any_of(
    when.several_sizes,
    when.several_clients,
    when.several_workers,
    when.limited_memory,
    when.several_rooms,
    when.aged,
    when.many_runs,
)
CONTENTS = (
    Topic("answer", "Which file system is fastest for each workload, and what would change that?", always),
    Topic("changes", "What changed against another run?", never, always),  # `make report BESIDE=`, which no plan says
    Topic("recorded", "Your workload: where does its time go, and why do file systems differ?", when.recorded, always),
    Topic("effects", "Does a change do on a real machine what the exact lab predicts?", when.predicted, always),
    Topic("operations", "Which file system is fastest in each operation and over all, by how much?", when.contended),
    Topic("flushes", "How much of it is the drive's flush, and who is fastest on another drive?", when.flushing),
    Topic(
        "wear",
        "How many bytes of flash does a byte of the user cost, and who is fastest on a worn drive?",
        when.wearing,
        always,
    ),
    Topic(
        "stacks",
        "What do RAID, LVM, more disks and faults cost, and how long does a rebuild take?",
        any_of(when.several_stacks, when.rebuilding),
        when.on_stacks,
    ),
    Topic(
        "upkeep",
        "How long do a mount, the first listing, a check and a scrub take, and how long with more files?",
        when.kept_up,
        always,
    ),
    Topic("snapshots", "What do taking, changing, reading and removing a snapshot cost?", when.snapshots, always),
    Topic("age", "How much slower is a tree after many pulls than an equal one that is new?", when.with_twins, always),
    Topic(
        "samples",
        "How does throughput change within an operation?",
        SAMPLES,
        any_of(sampled("write", "full"), sampled("write", "read", "alone")),
    ),
    Topic(
        "scaling",
        "How do times grow with files, clients, cores, memory, size of the device and age?",
        lambda plan: SCALING(plan) and not when.only_kept_up(plan),  # of which the topic above tells
        any_of(when.limited_memory, when.several_rooms, when.several_workers, when.only_sizes),
    ),
    Topic("options", "What do options of a file system change?", when.with_options, when.on_options),
    Topic(
        "kernels",
        "What changed between kernels, and where do the instructions go?",
        any_of(when.several_kernels, when.profiled),
        lambda plan: not when.several_rooms(plan),  # there they are a condition of the answer, not the question
    ),
    Topic(
        "space",
        "How much space do the files take, and on which file system the least?",
        when.makes_files,
        when.compressible,
    ),
    Topic(
        "durability",
        "Who keeps what fsync promised in a crash, and what does a client notice of a lost server?",
        when.failing,
        always,
    ),
    Topic(
        "coherence",
        "Do clients see of each other what the file system says, also when nodes are lost?",
        when.coherent,
        always,
    ),
    Topic(
        "states",
        "In which of all crash states does a file system break what it guarantees?",
        when.visiting,
        always,
    ),
    Topic(
        "faults",
        "What does fsync say when the disk fails, and which rotten block is read as if it were whole?",
        when.faulty,
        always,
    ),
    Topic(
        "rot",
        "Which arrays notice a rotten bit, which mend it, and which spread it?",
        when.rotten,
        always,
    ),
    Topic(
        "labs",
        "Do two labs rank file systems alike, and do the models behave as they say?",
        any_of(when.several_labs, when.modelled_disks, when.modelled_networks),
        any_of(when.unfactored_labs, when.modelled_disks, when.modelled_networks),
    ),
    Topic("predicted", "Which differences are expected on a real machine?", when.elsewhere),
    Topic(
        "published",
        "Does the study give what was published?",
        when.published,
        always,
    ),
    Topic("factors", "Which change brings results nearer to the published ones?", when.factors, always),
    Topic("methods", "What was run, how was it compared, and what could mislead?", always),
    Topic("environment", "What completed, on what did it run, and how is it run again?", always),
    Topic("statistics", "What are all the numbers behind the findings?", always),
)
BESIDE = "changes"  # the part that a study has which is compared with another run


def topics(plan: Plan, beside: bool = False) -> list[Topic]:
    """The parts of a study's report, in order. beside: whether it is compared with another run."""
    return [topic for topic in CONTENTS if topic.applies(plan) or (beside and topic.name == BESIDE)]


def notebooks(plan: Plan, folder: Path, beside: bool = False) -> list[Path]:
    """The notebooks of a planned study's report, in order: those of its parts, then its own.

    `folder` has the notebooks; the key `notebooks` of a study names further ones in it.
    """
    names = [f"{topic.name}.ipynb" for topic in topics(plan, beside)] + (plan.study.notebooks or [])
    return [folder / name for name in dict.fromkeys(names)]


def first(plan: Plan, beside: bool = False) -> list[str]:
    """The names of the parts whose answers come first, because the study is about them."""
    return [topic.name for topic in topics(plan, beside) if topic.asked(plan)]
