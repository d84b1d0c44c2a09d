"""Whatever a descriptor, a record or a published file says, the report shows it as text.

The fields are found, not listed: every text that the models of a plan, or the schema of a record, take is replaced.
"""

import base64
import copy
import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from types import SimpleNamespace
from zlib import crc32

import make
import nbformat
import pandas as pd
import pytest
import reprofs
import run
import study2015
from helpers import CATALOG, Late
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from reprofs import cli
from reprofs.cli import studies
from reprofs.data.reader import record_schema
from reprofs.errors import HIDDEN, UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.disk import ACCESSES
from reprofs.plan.machine import Machine
from reprofs.plan.network import EXCHANGES, Network
from reprofs.plan.plan import Plan
from reprofs.plan.published import Published
from reprofs.plan.read import _path, read_yaml
from reprofs.plan.schemas import NAMED
from reprofs.records import raw as seals
from reprofs.report import marks, words
from reprofs.stats.study import Study
from reprofs.trial.planning import make_plan
from test_recorded import replayed

matplotlib, plt = Late("matplotlib"), Late("matplotlib.pyplot")
render, show, style, text = (Late(f"reprofs.report.{name}") for name in ("render", "show", "style", "text"))

SECRET = "the content of a file of this machine"


def hostile(number: int, secret: str) -> str:
    """A text that is dangerous in every language that a report goes through, with its number in it."""
    return (
        f'# t{number}t <script>alert(1)</script><img src="{secret}"><img src=x onerror=alert(1)> & &lt;b&gt;'
        f" ![i]({secret}) [l](javascript:alert(1)) [m]({secret}) <https://example.org> `c`{{=html}} `<b>x</b>`{{=html}}"
        ' `#panic("typst")`{=typst} ```{=typst} *e* **d** $\\frac{1}{0}$ \\(x\\) #panic("now") @tbl-x ~~s~~ {{ 1 }}'
        f" \x1b[31m \u202e <!-- | a | b |\n\n## heading{number}\n\n- item\n\n---\n\n    indented\n\n"
        "| a |\n|---|\n| b |\n"
    )


def leaves(data, place=()) -> Iterator[tuple]:
    """The places of all texts in JSON."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, str):
            yield (*place, key)
        elif isinstance(value, dict | list):
            yield from leaves(value, (*place, key))


def put(data, place: tuple, value: str) -> str:
    """Put a value in a place; what was there."""
    for key in place[:-1]:
        data = data[key]
    old, data[place[-1]] = data[place[-1]], value
    return old


def made_hostile(data, refused: Callable, secret: str, keep: Callable[[tuple], bool]) -> dict[tuple, str]:
    """Replace every text in `data` where another may stand; where, and what was there.

    `refused` has the places of values that the model does not take, `keep` those that stand for something else.
    """
    replaced = {place: "" for place in leaves(data) if not keep(place)}
    for place in replaced:  # the same text in all records
        replaced[place] = put(data, place, hostile(crc32(repr(place).encode()), secret))
    while wrong := [place for place in refused(data) if place in replaced]:
        for place in wrong:
            put(data, place, replaced.pop(place))
    return replaced


def refused_by_model(data: dict) -> list[tuple]:
    try:
        Plan.model_validate(data)
    except ValidationError as found:
        return [tuple(_path(error["loc"], data)) for error in found.errors(include_url=False)]
    return []


def refused_by_schema(data: dict) -> list[tuple]:
    return [tuple(error.absolute_path) for error in Draft202012Validator(record_schema()).iter_errors(data)]


# What other parts of a plan or a record are found by, or what a program decides by, or executes; by the last key.
NAMES = {"guest", "role", "clock", "family", "filesystem", "layers", "state", "items", "size", "name", "stage"}
NAMES |= {"operation", "summary", "published", "kind", "read"}
# Names in keys that the plan of the test does not have, and what is executed: no report shows them.
ELSEWHERE = {"best", "other", "cache", "network", "processor", "factor", "stands_in", "systems", "samples"}
ELSEWHERE |= {"expect", "module", "type", "programs", "parameter", "products", "unit"}


def stands_for_something(place: tuple) -> bool:
    keys = [key for key in place if isinstance(key, str)]
    names = keys[0] in ("trials", "trial", "digests") or (keys[0] == "factors" and keys[-1] != "title")
    return names or keys[-1] in NAMES or "job" in keys[-1]


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """A study whose every text is hostile: the places of these texts, its executed notebooks, its report."""
    folder = tmp_path_factory.mktemp("hostile")
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    kinds = {"systems": ["ext4", "xfs", "tmpfs"], "workloads": ["metadata"], "stacks": ["single"]}
    ends = {("xfs", "metadata", 2): ("failed", "It broke.")}
    make.make(folder, rounds=2, failures=ends, labs=["host"], printed={("xfs", "host"): "words"}, **kinds)
    plan = json.loads((folder / "plan.json").read_text())
    plan["filesystems"]["xfs"]["format"] = {"features": {"read": "(.*)", "without": ["words"], "by_device": False}}
    plan["workloads"]["metadata"]["differs"] = plan["devices"]["ssd"]["model"] = "words"
    counts = dict.fromkeys(("threads", "before", "calls", "after", "names", "bytes", "handles"), 1)
    recording = {"format": 1, "title": "words", "filesystem": "words", "kernel": "6.1", "incomplete": ["words"]}
    plan["workloads"]["metadata"]["recording"] = recording | counts
    plan["filesystems"]["xfs"]["variants"]["default"] |= {"promise": "none", "why": "words"}
    plan["study"]["override"] = {"text": "words", "own": {"labs": ["words"]}, "left_out": ["words"]}
    plan["machines"] = {"mine": CATALOG.get(Machine, "xeon-6-207").as_json()}
    plan["networks"] = {"lan-1g": CATALOG.get(Network, "lan-1g").as_json()}
    own = {"debs": [{"file": "words", "sha256": "0" * 64}], "config_sha256": "0" * 64, "make": {"xfs": "words"}}
    plan["labs"]["host"]["kernel"] = {"title": "words"} | own
    plan["study"]["published"] = "metadata-2019"
    plan["published"] = CATALOG.get(Published, "metadata-2019").as_json()
    places = {"plan": made_hostile(plan, refused_by_model, str(secret), stands_for_something)}
    (folder / "plan.json").write_text(json.dumps(plan))
    for path in (folder / "raw").iterdir():
        record = json.loads(path.read_text())
        places["record"] = made_hostile(record, refused_by_schema, str(secret), stands_for_something)
        path.write_text(json.dumps(seals.seal(record)))
    study, names = run.build(folder), run.names_of(folder)
    with run.without_pictures(), pytest.MonkeyPatch.context() as patch:  # see below
        place = run.execute(folder, names)
        for one in FURTHER:
            further(*one, folder, str(secret), places, patch)
    replay = replayed_program(folder / "replayed", str(secret))
    names = list(dict.fromkeys([*names, *(name for name, *_ in FURTHER)]))
    notebooks = [replay if name == "recorded" else place / f"{name}.ipynb" for name in names]
    render.render(notebooks, folder / "report", folder / "tables")
    return SimpleNamespace(study=study, places=places, notebooks=notebooks, folder=folder)


RECORDED = ("filesystem", "kernel", "incomplete")  # texts of a recording that a report shows


def replayed_program(folder, secret: str):
    """The executed notebook about replays of a recording whose texts are hostile."""
    head = {key: hostile(crc32(key.encode()), secret) for key in RECORDED}
    made = replayed(**head | {"incomplete": [head["incomplete"]]})
    folder.mkdir()
    run.made(folder, made, rounds=2, systems=["ext4", "xfs", "tmpfs"])
    return run.execute(folder, ["recorded"]) / "recorded.ipynb"


JOBS = {**ACCESSES, **EXCHANGES}
# Notebook, the shipped study that has its subject, and which of its trials are enough.
FURTHER = [
    ("labs", "networks", lambda trial: trial.network in ("lan-1g", "reference", "loopback")),
    ("labs", "devices", lambda trial: trial.profile in ("hdd-7200", "reference", "ram")),
    ("factors", "why-2015", lambda trial: True),
]


def further(name: str, study_name: str, enough: Callable, folder, secret: str, places: dict, patch) -> None:
    """Execute a notebook on the plan of a study whose every text is hostile, 0.1 s each."""
    data = make_plan(study_name, CATALOG).as_json()
    places[study_name] = made_hostile(data, refused_by_model, secret, stands_for_something)
    plan = Plan.model_validate(data)
    trials, phases, samples = [], [], []
    for trial in filter(enough, plan.trials):
        names = trial.names() | {"trial": trial.id, "label": trial.label, "status": "ok", "role": "contender"}
        trials.append(names)
        for position, phase in enumerate(plan.workloads[trial.workload].phases):
            row = names | {"phase": phase.name, "cache": phase.cache, "position": position, "operation": "exec"}
            nothing = dict.fromkeys(("part", "rebuilding", "driver_ns", "device_model_ns"))
            ones = dict.fromkeys(("items", "user_ns", "system_ns", "sync_ns"), 1)
            phases.append(row | nothing | ones | {"wall_ns": 10**8})
            own = [
                own_name for own_name in [phase.name, *(phase.samples or {})] if name == "factors" or own_name in JOBS
            ]
            samples += [row | {"name": job, "items": 1, "wall_ns": 10**8, "iteration": 1} for job in own]
    frames = (
        pd.DataFrame(trials),
        pd.DataFrame(phases),
        pd.DataFrame(samples, columns=list(dict.fromkeys([*phases[0], "name", "items", "iteration"]))),
    )
    found = Study(*frames, *[pd.DataFrame()] * 6, plan, {"values": {}}, {}, folder=folder)
    patch.setattr(reprofs, "open", lambda study: found)
    run.execute(folder, [name])


@pytest.fixture(scope="module")
def page(hostile_report):
    return (hostile_report.folder / "report/index.html").read_text()


def free_texts(node, name: str = "") -> Iterator[str]:
    """The keys of a JSON Schema that take any text."""
    if isinstance(node, list):
        for one in node:
            yield from free_texts(one, name)
    elif isinstance(node, dict):
        if node.get("type") == "string" and not {"pattern", "enum", "const"} & set(node):
            yield name
        for key, value in node.items():
            if key in ("properties", "$defs"):
                for own, one in value.items():
                    yield from free_texts(one, own)
            elif key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
                yield from free_texts(value, name)


@pytest.mark.wide
def test_every_text_of_every_descriptor_is_in_the_plan_of_this_test(hostile_report):
    """A new key of a descriptor fails here until the test has it."""
    plans = (places for kind, places in hostile_report.places.items() if kind != "record")
    replaced = {[key for key in place if isinstance(key, str)][-1] for place in itertools.chain(*plans)}
    free = set(free_texts(Plan.schema_of()))
    assert free - NAMES - ELSEWHERE - set(PlannedTrial.model_fields) - {"own"} <= replaced


def test_hostile_text_is_text(page):
    parsed = Page(page)
    shown = set(re.findall(r"t(\d+)t <script>", parsed.text))
    assert len(shown) > 60 and "&lt;b&gt;" in parsed.text and "{=typst}" in parsed.text
    tags = {tag for tag, _ in parsed.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "math", "b", "hr", "del", "base", "form"}
    names = {name for _, attributes in parsed.tags for name in attributes}
    assert not {name for name in names if name in ("src", "srcset", "data") or name.startswith("on")}
    links = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    assert links and all(link.startswith(("#", "https://example.org/")) for link in links)
    assert not re.search(r"<(em|strong|li|td|h\d)[^>]*>(<p>)?(e|d|item|a|b|heading\d+)</", page)
    assert SECRET not in page and not HIDDEN.search(page)


def test_what_a_recording_says_is_shown_as_text(page):
    parsed = Page(page).text
    assert all(f"t{crc32(key.encode())}t <script>" in parsed for key in RECORDED)


def test_the_pdf_has_no_code_of_others_and_the_title_as_it_is(hostile_report, page):
    assert (hostile_report.folder / "report/report.pdf").read_bytes().startswith(b"%PDF")
    about = render.metadata(hostile_report.study)
    assert not HIDDEN.search(about["title"] + about["subtitle"]) and "<script>" in about["title"]


def test_the_answer_on_a_terminal_has_no_control_characters(hostile_report):
    found = text.text(hostile_report.study, hostile_report.notebooks)
    assert "<script>" in found and not HIDDEN.search(found)


def test_no_command_prints_control_characters(reprofs, tmp_path, monkeypatch):
    """Whatever it is that prints them: one stream stands before the terminal."""
    code = "\x1b]0;owned\x07\x1b[2J\x1b[1;1H\r\x9b1A\u202e"
    monkeypatch.setitem(
        studies.command,
        "list",
        dataclasses.replace(studies.command["list"], run=lambda _: print(code, file=sys.stderr)),
    )
    for done in (reprofs("list"), reprofs("verify", tmp_path / code), reprofs("plan", code)):
        assert not HIDDEN.search(done.stdout + done.stderr), done
        assert "owned" in done.stderr


def test_a_notebook_of_ones_own_cannot_embed_files_either(hostile_report, tmp_path):
    """Whatever its outputs are: HTML, Markdown, or cells of Markdown."""
    secret = hostile_report.folder / "secret.txt"
    marked = f"![i]({secret}) [j](javascript:alert(1)) [k](https://example.org) <script>1</script> `x`{{=html}}"
    html = f'<img src="{secret}"><iframe src="{secret}"></iframe><a href="javascript:1">l</a><script>1</script>'
    data = ({"text/markdown": marked}, {"text/html": html})
    outputs = [nbformat.v4.new_output("display_data", data=one) for one in data]
    cells = [nbformat.v4.new_markdown_cell(f"# Mine\n\n{marked}\n\n{html}")]
    cells += [nbformat.v4.new_code_cell("1", outputs=outputs)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "mine.ipynb")
    render.render([tmp_path / "mine.ipynb"], tmp_path / "report", hostile_report.folder / "tables")
    page = (tmp_path / "report/index.html").read_text()
    parsed = Page(page)
    assert not {tag for tag, _ in parsed.tags} & {"script", "img", "iframe"} and SECRET not in page
    links = {attributes["href"] for tag, attributes in parsed.tags if tag == "a"}
    assert {link for link in links if not link.startswith("#")} == {"https://example.org"}


def test_an_import_is_text(tmp_path, monkeypatch, capsys):
    """On the terminal and in a figure, which is all that is shown of one."""
    odd = "EXT4_MD_raid6_-m=<script>alert(1)<img src=x onerror=alert(1)>*e*\x1b[31m\u202e"
    paths = [study2015.one(tmp_path, name, range(3), fs=hostile(7, "x")) for name in (odd, "XFS_MD_raid6")]
    output = f"{tmp_path}/imported/odd"
    monkeypatch.setattr(sys, "argv", ["reprofs", "import", "datalad", *map(str, paths), "--output", output])
    cli.main()
    said = capsys.readouterr().out
    assert "<script>" in said and not HIDDEN.search(said)
    study = run.open_study(output)
    (label,) = [label for label in study.labels() if label != "xfs"]
    assert "<script>" in label
    with matplotlib.rc_context(style.STYLE):
        axes = study.times.groupby("label").ms.mean().plot.barh()
        shown = show.figure(axes, f"Times of {label}.")._repr_html_()
    assert {tag for tag, _ in Page(shown).tags} <= {"figure", "img", "figcaption", "code", "strong"}
    (image,) = [attributes for tag, attributes in Page(shown).tags if tag == "img"]
    drawing = base64.b64decode(image["src"].partition(",")[2]).decode()
    assert "script" in drawing and "<script" not in drawing and "<image" not in drawing
    assert not HIDDEN.search(shown + drawing.replace("\n", ""))


def test_a_title_is_no_mathematics_in_a_figure():
    with matplotlib.rc_context(style.STYLE):
        figure, axes = plt.subplots()
        axes.set_title("$\\frac{1}{0}$ \u202e")
        drawn = show.svg(figure)
    plt.close(figure)
    assert drawn.startswith("<?xml") and not HIDDEN.search(drawn)


@pytest.mark.wide
@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("sign", ["\x1b", "\u202e"])
def test_characters_that_hide_others_are_refused_in_every_text(kind, sign, tmp_path):
    catalog = Catalog()
    data = catalog.get(kind, next(iter(catalog.paths(kind)))).as_json()
    for place in {tuple(key for key in place if isinstance(key, str)): place for place in leaves(data)}.values():
        made = copy.deepcopy(data)
        put(made, place, f"a{sign}b")
        path = tmp_path / "made.yaml"
        path.write_text(json.dumps(made))
        with pytest.raises(UserError, match=rf"an invisible or misleading character \(U\+{ord(sign):04X}\): remove it"):
            read_yaml(path, kind)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a *b* _c_ <d> &amp; [e](f)", "a *b* _c_ &lt;d&gt; &amp;amp; [e](f)"),
        ("1. a", "1. a"),
        ("- a", "- a"),
        ("# a", "# a"),
        ("```", "```"),
        ("`a", "`a"),
        ("`a`{=html}", "<code>a</code>{=html}"),
        ("\\(x\\)", "\\(x\\)"),
        ("a --- b", "a --- b"),
        ("a\n\n    b", "a b"),
        ("a\x1bb\u202e", "a\ufffdb\ufffd"),
    ],
)
def test_a_text_is_shown_as_it_is_written(written, shown):
    assert show.inline(written) == shown
    assert show.MARKDOWN.render(marks.escaped(written)) == f"<p>{shown}</p>\n"
    assert show.MARKDOWN.render(" " + marks.escaped(" " + written)) == f"<p>{shown}</p>\n"


def test_what_is_marked_stays_so():
    both = marks.strong("*a*") + " *b* " + marks.code("c``d")
    assert show.inline(both) == "<strong>*a*</strong> *b* <code>c``d</code>"
    assert show.inline("*x* " + both).startswith("*x* <strong>")
    assert show.inline(marks.code("`")) == "<code>`</code>"
    assert show.inline(words.listing([marks.code("a"), "*b*"])) == "<code>a</code> and *b*"
    assert marks.block("a\n````").splitlines()[0] == "`````"


@pytest.mark.parametrize("address", ["javascript:alert(1)", "https://a> <b>", "https://a\n", "file:///etc/passwd"])
def test_a_link_leads_to_the_web_or_is_text(address):
    assert show.inline(marks.link("a", address)) == "a"
    assert show.inline(marks.link("[a](b)", "https://a.b/c_(d)")) == '<a href="https://a.b/c_(d)">[a](b)</a>'
