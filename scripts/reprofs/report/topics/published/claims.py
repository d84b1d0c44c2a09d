"""Published claims with their verdicts by a study, and the published values that are no elapsed times."""

from __future__ import annotations

import re

import pandas as pd

from reprofs.report.display import DASH, Table, count, digits, known, listing, percent, ratio, slug
from reprofs.report.marks import code
from reprofs.report.plots import Figure
from reprofs.report.topics.published import twins
from reprofs.stats.published.claims import REPRODUCED, Interval
from reprofs.stats.published.comparison import Comparison
from reprofs.stats.published.values import Ground
from reprofs.stats.published.verdicts import FAR, Claims, Judged

MANY = 4  # ratios of one claim: up to here each is shown


def table(claims: Claims) -> Table:
    """One row per published claim that the study measured; none if there is none."""
    shown = [
        {
            "Published claim": one.claim.says,
            "Claimed": _claimed(one),
            "Published numbers": _published(one),
            "This study": _found(one.found),
            "Sizes": _sizes(one),
            "Verdict": one.verdict.word,
        }
        for one in claims.measured
    ]
    caption = (
        "Published claims and their verdicts. Ratios are of the first value that a claim names over the second, or over"
        " each other one, in an order over the next; a value alone is in s, bytes or 1/s. In brackets intervals that"
        " hold with 95 % for all claims together (Student's t of log ratios paired by round, Bonferroni). A ratio is"
        " reproduced where its interval reaches to the claimed one or a factor of it (1.25 unless told); where it only"
        " lies on the same side of 1 the direction is the same. Beside published numbers: their own verdict, where they"
        f" do not bear out the claim. Sizes: here and published, in {claims.sides.counted}; farther apart than a"
        f" factor of {FAR} nothing is said of the claim."
    )
    if claims.sides.stands_in:
        pairs = (f"{own} for {other}" for other, own in claims.sides.stands_in.items())
        caption += f" Stand in: {listing(pairs)}."
    return Table(f"tbl-{slug('claims', claims.ground)}", caption, shown, left=list(shown[0]) if shown else [])


def open_table(claims: Claims) -> Table:
    """One row per published claim that the study cannot decide, with what it would take."""
    shown = [
        {
            "Published claim": one.claim.says,
            "Place": one.claim.where,
            "Claimed": _claimed(one),
            "Published numbers": _published(one),
            "What it would take": one.verdict.reason,
            **({"Another study": _elsewhere(claims, one) or DASH} if claims.elsewhere else {}),
        }
        for one in claims.open
    ]
    caption = (
        "Published claims that this study cannot decide, because it has not measured what they are about, or not as"
        " much. Beside published numbers: their own verdict, where they do not bear out the claim."
    )
    if claims.elsewhere:
        caption += (
            " Another study: what the studies that are set beside the same numbers say, as their files expect it."
        )
    return Table(f"tbl-{slug('open-claims', claims.ground)}", caption, shown, left=list(shown[0]) if shown else [])


def detail_table(claims: Claims) -> Table:
    """One row per claim that was measured: its id and place, the processor, and with several sizes the scenarios."""
    extrapolated = any(known(one.expected) for one in claims.measured)
    told = any(one.busy for one in claims.measured)
    shown = [
        {
            "Claim": one.claim.id,
            "Place": one.claim.where,
            "Kind": one.claim.kind,
            **({"Processor busy": listing(map(percent, one.busy)) if one.busy else DASH} if told else {}),
            **({"By the law": digits(one.expected, 3), "With a knee": digits(one.by_last, 3)} if extrapolated else {}),
        }
        for one in claims.measured
    ]
    caption = "The claims that were measured, by the names that a study's key expected has."
    if told:
        caption += " Processor busy: shares of the times that are compared in which it was."
    if extrapolated:
        caption += (
            " Scenarios of the ratio for the published size: by the power law of this study's ratios, and with a knee"
            " at the largest size, with the exponent of the last step."
        )
    return Table(f"tbl-{slug('claim-details', claims.ground)}", caption, shown, left=["Claim", "Place", "Kind"])


def value_table(claims: Claims) -> Table:
    """Published values other than elapsed times that this study measured, too; none if there is none."""
    shown = [
        {
            "Value": f"{row['phase']}, {row['quantity']}",
            "Configuration": f"{row['label']} on {row['stack']}" if row["stack"] else row["label"],
            "Place": row["place"],
            "Published": digits(row["value"], 4) + _spread(row["sd"]),
            "Unit": row["unit"],
            "This study": digits(row["own"], 4) + _spread(row["own_sd"]),
        }
        for row in claims.beside.to_dict("records")
    ]
    caption = (
        "Published values that are not elapsed times, with their standard deviation where it was published, and the"
        " geometric means of this study in the same unit, at its largest size. The machines differ, so only ratios can"
        " be compared."
    )
    left = ["Value", "Configuration", "Place", "Unit"]
    return Table(f"tbl-{slug('values', claims.ground)}", caption, shown, left=left)


def twin_figures(claims: Claims) -> list[Figure]:
    """Published values other than elapsed times and those of this study in one form, side by side."""
    rows = claims.beside
    names = [f"{row.label} on {row.stack}" if row.stack else row.label for row in rows.itertuples()]
    several = (
        rows.assign(name=names).groupby(["phase", "quantity", "unit", "name"], sort=False)["place"].transform("nunique")
    )
    frame = pd.DataFrame(
        {
            "name": [
                f"{name}, {row.place}" if many > 1 else name
                for name, row, many in zip(names, rows.itertuples(), several, strict=True)
            ],
            "title": [f"{row.phase}, {row.quantity}, {row.unit}" for row in rows.itertuples()],
            "published": rows["value"],
            "own": rows["own"],
            **{
                f"{who}_{end}": rows[value] + sign * rows[sd]
                for who, value, sd in (("published", "value", "sd"), ("own", "own", "own_sd"))
                for end, sign in (("low", -1), ("high", 1))
            },
        }
    ).drop_duplicates(["title", "name", "published"])
    caption = (
        "Published values (left) and those of this study (right). Bars: one standard deviation up and down, where"
        " one was published."
    )
    return twins.figures(slug("twins-values", claims.ground), caption, frame)


def difference_table(comparison: Comparison, ground: Ground) -> Table:
    """What was different when the published numbers were measured, with this study's own values filled in."""
    recorded = comparison.study.environment["values"]
    kernels = recorded.get("lab.kernel") or recorded.get("host.kernel")
    own = [place for place in comparison.places if (place.lab, place.profile) == ground]
    sizes = sorted({size for place in own for size in comparison.sizes(place)})
    values = {
        "kernel": listing(kernels) if kernels else "not recorded",
        "sizes": listing(f"{size:,}" for size in sizes),
        "rounds": count(comparison.study.plan.study.most_rounds(), "round"),
        "lab": ground.lab,
        "profile": ground.profile,
    }
    shown = [
        {
            "What": entry.what,
            "Published": entry.there,
            "This study": re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), entry.here),
            "What follows": entry.follows,
        }
        for entry in (comparison.about.differs if comparison.about else ())
    ]
    caption = "What differs between the published measurements and this study, and what follows for the comparison."
    left = ["What", "Published", "This study", "What follows"]
    return Table(f"tbl-{slug('differs', ground)}", caption, shown, left=left)


def _sizes(one: Judged) -> str:
    """The size that was measured, and the published one."""
    here, there = (f"{size:,}" if size else DASH for size in (one.verdict.size, one.published_size))
    return f"{here} of {there}"


def _elsewhere(claims: Claims, one: Judged) -> str:
    """What other studies say of a claim."""
    found = claims.sides.study.plan.siblings.get(one.claim.id, {})
    return "; ".join(f"{code(name)}: {verdict}" for name, verdict in found.items())


def _claimed(one: Judged) -> str:
    """What a claim says of its ratios."""
    claim, within = one.claim, f"within a factor of {one.claim.within:g}" if one.claim.within else ""
    if claim.least is not None:
        return f"at least {digits(claim.least, 3)}"
    if claim.most is not None:
        return f"at most {digits(claim.most, 3)}"
    if claim.kind == "ratio":
        return ", ".join(filter(None, (digits(one.claimed, 3), within)))
    words = {"order": "above 1", "monotone": "1 or more, the last above", "no-winner": "on both sides of 1"}
    return words.get(claim.kind, within)


def _published(one: Judged) -> str:
    """The published ratios of a claim, and the verdict by them where they do not bear it out."""
    if not all(map(known, one.published)):
        return DASH
    return _ratios(one.published) + (f" ({one.own})" if one.own not in ("", REPRODUCED) else "")


def _found(found: list[Interval]) -> str:
    if len(found) > MANY:
        return _ratios([one.ratio for one in found])
    return ", ".join(ratio(one.ratio, one.low, one.high) for one in found)


def _ratios(found: list[float]) -> str:
    if len(found) > MANY:
        return f"{digits(min(found), 3)} to {digits(max(found), 3)}, {len(found)} ratios"
    return ", ".join(digits(one, 3) for one in found)


def _spread(sd: float) -> str:
    return f" ± {digits(sd, 3)}" if known(sd) else ""
