"""Results of a training run from Python or `workbench train`: tables, models, predictions."""

import collections.abc
import contextlib
import copy
import json
import math
import os
import tempfile

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..errors import fail
from ..store import default_path
from . import program, ranks, tensor_files
from .folder import keep, read_kept, read_report
from .functions import Flat, in_dtype, results_of
from .network import Source, takes_batch
from .planned import planned_beside
from .rows import Meaning, Reader, Table, side_by_side
from .scores import MeanLoss, column_of, greedy, log_probabilities, merged_report, scores_of, weighted_mean
from .steering import Steering


class Part:
    """One wide run: its folder and its report."""

    def __init__(self, folder, report, kept, source):
        self.folder, self.report, self.kept, self.source = folder, report, kept, source
        self.loss = None  # where it is a function of Python and was given to this process
        self.functions = {}  # metrics computed in Python, by name

    @property
    def chosen(self):
        """Options that change the program, by name: batch, optimizer, the factory's arguments."""
        return self.kept.get("chosen", {})

    @property
    def said_loss(self):
        """The loss that its models learn by, in words."""
        return str(self.chosen.get("loss", self.kept.get("loss", self.report["loss"])))

    def measure(self):
        """Computes the metrics given as functions of (output, target) for each model on the validation rows, those of its fold where
        there are folds: NaN for a model without weights or with outputs that are no numbers."""
        values, folds = {name: [math.nan] * self.report["n"] for name in self.functions}, self.report["data"]["folds"]
        for fold in range(folds) if folds > 1 else (None,):
            rows, targets = validation_rows(self, fold=fold)
            for number, output in enumerate(self.results(rows)):
                asked = self.report["models"][number]["fold"] == fold and self._has_numbers(number, output)
                for name, function in self.functions.items() if asked else ():
                    values[name][number] = float(function(output, targets))
        self.kept["metrics"] = {"step": self.report["run"]["step"], "values": values}
        keep(self.folder, self.kept)

    def _has_numbers(self, number, output):
        """Whether a model's metrics are of numbers: its best evaluation has a loss and it did not diverge, or else it has an
        evaluation or did not diverge, and no result is NaN or inf; -inf is a logarithm of 0."""
        model = self.report["models"][number]
        if (model["best"] or {}).get("loss") is not None and model["status"] != "diverged":
            return True  # whatever forward gives beside what the loss is told from
        real = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        return (model["best"] is not None or model["status"] != "diverged") and all(bool((t < math.inf).all()) for t in real)

    def loss_of_means(self, rows, targets, weights):
        """The loss that is a function of Python as one of a mean answer. `rows`: columns; `weights` of rows, or None."""
        if takes_batch(self.loss):
            several = next((name for name, columns in self.kept["meaning"]["arguments"].items() if len(columns) > 1), None)
            if several:
                fail("ensemble", "loss", f"{self.kept['loss']} of (output, batch), where {several} is of several columns",
                     "a function of (output, target)", "run.best(8)")
            targets = rows

        own = getattr(torch, self.kept["meaning"]["dtype"])

        def loss(answer):
            try:
                each = self.loss(in_dtype(answer, torch.float64), in_dtype(targets, torch.float64))
            except Exception:  # constants of the module's own dtype in it, such as weights of classes
                each = self.loss(in_dtype(answer, own), in_dtype(targets, own))
            if weights is not None and each.dim() == 0:
                fail("ensemble", "loss", f"one number of {self.kept['loss']}, where rows have weights", "one a row", "run.best(8)")
            return weighted_mean(each, None if weights is None else weights.double())

        return loss

    def class_weights(self, loss):
        """Class weights [C] by the frequency of classes among the training rows, as the command has them."""
        import numpy

        split = numpy.load(os.path.join(self.folder, "split.npz"))
        if "train_model" in split or self.report["data"]["folds"] > 1:
            fail("ensemble", "loss", f"{loss}, whose weights differ between models", "one loss of all models", "run.best(8)")
        targets = tensor_files.load(self.kept["data"])[self.report["data"]["columns"]["target"][0]][torch.as_tensor(split["train"])]
        ignored = [int(key.partition("=")[2]) for key in loss.split(":") if key.startswith("ignore_index=")]
        of = targets.long()[targets.long() != ignored[0]] if ignored else targets.long().flatten()
        counts = torch.bincount(of, minlength=self.report["data"]["classes"]).double()
        return (len(of) / (len(counts) * counts)).where(counts > 0, 0)

    def measured(self):
        """The results of `measure`, unless the run was resumed since."""
        found = self.kept.get("metrics", {})
        return found.get("values", {}) if found.get("step") == self.report["run"]["step"] else {}

    def results(self, columns):
        """Each model's output for rows, as losses and metrics that are functions see it. Where the loss is a function and forward
        gives a tuple or a dict, Python computes it here, as `workbench predict` returns one tensor only; else that of `predict`."""
        if "whole" not in self.kept:
            return list(self.predict(Table(columns), apply="none"))
        dtype = {"dtype": "float64"} if self.report["dtype"] == "f64" else {}
        reader = Reader(None, {}, Meaning(**{**self.kept["meaning"], **dtype}))
        state = tensor_files.load(os.path.join(self.folder, "run.safetensors"))
        of_all, made = reader.inputs(Table(columns)), []
        for number, model in enumerate(self.report["models"]):
            inputs = {}
            for name, values in of_all.items():
                if f"normalize.mean.{name}" in state:  # one for all models, for each fold, or for each model
                    mean, std = (state[f"normalize.{kind}.{name}"] for kind in ("mean", "std"))
                    group = 0 if len(mean) == 1 else number if model["fold"] is None else model["fold"]
                    values = (values.double() - mean[group]) / std[group]
                inputs[name] = reader.seen(values, name)
            made.append(results_of(self.module(number).cpu(), inputs, self.kept["whole"]))
        return made

    def table(self, data):
        """Data as columns for a file, without the target."""
        if "meaning" in self.kept:
            return Reader(None, {}, Meaning(**self.kept["meaning"]), tell=lambda text: None).read(data)
        columns = self.report["data"]["columns"]
        inputs = {name: found if len(found) == 1 else [name] for name, found in columns["inputs"].items()}
        if len(inputs) > 1 and not isinstance(data, dict):
            fail("predict", "rows", f"{type(data).__name__} for {', '.join(inputs)}",
                 "a dict of columns, as the run was not begun in Python", f"{{'{next(iter(inputs.values()))[0]}': ...}}")
        return Reader(None, {}, Meaning(inputs, target=columns["target"]), tell=lambda text: None).read(data)

    def module(self, number):
        """A model with its best weights, or its last ones if it has no best evaluation."""
        if not self.folder:
            fail("train", "models", "a run that saved nothing", "its folder", "a run without no_save=True")
        for kind in ("best", "last"):
            path = os.path.join(self.folder, kind, f"model-{number:04d}.safetensors")
            if os.path.exists(path):
                break
        else:
            fail("train", f"model {number}", f"no checkpoint in {self.folder}", "one of those that were kept",
                 "a run without keep=")
        seed = self.report["models"][number]["seeds"]["init"]
        model = copy.deepcopy(self.source(self.kept.get("net", {})).module(number, seed))
        tensors, own = tensor_files.load(path), model.state_dict()
        if any(name in own and tensor.dtype != own[name].dtype for name, tensor in tensors.items()):
            _convert(model, tensors)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            fail("train", f"model {number}", str(error).strip().split("\n\t")[-1].rstrip(". "),
                 "a class whose state_dict is the run's", "the class that was trained")
        return model.eval()

    def predict(self, data, top=0, reduce="none", apply=""):
        """The models' outputs for rows, computed by `workbench predict`. `data`: as the user gives them, or a Table of the run's
        columns."""
        if not self.folder:
            fail("train", "predict", "a run that saved nothing", "its folder", "a run without no_save=True")
        table = data if isinstance(data, Table) else self.table(data)
        columns = dict(table.columns)
        for column, shape, dtype in self.kept.get("loss_columns", []):  # arguments used by the loss only
            columns[column] = torch.zeros([table.rows(), *shape], dtype=getattr(torch, dtype))
        with tempfile.TemporaryDirectory(prefix="nwide-") as folder:
            rows, out = os.path.join(folder, "rows.safetensors"), os.path.join(folder, "out.safetensors")
            tensor_files.save(rows, columns)
            words = [f"--top={top}"] if top else []
            words += [f"--apply={apply}"] if apply else []
            program.run(["predict", self.folder, f"--data={rows}", f"--out={out}", f"--reduce={reduce}", "--quiet", *words])
            return tensor_files.load(out)["prediction"]


def _convert(model, tensors):
    """Makes a module float64, but for parameters and buffers that a checkpoint has in another dtype."""
    model.double()
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        if name in tensors:
            tensor.data = tensor.data.to(tensors[name].dtype)


class Models(collections.abc.Sequence):
    """A sequence of the models as modules of the user's class, in eval mode, with their best weights; made on access."""

    def __init__(self, places):
        self._places = places

    def __len__(self):
        return len(self._places)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return Models(self._places[i])
        part, number = self._places[i]
        return part.module(number)


class Selection:
    """Some models of a run, each with its weight in the mean prediction."""

    def __init__(self, places, indices, weights=None):
        self._places, self.indices = places, indices
        self.weights = weights or [1 / len(indices)] * len(indices)
        self.models = Models(places)

    def __len__(self):
        return len(self.indices)

    def __repr__(self):
        return f"Selection(models {', '.join(map(str, self.indices))})"

    def predict(self, data, reduce: str = "mean", apply: str | None = None) -> torch.Tensor:
        """The mean prediction of the models for rows given like the training data, without a target: of probabilities if
        the loss has them, else of outputs; [S, ...]. `reduce`: "mean", or "none" for [k, S, ...]. `apply`: "softmax",
        "sigmoid" or "none", applied to each model's output."""
        if reduce not in ("mean", "none"):
            fail("predict", "reduce", repr(reduce), "mean or none", "reduce='mean'")
        answers = {}
        for part in dict.fromkeys(part for part, _ in self._places):
            answers[part] = part.predict(data, apply=apply or "")
        each = torch.stack([answers[part][number] for part, number in self._places])
        if reduce == "none":
            return each
        weights = torch.tensor(self.weights, dtype=torch.float64)
        return torch.einsum("n,n...->...", weights, each.double()).to(each.dtype)


class Run:
    """The result of `nw.train`: one wide run, or several one after the other. `later`: those without a report yet."""

    def __init__(self, parts, later=()):
        self.parts, self.later = parts, list(later)

    def __repr__(self):
        return f"Run({len(self)} models{f' in {len(self.parts)} wide runs' if len(self.parts) > 1 else ''}, {self.state})"

    def __len__(self):
        return len(self._places)

    @property
    def _places(self):
        """Of each model its part, and its number there."""
        return [(part, i) for part in self.parts for i in range(part.report["n"])]

    @property
    def state(self) -> str:
        """"complete", or "interrupted" if one of its runs was, or did not begin."""
        states = {part.report["run"]["state"] for part in self.parts}
        return "complete" if states == {"complete"} and not self.later else "interrupted"

    @property
    def report(self) -> dict:
        """The report as a dict, as in `workbench report --json`; a list of dicts for several runs."""
        reports = [part.report for part in self.parts]
        return reports[0] if len(reports) == 1 else reports

    @property
    def notes(self) -> list:
        """The notes in the runs' reports."""
        notes = [note for part in self.parts for note in part.report["notes"]]
        if self.later:
            notes.append(f"wide runs that have no report yet: {'; '.join(map(str, self.later))}")
        for part in self.parts:
            if "waited" in part.kept:
                notes.append(f"{part.kept['waited']:.1f} s of {part.report['run']['seconds']:.1f} s of training went by waiting for rows")
        notes += [part.kept["fresh"] for part in self.parts if "fresh" in part.kept]
        for part in self.parts:
            for name in part.kept.get("metrics", {}).get("values", {}).keys() - part.measured().keys():
                notes.append(f"{name} is a function of Python: the steps since {part.kept['metrics']['step']} were made "
                             "without it")
        return notes

    @property
    def models(self) -> Models:
        """All models."""
        return Models(self._places)

    @property
    def table(self):
        """A row per model: its hyperparameters, how it ended, and its metrics at its best evaluation (without validation
        rows at its last); metrics of test rows are named like `test.accuracy`. A pandas DataFrame, without pandas a list of dicts."""
        varied, rows = self._varied(), []
        results = [self._results(part, number) for part, number in self._places]
        metrics = {name for result in results for name in result}
        for index, ((part, number), result) in enumerate(zip(self._places, results)):
            model = part.report["models"][number]
            row = {"model": index, **{column_of(key, metrics): value for key, value in part.chosen.items()}}
            row.update({key: model["hyperparameters"].get(key) for key in varied})
            seeds = model["seeds"]
            alike = len(set(seeds.values())) == 1
            row.update({"seed": seeds["init"]} if alike else {f"seed.{kind}": seed for kind, seed in seeds.items()})
            if model["fold"] is not None:
                row["fold"] = model["fold"]
            row.update(status=model["status"], step=model["at_step"], best_step=(model["best"] or {}).get("step"), **result)
            rows.append(row)
        return _frame(rows)

    @staticmethod
    def _results(part, number):
        """A model's metrics by name, in the order of a table's columns."""
        model, monitored = part.report["models"][number], part.report["monitor"]["name"]
        values = model["best"] or model["last"]
        names = [name for name in values if name not in (monitored, "step", "train_loss")]
        return {**{name: values[name] for name in (monitored, *names, "train_loss") if name in values},
                **{f"test.{name}": value for name, value in model["test"].items()},
                **{name: values[number] for name, values in part.measured().items()}}

    def by(self, *keys: str):
        """For the models of each configuration, grouped by these keys: mean, standard deviation, interquartile mean and 95 %
        bootstrap interval of every metric, those of Python too, best first, as `workbench report --by` has them. Of models that
        learn by different losses, the loss is left out unless it is among the keys."""
        merged, words = merged_report(self._places)
        keys = [key.removeprefix("chosen.") for key in keys] or [*self._varied(), *self.parts[0].chosen]
        hyperparameters = merged["models"][0]["hyperparameters"]
        for key in keys:
            if key not in hyperparameters:
                fail("by", "key", key, f"one of {', '.join(hyperparameters)}", "run.by('lr')")
        losses, monitor = self._losses() if "loss" not in keys else [], self.parts[0].report["monitor"]["name"]
        if len(losses) > 1 and monitor == "loss":
            fail("by", "monitor", f"loss, of {', '.join(losses)}", "values that can be compared, or groups of one loss",
                 f"run.by({', '.join(map(repr, [*keys, 'loss']))})")
        with tempfile.TemporaryDirectory(prefix="nwide-") as folder:
            path, out = os.path.join(folder, "report.json"), os.path.join(folder, "by.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(merged, file)
            program.run(["report", path, f"--json={out}", *([f"--by={','.join(keys)}"] if keys else [])])
            with open(out, encoding="utf-8") as file:
                configs = json.load(file)["configs"]
        for config in configs if len(losses) > 1 else ():
            config["metrics"].pop("loss", None)
        return _frame(scores_of(configs, keys, words))

    def _losses(self):
        """The losses that the models learn by, in words."""
        return list(dict.fromkeys(part.said_loss for part in self.parts))

    def _varied(self):
        """Hyperparameters that differ between models, or were given as lists."""
        models = [part.report["models"][i] for part, i in self._places]
        names = dict.fromkeys(name for model in models for name in model["hyperparameters"])
        return [name for name in names if len({model["hyperparameters"].get(name) for model in models}) > 1]

    @property
    def curves(self):
        """A row per model and evaluation: step, epoch, seconds, train_loss and the metrics of the validation rows."""
        rows, first = [], 0
        for part in self.parts:
            for look in part.report["history"]:
                lists = {name: values for name, values in look.items() if isinstance(values, list)}
                once = {name: value for name, value in look.items() if not isinstance(value, list)}
                for number in range(part.report["n"]):
                    if any(values[number] is not None for values in lists.values()):
                        rows.append({"model": first + number, **once, **{name: v[number] for name, v in lists.items()}})
            first += part.report["n"]
        return _frame(rows)

    def best(self, k: int = 1) -> Selection:
        """The k models with the best value of the monitored metric, best first."""
        found = []
        losses = self._losses()
        if len(losses) > 1 and self.parts[0].report["monitor"]["name"] == "loss":
            name = "r2" if self.parts[0].report["data"]["classes"] is None else "accuracy"
            functions = any("loss" in part.kept for part in self.parts)  # beside which the command has no metrics
            fail("best", "monitor", f"loss, of {', '.join(losses)}", "values that can be compared",
                 "run.models by a column of run.table" if functions else f"metrics=['{name}'], monitor='{name}'")
        for index, (part, number) in enumerate(self._places):
            model, monitor = part.report["models"][number], part.report["monitor"]
            value = (model["best"] or {}).get(monitor["name"])
            if value is not None:
                found.append((-value if monitor["more_is_better"] else value, index))
        if type(k) is not int or not 1 <= k <= max(1, len(self)):
            fail("best", "k", repr(k), f"1 to {len(self)}, as many as there are models", "run.best(1)")
        if not found and any(part.report["data"]["validation_rows"] for part in self.parts):
            names = " or ".join(dict.fromkeys(part.report["monitor"]["name"] for part in self.parts))
            fail("best", "models", f"no evaluation in which {names} is a number", "values to choose by",
                 "another monitor=, or run.models")
        if not found:
            fail("best", "models", "a run without validation rows", "values to choose by", "validation=0.2")
        indices = [index for _, index in sorted(found)[:k]]
        return Selection([self._places[i] for i in indices], indices)

    def ensemble(self, k: int) -> Selection:
        """Up to k models, one after the other the one that makes the mean answer's loss on the validation rows least; one
        may be chosen several times and counts so."""
        if type(k) is not int or k < 1:
            fail("ensemble", "k", repr(k), "a whole number of at least 1", "run.ensemble(8)")
        losses = self._losses()
        if len(losses) > 1:
            fail("ensemble", "loss", f"{', '.join(losses)} in {len(self.parts)} runs", "one loss that all models learn by",
                 "run.best(8)")
        answers, loss, own = [], None, self.parts[0].loss is not None
        for part in self.parts:
            rows, targets = validation_rows(part, whole=own and takes_batch(part.loss))
            loss = loss or self._loss_of_means(rows, targets)
            answers += part.results(rows) if own else part.predict(Table(rows), apply="none").double()
        if own:
            flat, of_result = Flat(answers), loss
            answers, loss = flat.rows, lambda row: of_result(flat.result(row))
        else:
            answers = torch.stack(answers)
        logs = log_probabilities(self.parts[0].report["loss"], answers)
        picks = greedy(loss, answers, k) if logs is None else greedy(loss, logs, k, logs=True)
        indices = list(dict.fromkeys(picks))
        return Selection([self._places[i] for i in indices], indices, [picks.count(i) / len(picks) for i in indices])

    def _loss_of_means(self, rows, targets):
        """What the run's loss is for a mean answer on the validation rows, with their weights."""
        part = self.parts[0]
        weights = next((rows[name] for name in part.report["data"]["columns"]["weight"] if name in rows), None)
        if part.loss is not None:
            return part.loss_of_means(rows, targets, weights)
        loss, models = part.report["loss"], [model for part in self.parts for model in part.report["models"]]
        smoothing = [model["hyperparameters"].get("label_smoothing", 0.0) for model in models]
        balanced = part.class_weights(loss) if "weight=balanced" in loss.split(":") else None
        return MeanLoss(loss, targets, weights, sum(smoothing) / len(smoothing), balanced)

    def plot(self, metric: str | None = None, ax=None):
        """Plots the monitored metric, or another one, by step, a line for each model. Returns matplotlib's axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            fail("plot", "matplotlib", "none", "it, for pictures", "pip install matplotlib")
        axes = ax or pyplot.gca()
        name = metric or self.parts[0].report["monitor"]["name"]
        first = 0
        for part in self.parts:
            history = part.report["history"]
            if history and name not in history[0]:
                if metric:
                    known = ", ".join(n for n, v in history[0].items() if isinstance(v, list))
                    fail("plot", "metric", metric, f"one of {known}", "run.plot()")
                name = "train_loss"
            for number in range(part.report["n"]):
                points = [(look["step"], look[name][number]) for look in history if look[name][number] is not None]
                colour = f"C{part.report['models'][number]['config'] % 10}"
                axes.plot(*zip(*points) if points else ([], []), color=colour, alpha=0.6, label=f"model {first + number}")
            first += part.report["n"]
        axes.set_xlabel("step")
        axes.set_ylabel(name)
        return axes

    def resume(self, **changes) -> "Run":
        """Goes on with what was interrupted and begins what was not begun, or goes on with `epochs=` for longer; `threads=`,
        `quiet=` and `callbacks=`, which no run keeps, may be said too."""
        for name in changes:
            if name not in ("epochs", "steps", "threads", "quiet", "callbacks"):
                fail("resume", name, "it", "only what a run may change: epochs, steps, threads, quiet, callbacks", "a new run")

        def lead():
            self._go_on(**changes)
            return [part.folder for part in self.parts], None

        def follow(places):
            source = self.parts[0].source
            self.parts = [Part(place, read_report(place), read_kept(place), source) for place in places]
            self.later = planned_beside(self.parts)

        ranks.of_all(lead, follow, program.run)
        return self

    def _go_on(self, quiet=False, callbacks=None, **changes):
        if callbacks:
            ranks.alone("callbacks", "the run waits for Python at each evaluation")
        for part in self.parts:
            if not part.folder:
                fail("resume", "run", "one that saved nothing", "its folder", "a run without no_save=True")
            if part.report["run"]["state"] == "complete" and not changes:
                continue
            if self._resumed(part, quiet, callbacks, changes):
                return
        longer = any(name in changes for name in ("epochs", "steps"))
        while self.later:
            planned = self.later[0]
            _refuse_epochs(planned)
            try:
                report = planned.train(program.Tell(quiet), _steering(planned.kept, callbacks), changes.get("threads"))
            except KeyboardInterrupt:  # before it began
                return
            part = part_of(planned, report, self.parts[0].source)
            self.parts.append(part)
            del self.later[0]
            if part.functions:
                part.measure()
            if report["run"]["state"] == "interrupted" or longer and self._resumed(part, quiet, callbacks, changes):
                return

    @staticmethod
    def _resumed(part, quiet, callbacks, changes):
        """Goes on with one wide run. Returns whether it was interrupted."""
        _refuse_epochs(part)
        words = [f"--{name}={value}" for name, value in changes.items()]
        db = part.kept.get("db")
        words += [f"--db={db}"] if db else []
        steering = _steering(part.kept, callbacks)
        words += ["--wait"] if steering else []
        code = program.run(["train", f"--resume={part.folder}", *words], program.Tell(quiet), steering)
        part.report = read_report(part.folder)
        if part.functions:
            part.measure()
        return bool(code)


def _refuse_epochs(run):
    if run.kept.get("epochs"):
        fail("resume", "rows", "a run in which each epoch had rows of its own", "rows that are kept",
             f"a new run with weights='{run.folder}/last'")


def _steering(kept, callbacks):
    return Steering(callbacks, kept.get("db") or default_path(), kept.get("chosen")) if callbacks else None


def _frame(rows):
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def validation_rows(part, whole=False, fold=None):
    """The columns of the validation rows, or of the rows of a fold, in the form for `predict`, and their targets."""
    split, kept = part.kept.get("validation") if fold is None else part.kept["data"], part.kept
    if not part.folder or split is None:
        fail("ensemble", "rows", "a run without the same validation rows for all models, or not begun in Python",
             "rows to choose models by", "nw.train(..., validation=0.2)")
    columns = tensor_files.load(split)
    if split == kept["data"]:
        import numpy
        said = numpy.load(os.path.join(part.folder, "split.npz"))
        rows = torch.as_tensor(said["validation"] if fold is None else (said["fold"] == fold).nonzero()[0])
        columns = {name: values[rows] for name, values in columns.items()}
    target = kept["meaning"]["target"] or part.report["data"]["columns"]["target"]
    if whole:
        return columns, columns
    if not target:
        fail("ensemble", "target", "none", "the column that losses are told from", "a loss by name")
    return columns, columns[target[0]] if len(target) == 1 else side_by_side([columns[name] for name in target])


def part_of(planned, report, source):
    """The Part of a wide run that was planned, once it has a report."""
    part = Part(planned.folder, report, planned.kept, source)
    part.loss, part.functions = planned.loss, planned.functions
    return part


def read_run(places, given):
    """The Run of wide runs in these folders, and of those of the same call that have not begun."""
    parts = [Part(place, read_report(place), read_kept(place), _source(given)) for place in places]
    return Run(parts, planned_beside(parts))


def _source(given):
    def source(net):
        if given is None:
            fail("open_run", "models", "no class", "the class or factory of the run's models", "nw.open_run('runs/a', Net)")
        return Source(given, net)

    return source


def open_run(folder: str | os.PathLike[str], models=None) -> Run:
    """A run of `nw.train` or `workbench train` by its folder. `models`: the class, factory or a module of its models, which
    `models` alone asks for."""
    folder = os.path.abspath(os.fspath(folder))
    if isinstance(models, nn.Module) or models is None or callable(models):
        numbered = sorted((name for name in os.listdir(folder) if name.isdigit()), key=int) if os.path.isdir(folder) else []
        places = [os.path.join(folder, name) for name in numbered]
        if os.path.exists(os.path.join(folder, "report.json")) or not places:
            places = [folder]
        # Of runs one after the other: those of one call of nw.train, as others may be left of an earlier one.
        begun = places[:1] + [place for place in places[1:] if os.path.exists(os.path.join(place, "report.json"))]
        files = [read_kept(place).get("files") for place in begun]
        return read_run([place for place, of in zip(begun, files) if of == files[0]], models)
    fail("open_run", "models", type(models).__name__, "a class, a factory or a module", "nw.open_run('runs/a', Net)")
