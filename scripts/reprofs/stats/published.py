"""TODO."""

FOLDER = Path(__file__).parents[2] / "data/published"


KEY = ["size", "stack", "label", "phase", "cache"]


NUMBERS = ["n", "median_s", "q1_s", "q3_s", "min_s", "max_s"]


PLACE = ["lab", "profile", "workload", "scale"]


APART = 1.1  # published medians nearer than this are not taken as an order: their own runs vary by as much


FEW = 8  # configurations: up to here every relabelling is counted, 40,320 of them


DRAWN = 40_000  # relabellings of more configurations


ALPHA = 1 - stats.LEVEL


def load(name: str) -> pd.DataFrame:
    """The published numbers of that name: columns KEY, NUMBERS (seconds), note. Raises UserError naming the line."""
    path = FOLDER / f"{name}.csv"
    try:
        frame = pd.read_csv(path, dtype={key: str for key in [*KEY[1:], "note"]}).fillna({"note": ""})
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    wanted = [*KEY, *NUMBERS, "note"]
    if list(frame.columns) != wanted:
        raise UserError(f"{path}: the columns are {', '.join(frame.columns)}, but must be {', '.join(wanted)}.")
    for column in ("size", "n", *NUMBERS[1:]):
        values = pd.to_numeric(frame[column], errors="coerce")
        empty = frame[column].isna() & (column not in ("size", "n", "median_s"))
        wrong = ~(empty | (values > 0))
        if wrong.any():
            raise UserError(
                f"{path} line {wrong.idxmax() + 2}: {column} is {frame[column][wrong.idxmax()]}, but must be a number"
                " above zero."
            )
        frame[column] = values
    twice = frame.duplicated(KEY)
    if twice.any():
        raise UserError(f"{path} line {twice.idxmax() + 2}: the operation of this configuration is there before.")
    return frame


def places(study: Study) -> list[tuple]:
    """Every (lab, profile, base of the workload's name, scale) that published numbers are set beside; none without."""
    if "published" not in study.plan:
        return []
    ours = _ours(study)
    known = _published(study)[["stack", "label", "phase", "cache"]].drop_duplicates()
    return sorted(set(ours.merge(known)[PLACE].itertuples(index=False, name=None)))


def sizes(study: Study, place: tuple) -> list[int]:
    """The sizes at which a place was measured, ascending."""
    return sorted(int(size) for size in set(tables.select(_ours(study), PLACE, place)["size"]))


def grown(study: Study, place: tuple) -> bool:
    """Whether a place has several sizes, so that a law can be carried on to the published one."""
    return len(sizes(study, place)) > 1


def beside(study: Study, place: tuple) -> pd.DataFrame:
    """One row a configuration and operation that both have: ours (ns, rounds) and theirs (ns, at the nearest size).

    Columns: name (of the configuration), stack, label, phase, cache, position, n, median_ns, min_ns, max_ns,
    their_size, their_n, their_ns, their_low_ns, their_high_ns (quartiles, NaN if unknown), and ratio, low, high, kind
    of ours over theirs (see `stats.ratio`).
    """
    size = sizes(study, place)[-1]
    ours = tables.select(_ours(study), [*PLACE, "size"], (*place, size))
    theirs = _published(study)
    theirs = theirs[theirs["size"] == _nearest(theirs["size"], size)]
    rows = []
    for key, cell in ours.groupby(["stack", "label", "phase", "cache"], sort=False):
        found = tables.select(theirs, ["stack", "label", "phase", "cache"], key)
        if found.empty:
            continue
        told, x = found.iloc[0], cell["wall_ns"].to_numpy(float)
        rows.append(
            dict(zip(["stack", "label", "phase", "cache"], key, strict=True))
            | {"position": int(cell["position"].min()), "n": len(x)}
            | {"median_ns": float(np.median(x)), "min_ns": x.min(), "max_ns": x.max()}
            | {"their_size": int(told["size"]), "their_n": int(told["n"]), "their_ns": told["median_s"] * 1e9}
            | {"their_low_ns": told["q1_s"] * 1e9, "their_high_ns": told["q3_s"] * 1e9}
            | stats.ratio(x, np.full(len(x), told["median_s"] * 1e9))
        )
    names = ["stack", "label", "phase", "cache", "position", "n", "median_ns", "min_ns", "max_ns", "their_size"]
    names += ["their_n", "their_ns", "their_low_ns", "their_high_ns", "ratio", "low", "high", "kind"]
    frame = pd.DataFrame(rows, columns=names).sort_values(["position", "stack", "label"], ignore_index=True)
    return frame.assign(name=_names(frame))


def orders(study: Study, place: tuple) -> tuple[pd.DataFrame, dict]:
    """How alike both order the configurations: one row an operation, and what holds for all operations together.

    Only configurations that have every operation take part. Row: phase, cache, position, rho (Spearman's), p (exact,
    one-sided: the share of all relabellings of the configurations that agree as well), p_joint (the same for the best
    operation of every relabelling, so that it holds for all operations together and knows that they are related), told
    (pairs whose published medians differ by 10 % or more), same and reversed (of these, our ratio's interval, joint
    over the pairs of the operation, excludes 1), turned (words for the reversed ones), ratio, low, high, kind (ours
    over theirs, geometric mean over configurations with its interval over them), least and most (ratio), least_name,
    most_name, verdict. Together: n, names, left_out, rho (mean), p, smallest (p possible), relabellings.
    """
    cells = beside(study, place)
    operations = list(dict.fromkeys(cells[["phase", "cache"]].itertuples(index=False, name=None)))
    wide = {
        column: cells.pivot(index=["phase", "cache"], columns="name", values=column).reindex(operations)
        for column in ("median_ns", "their_ns", "ratio")
    }
    complete = list(wide["median_ns"].columns[wide["median_ns"].notna().all()])
    together = {"n": len(complete), "names": complete, "left_out": sorted(set(cells["name"]) - set(complete))}
    if len(complete) < 2:
        return pd.DataFrame(), together | {"rho": math.nan, "p": math.nan, "smallest": math.nan, "relabellings": 0}
    ours, theirs = wide["median_ns"][complete].to_numpy(), wide["their_ns"][complete].to_numpy()
    rho, null = relabelled(theirs, ours)
    rounds, rows = _rounds(study, place, cells), []
    for number, (phase, cache) in enumerate(operations):
        here = tables.select(cells, ["phase", "cache"], (phase, cache)).set_index("name")
        pairs = _pairs(rounds.loc[phase, cache], here.loc[complete, "their_ns"])
        factors = wide["ratio"][complete].iloc[number]
        row = {"phase": phase, "cache": cache, "position": int(here["position"].min()), "rho": rho[number]}
        row |= {"p": _share(null[:, number], rho[number]), "p_joint": _share(null.max(axis=1), rho[number])}
        row |= pairs | stats.ratio(ours[number], theirs[number])
        row |= {"least": factors.min(), "most": factors.max()}
        row |= {"least_name": factors.idxmin(), "most_name": factors.idxmax()}
        same = row["rho"] > 0 and row["p_joint"] < ALPHA
        row["verdict"] = "same" if same else "another" if row["reversed"] > row["same"] else "undecided"
        rows.append(row)
    together |= {"rho": float(rho.mean()), "p": _share(null.mean(axis=1), rho.mean())}
    together |= {"smallest": 1 / len(null), "relabellings": len(null)}
    return pd.DataFrame(rows), together


def relabelled(x, y) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rho of x and y of shape (operations, n), shape (operations,), and the same for relabelled y.

    A relabelling exchanges the configurations in all operations alike; the second result, of shape (relabellings,
    operations), holds all n! of them, or with more than eight configurations the identity and 40,000 seeded ones.
    Values that are all equal have no order: rho is 0.
    """
    first, second = (rankdata(np.asarray(values, dtype=float), axis=1) for values in (x, y))
    scaled = []
    for ranks in (first, second):
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
        scaled.append(np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0))
    n = first.shape[1]
    if n <= FEW:
        order = np.array(list(itertools.permutations(range(n))))
    else:
        rng = np.random.default_rng(stats.BOOTSTRAP_SEED)
        order = np.vstack([np.arange(n), rng.permuted(np.tile(np.arange(n), (DRAWN, 1)), axis=1)])
    return (scaled[0] * scaled[1]).sum(axis=1), np.einsum("ok,opk->po", scaled[0], scaled[1][:, order])


def _share(null: np.ndarray, value: float) -> float:
    """Share of relabellings with a statistic at least as large (up to rounding)."""
    return float((null >= value - 1e-9).mean())


def _pairs(rounds: pd.DataFrame, theirs: pd.Series) -> dict:
    """Pairs of configurations of one operation: told apart there, and confirmed or reversed here.

    `rounds` are our times, rounds by names of configurations; `theirs` the published ones by name.
    """
    slowest = theirs.sort_values(ascending=False, kind="stable").index
    told = [(a, b) for a, b in itertools.combinations(slowest, 2) if theirs[a] >= APART * theirs[b]]
    same, turned = 0, []
    for slow, fast in told:
        both = rounds[[slow, fast]].dropna()
        low, high = stats.joint_interval(both[slow], both[fast], len(told))
        same += low > 1
        if high < 1:
            turned.append(f"{slow} before {fast}")
    return {"told": len(told), "same": same, "reversed": len(turned), "turned": words.listing(turned)}


def claims(study: Study, place: tuple) -> pd.DataFrame:
    """The published statements that the study can test, a row each.

    Columns: says, there, here, low, high, verdict, their_size, slow_waits, fast_waits (shares of our time in which the
    command was not on the processor), ahead, ahead_low, ahead_high. there and here are ratios of the slower over the
    faster configuration; ours is paired by round, at our largest size, its interval joint over all statements tested.
    verdict is `same`, `another` (direction) or `undecided`. ahead is our ratio carried on to their size as a power law
    with its 95 % prediction interval, NaN with one size.
    """
    size, ours, theirs = sizes(study, place)[-1], tables.select(_ours(study), PLACE, place), _published(study)
    found = []
    for claim in study.plan["published"].get("claims", []):
        keys = [(*claim[side].split("/"), claim["phase"], claim["cache"]) for side in ("slower", "faster")]
        cells = [tables.select(ours, KEY[1:], key) for key in keys]
        here = [cell.set_index(["size", "round"])["wall_ns"] for cell in cells]
        there = [tables.select(theirs, KEY[1:], key).set_index("size")["median_s"] for key in keys]
        rounds = pd.concat(here, axis=1, join="inner", keys=["slow", "fast"]).astype(float).reset_index()
        common = set(there[0].index) & set(there[1].index)
        if (rounds["size"] == size).any() and common:
            at = _nearest(common, size)
            row = {"says": claim["says"], "there": there[0][at] / there[1][at], "their_size": int(at)}
            row |= dict(zip(("slow_waits", "fast_waits"), (_waiting(cell, size) for cell in cells), strict=True))
            found.append((row, rounds))
    rows = []
    for row, rounds in found:
        last = rounds[rounds["size"] == size]
        low, high = stats.joint_interval(last["slow"], last["fast"], len(found))
        verdict = "same" if low > 1 else "another" if high < 1 else "undecided"
        row |= {"here": stats.ratio(last["slow"], last["fast"])["ratio"], "low": low, "high": high, "verdict": verdict}
        ahead = {"time": math.nan, "low": math.nan, "high": math.nan}
        if grown(study, place):
            ahead = series.extrapolate(rounds["size"], rounds["slow"] / rounds["fast"], [row["their_size"]]).iloc[0]
        rows.append(row | {"ahead": ahead["time"], "ahead_low": ahead["low"], "ahead_high": ahead["high"]})
    return pd.DataFrame(rows)


def _waiting(cell: pd.DataFrame, size: int) -> float:
    own = cell[cell["size"] == size]
    return 1 - float((own["user_ns"] + own["system_ns"]).sum() / own["wall_ns"].sum())


def growth(study: Study, place: tuple) -> pd.DataFrame:
    """One row a published number of which we have several sizes: the law of ours, carried on to the published size.

    Columns: stack, label, phase, cache, position, n (measurements), least, most (sizes measured), exponent, low, high
    (95 %), last (exponent between the medians of the two largest sizes), bend (p of a quadratic term), their_size,
    their_ns, their_n, expected_ns, expected_low_ns, expected_high_ns (95 % prediction interval: where a further
    measurement falls if the law goes on), by_last_ns (expected by the exponent of the last step), factor (theirs over
    expected), inside, decades (orders of magnitude between the largest size and the published one).
    """
    ours, rows = tables.select(_ours(study), PLACE, place), []
    for told in _published(study).itertuples():
        own = tables.select(ours, KEY[1:], (told.stack, told.label, told.phase, told.cache))
        if own["size"].nunique() < 2:
            continue
        size, time = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float)
        fit = series.scaling_fit(size, time)
        ahead = series.extrapolate(size, time, [told.size]).iloc[0]
        medians = own.groupby("size")["wall_ns"].median().iloc[-2:].astype(float)
        last = np.diff(np.log(medians)) / np.diff(np.log(medians.index.astype(float)))
        theirs = told.median_s * 1e9
        row = {key: getattr(told, key) for key in KEY[1:]}
        row |= {
            "position": int(own["position"].min()),
            "n": len(own),
            "least": int(size.min()),
            "most": int(size.max()),
        }
        row |= {key: fit[key] for key in ("exponent", "low", "high")} | {"last": float(last[0])}
        row |= {"bend": _bend(size, time)}
        row |= {"by_last_ns": float(medians.iloc[-1] * (told.size / size.max()) ** last[0])}
        row |= {"their_size": int(told.size), "their_ns": theirs, "their_n": int(told.n), "expected_ns": ahead["time"]}
        row |= {"expected_low_ns": ahead["low"], "expected_high_ns": ahead["high"], "factor": theirs / ahead["time"]}
        row |= {"inside": bool(ahead["low"] <= theirs <= ahead["high"])}
        rows.append(row | {"decades": math.log10(told.size / size.max())})
    frame = pd.DataFrame(rows)
    return frame.sort_values(["position", "their_size", "label"], ignore_index=True) if len(frame) else frame


def _bend(size: np.ndarray, time: np.ndarray) -> float:
    """p of a quadratic term in the logarithms; NaN for two sizes, or if nothing is left to judge it by."""
    x = np.log(size)
    if len(np.unique(x)) < 3 or len(x) < 4:
        return math.nan
    x = x - x.mean()
    return float(OLS(np.log(time), np.column_stack([np.ones(len(x)), x, x**2])).fit().pvalues[2])


def _published(study: Study) -> pd.DataFrame:
    return load(study.plan["study"]["published"])


def _ours(study: Study) -> pd.DataFrame:
    """Completed phases of contenders with the column size; the workload is named without its size."""
    phases = stats.measured(study.phases)
    phases = phases[phases["role"] != "ceiling"]
    key = study.plan["published"]["size"]
    found = {name: entry["scale"].get(key) for name, entry in study.plan["workloads"].items()}
    chosen = phases[phases["workload"].map(found).notna()]
    return chosen.assign(
        size=chosen["workload"].map(found).astype("Int64"),
        workload=chosen["workload"].map(_base),
    )


def _rounds(study: Study, place: tuple, cells: pd.DataFrame) -> pd.DataFrame:
    """Times (ns) behind the rows of `beside`: (phase, cache, round) by names of configurations."""
    own = tables.select(_ours(study), [*PLACE, "size"], (*place, sizes(study, place)[-1]))
    own = own.merge(cells[["stack", "label", "phase", "cache", "name"]])
    return own.pivot(index=["phase", "cache", "round"], columns="name", values="wall_ns").astype(float)


def _names(cells: pd.DataFrame) -> pd.Series:
    """Labels; with the stack where a label is on several."""
    several = cells.groupby("label")["stack"].nunique()
    return pd.Series(
        [f"{row.label} on {row.stack}" if several[row.label] > 1 else row.label for row in cells.itertuples()],
        index=cells.index,
        dtype=object,
    )


def _nearest(known, size: int) -> int:
    return min(set(known), key=lambda other: (abs(math.log(other / size)), other))


def _base(workload: str) -> str:
    """The name of a workload without its size."""
    return re.sub(r"@x?\d+", "", workload)
