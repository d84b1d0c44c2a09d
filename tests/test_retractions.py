"""Sentences of published results that are retracted: they are there, and a reader of the index sees why."""

import html
import re

import pytest
import yaml
from conftest import ROOT
from reprofs.errors import UserError
from reprofs.plan import retraction
from reprofs.plan.result import DIGESTS
from reprofs.publish import check, site, stale
from reprofs.records.protocol import PROTOCOL
from reprofs.records.publication import read

RESULTS = {path.parent.name: read(path.parent) for path in ROOT.glob(f"results/*/{DIGESTS}")}
KNOWN = yaml.safe_load((ROOT / retraction.RETRACTIONS).read_text())["retracted"]
ONE = {"results": ["x"], "protocol": 6, "sentence": "It is.", "date": "2026-11-28", "wrong": "It is not."}


def test_every_retracted_sentence_is_in_its_published_page_as_it_stands():
    for one in KNOWN:
        for name in one["results"]:
            if RESULTS[name].protocol == one["protocol"]:
                assert one["sentence"] in " ".join((ROOT / f"results/{name}/ABOUT.md").read_text().split()), (name, one)


def test_the_index_shows_each_with_its_reason_and_date():
    table = re.sub(r"\\(.)", r"\1", (ROOT / "results/README.md").read_text())
    page = html.unescape((ROOT / "results/index.html").read_text())
    for name, result in RESULTS.items():
        assert f"| {name} | {result.protocol} | " in table
        for one in retraction.retracted(result):
            part = table.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
            assert one.sentence in part and f"{one.date}: {one.wrong}" in part and one.right in part
            article = page.partition(f'<article id="{name}">')[2].partition("</article>")[0]
            assert f"<del>{one.sentence}</del> {one.date}: {one.wrong}" in article and one.right in article


def test_no_page_of_this_project_repeats_one_without_saying_so():
    for path in (ROOT / "README.md", ROOT / "METHODOLOGY.md", *ROOT.glob("docs/**/*.md")):
        text = " ".join(path.read_text().split())
        if said := [one["sentence"] for one in KNOWN if one["sentence"] in text]:
            assert "retracted" in text and "results/README.md#" in text, (path, said)


def test_it_holds_for_the_protocol_that_it_names(tmp_path, monkeypatch):
    file = tmp_path / "retractions.yaml"
    monkeypatch.setattr(retraction, "place", lambda _: file)
    quick = RESULTS["quick"].model_copy(update={"protocol": 6})
    assert retraction.retracted(quick) == []
    file.write_text(yaml.safe_dump({"retracted": [ONE | {"results": ["quick"]}]}))
    assert [one.wrong for one in retraction.retracted(quick)] == [ONE["wrong"]]
    assert retraction.retracted(quick.model_copy(update={"protocol": 7})) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "the top level must be a mapping"),
        ({"retracted": [ONE | {"why": "x"}]}, "unknown key 'why'"),
        ({"retracted": [{**ONE, "wrong": ""}]}, "wrong"),
        ({"retracted": [{name: value for name, value in ONE.items() if name != "date"}]}, "'date' is missing"),
        ({"retracted": [ONE | {"date": "yesterday"}]}, "a date such as 2026-11-28"),
        ({"retracted": [ONE | {"results": []}]}, "at least 1"),
        ({"retracted": [ONE, ONE]}, "must name x: It is. only once"),
        ({"retracted": [ONE | {"sentence": "It  is."}]}, "other gaps than one blank: It  is."),
    ],
)
def test_a_mistake_is_named_in_one_sentence(tmp_path, monkeypatch, data, said):
    file = tmp_path / "retractions.yaml"
    file.write_text(yaml.safe_dump(data))
    monkeypatch.setattr(retraction, "place", lambda _: file)
    with pytest.raises(UserError) as caught:
        retraction.retracted(RESULTS["quick"])
    text = str(caught.value)
    assert said in text and "results/retractions.yaml" in text and "\n" not in text and len(text) <= 300, text


def test_verify_says_that_there_are_some(reprofs, monkeypatch):
    monkeypatch.setattr(check, "derived", lambda *_, **__: True)
    gone = sum(one.is_in(RESULTS["quick"].answer) for one in retraction.retracted(RESULTS["quick"]))
    done = reprofs("verify", "results/quick", "--claims")
    assert done.returncode == 0
    assert (f"{gone} sentences of its answer" in done.stdout + done.stderr) == (gone > 1)


def test_the_report_of_the_site_has_them_and_no_markup_of_theirs():
    box = site._box([retraction.Retraction(**ONE | {"wrong": "<script>"}, right="2 < 3")])
    assert "<del>It is.</del> 2026-11-28: &lt;script&gt; 2 &lt; 3" in box and "<script" not in box


def test_what_an_older_result_lacks_is_read_off_its_plan():
    if (quick := RESULTS["quick"]).protocol == 6:
        assert stale.lacks(ROOT / "results", quick) == ["devices of 1 GiB", "no cost of a flush (ssd)"]
        assert stale.lacks(ROOT / "results", RESULTS["why-2015"]) == ["1 repetition"]  # its disks have their own size
    assert stale.lacks(ROOT / "results", quick.model_copy(update={"protocol": PROTOCOL})) == []
