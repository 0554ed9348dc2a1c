"""Every field of models.csv, split.npz, oof.npz, the checkpoints, the store and the files of --log."""
import json
import math

import numpy
import torch

from .ledger import CONSISTENT, LOOPED, RECOMPUTED, Ledger
from .report_checks import ENVIRONMENT, environment, resumed
from .truth import TIMES

FLOAT32 = 6e-8  # relative rounding of one number


def checkpoints(job, truth, evidence, decisions, findings):
    """Weights of the best step and of the last one, as the independent loop has them."""
    ledger = Ledger("checkpoints", {f"{kind}/{m}": state for (kind, m), state in evidence.checkpoints.items()}, findings)
    files = {(kind, m) for m in kept(job, evidence.report) for kind in ("best", "last") if kind == "last" or decisions.best[m] is not None}
    if evidence.files != files:
        ledger.found((), f"lie in files of {sorted(evidence.files)}, expected {sorted(files)}")
    for model in job.models:
        m = model.number
        exact, other = job.trajectories[m]
        for kind in ("best", "last"):
            step = decisions.best_step[m] if kind == "best" else decisions.at_step[m]
            if step is None:
                if (kind, m) in evidence.checkpoints:
                    ledger.found((kind, m), "is there for a model that has no best")
                continue
            if kind == "last" and decisions.status[m] == "diverged":
                pair = (exact.last_weights if exact.diverged == step else other.last_weights), other.last_weights
            else:
                pair = exact.evaluations[step].weights, other.evaluations[step].weights
            for name, wanted in pair[0].items():
                rounded = pair[1][name].double()
                tolerance = float((wanted.double() - rounded).abs().max()) * TIMES + truth.share * max(1.0, float(rounded.abs().max()))
                got = evidence.checkpoints.get((kind, m), {}).get(name)
                path = (f"{kind}/{m}", name)
                if not ledger.claim(LOOPED, path):
                    continue
                if got.dtype != (job.dtype if wanted.is_floating_point() else wanted.dtype) or \
                        not bool(((got.double() - wanted.double()).abs() <= tolerance).all()):
                    ledger.found(path, f"are not the weights of step {step} within {tolerance:.2g}")
    ledger.close()


def kept(job, report):
    """The models whose checkpoints are written: all, or the best ones of --keep."""
    models, keep = list(range(len(job.models))), job.asked.options.keep
    sign, name = -1 if job.asked.more_is_better else 1, job.asked.monitor
    values = [sign * m["best"][name] if m["best"] else math.inf for m in report["models"]]
    return sorted(models, key=lambda m: values[m])[:keep] if keep else models


def models_csv(job, report, evidence, findings):
    """What report.json says of each model, whose fields are held by themselves."""
    ledger = Ledger("models.csv", evidence.models_csv, findings)
    for model, said in zip(job.models, report["models"]):
        wanted = {"model": said["model"], "name": said["name"], "config": said["config"], "fold": said["fold"],
                  **{"seed." + kind: seed for kind, seed in said["seeds"].items()}, **said["hyperparameters"], **said["labels"],
                  "status": said["status"], "at_step": said["at_step"], "best_step": said["best"] and said["best"]["step"]}
        for name in job.asked.metrics:
            wanted["best." + name] = said["best"] and said["best"].get(name)
        for key, value in wanted.items():
            cell(ledger, (model.number, key), value, kind_of(key))
    ledger.close()


def kind_of(column):
    return LOOPED if column in ("status", "at_step", "best_step") or column.endswith("train_loss") else RECOMPUTED


def cell(ledger, path, wanted, kind, tolerance=1e-15):
    """A cell of a table: text, a number in full, or nothing."""
    if not ledger.claim(kind, path):
        return
    got = ledger.fields[path]
    if wanted is None or isinstance(wanted, str):
        right = got == (wanted or "")
    else:
        try:
            right = abs(float(got) - wanted) <= tolerance * abs(wanted)
        except ValueError:
            right = False
    if not right:
        ledger.found(path, f"got {got!r}, expected {wanted!r}")


def split(job, evidence, findings):
    ledger = Ledger("split.npz", evidence.split, findings)
    data = job.data
    wanted = {"fold": data.fold_of} if data.folds else {"train": data.train[0]}
    if not data.folds and job.validated:
        wanted["validation"] = data.validation[0]
    if data.test:
        wanted["test"] = data.test
    for name, rows in wanted.items():
        ledger.expect(RECOMPUTED, (name,), numpy.asarray(rows, dtype="int64"))
    ledger.close()
    options = job.asked.options
    if options.group:
        side = data.fold_of if data.folds else numpy.isin(numpy.arange(data.main.count), data.validation[0])
        groups = data.main.columns[options.group]
        torn = [g for g in set(groups) if len(set(side[(groups == g) & (side >= 0)])) > 1 and not data.validation_file]
        if torn:
            ledger.found((), f"tears the groups {torn}")


def out_of_fold(job, truth, evidence, findings):
    if not job.data.folds:
        if evidence.oof is not None:
            findings.append("oof.npz: is there without folds")
        return
    data, models = job.data, job.models
    ledger = Ledger("oof.npz", evidence.oof or {}, findings)
    sets = []
    for model in models:
        own = next((s for s in sets if models[next(iter(s.values()))].config == model.config and model.fold not in s), None)
        if own is None:
            sets.append(own := {})
        own[model.fold] = model.number
    ledger.expect(RECOMPUTED, ("model",), numpy.array([[s.get(f, -1) for f in range(data.folds)] for s in sets]))
    ledger.expect(RECOMPUTED, ("fold",), numpy.asarray(data.fold_of, dtype="int64"))
    target = data.main.target
    ledger.expect(RECOMPUTED, ("target",), numpy.zeros(0, "int64") if target is None or "target" in data.main.own else target.numpy())
    wanted = tolerance = None
    for s, own in enumerate(sets):
        for fold, m in own.items():
            rows = data.validation[fold]
            scorer = job.scorer(models[m])
            exact, rounded = (scorer.probabilities(truth.outputs("best", models[m], data.main, rows, dtype)[scorer.answer]).double()
                              for dtype in (torch.float64, job.dtype))
            if wanted is None:
                wanted = numpy.full((len(sets), data.main.count, *exact.shape[1:]), numpy.nan)
                tolerance = numpy.zeros_like(wanted)
            said = evidence.report["models"][m]
            if said["status"] == "diverged" and not said["best"]:
                continue  # it predicts nothing
            wanted[s, rows] = exact
            tolerance[s, rows] = TIMES * float((exact - rounded).abs().max()) + truth.share * max(1.0, float(exact.abs().max()))
    ledger.expect(RECOMPUTED, ("prediction",), wanted, tolerance)
    ledger.close()


def store(job, evidence, findings):
    """The rows of the store say what report.json says."""
    if evidence.store is None:
        return
    report, tables = evidence.report, evidence.store
    ledger = Ledger("store", tables, findings)
    head, more = tables["run"], json.loads(tables["run"]["more"])
    ledger.hold(("run", "id"), lambda v: str(v) == report["run"]["id"], "the report's")
    ledger.hold(("run", "uuid"), lambda v: len(v) == 32 and int(v, 16) >= 0, "32 digits")
    for key, value in (("name", report["run"]["name"]), ("network", report["network"]), ("n", report["n"])):
        ledger.expect(RECOMPUTED, ("run", key), value)
    ledger.expect(LOOPED, ("run", "state"), report["run"]["state"])
    ledger.hold(("run", "environment"), lambda v: v == tables["environment"]["id"], "a row of the environments")
    ledger.hold(("run", "started"), lambda v: v <= head["finished"], "before it finished")
    ledger.hold(("run", "finished"), lambda v: v >= head["started"], "after it started")
    ledger.hold(("run", "owner"), lambda v: v != "", "a process")
    ledger.claim(RECOMPUTED, ("run", "more"))
    apart = {key: value for key, value in report.items() if key not in ("models", "events", "history", "environment")}
    if more != apart:
        wrong = [key for key in {*more, *apart} if more.get(key) != apart.get(key)]
        ledger.found(("run", "more"), f"differs from the report in {wrong}")
    again = resumed(report)
    stored = json.loads(tables["environment"]["more"])
    row = {key: value for key, value in tables["environment"].items() if key not in ("id", "more")}
    for key in row:
        ledger.hold(("environment", key), lambda v, key=key: again or v == (
            report["environment"]["cpu"]["model"] if key == "cpu" else report["environment"]["cpu"]["cores"] if key == "cores"
            else report["environment"][key]), "as in the report")
    ledger.hold(("environment", "id"), lambda v: v >= 1, "a number")
    ledger.claim(CONSISTENT, ("environment", "more"))
    beside = Ledger("store environment.more", stored, findings)
    environment(beside, (), ENVIRONMENT)
    beside.close()
    for m, said in enumerate(report["models"]):
        path = ("models", m)
        ledger.expect(CONSISTENT, (*path, "run"), head["id"])
        for key in ("model", "config", "fold"):
            ledger.expect(RECOMPUTED, (*path, key), said[key])
        for key in ("status", "at_step"):
            ledger.expect(LOOPED, (*path, key), said[key])
        ledger.claim(RECOMPUTED, (*path, "more"))
        if json.loads(tables["models"][m]["more"]) != said:
            ledger.found((*path, "more"), "differs from the report")
    numbers = {(row["step"], m, name): value for row in report["history"] for name, values in row.items() if isinstance(values, list)
               for m, value in enumerate(values) if value is not None}
    seen = set()
    for i, row in enumerate(tables["metrics"]):
        key = (row["step"], row["model"], row["metric"])
        for column in ("run", "model", "metric", "step", "value"):
            ledger.claim(LOOPED if column != "run" else CONSISTENT, ("metrics", i, column))
        if key in seen or row["run"] != head["id"] or numbers.get(key) != row["value"]:
            ledger.found(("metrics", i), f"got {dict(row)}, expected {numbers.get(key)}, once")
        seen.add(key)
    if seen != set(numbers):
        ledger.found(("metrics",), f"lack {sorted(set(numbers) - seen)[:5]}")
    rows_of_events(ledger, tables["events"], report, head["id"])
    ledger.close()


def rows_of_events(ledger, rows, report, run):
    if not rows:
        ledger.expect(LOOPED, ("events",), [])
    for i, row in enumerate(rows):
        for column in row:
            ledger.claim(CONSISTENT if column in ("id", "run") else LOOPED, ("events", i, column))
        if row["run"] != run:
            ledger.found(("events", i, "run"), "is another run")
    got = [{key: row[key] for key in ("step", "model", "what")} for row in rows]
    if got != report["events"]:
        ledger.found(("events",), f"got {got}, expected {report['events']}")


def log(job, evidence, findings):
    """A row a model and evaluation, while it ran; numbers as the report has them, TensorBoard's in float32."""
    if evidence.log is None:
        return
    ledger = Ledger("log", evidence.log, findings)
    report = evidence.report
    wanted = [(row, m) for row in report["history"] for m in range(len(job.models))
              if any(values[m] is not None for values in row.values() if isinstance(values, list))]
    if isinstance(evidence.log, dict):
        return tensorboard(ledger, job, evidence, wanted)
    if len(evidence.log) != len(wanted):
        ledger.found((), f"got {len(evidence.log)} rows, expected {len(wanted)}")
    for i, (row, m) in enumerate(wanted[:len(evidence.log)]):
        said = {"step": row["step"], "epoch": row["epoch"], "seconds": row["seconds"], "model": m,
                **{name: values[m] for name, values in row.items() if isinstance(values, list)}}
        for key, value in said.items():
            kind = CONSISTENT if key == "seconds" else RECOMPUTED if key in ("epoch", "model") else LOOPED
            if isinstance(evidence.log[i].get(key), str):  # a CSV, in six digits where it is a time
                got = evidence.log[i][key]
                nothing = value is None and got in ("nan", "inf", "-inf")
                cell(ledger, (i, key), got if nothing else value, kind, 6e-6 if key in ("epoch", "seconds") else 1e-15)
            else:
                ledger.expect(kind, (i, key), value)
    ledger.close()
    return None


def tensorboard(ledger, job, evidence, wanted):
    for model in job.models:
        m = model.number
        head, session, *events = evidence.log[m]
        hyper = {**model.hyper, "seed": model.seed, **{"seed." + kind: seed for kind, seed in model.seeds.items()}, **model.labels}
        if model.fold is not None:
            hyper["fold"] = model.fold
        if model.name:
            hyper["name"] = model.name.encode()
        for i, one in enumerate(evidence.log[m]):
            ledger.hold((m, i, "time"), lambda v, i=i: i == 0 or v >= evidence.log[m][i - 1]["time"], "no earlier than the one before")
            if one["hyperparameters"] is None:
                ledger.expect(CONSISTENT, (m, i, "hyperparameters"), None)
            ledger.expect(CONSISTENT, (m, i, "version"), "brain.Event:2" if one is head else None)
            if one in (head, session):
                ledger.expect(CONSISTENT, (m, i, "step"), 0)
                ledger.expect(CONSISTENT, (m, i, "values"), {})
        for key, value in hyper.items():
            value = value.encode() if isinstance(value, str) else value
            ledger.expect(RECOMPUTED, (m, 1, "hyperparameters", key), float(value) if not isinstance(value, bytes) else value, 1e-12)
        rows = [row for row, own in wanted if own == m]
        if len(rows) != len(events):
            ledger.found((m,), f"got {len(events)} evaluations, expected {len(rows)}")
        for i, row in enumerate(rows[:len(events)], 2):
            ledger.expect(LOOPED, (m, i, "step"), row["step"])
            for name, values in row.items():
                if isinstance(values, list) and not (name == "train_loss" and values[m] is None):
                    value = math.nan if values[m] is None else float(numpy.float32(values[m]))
                    ledger.expect(LOOPED, (m, i, "values", name), value, FLOAT32 * abs(value) if not math.isnan(value) else 0)
    ledger.close()
