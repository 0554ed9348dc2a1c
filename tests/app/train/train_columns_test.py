"""Columns of tables are matched with those of the training data by name, whatever their order is."""
import csv
import json
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Columns(Train):
    """Features of scales so different that any other order gives other answers."""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(2)
        self.x = (random.normal(0, 1, (90, 3)) * [0.1, 1, 3]).round(4)
        self.y = (self.x @ [4.0, 1.0, -0.5]).round(4)
        self.columns = {"a": self.x[:, 0], "b": self.x[:, 1], "c": self.x[:, 2], "y": self.y}
        self.net = torch.nn.Linear(3, 1)
        digits.export(self.net, self.path("net.pt2"), torch.randn(4, 3))
        self.table("data.csv", "abcy")

    def table(self, file, names, **more):
        columns = {**self.columns, **more}
        names = [*names, *more]
        with open(self.path(file), "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([names, *zip(*(columns[name] for name in names))])

    def fit(self, *options, expect=0):
        return self.train("-n", "2", "--target", "y", "--column", "input=x", "--loss", "mse", "--epochs", "2", "--check", "0",
                          "--overwrite", *options, data="data.csv", expect=expect)

    def predict(self, file, expect=0):
        run = self.workbench("predict", self.path("run"), "--data", self.path(file), "--out", self.path("p.npz"), "--reduce", "none",
                             expect=expect)
        return (run.stderr if expect else run.stdout).replace(self.folder + "/", "")

    def answers(self, kind="best"):
        answers = []
        for i in range(2):
            self.net.load_state_dict(load_file(self.path(f"run/{kind}/model-{i:04d}.safetensors")))
            with torch.no_grad():
                answers.append(self.net(torch.tensor(self.x, dtype=torch.float32)).numpy())
        return numpy.stack(answers)

    def predicted_right(self, kind="best"):
        numpy.testing.assert_allclose(numpy.load(self.path("p.npz"))["prediction"], self.answers(kind), rtol=1e-4, atol=1e-5)

    def test_in_another_order(self):
        self.table("other.csv", "ycab")
        for option in ("--validation", "--test"):
            self.fit(option, self.path("other.csv"))
            report = self.report()
            self.fits_the_schema(report)
            self.assertEqual(report["data"]["columns"],
                             {"table": True, "inputs": {"input": ["a", "b", "c"]}, "target": ["y"], "weight": [], "fold": [],
                              "group": [], "left_out": []})
            kind, field = ("best", "best") if option == "--validation" else ("last", "test")
            for answer, model in zip(self.answers(kind), report["models"]):
                self.assertAlmostEqual(model[field]["loss"], ((answer[:, 0] - self.y) ** 2).mean(), delta=1e-4)
            self.assertIn("  other.csv: left out y\n", self.predict("other.csv"))
            self.predicted_right(kind)
        self.table("features.csv", "bca")
        self.assertNotIn("left out", self.predict("features.csv"))
        self.predicted_right("last")

    def test_quoted_names_behind_a_byte_order_mark(self):
        self.fit("--validation", "0.2")
        with open(self.path("quoted.csv"), "w", newline="", encoding="utf-8-sig") as out:
            csv.writer(out, quoting=csv.QUOTE_ALL).writerows([["c", "a", "b"], *self.x[:, [2, 0, 1]]])
        self.predict("quoted.csv")
        self.predicted_right()

    def refused_files(self):
        numbers = numpy.arange(90)
        return (("id instead", "ab", {"id": numbers},
                 "[bad.csv] columns: got no c but id, expected all columns of the training data by name: a, b, c{}; try to rename id to c\n"),
                ("lacks two", "a", {}, "[bad.csv] columns: got no b, c, expected all columns of the training data by name: a, b, c{}; "
                 "try to add them\n"),
                ("id too", "abc", {"id": numbers},
                 "[bad.csv] columns: got id too, expected no others than the training data have: a, b, c, y; try to remove it\n"))

    def test_missing_renamed_and_additional_ones_are_refused(self):
        self.fit()
        for what, names, more, message in self.refused_files():
            with self.subTest(what):
                self.table("bad.csv", names, **more)
                self.assertEqual(self.predict("bad.csv", expect=2), message.format(""))
                self.table("bad.csv", names + "y", **more)
                for option in ("--validation", "--test"):
                    run = self.fit(option, self.path("bad.csv"), expect=2)
                    self.assertEqual(run.stderr.replace(self.folder + "/", ""), message.format(", y"))
        self.table("bad.csv", "abc")
        run = self.fit("--test", self.path("bad.csv"), expect=2)
        self.assertIn("[bad.csv] columns: got no y, expected all columns of the training data by name: a, b, c, y; try to add it\n",
                      run.stderr.replace(self.folder + "/", ""))
        with open(self.path("twice.csv"), "w", encoding="utf-8") as out:
            out.write("a,b,c,a\n1,2,3,4\n")
        self.assertIn("[twice.csv] header: got a twice, expected each name once; try to rename one of them\n",
                      self.predict("twice.csv", expect=2))

    def test_columns_that_training_was_told_to_use(self):
        self.table("data.csv", "yacb", id=numpy.arange(90))
        self.train("-n", "2", "--target", "y", "--column", "input=c,a,b", "--loss", "mse", "--epochs", "2", "--overwrite",
                   "--validation", "0.2", data="data.csv")
        self.assertEqual(self.report()["data"]["columns"]["left_out"], ["id"])
        self.table("other.csv", "bac", id=numpy.arange(90), more=numpy.arange(90))
        self.assertIn("  other.csv: left out id, more\n", self.predict("other.csv"))
        self.x = self.x[:, [2, 0, 1]]
        self.predicted_right()

    def test_arrays_and_tables(self):
        self.fit("--validation", "0.2")
        numpy.savez(self.path("rows.npz"), input=self.x.astype("float32"), y=self.y)
        # An array says nothing of its features: they are taken as they stand.
        self.assertIn("rows.npz: features are taken by their position: it has no names of single features", self.predict("rows.npz"))
        self.predicted_right()
        numpy.savez(self.path("named.npz"), c=self.x[:, 2], b=self.x[:, 1], a=self.x[:, 0])
        self.assertNotIn("position", self.predict("named.npz"))
        self.predicted_right()
        self.train("-n", "2", "--loss", "mse", "--epochs", "2", "--overwrite", "--validation", "0.2", "--target", "t", data="arrays.npz",
                   expect=2)  # no such file
        numpy.savez(self.path("arrays.npz"), input=self.x.astype("float32"), t=self.y[:, None].astype("float32"))
        self.train("-n", "2", "--loss", "mse", "--epochs", "2", "--overwrite", "--validation", "0.2", data="arrays.npz")
        self.assertEqual(self.report()["data"]["columns"]["target"], ["t"])
        numpy.savez(self.path("wrong.npz"), inputs=self.x.astype("float32"))
        self.assertEqual("[wrong.npz] columns: got no input but inputs, expected all columns of the training data by name: input; try to "
                         "rename inputs to input\n", self.predict("wrong.npz", expect=2))

    def test_one_column_for_a_network_with_one_answer(self):
        self.fit("--validation", "0.2", "--metric", "mae,r2")
        split = numpy.load(self.path("run/split.npz"))["validation"]
        for answer, model in zip(self.answers(), self.report()["models"]):
            self.assertAlmostEqual(model["best"]["mae"], abs(answer[split, 0] - self.y[split]).mean(), delta=1e-5)
        self.train("-n", "3", "--target", "y", "--column", "input=x", "--loss", "mse", "--epochs", "2", "--overwrite", "--folds", "3",
                   data="data.csv")
        self.assertEqual(numpy.load(self.path("run/oof.npz"))["prediction"].shape, (1, 90, 1))


class OtherDtypes(Train):
    def test_a_float64_column_of_a_float32_network(self):
        """Time stamps, of which the network reads what float32 cannot hold."""

        class Clock(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.l = torch.nn.Linear(1, 1)

            def forward(self, t):
                return self.l(torch.fmod(t, 1.0).float())

        t = 1.7e9 + torch.rand(64, 1, dtype=torch.float64) * 1000
        y = (3 * torch.fmod(t, 1.0) + 1).float()
        net = Clock()
        digits.export(net, self.path("net.pt2"), t[:8])
        numpy.savez(self.path("data.npz"), t=t.numpy(), y=y.numpy())
        self.train("-n", "2", "--target", "y", "--lr", "0.1", "--epochs", "100", "--batch", "64")
        self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"), "--reduce",
                       "none")
        predicted = numpy.load(self.path("p.npz"))["prediction"]
        for i in range(2):
            net.load_state_dict(load_file(self.path(f"run/last/model-{i:04d}.safetensors")))
            with torch.no_grad():
                own = net(t)
            numpy.testing.assert_allclose(predicted[i], own.numpy(), rtol=1e-5, atol=1e-5)
            self.assertLess(float(((own - y) ** 2).mean()), 0.3)  # of all that it can learn; 0.75 without the fraction


if __name__ == "__main__":
    unittest.main()
