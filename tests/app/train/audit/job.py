"""What an audit starts from: the command line of a run, its network as a Python module, and its data's files."""
import copy
import glob
import inspect
from fnmatch import fnmatch
from functools import cached_property

import numpy
import torch
from safetensors.torch import load_file

from . import draws
from .asked import Asked
from .loop import Loop, evaluated
from .rows import Data, Part
from .scores import Scorer, balanced


class Job:
    """`argv`: from "train" on, all that was said when the run began; `network`: as it was exported."""

    def __init__(self, argv, network):
        self.argv, self.asked = argv, Asked(argv)
        self.network, self.predicted = network, {}
        own = next(network.parameters()).dtype
        self.dtype = {"f32": torch.float32, "f64": torch.float64, "": own}[self.asked.options.dtype]
        self.arguments = list(inspect.signature(network.forward).parameters)
        self.data = Data(self.asked, self.arguments, self.dtype)
        self.models = self.asked.models(self.data.folds)
        options = self.asked.options
        self.steps = options.steps or (options.epochs or 10) * self.data.steps_per_epoch
        self.eval_every = options.eval_every or self.data.steps_per_epoch
        names = [name for name, _ in network.named_parameters()]
        self.frozen = {name for text in options.freeze for glob_ in text.split(",") for name in names if fnmatch(name, glob_)}
        self.no_decay = {name for text in options.no_decay for glob_ in text.split(",") for name in names if fnmatch(name, glob_)}
        self.validated = bool(self.data.validation[0])

    def class_weight(self, model):
        """A weight for each class, or None."""
        text = self.asked.loss_keys.get("weight")
        if text == "balanced":
            part, rows = self.data.rows_of("train", model)
            classes = part.of("target", model.number)[rows].numpy()
            return balanced(classes.reshape(-1), self.classes, int(self.asked.loss_keys.get("ignore_index", -100)))
        return torch.tensor([float(number) for number in text.split(",")], dtype=torch.float64) if text else None

    def scorer(self, model):
        return Scorer(self.asked, self.class_weight(model), model.hyper["label_smoothing"] if self.asked.loss == "cross_entropy" else 0.0)

    def mean_scorer(self, models):
        """Of the mean answer of several: with the means of their label smoothings and class weights."""
        weights = [self.class_weight(model) for model in models]
        smoothing = sum(self.scorer(model).smoothing for model in models) / len(models)
        return Scorer(self.asked, None if weights[0] is None else torch.stack(weights).mean(0), smoothing)

    @cached_property
    def classes(self):
        if not self.asked.classifies:
            return None
        model = self.models[0]
        part, rows = self.data.rows_of("train", model)
        given = self.data.inputs(part, model, rows[:2], torch.float64)
        network = copy.deepcopy(self.network).double()
        return evaluated(network, network.state_dict(), given)[int(self.asked.options.output or 0)].shape[1]

    def start(self, model):
        """{name: tensor}: of a checkpoint given, of the file, or drawn."""
        options = self.asked.options
        files = [file for text in options.weights for file in sorted(glob.glob(text))]
        if files or model.weights:
            return load_file(files[model.number] if files else model.weights)
        if options.init == "file":
            return self.network.state_dict()
        return draws.fresh_start(self.network, model.seeds["init"], self.dtype)

    def rows_to_predict(self, path):
        """One part for a file, however often it is asked for."""
        if path not in self.predicted:
            self.predicted[path] = Part(path, self.asked, self.arguments, self.data.features, self.dtype, labelled=False)
        return self.predicted[path]

    def outputs(self, state, model, part, rows, dtype=torch.float64):
        network = copy.deepcopy(self.network).to(dtype)
        state = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
        return evaluated(network, state, self.data.inputs(part, model, rows, dtype))

    def scores(self, outputs, model, part, rows, scorer=None):
        """{metric: number} of outputs on these rows; those that scikit-learn has no number for are left out."""
        scorer = scorer or self.scorer(model)
        target, weight = self.targets(part, rows, model.number)
        return {name: scorer.metric(name, outputs, target, weight) for name in self.asked.metrics}

    def sums(self, outputs, part, rows, scorer):
        """(Σ w·l, Σ w) over rows that are the same for all models."""
        return scorer.sums(outputs, *self.targets(part, rows, 0))

    @staticmethod
    def targets(part, rows, number):
        """(targets, row weights) of these rows, None where there are none."""
        return tuple(part.of(name, number)[rows] if values is not None else None
                     for name, values in (("target", part.target), ("weight", part.weight)))

    @cached_property
    def trajectories(self):
        """Of each model (as PyTorch in the run's precision has it, the reference of numbers, how far rounding moves it).

        The reference is in float64. Beside it stands a second loop that differs by rounding alone: in float32, or for a run in
        float64 from a start that is off by 1e-14. By what those two differ a number may be off, times a factor."""
        made = []
        for model in self.models:
            start = self.start(model)
            exact = Loop(self, model, torch.float64).run(start)
            if self.dtype == torch.float32:
                made.append((exact, Loop(self, model, torch.float32).run(start)))
                continue
            random = numpy.random.default_rng(model.number)
            moved = {name: tensor * (1 + 1e-14 * torch.tensor(random.uniform(-1, 1, tuple(tensor.shape))))
                     if tensor.is_floating_point() else tensor for name, tensor in start.items()}
            made.append((exact, Loop(self, model, torch.float64).run(moved)))
        return made
