"""What is said of a run's configurations and mean answer: every metric, and pruned models apart."""
import csv
import os
import re
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file
from sklearn import metrics

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class Summary(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(0, 1, (90, 4)).astype("float32")
        self.y = (self.x @ random.normal(0, 1, (4, 3))).argmax(1)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        self.net = torch.nn.Linear(4, 3)
        digits.export(self.net, self.path("net.pt2"), torch.randn(3, 4))

    def probabilities(self, model, rows):
        self.net.load_state_dict(load_file(self.path(f"run/best/model-{model:04d}.safetensors")))
        with torch.no_grad():
            return self.net(torch.tensor(self.x[rows])).double().softmax(1).numpy()

    def scores(self, p, rows):
        y = self.y[rows]
        return {"loss": metrics.log_loss(y, p, labels=range(3)), "accuracy": (p.argmax(1) == y).mean(),
                "f1": metrics.f1_score(y, p.argmax(1), average="macro")}

    def rows(self, name):
        return numpy.load(self.path("run/split.npz"))[name]

    def said(self, text, first, name):
        """Numbers after a metric's name, in the line that begins with `first` or in those that go on with it."""
        lines = text.splitlines()
        start = next(i for i, line in enumerate(lines) if line.strip().startswith(first))
        stop = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" " * 40)), len(lines))
        values = " ".join(lines[start:stop])
        found = re.search(rf"(?<!test )\b{name} +(\S+)(?: ± (\S+) \[(\S+), (\S+)\], middle half (\S+))?(?:  test (\S+))?", values)
        self.assertIsNotNone(found, (name, values))
        return [float(number.rstrip(",")) for number in found.groups() if number]


class Numbers(Summary):
    def test_a_metric_without_a_value_is_an_empty_cell(self):
        """The area under a curve of rows of one class."""
        one = self.y == 0
        numpy.savez(self.path("held.npz"), input=self.x[one], y=self.y[one])
        self.train("-n", "2", "--epochs", "1", "--validation", self.path("held.npz"), "--metric", "auc,accuracy")
        with open(self.path("run/models.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["best.auc"] for row in rows], ["", ""])
        for row, model in zip(rows, self.report()["models"]):
            self.assertEqual(float(row["best.accuracy"]), model["best"]["accuracy"])

    def test_epochs_are_counted_in_full(self):
        out = self.train("-n", "1", "--batch", "90", "--epochs", "12345", "--eval-every", "12345", "--check", "0").stdout
        self.assertIn("epoch 12345 · step 12345/12345 · ", out)
        out = self.train("-n", "1", "--batch", "40", "--steps", "4", "--eval-every", "1", "--check", "0", "--overwrite").stdout
        self.assertEqual(re.findall(r"^epoch (\S+) · step", out, re.MULTILINE), [f"{step / 3:.4g}" for step in range(1, 5)])


class EveryMetric(Summary):
    def test_over_seeds_and_of_one_model_each(self):
        common = ["--epochs", "4", "--lr", "0.05", "--validation", "0.3", "--test", "0.2", "--metric", "accuracy,f1", "--monitor"]
        for monitor, more in (("loss", ["--seeds", "3"]), ("accuracy", ["-n", "2", "--set", "weight_decay=0,0.5"])):
            printed = self.train(*common, monitor, *more, "--overwrite").stdout
            n = len(self.report()["models"])
            held, tested = self.rows("validation"), self.rows("test")
            each = [(self.scores(self.probabilities(m, held), held), self.scores(self.probabilities(m, tested), tested)) for m in range(n)]
            again = self.workbench("report", self.path("run")).stdout
            configs = self.report()["configs"]
            self.fits_the_schema(self.report())
            for text in (printed, again):
                self.assertIn(f"metrics of each model's evaluation with the best {monitor}:\n", text)
                for name in ("loss", "accuracy", "f1"):
                    validation, test = ([scores[name] for scores in own] for own in zip(*each))
                    if monitor == "loss":
                        got = self.said(text, "all models", name)
                        wanted = [numpy.mean(validation), numpy.std(validation, ddof=1)]
                        numpy.testing.assert_allclose(got[:2], wanted, rtol=0.06)  # a deviation has two digits
                        self.assertLessEqual(got[2], got[0])
                        self.assertAlmostEqual(got[-1], numpy.mean(test), delta=2e-3 * abs(numpy.mean(test)))
                        metric = configs[0]["metrics"][name]
                        for spread, values in ((metric["validation"], validation), (metric["test"], test)):
                            self.assertEqual(spread["n"], 3)
                            self.assertAlmostEqual(spread["mean"], numpy.mean(values), delta=1e-5)
                            self.assertAlmostEqual(spread["sd"], numpy.std(values, ddof=1), delta=1e-5)
                    else:
                        for m, decay in enumerate(("0", "0.5")):
                            got = self.said(text, f"weight_decay={decay} ", name)
                            numpy.testing.assert_allclose(got, [validation[m], test[m]], rtol=1e-3)
                    for rows, index, k in (("validation", held, 0), ("test", tested, 1)):
                        mean = self.scores(numpy.mean([self.probabilities(m, index) for m in range(n)], 0), index)
                        line = next(line for line in text.splitlines() if "their mean answer" in line and f"of the {rows} rows" in line)
                        self.assertAlmostEqual(self.said(line, "their mean answer", name)[0], mean[name], delta=1e-3)


class Pruned(Summary):
    def test_count_in_no_mean(self):
        """Eight models of two configurations, of which halving leaves two of the second one."""
        common = ["--grid", "lr=0.001,0.05", "--seeds", "4", "--prune", "2,2", "--epochs", "5", "--validation", "0.3", "--test", "0.2"]
        printed = self.train(*common, "--metric", "accuracy").stdout
        report = self.report()
        self.fits_the_schema(report)
        left = [m for m in report["models"] if m["status"] == "trained"]
        self.assertEqual([(m["status"], m["hyperparameters"]["lr"]) for m in left], [("trained", 0.05)] * 2)
        self.assertEqual(sum(m["status"] == "pruned" for m in report["models"]), 6)
        best, none = report["configs"]
        self.assertEqual([(c["hyperparameters"]["lr"], c["n"], c["pruned"]) for c in (best, none)], [(0.05, 2, 2), (0.001, 0, 4)])
        for part in ("best", "test"):
            values = [m[part]["loss"] for m in left]
            got = best if part == "best" else best["test"]
            self.assertAlmostEqual(got["mean"], numpy.mean(values), places=12)
            self.assertAlmostEqual(got["sd"], numpy.std(values, ddof=1), places=12)
        self.assertEqual([none[key] for key in ("mean", "sd", "iqm", "ci95", "test")], [None] * 5)
        mean = {rows: numpy.mean([self.probabilities(m["model"], self.rows(rows)) for m in left], 0) for rows in ("validation", "test")}
        for rows, p in mean.items():
            for name in ("loss", "accuracy"):
                self.assertAlmostEqual(report["ensemble"][rows][name], self.scores(p, self.rows(rows))[name], delta=1e-6)
        self.assertIn("ensemble of 2 of 8 models: 6 pruned left out", report["notes"])
        for text in (printed, self.workbench("report", self.path("run")).stdout):
            self.assertRegex(text, r"\n  lr=0\.05 +n 2 .*  pruned: 2\n")
            self.assertRegex(text, r"\n  lr=0\.001 +n 0    pruned: 4\n")
            self.assertRegex(text, r"\n  their mean answer +n 2 ")
            self.assertIn("pruned models are left out of the means and of the mean answer", text)
        numpy.savez(self.path("held.npz"), input=self.x[self.rows("validation")])
        run = self.workbench("predict", self.path("run"), "--data", self.path("held.npz"), "--out", self.path("p.npz"))
        self.assertIn(" by 2 models (6 pruned left out), mean -> ", run.stdout)
        numpy.testing.assert_allclose(numpy.load(self.path("p.npz"))["prediction"], mean["validation"], atol=1e-6)
        for bound, expect in ((best["mean"] + 1e-6, 0), (best["mean"] - 1e-6, 3)):
            self.train(*common, "--require", f"loss<{bound}", "--overwrite", expect=expect)

    def test_beside_models_without_a_finite_value(self):
        common = ["--optimizer", "sgd", "--set", "momentum=0.9", "--epochs", "3", "--validation", "0.3", "--prune", "2"]
        self.train("--lr", "0.01,1e38,0.02,3e38,0.03,0.04", *common)
        statuses = [m["status"] for m in self.report()["models"]]
        self.assertEqual((statuses.count("pruned"), min(statuses.count(s) for s in ("diverged", "trained")) > 0), (3, True), statuses)
        self.assertIn(f"ensemble of {statuses.count('trained')} of 6 models: {statuses.count('diverged')} without a finite value and 3 "
                      "pruned left out", self.report()["notes"])


class WithoutValues(Summary):
    def test_means_say_of_how_many_models_they_are(self):
        """Of four models of a configuration, one or two diverged before their first evaluation."""
        self.train("--lr", "0.01,1e38,0.02,3e38", "--optimizer", "sgd", "--set", "momentum=0.9", "--epochs", "2", "--validation", "0.3",
                   "--metric", "accuracy")
        values = [m["best"]["accuracy"] for m in self.report()["models"] if m["best"]]
        n = len(values)
        self.assertIn(n, (2, 3))
        page = self.path("page.html")
        text = self.workbench("report", self.path("run"), "--by", "momentum", "--html", page).stdout
        text += self.workbench("report", self.path("run"), "--by", "momentum").stdout
        self.assertRegex(text, rf"\n  momentum=0\.9 +n 4 .* \(n {n}\)\n +accuracy {numpy.mean(values):.4g} ± .* \(n {n}\)\n")
        with open(page, encoding="utf-8") as file:
            self.assertIn(f"] (n {n})<", file.read())
        every = self.workbench("report", self.path("run")).stdout
        self.assertNotIn("(n ", every)


if __name__ == "__main__":
    unittest.main()
