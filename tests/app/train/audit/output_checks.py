"""Every number that `report`, `compare`, `predict` and the end of `train` print or write."""
import csv
import json
import math

import numpy
import torch

from . import spreads
from .ledger import CONSISTENT, RECOMPUTED, Ledger
from .page_checks import page, table
from .report_checks import configs, resumed
from .texts import comparison, summary
from .truth import TIMES


def lines(name, got, wanted, findings):
    """A text, line by line: one that is not expected is in no class."""
    ledger = Ledger(name, dict(enumerate(got)), findings)
    for i, line in enumerate(wanted):
        ledger.expect(RECOMPUTED, (i,), line)
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
    if resumed(report):
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
        return {json.dumps([m["hyperparameters"], m["seeds"], m["fold"]], sort_keys=True): m for m in report["models"]
                if m["status"] != "pruned"}
    pruned = sum(m["status"] == "pruned" for report in (evidence.report, evidence.other) for m in report["models"])
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
              "alone": len(before) + len(after) - 2 * len(both), "pruned": pruned, "differences": [], "before": float(numpy.mean(was)), "after": float(numpy.mean(now)),
              "change": spread, "verdict": "UNCLEAR" if len(both) == 1 and any(changes) else "BETTER" if better else "WORSE" if worse else "SAME"}
    scale = 1e-12 * max(1.0, *(abs(v) for v in [*was, *now]))
    ledger.expect(RECOMPUTED, (), wanted, scale)
    for i in range(2):
        ledger.claim(RECOMPUTED, ("change", "ci95", i))
    wider = spreads.widening(len(changes)) if len(changes) > 1 else 1
    if not spreads.interval_holds([low, high], changes, scale, wider):
        ledger.found(("change", "ci95"), f"got {[low, high]}, expected a bootstrapped interval of {changes}, {wider:.3g} times as wide")
    ledger.close()
    lines("compare", evidence.said["compare"].splitlines(), comparison(said), findings)


def predictions(job, truth, evidence, findings):
    for number, prediction in enumerate(evidence.predictions):
        predicted(f"predict {number} {' '.join(prediction.options)}", prediction, job, truth, evidence.report, findings)


def predicted(name, prediction, job, truth, report, findings):
    said = dict(zip(prediction.options[::2], prediction.options[1::2]))
    reduce, use = said.get("--reduce", "mean"), said.get("--use", "best")
    models = job.models if reduce == "none" else truth.answering()
    left_out = truth.left_out() if reduce != "none" else ""
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
    wanted = f"{part.count} rows by {len(models)} models{f' ({left_out})' if left_out else ''}" + ("" if reduce == "none" else f", {reduce}")
    if not prediction.line.startswith(wanted + " -> ") or prediction.line.count("\n") != 1:
        ledger.found(("line",), f"got {prediction.line!r}, expected {wanted}")
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
    by = json.loads(said["by_json"])
    lines("report", said["text"].splitlines(), summary(report, report["configs"], answering, job), findings)
    lines("report --by", said["by"].splitlines(), summary(report, by["configs"], answering, job), findings)
    json_of_report("report --json", said["json"], report, job, truth, findings)
    json_of_report("report --by --json", said["by_json"], report, job, truth, findings, keys=[evidence.by])
    if "stored_json" in said:
        stored_json(said["stored_json"], report, findings)
    table("report --csv", list(csv.DictReader(said["csv"].splitlines())), job, report, findings)
    page(said["html"], job, report, answering, findings)
    if said["text"] not in said["train"]:
        findings.append("train: the end of what it printed is not what report says")
    compare(job, evidence, findings)
