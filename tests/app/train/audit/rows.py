"""A run's data as the auditor reads it: columns, which rows are for what, normalisation."""
import csv

import numpy
import torch

from . import draws


def read_columns(path):
    """{name: array}; of a CSV a column of whole numbers is int64, as its classes are."""
    if not str(path).endswith(".csv"):
        with numpy.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    with open(path, newline="", encoding="utf-8-sig") as file:
        head, *lines = csv.reader(file)
    columns = {}
    for name, texts in zip(head, zip(*lines)):
        values = numpy.array([float(text) for text in texts])
        columns[name] = values.astype("int64") if (values == numpy.floor(values)).all() else values
    return columns


class Part:
    """The rows of one file: inputs [S, ...] (own ones [N, S, ...]), by forward's arguments; `labelled`: target and row weights too."""

    def __init__(self, path, asked, arguments, features, dtype, labelled=True):
        options = asked.options
        columns = read_columns(path)
        own = {name for text in options.own for name in text.split(",")} if labelled else set()
        said = dict(text.split("=", 1) for text in options.column)
        self.own = set()
        self.inputs, self.input_names, self.target_names = {}, {}, []
        for argument in arguments:
            names = said.get(argument, argument).split(",")
            if argument not in columns and names == [argument] and features:
                names = features  # by name, in the order that training had them
            values = numpy.stack([columns[name] for name in names], 1) if len(names) > 1 else columns[names[0]]
            self.input_names[argument] = names
            if own & set(names):
                self.own.add(argument)
            self.inputs[argument] = torch.tensor(values)
        first = next(iter(self.inputs))
        self.count = self.inputs[first].shape[1 if first in self.own else 0]
        self.target = self.weight = self.raw_target = None
        self.columns = columns
        if not labelled:
            return
        if options.sample_weight:
            self.weight = torch.tensor(columns[options.sample_weight]).to(torch.float64)
            if options.sample_weight in own:
                self.own.add("weight")
        if asked.loss.startswith("output."):
            return
        used = {name for text in said.values() for name in text.split(",")} | set(arguments) | set(features or [])
        other = {options.sample_weight, options.fold, options.group}
        targets = options.target.split(",") if options.target else [name for name in columns if name not in used | other]
        values = numpy.stack([columns[name] for name in targets], 1) if len(targets) > 1 else columns[targets[0]]
        self.raw_target = values
        self.target_names = targets
        if own & set(targets):
            self.own.add("target")
        self.target = torch.tensor(values).to(torch.int64 if asked.classifies else dtype)

    def input_names_flat(self):
        return [name for names in self.input_names.values() for name in names]

    def of(self, name, model):
        """A column's rows for one model."""
        values = {"target": self.target, "weight": self.weight, **self.inputs}[name]
        return values[model] if name in self.own else values


class Data:
    """All rows of a run. `train`, `validation`: row numbers by fold (one list where there are none); `test`: row numbers."""

    def __init__(self, asked, arguments, dtype):
        options = asked.options
        self.asked, self.dtype, self.arguments = asked, dtype, arguments
        self.features = None
        columns = read_columns(options.data)
        if str(options.data).endswith(".csv"):
            meant = {*options.target.split(","), options.sample_weight, options.fold, options.group}
            self.features = [name for name in columns if name not in meant]
        self.main = Part(options.data, asked, arguments, self.features, dtype)
        count = self.main.count
        kinds = self.kinds(columns)
        rows, self.test_file, self.test = list(range(count)), None, []
        if options.test:
            share = fraction(options.test)
            if share is None:
                self.test_file = Part(options.test, asked, arguments, self.features, dtype)
                self.test = list(range(self.test_file.count))
            else:
                rows, self.test = draws.hold_back(rows, share, *kinds, options.seed ^ draws.TEST_SEED)
        self.fold_of, self.folds, self.validation_file = None, options.folds, None
        if options.fold:
            values = numpy.unique(columns[options.fold])
            self.folds = len(values)
            self.fold_of = numpy.full(count, -1)
            self.fold_of[rows] = numpy.searchsorted(values, columns[options.fold])[rows]
        elif options.folds:
            self.fold_of = draws.folds_of(count, rows, options.folds, *kinds, options.seed)
        if self.folds:
            self.train = [[row for row in rows if self.fold_of[row] != fold] for fold in range(self.folds)]
            self.validation = [[row for row in rows if self.fold_of[row] == fold] for fold in range(self.folds)]
        elif options.validation and fraction(options.validation) is None:
            self.validation_file = Part(options.validation, asked, arguments, self.features, dtype)
            self.train, self.validation = [rows], [list(range(self.validation_file.count))]
        elif options.validation:
            kept, held = draws.hold_back(rows, fraction(options.validation) * count / len(rows), *kinds, options.seed)
            self.train, self.validation = [kept], [held]
        else:
            self.train, self.validation = [rows], [[]]
        self.rows = min(map(len, self.train))  # of an epoch
        self.batch = options.batch or min(32, self.rows)
        self.steps_per_epoch = self.rows // self.batch + (1 if self.rows % self.batch and not options.drop_last else 0)

    def kinds(self, columns):
        """(classes, groups) of the rows, None where they have none: both keep splits even or whole."""
        options, target = self.asked.options, self.main.raw_target
        groups = list(columns[options.group]) if options.group else None
        if target is None or "target" in self.main.own:
            return None, groups
        zero_or_one = self.asked.loss == "bce_with_logits" and target.size == self.main.count and set(target.flat) <= {0, 1}
        one_class = self.asked.classifies and target.ndim == 1
        return (list(target.reshape(-1).astype(int)) if one_class or zero_or_one else None), groups

    def names(self):
        """Which columns are what, by name."""
        options, part = self.asked.options, self.main
        said = [options.sample_weight, options.fold, options.group]
        used = {*part.input_names_flat(), *part.target_names, *said}
        return {"table": self.features is not None, "inputs": part.input_names, "target": part.target_names,
                **{key: [name] if name else [] for key, name in zip(("weight", "fold", "group"), said)},
                "left_out": [name for name in part.columns if name not in used]}

    def part(self, which):
        """(the file's rows, row numbers by fold) of "train", "validation" or "test"."""
        if which == "train":
            return self.main, self.train
        if which == "test":
            return self.test_file or self.main, [self.test]
        return self.validation_file or self.main, self.validation

    def rows_of(self, which, model):
        """(part, row numbers) that a model sees."""
        part, rows = self.part(which)
        return part, rows[model.fold or 0] if len(rows) > 1 else rows[0]

    def inputs(self, part, model, rows, dtype, change=None):
        """Forward's arguments for these rows: brought to the run's precision, changed (images alone) and normalised there, then
        raised to `dtype`."""
        given = []
        for argument in self.arguments:
            values = part.of(argument, model.number)[rows]
            if values.is_floating_point() or values.dtype == torch.uint8 or self.features:
                values = values.to(self.dtype)
                if change and values.ndim == 4:
                    values = change(values)
                mean, deviation = self.statistics(argument, model)
                if mean is not None:
                    values = ((values.double() - mean) / deviation).to(self.dtype)
                values = values.to(dtype)
            if values.ndim == 1 and self.features:
                values = values[:, None]
            given.append(values)
        return given

    def statistics(self, argument, model):
        """(mean, deviation) of each feature or channel over the rows that the model learns from; None where it is not normalised."""
        said = dict(text.split("=", 1) for text in self.asked.options.normalize).get(argument)
        if said is None:
            return None, None
        if said != "standard":
            mean, deviation = (float(number) for number in said.split(","))
            return mean, deviation
        part, rows = self.rows_of("train", model)
        values = part.of(argument, model.number)[rows].double()
        over = [0, *range(2, values.ndim)]
        mean, deviation = values.mean(over, keepdim=True)[0], values.std(over, correction=0, keepdim=True)[0]
        return mean, torch.where(deviation == 0, 1.0, deviation)


def fraction(text):
    try:
        return float(text)
    except ValueError:
        return None
