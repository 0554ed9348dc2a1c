"""Every number of a run as it should be: from its checkpoints, and from the independent loop. A number stands with the tolerance
that its rounding asks for."""
from functools import cached_property

import numpy
import torch

from . import spreads

# A number may be off by so many times what rounding alone moves it by in PyTorch, plus a share of itself.
TIMES = 20
SHARE = {torch.float32: 1e-5, torch.float64: 1e-9}
STEPS_LIKE = {"accuracy", "top5", "f1", "auc", "ece"}  # metrics that jump where two answers change places


class Number:
    def __init__(self, value, tolerance):
        self.value, self.tolerance = float(value), float(tolerance)

    def __repr__(self):
        return f"{self.value:.8g} ± {self.tolerance:.1g}"


class Truth:
    """`checkpoints`: {(kind, model): state_dict} of best/ and last/; `report`: for what happened to which model."""

    def __init__(self, job, checkpoints, report, known=None):
        self.job, self.checkpoints, self.report = job, checkpoints, report
        self.share = SHARE[job.dtype]
        self.known = known.known if known else {}
        if known:
            self.curves = known.curves

    def number(self, value, *others):
        most = max((abs(value - other) for other in others), default=0)
        return Number(value, TIMES * most + self.share * max(1.0, abs(value)))

    def state(self, kind, model):
        """The weights of a checkpoint; of a model without a best its last ones."""
        return self.checkpoints.get((kind, model.number)) or self.checkpoints[("last", model.number)]

    def outputs(self, kind, model, part, rows, dtype=torch.float64):
        key = (kind, model.number, id(part), tuple(rows), dtype)
        if key not in self.known:
            self.known[key] = self.job.outputs(self.state(kind, model), model, part, rows, dtype)
        return self.known[key]

    def both(self, score, *groups):
        """{metric: Number} of `score` applied to outputs in float64, and in the run's precision for the tolerance."""
        exact, rounded = (score(*(group(dtype) for group in groups)) for dtype in (torch.float64, self.job.dtype))
        return {name: self.number(value, rounded[name]) for name, value in exact.items()}

    def scores(self, kind, model, which):
        """{metric: Number} of one model on its rows of `which`; nothing where its answers are no numbers."""
        part, rows = self.job.data.rows_of(which, model)
        asked = self.job.asked
        looked_at = {self.job.scorer(model).output, *(int(name.split(".")[1]) for name in asked.metrics if ":output." in name)}
        answers = self.outputs(kind, model, part, rows, self.job.dtype)
        if not all(answers[k].isfinite().all() for k in looked_at):
            return {}
        return self.both(lambda outputs: self.job.scores([x.double() for x in outputs], model, part, rows),
                         lambda dtype: self.outputs(kind, model, part, rows, dtype))

    def answering(self):
        """Models of the mean answer, none that was pruned: those with a best value, or where none has one those that did not diverge."""
        said = self.report["models"]
        models = [m for m in self.job.models if said[m.number]["status"] != "pruned"]
        best = [m for m in models if said[m.number]["best"] is not None]
        return best or [m for m in models if said[m.number]["status"] != "diverged"]

    def left_out(self):
        """Why the mean answer is not of all models, as it is said; "" where it is."""
        pruned = sum(m["status"] == "pruned" for m in self.report["models"])
        others = len(self.job.models) - len(self.answering()) - pruned
        parts = [f"{count} {why}" for count, why in ((others, "without a finite value"), (pruned, "pruned")) if count]
        return f"{' and '.join(parts)} left out" if parts else ""

    def ensemble(self, which, kind="best", mean=None):
        """{metric: Number} of the mean answer. Of folds each row is answered by the models that never saw it."""
        job, models = self.job, self.answering()
        part, rows = job.data.part(which)
        computed = {name for name in job.asked.metrics if ":output." in name or job.asked.loss.startswith("output.")}
        if part.own or not models or not rows[0] or computed >= set(job.asked.metrics):
            return {}
        groups = [[m for m in models if len(rows) == 1 or m.fold == fold] for fold in range(len(rows))]
        answered = [(own, group, job.mean_scorer(group)) for own, group in zip(rows, groups) if group]
        there = [row for own, _, _ in answered for row in own]

        def score(dtype):
            means = [(mean or scorer.mean_outputs)([[x.double() for x in self.outputs(kind, m, part, own, dtype)] for m in group])
                     for own, group, scorer in answered]
            found = job.scores([torch.cat(parts) for parts in zip(*means)], models[0], part, there, answered[0][2])
            # A row counts by the class weights that the models which answer it were trained with.
            sums = [job.sums(outputs, part, own, scorer) for outputs, (own, _, scorer) in zip(means, answered)]
            found["loss"] = float(sum(total for total, _ in sums) / sum(counts for _, counts in sums))
            return {name: value for name, value in found.items() if name not in computed}
        return self.both(score, lambda dtype: dtype)

    @cached_property
    def curves(self):
        """By model {step: {"train_loss" and each metric: Number}} of the independent loop."""
        all_of_them = []
        for model, (exact, other) in zip(self.job.models, self.job.trajectories):
            part, rows = self.job.data.rows_of("validation", model)
            curve = {}
            for step, at in exact.evaluations.items():
                beside = other.evaluations.get(step)
                if beside is None:
                    continue  # it diverged before, in the run's precision
                curve[step] = {}
                if at.train_loss is not None:
                    curve[step]["train_loss"] = self.number(at.train_loss, beside.train_loss)
                if at.outputs:
                    curve[step].update(self.curve_scores(model, part, rows, at.outputs, [x.double() for x in beside.outputs]))
            all_of_them.append(curve)
        return all_of_them

    def curve_scores(self, model, part, rows, outputs, beside):
        exact, rounded = (self.job.scores(x, model, part, rows) for x in (outputs, beside))
        numbers = {name: self.number(value, rounded[name]) for name, value in exact.items()}
        if STEPS_LIKE & set(exact):
            random = numpy.random.default_rng(len(rows))
            for _ in range(4):
                moved = [x + torch.tensor(random.uniform(-1, 1, tuple(x.shape))) * (5 * (x - y).abs().max() + self.share * x.abs().max())
                         for x, y in zip(outputs, beside)]
                for name, value in self.job.scores(moved, model, part, rows).items():
                    if name in STEPS_LIKE:
                        numbers[name].tolerance = max(numbers[name].tolerance, 1.5 * abs(value - exact[name]))
        return numbers

    @property
    def chaotic(self):
        """Whether rounding alone moves more than a quarter of the curves' numbers by more than a percent."""
        numbers = [v for curve in self.curves for at in curve.values() for v in at.values()]
        return sum(v.tolerance > 1e-2 * max(0.1, abs(v.value)) for v in numbers) > 0.25 * len(numbers)

    def diverged(self, model):
        return self.job.trajectories[model.number][1].diverged

    def spread(self, values):
        """A group's {n, mean, sd, iqm} as Numbers, and the Numbers themselves."""
        numbers = [v for v in values if v is not None]
        found = spreads.spread([v.value for v in numbers])
        if found is None:
            return None
        tolerance = max(v.tolerance for v in numbers)
        return {key: value if key == "n" or value is None else Number(value, 2 * tolerance) for key, value in found.items()}


def planned(truth):
    """The decisions that a run comes to if it is right."""
    job, name = truth.job, truth.job.asked.monitor
    history = []
    for step in sorted({step for curve in truth.curves for step in curve}):
        values = [curve.get(step, {}).get(name) for curve in truth.curves]
        history.append({"step": step, **({name: [v and v.value for v in values]} if job.validated else {})})
    return Decisions(job, history, [truth.diverged(model) for model in job.models])


class Decisions:
    """Who was best when, who stopped and was pruned, replayed from a history of monitored values."""

    def __init__(self, job, history, diverged):
        options, asked = job.asked.options, job.asked
        count = len(job.models)
        self.best, self.best_step, self.status = [None] * count, [None] * count, [None] * count
        self.at_step, self.events = [0] * count, []
        self.kept = {}
        without, evaluations, rung = [0] * count, 0, asked.halving and asked.halving[1]
        running = list(range(count))
        for m, step in enumerate(diverged):
            if step is not None:
                self.status[m], self.at_step[m] = "diverged", step
        last = 0
        for row in history:
            step = last = row["step"]
            running = [m for m in running if diverged[m] is None or diverged[m] > step]
            evaluations += 1
            for m in list(running) if asked.monitor in row else []:
                value = row[asked.monitor][m]
                gain = None if value is None or self.best[m] is None else (value - self.best[m]) * (1 if asked.more_is_better else -1)
                if value is not None and (self.best[m] is None or gain > options.min_delta):
                    self.best[m], self.best_step[m], without[m] = value, step, 0
                elif options.patience:
                    without[m] += 1
                    if without[m] >= options.patience:
                        self.leave(running, m, "stopped", step, f"no better {asked.monitor} since step {self.best_step[m] or 0}")
            if rung == evaluations:
                rung *= asked.halving[0]
                self.halve(running, step, asked)
        for m in running:
            self.status[m], self.at_step[m] = "trained", job.steps
        self.last_step = max([last, *(step for step in diverged if step is not None)], default=0)

    def leave(self, running, m, status, step, why):
        running.remove(m)
        self.status[m], self.at_step[m] = status, step
        self.events.append((step, m, f"model {m} {status} at step {step}: {why}"))

    def halve(self, running, step, asked):
        worst = float("inf")
        order = sorted(running, key=lambda m: worst if self.best[m] is None else self.best[m] * (-1 if asked.more_is_better else 1))
        kept = max(1, -(-len(order) // asked.halving[0]))
        for m in order[kept:]:
            self.leave(running, m, "pruned", step, f"not among the best {kept}")
