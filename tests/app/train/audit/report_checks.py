"""Every field of report.json, and of a run as the store keeps it."""
import re

import torch

from .ledger import CONSISTENT, LOOPED, RECOMPUTED, Ledger
from .spreads import interval_holds
from .truth import Decisions


def resumed(report):
    return any(note.startswith("resumed at step ") for note in report["notes"])


def text(value):
    return isinstance(value, str)


def count(value):
    return isinstance(value, int) and value >= 0


def number(value):
    return isinstance(value, (int, float)) and value >= 0


def number_or_none(value):
    return value is None or number(value)


ENVIRONMENT = {
    ("cpu", "model"): text, ("cpu", "cores"): count, ("cpu", "governor"): text, ("cpu", "mhz"): number_or_none,
    ("cpu", "max_mhz"): number_or_none, ("cpu", "temperature_c"): number_or_none, ("cpu", "throttles"): number_or_none,
    ("cpu", "load"): number, ("threads",): lambda v: v >= 1, ("memory_bytes",): lambda v: v > 1 << 20,
    ("gpu",): lambda v: v is None or text(v), ("gpu_note",): text, ("libtorch",): lambda v: re.match(r"\d+\.\d+", v),
    ("workbench",): text, ("git",): text, ("host",): text, ("os",): text,
    ("date",): lambda v: re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", v), ("command",): text,
}


def environment(ledger, prefix, fields):
    for path in [p for p in ledger.fields if p[:len(prefix)] == prefix]:
        key = path[len(prefix):]
        if key[:2] == ("peaks", "flops_per_s") or key == ("peaks", "bytes_per_s"):
            ledger.hold(path, lambda v: v == {} or number_or_none(v), "a rate or none")
        elif key in fields:
            ledger.hold(path, fields[key], "what this machine says of itself")


def expect(ledger, kind, path, wanted):
    """`wanted`: a Number."""
    ledger.expect(kind, path, wanted.value, wanted.tolerance)


class ReportCheck:
    def __init__(self, job, truth, evidence, findings):
        self.job, self.truth, self.evidence = job, truth, evidence
        self.report, self.findings = evidence.report, findings
        self.diverged = [truth.diverged(model) for model in job.models]
        self.decisions = Decisions(job, self.report["history"], self.diverged)

    def check(self):
        ledger = Ledger("report.json", self.report, self.findings)
        self.head(ledger, self.report)
        environment(ledger, ("environment",), ENVIRONMENT)
        for model in self.job.models:
            self.model(ledger, ("models", model.number), model)
        self.history(ledger)
        self.events(ledger)
        configs(ledger, self.report["configs"], self.job, self.truth, self.report, self.varied())
        for which in ("validation", "test"):
            wanted = self.truth.ensemble(which) if self.wants(which) else {}
            ledger.expect(RECOMPUTED, ("ensemble", which), {}) if not wanted else None
            for name, value in wanted.items():
                expect(ledger, RECOMPUTED, ("ensemble", which, name), value)
        self.notes(ledger)
        ledger.close()

    def wants(self, which):
        return bool(self.job.data.test) if which == "test" else self.job.validated

    def varied(self):
        first = self.job.models[0].hyper
        return [key for key in sorted(first) if any(m.hyper[key] != first[key] for m in self.job.models)]

    def head(self, ledger, report):
        job, options = self.job, self.job.asked.options
        said = {"schema": 1, "kind": "run", "network": options.net, "n": len(job.models), "device": "cpu", "exact": options.exact,
                "dtype": {4: "f32", 8: "f64"}[job.dtype.itemsize], "trusted": False, "optimizer": options.optimizer,
                "loss": options.loss, "schedule": options.schedule, "batch": job.data.batch, "steps_per_epoch": job.data.steps_per_epoch,
                "no_decay": len(job.no_decay)}
        for key, value in said.items():
            ledger.expect(RECOMPUTED, (key,), value)
        ledger.expect(RECOMPUTED, ("frozen",), sorted(job.frozen))
        ledger.expect(RECOMPUTED, ("monitor",), {"name": job.asked.monitor, "more_is_better": job.asked.more_is_better})
        ledger.expect(RECOMPUTED, ("defaults",), self.defaults())
        norms = sum(type(module).__name__.startswith("BatchNorm") for module in job.network.modules())
        drops = sum(isinstance(module, torch.nn.Dropout) for module in job.network.modules())
        ledger.expect(RECOMPUTED, ("switched",), {"dropout": drops, "batch_norm": norms})
        rows = sum(map(len, job.data.validation)) if job.data.folds else len(job.data.train[0])
        classes = job.classes if job.asked.classifies else None
        for path in (("network_fingerprint",), ("data", "fingerprint"), ("data", "split")):
            ledger.hold(path, lambda v: re.fullmatch("[0-9a-f]{16}", v), "16 hexadecimal digits")
        ledger.expect(RECOMPUTED, ("settings",), self.settings())
        ledger.expect(RECOMPUTED, ("data",), {
            "rows": rows, "validation_rows": len(job.data.validation[0]), "test_rows": len(job.data.test), "classes": classes,
            "folds": job.data.folds, "columns": job.data.names()})
        for path, value in (("id", report["run"]["id"]), ("name", options.name or options.net.rpartition("/")[2].rpartition(".")[0])):
            ledger.hold(("run", path), lambda got, value=value: got == value and got != "", f"{value}")
        ledger.hold(("run", "command"), lambda v: v.split()[1] == "train" and options.data in v and "--resume" not in v, "what was typed")
        ledger.expect(LOOPED, ("run", "state"), "complete")
        ledger.hold(("run", "dir"), lambda v: v == options.save, "the folder of the run")
        date = report["environment"]["date"]
        ledger.hold(("run", "started"), lambda v: v <= date if resumed(report) else v == date, "the date of the environment, or before a resume")
        ledger.expect(LOOPED, ("run", "step"), self.steps_made())
        ledger.expect(RECOMPUTED, ("run", "steps"), job.steps)
        rows = report["history"]
        ledger.hold(("run", "seconds"), lambda v: v >= max([row["seconds"] for row in rows if "seconds" in row], default=0) and v > 0,
                    "at least that of the last evaluation")
        self.sizes(ledger, report)

    def steps_made(self):
        return self.job.steps if "trained" in self.decisions.status else self.decisions.last_step

    def sizes(self, ledger, report):
        job, n = self.job, len(self.job.models)
        state = job.network.state_dict()
        item = job.dtype.itemsize
        parameters = sum(state[name].numel() for name, _ in job.network.named_parameters() if name not in job.frozen) * item
        tensors = sum(t.numel() * (item if t.is_floating_point() else t.element_size()) for t in state.values())
        moments = {"adam": 2, "adamw": 2, "rmsprop": 1, "lion": 1, "sgd": 0}[job.asked.options.optimizer]
        if job.asked.options.optimizer in ("sgd", "rmsprop"):
            moments += any(m.hyper["momentum"] for m in job.models)
        moments += any(m.hyper["ema"] for m in job.models)
        whole = n * (tensors + moments * parameters)
        # Frozen tensors that all models share are there once.
        ledger.hold(("memory", "state_bytes"), lambda v: v == whole or (job.frozen and v < whole), f"{whole} bytes")
        ledger.hold(("memory", "range_bytes"), count, "bytes")
        ledger.hold(("memory", "models_at_a_time"), lambda v: 0 <= v <= n, f"at most {n}")
        ledger.hold(("memory", "threads"), lambda v: v >= 1, "at least one thread")
        ledger.hold(("memory", "recomputed"), count, "a count")
        ledger.hold(("memory", "saved_bytes"), lambda v: (v > 0) == (report["memory"]["recomputed"] > 0), "0 where nothing is recomputed")
        ledger.hold(("recordings",), lambda v: v >= 1, "at least one")
        ledger.hold(("first_call_ns",), lambda v: v is None or v > 0, "a time")
        ledger.hold(("checked_steps",), lambda v: v == min(job.asked.options.check, report["run"]["step"]), "steps asked for, or made")
        ledger.hold(("loop_seconds",), lambda v: v is None or v > 0, "a time")
        ledger.expect(CONSISTENT, ("results",), [])

    def settings(self):
        """Options as they were said, without those that have a place of their own in the report."""
        options = self.job.asked.options
        return {"weights": options.weights, "init": options.init, "as_exported": False, "own": options.own,
                "normalize": options.normalize, "augment": [part for text in options.augment for part in text.split(",")], "sample_weight": options.sample_weight, "output": options.output,
                "folds": options.folds, "warmup": options.warmup, "no_decay": options.no_decay, "freeze": options.freeze,
                "order": options.order, "same_order": options.same_order, "drop_last": options.drop_last,
                "eval_every": options.eval_every, "patience": options.patience, "min_delta": options.min_delta, "prune": options.prune}

    def defaults(self):
        options, said = self.job.asked.options, {}
        if not options.batch:
            said["batch"] = str(self.job.data.batch)
        if not options.epochs and not options.steps:
            said["epochs"] = "10"
        if "--optimizer" not in self.job.argv:
            said["optimizer"] = "adamw"
        settings = {**self.job.asked.varied_settings(), **{text.split("=")[0]: "" for text in options.grid}}
        for key in ("lr", "weight_decay"):
            if key not in settings and key not in self.job.asked.table_columns():
                said[key] = f"{self.job.models[0].hyper[key]:g}"
        return said

    def model(self, ledger, path, model):
        report = self.report["models"][model.number]
        said = {"model": model.number, "name": model.name, "config": model.config, "fold": model.fold, "labels": model.labels,
                "seeds": {kind: model.seeds[kind] for kind in ("init", "order", "dropout")}}
        ledger.expect(RECOMPUTED, path, {key: value for key, value in said.items() if value != {}})
        if not model.labels:
            ledger.expect(RECOMPUTED, (*path, "labels"), {})
        for key, value in model.hyper.items():
            ledger.expect(RECOMPUTED, (*path, "hyperparameters", key), float(value), 1e-12 * abs(value))
        decisions, m = self.decisions, model.number
        ledger.expect(LOOPED, (*path, "status"), decisions.status[m])
        ledger.expect(LOOPED, (*path, "at_step"), decisions.at_step[m])
        curve, best_step = self.truth.curves[m], decisions.best_step[m]
        if best_step is None:
            ledger.expect(LOOPED, (*path, "best"), None)
        else:
            ledger.expect(LOOPED, (*path, "best", "step"), best_step)
            if "train_loss" in curve[best_step]:
                expect(ledger, LOOPED, (*path, "best", "train_loss"), curve[best_step]["train_loss"])
            for name, value in self.truth.scores("best", model, "validation").items():
                expect(ledger, RECOMPUTED, (*path, "best", name), value)
        self.last(ledger, (*path, "last"), model)
        tested = self.truth.scores("best", model, "test") if self.job.data.test else {}
        for name, value in tested.items():
            expect(ledger, RECOMPUTED, (*path, "test", name), value)
        if not tested:  # no answers that are numbers, so no metric that is one
            ledger.expect(RECOMPUTED, (*path, "test"), {name: None for name in report["test"]})

    def last(self, ledger, path, model):
        """The last evaluation that it ran in. Where it diverged since, its checkpoint is of later steps."""
        m = model.number
        end = self.decisions.at_step[m]
        steps = [row["step"] for row in self.report["history"] if row["step"] < end or
                 (row["step"] == end and self.diverged[m] is None)]
        if not steps:
            return ledger.expect(LOOPED, path, {})
        curve = self.truth.curves[m][steps[-1]]
        ledger.expect(LOOPED, (*path, "train_loss"), None) if "train_loss" not in curve else expect(
            ledger, LOOPED, (*path, "train_loss"), curve["train_loss"])
        if self.job.validated:
            whole = self.diverged[m] is None
            for name, value in (self.truth.scores("last", model, "validation") if whole else curve).items():
                if name != "train_loss":
                    expect(ledger, RECOMPUTED if whole else LOOPED, (*path, name), value)
        return None

    def history(self, ledger):
        """Rows at every so many steps and at the end, with nothing of a model that did not run any more."""
        job, n = self.job, len(self.job.models)
        end = self.steps_made()
        steps = sorted({*range(job.eval_every, end + 1, job.eval_every), end})
        if [row["step"] for row in self.report["history"]] != steps:
            ledger.found(("history",), f"got rows at other steps than {steps}")
        previous = 0.0
        for i, row in enumerate(self.report["history"]):
            step = row["step"]
            ledger.expect(LOOPED, ("history", i, "step"), steps[i] if i < len(steps) else None)
            ledger.expect(RECOMPUTED, ("history", i, "epoch"), step / job.data.steps_per_epoch, 1e-12 * step)
            ledger.hold(("history", i, "seconds"), lambda v, before=previous: v >= before, "no less than in the row before")
            previous = row["seconds"]
            ran = [step <= self.decisions.at_step[m] and (self.diverged[m] is None or step < self.diverged[m]) for m in range(n)]
            names = ["train_loss", *(job.asked.metrics if job.validated and any(ran) else [])]
            for name in names:
                for m in range(n):
                    wanted = self.truth.curves[m].get(step, {}).get(name) if ran[m] else None
                    if wanted is None:
                        ledger.expect(LOOPED, ("history", i, name, m), None)
                    else:
                        expect(ledger, LOOPED, ("history", i, name, m), wanted)
        if self.truth.chaotic:
            self.findings.append("audit: rounding alone moves too many numbers of the curves by more than a percent: another "
                                 "configuration is needed")

    def events(self, ledger):
        wanted = list(self.decisions.events)
        for model, step in zip(self.job.models, self.diverged):
            if step is not None:
                wanted.append((step, model.number, f"model {model.number} diverged at step {step}"))
        for model, (_, other) in zip(self.job.models, self.job.trajectories):
            if other.skipped and other.skipped[0] <= self.decisions.at_step[model.number]:
                step = other.skipped[0]
                wanted.append((step, model.number, f"model {model.number} skips step {step}: nothing in its batch counts (ignored, or "
                                                   "of weight 0)"))
        got = [(e["step"], e["model"], e["what"]) for e in self.report["events"]]
        steps = [e[0] for e in got]
        if steps != sorted(steps):
            ledger.found(("events",), "are not in the order of their steps")
        if not got and not wanted:
            return ledger.expect(LOOPED, ("events",), [])
        for i, event in enumerate(got):
            for key, value in zip(("step", "model", "what"), event):
                ledger.claim(LOOPED, ("events", i, key))
            if event not in wanted:
                ledger.found(("events", i), f"got {event}, expected one of {wanted}")
        for event in wanted:
            if got.count(event) != 1:
                ledger.found(("events",), f"got {event} {got.count(event)} times, expected it once")
        return None

    def notes(self, ledger):
        wanted = [self.truth.ensemble(which) for which in ("validation", "test") if self.wants(which)]
        known = []
        if self.truth.left_out() and any(wanted):
            known.append((RECOMPUTED, f"ensemble of {len(self.truth.answering())} of {len(self.job.models)} models: "
                                      f"{self.truth.left_out()}"))
        values = [f"{v:g}" for v in sorted(set(self.job.data.main.columns[self.job.asked.options.fold]))] \
            if self.job.asked.options.fold else []
        if values and values != [str(i) for i in range(len(values))]:
            known.append((RECOMPUTED, f"folds 0 to {len(values) - 1} are the values {', '.join(values)} of column "
                                      f"{self.job.asked.options.fold}"))
        skipped = [sum(step <= self.decisions.at_step[m] for step in other.skipped) for m, (_, other) in enumerate(self.job.trajectories)]
        if any(skipped):
            known.append((LOOPED, f"{sum(skipped)} steps of {sum(s > 0 for s in skipped)} models skipped: nothing in their batches counts "
                                  "(ignored, or of weight 0)"))
        starts = [self.job.start(model) for model in self.job.models] if self.job.asked.options.weights else []
        if len(starts) > 1:
            equal = [name for name in starts[0] if all(start[name].equal(starts[0][name]) for start in starts)]
            shared = sum(name in self.job.frozen for name in equal)
            if equal:
                known.append((RECOMPUTED, f"{len(equal)} of {len(starts[0])} weights begin equal in all models" +
                              (f"; frozen and therefore shared: {shared}" if shared else "")))
        if not self.report["notes"]:
            ledger.expect(RECOMPUTED, ("notes",), [])
        for i, note in enumerate(self.report["notes"]):
            kinds = [kind for kind, wanted in known if wanted == note]
            if kinds:
                ledger.claim(kinds[0], ("notes", i))
            elif found := re.match(r"resumed at step (\d+): \S+ train --resume ", note):
                ledger.hold(("notes", i), lambda v, found=found: int(found[1]) <= self.report["run"]["step"], "a step that was made")
            elif note.startswith("sandbox: "):
                ledger.hold(("notes", i), text, "what the sandbox lacks")
            elif found := re.match(r"check of step (\d+), model (\d+): ", note):
                ledger.hold(("notes", i), lambda v, found=found: 0 < int(found[1]) <= self.report["checked_steps"] and
                            int(found[2]) < len(self.job.models), "a step and a model that were checked")
            elif found := re.match(r"(\d+) separate runs, .*: about .* for the same (\d+) steps of a model", note):
                made = sum(m["at_step"] for m in self.report["models"])
                ledger.hold(("notes", i), lambda v, found=found: (int(found[1]), int(found[2])) == (len(self.job.models), made),
                            f"{len(self.job.models)} models and {made} steps")
        for _, wanted in known:
            if wanted not in self.report["notes"]:
                ledger.found(("notes",), f"lack {wanted!r}")


def configs(ledger, got, job, truth, report, keys, path=("configs",)):
    """Models by the values of `keys`: spreads of their best values and of their test rows, best configuration first."""
    groups = {}
    for model in job.models:
        groups.setdefault(tuple(model.hyper[key] for key in keys), []).append(model)
    monitor = job.asked.monitor
    means = []
    for i, config in enumerate(got):
        at = (*path, i)
        said = tuple(config["hyperparameters"].get(key) for key in keys)
        near = [values for values in groups if None not in said and all(abs(a - b) <= 1e-12 * abs(b) for a, b in zip(said, values))]
        if len(near) != 1:
            ledger.found(at, f"got a configuration {said} that is none, or there twice")
            continue
        models = groups.pop(near[0])
        if keys:
            for key, value in zip(keys, near[0]):
                ledger.expect(RECOMPUTED, (*at, "hyperparameters", key), float(value), 1e-12 * abs(value))
        else:
            ledger.expect(RECOMPUTED, (*at, "hyperparameters"), {})
        ledger.expect(RECOMPUTED, (*at, "metric"), monitor)
        statuses = [report["models"][m.number]["status"] for m in models]
        whole = [m for m, status in zip(models, statuses) if status != "pruned"]  # the pruned ones are in no mean
        ledger.expect(RECOMPUTED, (*at, "n"), len(whole))
        ledger.expect(LOOPED, (*at, "pruned"), len(models) - len(whole))
        ledger.expect(LOOPED, (*at, "statuses"), {status: statuses.count(status) for status in set(statuses)})
        best = [truth.scores("best", m, "validation") for m in whole if report["models"][m.number]["best"]]
        tests = [scores for scores in (truth.scores("best", m, "test") for m in whole if job.data.test) if scores]
        spread(ledger, at, config, [scores[monitor] for scores in best], truth, whole=False)
        spread(ledger, (*at, "test"), config["test"], [scores[monitor] for scores in tests], truth)
        for name in metric_names(job, report):
            for part, scores in (("validation", best), ("test", tests)):
                got_spread = config["metrics"].get(name, {}).get(part)
                spread(ledger, (*at, "metrics", name, part), got_spread, [own[name] for own in scores if name in own], truth)
        means.append(config["mean"])
    for values in groups:
        ledger.found(path, f"lack the configuration {values}")
    there = [mean for mean in means if mean is not None]
    if there != sorted(there, reverse=job.asked.more_is_better) or None in means[:len(there)]:
        ledger.found(path, "are not in the order of their means")


def metric_names(job, report):
    """The monitored one, then the others that some model has of its best evaluation or of the test rows."""
    there = {name for m in report["models"] for part in ("best", "test") for name in m[part] or {}}
    return [job.asked.monitor, *sorted(there - {job.asked.monitor, "step", "train_loss"})]


def spread(ledger, path, got, numbers, truth, whole=True):
    """`whole`: an object of its own with `n`, or null where there is no number; else fields of which each is null then."""
    wanted = truth.spread(numbers)
    if whole and not wanted:
        ledger.expect(RECOMPUTED, path, None)
        return
    for key in ("n", "mean", "sd", "iqm") if whole else ("mean", "sd", "iqm"):
        value = wanted[key] if wanted else None
        if value is None or key == "n":
            ledger.expect(RECOMPUTED, (*path, key), value)
        else:
            expect(ledger, RECOMPUTED, (*path, key), value)
    if not wanted:
        ledger.expect(RECOMPUTED, (*path, "ci95"), None)
        return
    ends = (got or {}).get("ci95") or [float("nan")] * 2
    for i in range(2):
        ledger.claim(RECOMPUTED, (*path, "ci95", i))
    if not interval_holds(ends, [v.value for v in numbers], 2 * max(v.tolerance for v in numbers)):
        ledger.found((*path, "ci95"), f"got {ends}, expected a bootstrapped interval of {[v.value for v in numbers]}")
