"""Every number that `report`, `compare`, `predict` and the end of `train` print or write."""
import csv
import json
import math
import re

import numpy
import torch

from . import spreads
from .file_checks import cell, kind_of
from .ledger import CONSISTENT, LOOPED, RECOMPUTED, Ledger
from .pages import page_fields
from .report_checks import configs
from .truth import TIMES

NUMBER = r"-?[\d.]+(?:e[-+]\d+)?|nan|-?inf"
SPREAD = rf"(?:(?P<mean>{NUMBER}) ± (?P<sd>{NUMBER}) \[(?P<low>{NUMBER}), (?P<high>{NUMBER})\], middle half (?P<iqm>{NUMBER})|(?P<one>{NUMBER})|-)"


def spread_pattern(prefix):
    return re.sub(r"\?P<(\w+)>", lambda match: f"?P<{prefix}_{match[1]}>", SPREAD)


HEAD = re.compile(r"(?P<net>\S+) · (?P<n>\d+) models · step (?P<step>\d+) of (?P<steps>\d+) · (?P<time>[\d.]+) (?P<unit>ns|us|ms|s) · "
                  r"(?P<statuses>.+)")
CONFIG = re.compile(rf"  (?P<name>.+?) +n (?P<n>\d+) +(?P<metric>\S+) {spread_pattern('value')}(?:  test {spread_pattern('test')})?")
MEAN = re.compile(rf"  their mean answer +n (?P<n>\d+) +(?P<metric>\S+) (?P<value>{NUMBER}) of the (?P<rows>validation|test) rows")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def digits(text, value, significant=4):
    """Whether `text` is `value` in so many significant digits."""
    if value == 0 or not math.isfinite(value):
        return float(text) == value
    return abs(float(text) - value) <= 0.5001 * 10 ** (math.floor(math.log10(abs(value))) - significant + 1)


class Words:
    """A text whose lines are read one by one; a number that no pattern reads is in no class."""

    def __init__(self, name, lines, findings):
        self.ledger = Ledger(name, dict(enumerate(lines)), findings)

    def read(self, at, kind, found, checks):
        """`checks`: (what, whether it is right)."""
        self.ledger.claim(kind, (at,))
        for what, right in checks:
            if not right:
                self.ledger.found((at,), f"{what} is wrong in {found[0].strip()!r}")


def spread_checks(groups, prefix, got):
    """`got`: a {mean, sd, iqm, ci95} of the JSON report, held by itself."""
    said = {key[len(prefix) + 1:]: text for key, text in groups.items() if key.startswith(prefix + "_") and text is not None}
    if "one" in said:
        return [(prefix, got is not None and got["sd"] is None and digits(said["one"], got["mean"]))]
    if not said:
        return [(prefix, got is None or got["mean"] is None)]
    if got is None or got["sd"] is None:
        return [(prefix, False)]
    return [(f"{prefix} {key}", digits(said[key], value, 2 if key == "sd" else 4)) for key, value in
            (("mean", got["mean"]), ("sd", got["sd"]), ("low", got["ci95"][0]), ("high", got["ci95"][1]), ("iqm", got["iqm"]))]


def report_text(name, text, report, configurations, answering, findings):
    """What `report` prints of a run: `configurations` as its JSON has them."""
    words = Words(name, text.splitlines(), findings)
    left, means, notes = list(configurations), [], list(report["notes"])
    for at, line in enumerate(text.splitlines()):
        if found := HEAD.fullmatch(line):
            statuses = [m["status"] for m in report["models"]]
            wanted = ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))
            seconds = float(found["time"]) * UNITS[found["unit"]]
            words.read(at, LOOPED, found, [("network", found["net"] == report["network"]), ("models", int(found["n"]) == report["n"]),
                                           ("step", int(found["step"]) == report["run"]["step"]), ("statuses", found["statuses"] == wanted),
                                           ("steps", int(found["steps"]) == report["run"]["steps"]),
                                           ("time", abs(seconds - report["run"]["seconds"]) <= 0.006 * seconds)])
        elif found := MEAN.fullmatch(line):
            value = report["ensemble"][found["rows"]].get(found["metric"])
            words.read(at, RECOMPUTED, found, [("models", int(found["n"]) == answering), ("metric", found["metric"] == report["monitor"]["name"]),
                                               ("value", value is not None and digits(found["value"], value))])
            means.append(found["rows"])
        elif notes and line.strip() == notes[0].strip():
            words.ledger.claim(RECOMPUTED, (at,))  # held in report.json
            notes.pop(0)
        elif found := CONFIG.fullmatch(line):
            config = left.pop(0) if left else {"hyperparameters": {}, "n": -1, "metric": "", "mean": None, "test": None}
            said = " ".join(f"{key}={value:.4g}" for key, value in config["hyperparameters"].items()) or "all models"
            words.read(at, RECOMPUTED, found, [
                ("name", found["name"] == said), ("n", int(found["n"]) == config["n"]), ("metric", found["metric"] == config["metric"]),
                *spread_checks(found.groupdict(), "value", config), *spread_checks(found.groupdict(), "test", config["test"])])
    wanted = [rows for rows in ("validation", "test") if report["n"] > 1 and report["monitor"]["name"] in report["ensemble"][rows]]
    if left or notes or means != wanted:
        words.ledger.found((), f"lacks {len(left)} configurations, {notes} and mean answers of {wanted}")
    words.ledger.close()


def table(name, rows, job, report, findings):
    """A row a model, as in report.json: what `report --csv` writes."""
    ledger = Ledger(name, rows, findings)
    tested = {key for said in report["models"] for key in said["test"]}
    for said, row in zip(report["models"], range(len(rows))):
        wanted = {"model": said["model"], "name": said["name"], "config": said["config"], "fold": said["fold"],
                  **{"seed." + kind: seed for kind, seed in said["seeds"].items()}, **said["hyperparameters"],
                  "status": said["status"], "at_step": said["at_step"], **{f"test.{key}": said["test"].get(key) for key in tested}}
        if any(m["best"] for m in report["models"]):
            for key in ("step", "train_loss", *job.asked.metrics):
                wanted["best." + key] = said["best"] and said["best"].get(key)
        for key, value in wanted.items():
            cell(ledger, (row, key), value, kind_of(key.replace("best.step", "best_step")))
    if len(rows) != len(report["models"]):
        ledger.found((), f"has {len(rows)} rows, expected {len(report['models'])}")
    ledger.close()


def json_of_report(name, text, wanted, job, truth, findings, keys=None):
    """The whole report again; by other hyperparameters with other configurations."""
    got = json.loads(text)
    ledger = Ledger(name, got, findings)
    for key, value in wanted.items():
        if key != "configs" or keys is None:
            ledger.expect(RECOMPUTED, (key,), value)
    if keys is not None:
        configs(ledger, got["configs"], job, truth, wanted, keys)
    ledger.close()


def stored_json(text, report, findings):
    """As the store has it: without times of evaluations, and a model that did not run is null."""
    wanted = dict(report, history=[{key: value for key, value in row.items() if key not in ("epoch", "seconds") and
                                    not (isinstance(value, list) and set(value) == {None})} for row in report["history"]])
    got = json.loads(text)
    wanted["history"] = [row for row in wanted["history"] if len(row) > 1]
    if "--resume" in report["run"]["command"]:
        wanted["environment"] = got["environment"]  # of the first start
    ledger = Ledger("report run:N --json", got, findings)
    for key, value in wanted.items():
        ledger.expect(RECOMPUTED, (key,), value)
    ledger.close()


def compare(job, evidence, findings):
    """Models paired by configuration, seeds and fold: means over the pairs, and the spread of what changed."""
    if evidence.other is None:
        return
    name, more = evidence.report["monitor"]["name"], evidence.report["monitor"]["more_is_better"]

    def by_key(report):
        return {json.dumps([m["hyperparameters"], m["seeds"], m["fold"]], sort_keys=True): m for m in report["models"]}
    before, after = by_key(evidence.report), by_key(evidence.other)
    both = [key for key in after if key in before and before[key]["best"] and after[key]["best"]]
    was, now = ([models[key]["best"][name] for key in both] for models in (before, after))
    changes = [b - a for a, b in zip(was, now)]
    said = json.loads(evidence.said["compare_json"])
    ledger = Ledger("compare --json", said, findings)
    spread = spreads.spread(changes)
    low, high = said["change"]["ci95"]
    better = low > 0 if more else high < 0
    worse = high < 0 if more else low > 0
    wanted = {"schema": 1, "metric": name, "paired_by": "configuration", "pairs": len(both),
              "alone": len(before) + len(after) - 2 * len(both), "before": float(numpy.mean(was)), "after": float(numpy.mean(now)),
              "change": spread, "verdict": "BETTER" if better else "WORSE" if worse else "SAME"}
    scale = 1e-12 * max(1.0, *(abs(v) for v in [*was, *now]))
    ledger.expect(RECOMPUTED, (), wanted, scale)
    for i in range(2):
        ledger.claim(RECOMPUTED, ("change", "ci95", i))
    if not spreads.interval_holds([low, high], changes, scale):
        ledger.found(("change", "ci95"), f"got {[low, high]}, expected a bootstrapped interval of {changes}")
    ledger.close()
    lines = evidence.said["compare"].splitlines()
    words = Words("compare", lines, findings)
    pattern = re.compile(rf"(?P<verdict>[A-Z]+) (?P<metric>\S+) over (?P<pairs>\d+) pairs of models: (?P<before>{NUMBER}) -> "
                         rf"(?P<after>{NUMBER}), change {spread_pattern('change')}")
    for at, line in enumerate(lines):
        if found := pattern.fullmatch(line):
            words.read(at, RECOMPUTED, found, [
                ("verdict", found["verdict"] == said["verdict"]), ("metric", found["metric"] == name),
                ("pairs", int(found["pairs"]) == said["pairs"]), ("before", digits(found["before"], said["before"])),
                ("after", digits(found["after"], said["after"])), *spread_checks(found.groupdict(), "change", said["change"])])
        elif found := re.fullmatch(r"(\d+) models? ha(?:ve|s) no partner", line):
            words.read(at, RECOMPUTED, found, [("models", int(found[1]) == said["alone"])])
    if (said["alone"] > 0) != ("no partner" in evidence.said["compare"]):
        words.ledger.found((), "does not say whether models have no partner")
    words.ledger.close()


def predictions(job, truth, evidence, findings):
    for number, prediction in enumerate(evidence.predictions):
        predicted(f"predict {number} {' '.join(prediction.options)}", prediction, job, truth, evidence.report, findings)


def predicted(name, prediction, job, truth, report, findings):
    said = dict(zip(prediction.options[::2], prediction.options[1::2]))
    reduce, use = said.get("--reduce", "mean"), said.get("--use", "best")
    models = job.models if reduce == "none" else truth.answering()
    left_out = len(job.models) - len(models)
    top = int(said.get("--top", 0))
    if 0 < top < len(job.models):
        sign = -1 if job.asked.more_is_better else 1
        values = {m.number: report["models"][m.number]["best"] for m in models}
        models = sorted(models, key=lambda m: sign * values[m.number][job.asked.monitor] if values[m.number] else math.inf)[:top]
        models = sorted(models, key=lambda m: m.number)
    part = job.rows_to_predict(prediction.file)
    rows = list(range(part.count))

    def answers(dtype):
        each = []
        for model in models:
            scorer = job.scorer(model)
            x = truth.outputs(use, model, part, rows, dtype)[scorer.answer].double()
            apply = {"softmax": lambda x: x.softmax(1), "sigmoid": torch.sigmoid, "none": lambda x: x}
            each.append(apply.get(said.get("--apply"), scorer.probabilities)(x))
        stacked = torch.stack(each)
        if reduce == "mean":
            return stacked.mean(0)
        if reduce == "std":
            return stacked.std(0) if len(models) > 1 else torch.zeros_like(stacked[0])
        if reduce == "vote":
            return torch.nn.functional.one_hot(stacked.argmax(2), stacked.shape[2]).sum(0).argmax(-1)
        return stacked
    exact, rounded = answers(torch.float64).numpy(), answers(job.dtype).numpy()
    columns = None
    if prediction.head is not None:
        exact, rounded, names = as_table(exact, rounded, [m.number for m in models] if reduce == "none" else None)
        columns = ["row", *names]
    # Where the run's precision has no number, none is expected.
    gone = ~numpy.isfinite(rounded)
    wanted, got = numpy.where(gone, 0, exact), prediction.values
    tolerance = TIMES * abs(wanted - numpy.where(gone, 0, rounded)) + truth.share * numpy.maximum(1, abs(wanted))
    if gone.any():
        wanted, got = numpy.where(gone, numpy.nan, wanted), numpy.where(gone & ~numpy.isfinite(got), numpy.nan, got)
    if reduce == "vote":
        tolerance = 0
    ledger = Ledger(name, {"values": got, "columns": prediction.head, "line": prediction.line}, findings)
    ledger.expect(CONSISTENT, ("columns",), columns)
    ledger.expect(RECOMPUTED, ("values",), wanted, tolerance)
    ledger.claim(RECOMPUTED, ("line",))
    line = re.fullmatch(r"(\d+) rows by (\d+) models?(?: \((\d+) without a finite value left out\))?(?:, (\w+))? -> .*\n", prediction.line)
    if not line or (int(line[1]), int(line[2]), int(line[3] or 0), line[4] or "none") != (part.count, len(models), left_out, reduce):
        ledger.found(("line",), f"got {prediction.line!r}, expected {part.count} rows, {len(models)} models, {left_out} left out")
    ledger.close()


def as_table(exact, rounded, models):
    """(both as the rows of a CSV, which begin with the row's number, and the names of the other columns)."""
    count = exact.shape[0 if models is None else 1]
    flat = [(x if models is None else numpy.moveaxis(x, 0, 1)).reshape(count, -1).astype(float) for x in (exact, rounded)]
    each = flat[0].shape[1] // (1 if models is None else len(models))
    names = [f"model.{m}.{k}" for m in models for k in range(each)] if models is not None else \
        ["prediction"] if each == 1 else [str(k) for k in range(each)]
    return *(numpy.concatenate([numpy.arange(count)[:, None], x], 1) for x in flat), names


def outputs(job, truth, evidence, findings):
    report, said = evidence.report, evidence.said
    answering = len(truth.answering())
    report_text("report", said["text"], report, report["configs"], answering, findings)
    by = json.loads(said["by_json"])
    report_text("report --by", said["by"], report, by["configs"], answering, findings)
    json_of_report("report --json", said["json"], report, job, truth, findings)
    json_of_report("report --by --json", said["by_json"], report, job, truth, findings, keys=[evidence.by])
    if "stored_json" in said:
        stored_json(said["stored_json"], report, findings)
    table("report --csv", list(csv.DictReader(said["csv"].splitlines())), job, report, findings)
    page(said["html"], said["text"], job, report, findings)
    if said["text"] not in said["train"]:
        findings.append("train: the end of what it printed is not what report says")
    compare(job, evidence, findings)


def page(text, said, job, report, findings):
    """The page of --html: the text that `report` prints, in one line, a table, and curves, whose points are one affine picture of
    the history."""
    fields = page_fields(text)
    ledger = Ledger("report --html", {"texts": [f"{where} {words}" for where, words in fields.texts], "tables": len(fields.tables),
                                      "curves": {name: len(lines) for name, lines in fields.curves.items()}}, findings)
    steps = f"{report['n']} models, {report['run']['step']} steps of {report['batch']}"
    wanted = {"title": [report["network"]], "h1": [report["network"]], "p": [steps], "h2": ["Configurations", "Curves", "Models"],
              "h3": list(fields.curves)}
    for i, (where, words) in enumerate(fields.texts):
        if where == "pre" and words == report["run"]["command"]:
            ledger.claim(CONSISTENT, ("texts", i))
        elif where == "pre":
            ledger.expect(RECOMPUTED, ("texts", i), f"pre {said.replace(chr(10), ' ')}")
        elif where == "svg":
            ledger.claim(LOOPED, ("texts", i))
        elif words in wanted.get(where, []):
            ledger.claim(RECOMPUTED, ("texts", i))
    ledger.expect(RECOMPUTED, ("tables",), 1)
    curves = {name for row in report["history"] for name, value in row.items() if isinstance(value, list) and set(value) != {None}}
    for name in fields.curves:
        lines = {m: [(row["step"], row[name][m]) for row in report["history"] if row.get(name, [None] * (m + 1))[m] is not None]
                 for m in range(report["n"])}
        lines = {m: points for m, points in lines.items() if points}
        ledger.expect(LOOPED, ("curves", name), len(lines))
        curve(ledger, name, fields.curves[name], lines, fields.labels[name])
    if set(fields.curves) != curves:
        ledger.found(("curves",), f"got {sorted(fields.curves)}, expected {sorted(curves)}")
    ledger.close()
    if fields.tables:
        head, *rows = fields.tables[0]
        table("report --html table", [dict(zip(head, row)) for row in rows], job, report, findings)


def curve(ledger, name, drawn, lines, labels):
    """Points lie where one affine map takes (step, value); the labels name the ends of the axes."""
    if set(drawn) != set(lines) or any(len(drawn[m]) != len(lines[m]) for m in lines):
        ledger.found(("curves", name), "has other lines or points than the history")
        return
    got, wanted = (numpy.array([point for m in sorted(lines) for point in which[m]], dtype=float) for which in (drawn, lines))
    for axis, what in ((0, "steps"), (1, "values")):
        if numpy.ptp(wanted[:, axis]) == 0:
            continue
        fit = numpy.polyfit(wanted[:, axis], got[:, axis], 1)
        if abs(numpy.polyval(fit, wanted[:, axis]) - got[:, axis]).max() > 0.11 or numpy.sign(fit[0]) != (1, -1)[axis]:
            ledger.found(("curves", name), f"has points that are not at their {what}")
    numbers = [text for text in labels if not text.startswith("step ")]
    ends = [wanted[:, 1].max(), wanted[:, 1].min()]
    if len(numbers) != 2 or not all(digits(text, value) for text, value in zip(numbers, ends)) and ends[0] != ends[1]:
        ledger.found(("curves", name), f"has the labels {numbers}, expected {ends}")
