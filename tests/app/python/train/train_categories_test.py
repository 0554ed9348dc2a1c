"""What `nw.train` takes as numbers and what as categories, against numbers and codes written by hand."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import datetime  # noqa: E402
import decimal  # noqa: E402
import unittest  # noqa: E402

import numpy  # noqa: E402
import pandas  # noqa: E402
import torch  # noqa: E402
from separate_runs import Runs, rows  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

STILL = {"lr": 0.0, "weight_decay": 0.0, "seeds": 1, "epochs": 1, "overwrite": True, "dtype": "f64", "check": 0}  # what starts stays


class Sums(nn.Module):
    """The sum of the numbers that it sees."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 1, bias=False)
        nn.init.ones_(self.a.weight)

    def forward(self, x):
        return self.a(x)[:, 0]


class Rows(nn.Linear):
    """With an argument of this name."""

    def __init__(self):
        super().__init__(5, 3)

    def forward(self, x):
        return super().forward(x)


class Categories(Runs):
    def test_numbers_as_objects(self):
        """Numbers in columns of objects, as of a database, are numbers, also as target and weights."""
        random = numpy.random.default_rng(0)
        prices = [10.0, 2500.0, 40.5, 7.25, 300.0, 55.0, 1000.0, 20.0] * 5
        kinds = {"float": prices, "Decimal": [decimal.Decimal(str(p)) for p in prices], "mixed": [p if p % 1 else int(p) for p in prices]}
        for name, values in kinds.items():
            frame = pandas.DataFrame({"none": numpy.zeros(40), "price": pandas.Series(values, dtype=object), "y": random.normal(size=40)})
            run = self.train(Sums, data=frame, target="y", validation=frame, loss="mse", **STILL)
            self.assertEqual(run.best(1).predict(frame).tolist(), prices, name)
            array = frame[["none", "price"]].to_numpy()
            run = self.train(Sums, data=(array, frame["y"]), validation=(array, frame["y"]), loss="mse", **STILL)
            self.assertEqual(run.best(1).predict(array).tolist(), prices, name)
            frame = pandas.DataFrame({"a": numpy.zeros(40), "b": numpy.ones(40), "y": frame["price"], "w": frame["price"]})
            run = self.train(Sums, data=frame, target="y", validation=frame, sample_weight="w", loss="mse", **STILL)
            true = numpy.average((1 - numpy.array(prices)) ** 2, weights=prices)
            self.assertAlmostEqual(run.table["loss"][0] / true, 1, delta=1e-12)

    def test_classes_as_objects(self):
        (x, y), net = rows(), nn.Linear(5, 3)
        true = F.cross_entropy(F.linear(x, net.weight.double(), net.bias.double()), y).item()
        for target in (pandas.Series(y.tolist(), dtype=object), numpy.array(["a", "b", "c"], dtype=object)[y]):
            run = self.train(net, data=(x, target), validation=(x, target), **STILL)
            self.assertEqual(run.report["data"]["classes"], 3)
            self.assertAlmostEqual(run.table["loss"][0], true, delta=1e-9)

    def test_mixtures(self):
        y = [0.5, 1.5, 2.5]
        for values, words in (([1.5, "low", 2.5], "str in row 1, float in row 0"), (["low", True, 2], "int in row 2, str in row 0"),
                              ([1.5, 2.5, True], "bool in row 2, float in row 0"),
                              ([datetime.date(2020, 1, 1)] * 3, "date in row 0")):
            frame = pandas.DataFrame({"none": 0.0, "a": pandas.Series(values, dtype=object), "y": y})
            self.refused(f"[data] column a: got {words}, expected numbers alone, or words alone; try astype(float), or astype(str)",
                         lambda data=frame: self.train(Sums, data=data, target="y", loss="mse", **STILL))
        gaps = pandas.DataFrame({"none": 0.0, "a": pandas.Series([1.5, None, 2.5], dtype=object), "y": y})
        self.refused("[data] column a: got 1 gaps, the first in row 1, expected a value in each row; try frame.dropna() or fillna",
                     lambda: self.train(Sums, data=gaps, target="y", loss="mse", **STILL))

    def test_groups_of_any_objects(self):
        x, y = rows()
        owner = pandas.Series([datetime.date(2020, 1, 1 + i // 4) for i in range(53)], dtype=object)
        run = self.train(nn.Linear(5, 3), data=(x, y), group=owner, folds=3, drop_last=True, **STILL)
        folds = numpy.load(os.path.join(run.parts[0].folder, "oof.npz"))["fold"]
        for day in set(owner):
            self.assertEqual(len(set(folds[owner == day])), 1)

    def test_columns_that_are_not_used(self):
        """A dict's columns that nothing asks for may be of any objects, and rows to predict have groups of any kind."""
        (x, y), net = rows(), nn.Linear(5, 3)
        days = numpy.array([datetime.date(2020, 1, 1 + i // 4) for i in range(53)], dtype=object)
        mixed = numpy.array([i if i % 2 else "low" for i in range(53)], dtype=object)
        data, true = {"input": x, "y": y, "day": days, "mixed": mixed}, F.linear(x, net.weight.double(), net.bias.double())
        for group in ("day", "mixed"):
            run = self.train(net, data=data, target="y", group=group, validation=0.25, **STILL)
            for rows_to_predict in (data, {**data, group: days[::-1], "y": numpy.array([None] * 53, dtype=object)}):
                self.assertLess((run.best(1).predict(rows_to_predict, apply="none") - true).abs().max(), 1e-12)
        run = self.train(net, data=({"input": x, "day": days}, y), validation=({"input": x, "day": days}, y), **STILL)
        self.assertAlmostEqual(run.table["loss"][0], F.cross_entropy(true, y).item(), delta=1e-9)

        def of_days(output, batch):
            return (output[:, 0] - batch["day"]).square()

        run = self.train(net, data={"input": x, "day": days}, validation={"input": x, "day": days}, loss=of_days, **STILL)
        self.assertAlmostEqual(run.table["loss"][0], (true[:, 0] - torch.arange(53) // 4).square().mean().item(), delta=1e-9)
        for name, options in (("input", {}), ("y", {}), ("y", {"target": "y"}), ("w", {"sample_weight": "w", "target": "y"})):
            self.refused(f"[data] column {name}: got int in row 1, str in row 0, expected numbers alone, or words alone; try astype(float), "
                         "or astype(str)", lambda: self.train(net, data={"input": x, "y": y, name: mixed}, **options, **STILL))

    def test_words_where_training_has_numbers(self):
        """Codes of validation rows and of rows to predict would be other numbers."""
        frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0] * 9, "b": [0, 1, 1] * 9, "y": [0.5, 1.5, 2.5] * 9})
        words = pandas.DataFrame({"a": ["low", "mid", "high"] * 9, "b": frame["b"], "y": frame["y"]})
        line = "[data] column a: got 'low' in row 0, expected numbers, as the training data has there; try the column that was trained on"
        run = self.train(Sums, data=frame, target="y", validation=frame, loss="mse", **STILL)
        self.refused(line, lambda: run.best(1).predict(words))
        self.refused(line, lambda: self.train(Sums, data=frame, target="y", validation=words, loss="mse", **STILL))
        self.refused(line.replace("column a", "column y"), lambda: self.train(
            Sums, data=frame, target="y", validation=words.assign(a=frame["a"], y=words["a"]), loss="mse", **STILL))
        net, (x, y) = nn.Linear(5, 3), rows()
        self.refused(line.replace("column a", "column y"), lambda: self.train(
            net, data=(x, y), validation=(x, numpy.array(["low", *"abb" * 17, "c"])), **STILL))
        self.refused(line.replace("column a", "column y"), lambda: self.train(
            net, data={"input": x, "y": y}, validation={"input": x, "y": numpy.array(["low", *"abb" * 17, "c"])}, **STILL))
        weights = {"data": frame.assign(w=frame["b"] + 1), "validation": frame.assign(w=words["a"])}
        self.refused(line.replace("column a", "column w"), lambda: self.train(Sums, target="y", loss="mse", sample_weight="w", **weights, **STILL))
        self.refused("[data] rows: got none, expected some; try more data", lambda: run.best(1).predict(words.iloc[:0]))

    def test_numbers_where_training_has_words(self):
        """In a dict as in a frame: they may be other categories than their codes."""
        (x, _), sizes = rows(), numpy.array(["4", "1", *["2", "3", "1"] * 17])
        data = {"x": x, "y": sizes}
        run = self.train(Rows, data=data, validation=data, metrics={"right": lambda output, target: (output.argmax(1) == target).double().mean()},
                         loss=lambda output, target: F.cross_entropy(output[:, :3], target % 3, reduction="none"), **{**STILL, "seeds": 2})
        self.assertEqual(run.ensemble(1).indices, [run.table["loss"].idxmin()])
        line = "[data] column y: got 4 in row 0, expected one of the 4 categories of the training data; try '1'"
        numbers_of_them = {"x": x, "y": sizes.astype(int)}
        self.refused(line, lambda: self.train(Rows, data=data, validation=numbers_of_them, target="y", loss="cross_entropy", **STILL))
        frame = pandas.DataFrame({"a": [0.5] * 53, "b": sizes, "y": [1.0] * 53})
        run = self.train(Sums, data=frame, target="y", validation=frame, loss="mse", **STILL)
        self.refused(line.replace("column y", "column b"), lambda: run.best(1).predict(frame.assign(b=sizes.astype(int))))

    def test_numbers_of_another_kind_than_training_has(self):
        """Numbers as categories or as objects, and booleans as objects, are the numbers that they are; predictions read no target."""
        frame = pandas.DataFrame({"a": [1.0, 2.5, 4.0] * 9, "b": [True, False, True] * 9, "y": [0.5, 1.5, 2.5] * 9})
        run = self.train(Sums, data=frame, target="y", validation=frame, loss="mse", **STILL)
        later = pandas.DataFrame({"a": [4.0, 1.0], "b": [True, True], "y": ["?", None]})
        for kinds in ({}, {"a": "category"}, {"b": object}, {"a": "category", "b": "category"}):
            self.assertEqual(run.best(1).predict(later.astype(kinds)).tolist(), [5.0, 2.0], kinds)

    def test_words_of_each_models_rows(self):
        """Categories are those of all models' rows, whoever has them."""
        x, _ = rows(20)
        words = numpy.array(["b", "d"] * 10)
        words[[12, 15]] = "a", "c"
        codes = torch.tensor(["abcd".index(word) for word in words])
        torch.manual_seed(0)
        net = nn.Linear(5, 4)
        ordered = pandas.Categorical(words, categories=list("dcba"))
        for target, codes in ((words, codes), (ordered, 3 - codes)):
            data = [(x[:10], target[:10]), (x[10:], target[10:])]
            run = self.train(net, data=data, validation=data, **{**STILL, "seeds": 2})
            for i, loss in enumerate(run.table["loss"]):
                part = slice(10 * i, 10 * i + 10)
                true = F.cross_entropy(F.linear(x[part], net.weight.double(), net.bias.double()), codes[part]).item()
                self.assertAlmostEqual(loss, true, delta=1e-9)
        self.refused("[data] column y: got words of model 1 and none of model 0, expected numbers of all models, or words of all; try astype(str)",
                     lambda: self.train(net, data=[(x[:10], codes[:10]), (x[10:], words[10:])], **{**STILL, "seeds": 2}))

    def test_the_only_column_left(self):
        """A function as the loss compares with the only column that is left, as a loss by name does."""
        x, y = rows()

        def loss(output, target):
            return F.cross_entropy(output, target, reduction="none")

        (xv, yv), weight = rows(31, seed=4), torch.ones(53, dtype=torch.float64)
        for beside, held, options in (({}, {}, {}), ({"w": weight}, {"w": weight[:31]}, {"sample_weight": "w"})):
            run = self.train(Rows, data={"x": x, "y": y, **beside}, validation={"x": xv, "y": yv, **held}, loss=loss, seeds=2, lr=0.1,
                             epochs=2, dtype="f64", overwrite=True, metrics={"own": lambda output, target: loss(output, target).mean()}, **options)
            for model, row in zip(run.models, run.table.itertuples()):
                with torch.no_grad():
                    true = loss(model.double()(xv), yv).mean().item()
                self.assertAlmostEqual(row.loss, true, delta=1e-9)
                self.assertAlmostEqual(row.own, true, delta=1e-9)
            self.assertEqual(len(run.best(1).predict(xv)), 31)
            run.ensemble(2)


if __name__ == "__main__":
    unittest.main()
