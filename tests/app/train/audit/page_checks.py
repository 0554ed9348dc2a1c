"""Every field of the page of `report --html`, and the table of models that `--csv` has too."""
import numpy

from .file_checks import cell, kind_of
from .ledger import CONSISTENT, LOOPED, RECOMPUTED, Ledger
from .pages import page_fields
from .report_checks import metric_names
from .texts import digits, exact, spread_text, statuses_text, time_text

COLOURS = 12  # as many lines has a legend
PIXELS = 0.011  # by which a point may be off: it is written with two decimals


def table(name, rows, job, report, findings):
    """A row a model, as in report.json: what `report --csv` writes."""
    ledger = Ledger(name, rows, findings)
    tested = {key for said in report["models"] for key in said["test"]}
    for said, row in zip(report["models"], range(len(rows))):
        wanted = {"model": said["model"], "name": said["name"], "config": said["config"], "fold": said["fold"],
                  **{"seed." + kind: seed for kind, seed in said["seeds"].items()}, **said["hyperparameters"], **said["labels"],
                  "status": said["status"], "at_step": said["at_step"], **{f"test.{key}": said["test"].get(key) for key in tested}}
        if any(m["best"] for m in report["models"]):
            for key in ("step", "train_loss", *job.asked.metrics):
                wanted["best." + key] = said["best"] and said["best"].get(key)
        for key, value in wanted.items():
            cell(ledger, (row, key), value, kind_of(key.replace("best.step", "best_step")))
    if len(rows) != len(report["models"]):
        ledger.found((), f"has {len(rows)} rows, expected {len(report['models'])}")
    ledger.close()


def page(text, job, report, answering, findings):
    fields = page_fields(text)
    ledger = Ledger("report --html", {"texts": [f"{where}: {words}" for where, words in fields.texts],
                                      "curves": {name: sorted(m for m, _ in own.lines) for name, own in fields.curves.items()},
                                      "tables": sorted(fields.tables)}, findings)
    run, names = report["run"], metric_names(job, report)
    pruned = any(config["pruned"] for config in report["configs"])
    wanted = [
        (RECOMPUTED, f"title: {report['network']}"), (RECOMPUTED, f"h1: {report['network']}"),
        (LOOPED, f"p: {report['n']} models · step {run['step']} of {run['steps']} · batch {report['batch']} · {time_text(run['seconds'])} "
                 f"· {statuses_text(report)}"),
        (CONSISTENT, "h3: To repeat it"), (CONSISTENT, f"pre: {run['command']}"), (CONSISTENT, "h2: Configurations"),
        (CONSISTENT, f"p: At each model's evaluation with the best {names[0]}: mean ± standard deviation [95 % interval of the mean] over n "
                     f"models{'; pruned models are left out of the means and of the mean answer' if pruned else ''}"),
        *((RECOMPUTED, f"p: {note}") for note in report["notes"]), (CONSISTENT, "h2: Learning curves"),
        *((CONSISTENT, f"h3: {name}") for name in fields.curves), (CONSISTENT, "h2: Models")]
    for i, (kind, words) in enumerate(wanted):
        ledger.expect(kind, ("texts", i), words)
    lines = {name: {m: [(row["step"], row[name][m]) for row in report["history"] if name in row and row[name][m] is not None]
                    for m in range(report["n"])} for name in ["train_loss", *names]}
    lines = {name: own for name, own in lines.items() if any(own.values())}
    for name in lines:
        if name == "train_loss" and "loss" in lines:
            continue  # stands beside the other
        of_each = [name] + ["train_loss"] * (name == "loss")
        ledger.expect(LOOPED, ("curves", name), sorted(list(range(report["n"])) * len(of_each)))
        if name in fields.curves and len(fields.curves[name].lines) == report["n"] * len(of_each):
            curve(ledger, name, fields.curves[name], [lines[one] for one in of_each], report)
    has_mean = report["n"] > 1 and any(report["ensemble"].values())
    ledger.expect(CONSISTENT, ("tables",), sorted(["configurations", "models"] + ["ensemble"] * has_mean))
    ledger.close()
    rows = {kind: [dict(zip(head, row)) for row in rest] for kind, (head, *rest) in fields.tables.items()}
    table("report --html table", rows.get("models", []), job, report, findings)
    cells("report --html configurations", rows.get("configurations", []), [configuration(c, names, pruned) for c in report["configs"]],
          findings)
    if has_mean:
        means = [{"their mean answer": f"{which} rows", "models": str(answering),
                  **{name: "" if values.get(name) is None else digits(values[name]) for name in names}}
                 for which, values in report["ensemble"].items() if values]
        cells("report --html ensemble", rows.get("ensemble", []), means, findings)


def cells(name, got, wanted, findings):
    """Columns that would be empty are left out."""
    there = {key for row in wanted for key, text in row.items() if text}
    ledger = Ledger(name, got, findings)
    ledger.expect(RECOMPUTED, (), [{key: text for key, text in row.items() if key in there} for row in wanted])
    ledger.close()


def configuration(config, names, pruned):
    """`pruned`: whether a column says how many were."""
    made = {key: exact(value) for key, value in config["hyperparameters"].items()}
    made["n"], made["pruned"] = str(config["n"]), str(config["pruned"]) if pruned else ""
    for name in names:
        spread, test = config["metrics"][name]["validation"], config["metrics"][name]["test"]
        made[name] = spread_text(spread, half=False) if spread else ""
        made[f"{name}, middle half"] = digits(spread["iqm"]) if spread and spread["n"] > 1 else ""
        made[f"test {name}"] = spread_text(test, half=False) if test else ""
    return made


def groups_of(report):
    """The models of each configuration by the name that pictures have for it."""
    keys, groups = sorted(report["configs"][0]["hyperparameters"]), {}
    for model in report["models"]:
        name = " ".join(f"{key}={exact(model['hyperparameters'][key])}" for key in keys) or "all models"
        groups.setdefault(name, []).append(model["model"])
    return {name + (f" ({len(models)} models)" if len(models) > 1 else ""): models for name, models in groups.items()}


def curve(ledger, name, drawn, lines, report):
    """Points lie where the labels of the axes put (step, value): the labels' places give each axis' map. `lines`: by metric the
    points of every model, the second one's drawn after the first one's."""
    steps = numpy.polyfit([float(t) for t, _ in drawn.x_axis], [at for _, at in drawn.x_axis], 1)
    logarithmic = "logarithmic" in drawn.caption
    scale = numpy.log if logarithmic else lambda v: v
    values = [(number(text), at) for text, at in drawn.y_axis]
    if len(values) < 2:
        ledger.found(("curves", name), f"has the labels {drawn.y_axis}, expected two or more")
        return
    fit = numpy.polyfit([float(scale(v)) for v, _ in values], [at for _, at in values], 1)
    off = max(abs(numpy.polyval(fit, float(scale(v))) - at) for v, at in values)
    if not off <= PIXELS or fit[0] >= 0:
        ledger.found(("curves", name), f"has labels of its values that are off by {off:.2g} pixels")

    def elsewhere(got, points):
        wanted = [(numpy.polyval(steps, step), numpy.polyval(fit, float(scale(v)))) for step, v in points]
        return len(got) != len(wanted) or any(abs(x - u) > 2 * PIXELS or abs(y - v) > 2 * PIXELS * max(1, abs(v) / 300)
                                              for (x, y), (u, v) in zip(got, wanted))

    seen = [0] * report["n"]
    for m, got in drawn.lines:
        if elsewhere(got, lines[seen[m]][m]):
            ledger.found(("curves", name), f"has the points of model {m} elsewhere than its values are")
        seen[m] += 1
    groups = groups_of(report)
    for title, median, band in drawn.groups:
        models = groups.get(title.removesuffix(", training"))
        of = lines[-1] if title.endswith(", training") else lines[0]
        if models is None:
            ledger.found(("curves", name), f"has the group {title}, expected one of {sorted(groups)}")
            continue
        at = {}
        for m in models:
            for step, value in of[m]:
                at.setdefault(step, []).append(value)
        low, middle, high = ([(step, float(numpy.quantile(at[step], q))) for step in sorted(at)] for q in (0.25, 0.5, 0.75))
        if elsewhere(median, middle) or elsewhere(band, [*high, *reversed(low)] if len(models) > 1 and len(at) > 1 else []):
            ledger.found(("curves", name), f"has the median or the quartiles of {title} elsewhere than they are")
    wanted, got = sorted(groups) if name != "train_loss" else [], drawn.legend
    if len(wanted) > COLOURS:
        named, rest = got[:-1], f"{len(wanted) - COLOURS + 1} other configurations, each model a faint line"
        right = len(got) == COLOURS and rest.startswith(got[-1].rstrip("…"))
    else:
        named, right = got, len(got) == len(wanted)
    if not right or not all(any(name.startswith(one.rstrip("…")) for name in wanted) for one in named):
        ledger.found(("curves", name), f"has the legend {drawn.legend}, expected {wanted}")


def number(text):
    """A label of an axis."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
