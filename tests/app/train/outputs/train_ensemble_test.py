"""The models' mean answer: of which models it is, and where there is none."""
import math
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class Means(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x, self.y = random.normal(0, 1, (60, 4)).astype("float32"), random.integers(0, 3, 60)
        self.net = torch.nn.Linear(4, 3)
        digits.export(self.net, self.path("net.pt2"), torch.randn(3, 4))

    def probabilities(self, kind, model, x):
        self.net.load_state_dict(load_file(self.path(f"run/{kind}/model-{model:04d}.safetensors")))
        with torch.no_grad():
            return self.net(torch.tensor(x)).softmax(1)

    def predicted(self, *options):
        run = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"), *options)
        return numpy.load(self.path("p.npz"))["prediction"], run.stdout


class OfRows(Means):
    def test_that_are_not_the_same(self):
        own = numpy.random.default_rng(1).normal(0, 1, (2, 60, 4)).astype("float32")
        labels = numpy.random.default_rng(2).integers(0, 3, (2, 60))
        for columns, which in (({"input": own, "y": self.y}, "input"), ({"input": self.x, "y": labels}, "y")):
            numpy.savez(self.path("data.npz"), **columns)
            common = ["-n", "2", "--own", which, "--validation", "0.3", "--test", "0.2", "--epochs", "1", "--overwrite"]
            out = self.train(*common).stdout
            self.assertEqual(self.report()["ensemble"], {"validation": {}, "test": {}})
            self.fits_the_schema(self.report())
            self.assertNotIn("their mean answer", out)
            self.refused("[--require] ensemble:loss<9: got models with rows of their own, expected the same rows for "
                         "all; try min: or best: instead of ensemble:", *common, "--require", "ensemble:loss<9")
            self.train(*common, "--require", "best:loss<9")


class Scored(torch.nn.Module):
    """Scores, and each row's loss."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, input, y):
        scores = self.linear(input)
        return scores, torch.nn.functional.cross_entropy(scores, y, reduction="none")


class OfComputedNumbers(Means):
    def test_are_none(self):
        """The mean of the models' losses is not the loss of their mean answer, so that no such number is given for it."""
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        rows = {0: torch.export.Dim("batch", min=1)}
        torch.export.save(torch.export.export(Scored().eval(), (torch.randn(8, 4), torch.zeros(8, dtype=torch.long)),
                                              dynamic_shapes=(rows, rows)), self.path("net.pt2"))
        common = ["-n", "3", "--lr", "0.1", "--epochs", "3", "--validation", "0.3", "--test", "0.2", "--overwrite"]
        told = ["--metric", "min:output.1"]
        out = self.train(*common, *told, "--loss", "output.1", "--output", "0").stdout
        self.assertEqual(self.report()["ensemble"], {"validation": {}, "test": {}})
        self.fits_the_schema(self.report())
        self.assertNotIn("their mean answer", out)
        for text in ("ensemble:loss<9", "ensemble:min:output.1<9"):
            self.refused(f"[--require] {text}: got a number that the network computes, expected a metric of answers and targets, "
                         "which a mean answer has; try mean: or best: instead of ensemble:", *common, *told, "--loss", "output.1",
                         "--output", "0", "--require", text)
        self.train(*common, *told, "--loss", "output.1", "--output", "0", "--require", "best:min:output.1<9")
        # Beside a loss by name, whose mean answer is known.
        self.train(*common, *told, "--loss", "cross_entropy", "--target", "y", "--column", "y=y", "--require", "ensemble:loss<9")
        self.assertEqual({name: set(values) for name, values in self.report()["ensemble"].items()},
                         {"validation": {"loss"}, "test": {"loss"}})
        mean = 0
        for m in range(3):
            net = Scored()
            net.load_state_dict(load_file(self.path(f"run/best/model-{m:04d}.safetensors")))
            with torch.no_grad():
                mean = mean + net.double().linear(torch.tensor(self.x).double()).softmax(1) / 3
        rows = numpy.load(self.path("run/split.npz"))["validation"]
        wanted = -mean[rows, self.y[rows]].log().mean().item()
        self.assertAlmostEqual(self.report()["ensemble"]["validation"]["loss"], wanted, delta=1e-5)


class OfNoNumbers(Means):
    def test_are_none(self):
        """A model that answers with NaN has no accuracy, and no area under a curve of scores that cannot be sorted."""
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        weights = []
        for m in range(2):
            weights += ["--weights", self.path(f"start-{m}.safetensors")]
            far = {"weight": torch.tensor([[3e38, -3e38, 3e38, 1.0]] * 3), "bias": torch.zeros(3)}
            save_file(far if m else self.net.state_dict(), weights[-1])
        self.train(*weights, "--epochs", "1", "--validation", "0.3", "--test", "0.3", "--metric", "accuracy,f1,auc,ece,top5")
        sound, lost = self.report()["models"]
        self.assertEqual((sound["status"], lost["status"]), ("trained", "diverged"))
        self.assertEqual(set(sound["test"]), {"loss", "accuracy", "f1", "auc", "ece", "top5"})
        self.assertEqual({name: value for name, value in lost["test"].items() if value is not None}, {})


class OfSureModels(Means):
    """Models with scores so far apart that their probabilities, as float64 numbers, are 0 and 1."""

    def means(self, loss, target, count, rows):
        """The metrics of the mean answer and of the models, and the mean loss by logarithms of probabilities."""
        numpy.savez(self.path("data.npz"), input=self.x, y=target)
        scores, weights = [], []
        for m in range(count):
            torch.manual_seed(m)
            net = torch.nn.Linear(4, 3)
            state = {name: tensor.detach() * 700 for name, tensor in net.state_dict().items()}
            weights += ["--weights", self.path(f"start-{m}.safetensors")]
            save_file(state, weights[-1])
            scores.append(torch.nn.functional.linear(torch.tensor(self.x), state["weight"], state["bias"]).double())
        self.train(*weights, "--loss", loss, "--optimizer", "sgd", "--lr", "0", "--epochs", "1", "--test", self.path("data.npz"),
                   "--metric", "accuracy,ece,f1,auc", "--overwrite")
        return self.report()["ensemble"]["test"], [model["test"] for model in self.report()["models"]], rows(torch.stack(scores))

    def cross_entropy(self, count, smoothing):
        def loss(scores):
            mean = scores.log_softmax(2).logsumexp(0) - math.log(count)
            self.assertGreater((scores.softmax(2) == 0).sum(), 0)
            return torch.nn.functional.cross_entropy(mean, torch.tensor(self.y), label_smoothing=smoothing).item()
        return self.means(f"cross_entropy:label_smoothing={smoothing}", self.y, count, loss)

    def test_of_classes(self):
        for count in (1, 3):
            for smoothing in (0, 0.1):
                with self.subTest(count=count, smoothing=smoothing):
                    mean, models, loss = self.cross_entropy(count, smoothing)
                    self.assertAlmostEqual(mean["loss"] / loss, 1, delta=1e-5)
                    self.assertNotIn(None, mean.values())
                    if count == 1:
                        self.assertEqual(mean, models[0])

    def test_of_labels(self):
        labels = numpy.random.default_rng(3).integers(0, 2, (60, 3)).astype("float32")
        for count in (1, 3):
            def loss(scores, count=count):
                yes, no = (torch.nn.functional.logsigmoid(s * scores).logsumexp(0) - math.log(count) for s in (1, -1))
                self.assertGreater((scores.sigmoid() == 1).sum(), 0)
                target = torch.tensor(labels).double()
                return -(target * yes + (1 - target) * no).mean().item()
            with self.subTest(count=count):
                mean, models, wanted = self.means("bce_with_logits", labels, count, loss)
                self.assertAlmostEqual(mean["loss"] / wanted, 1, delta=1e-5)
                self.assertNotIn(None, mean.values())
                if count == 1:
                    for name, value in models[0].items():
                        self.assertAlmostEqual(mean[name], value, delta=1e-9 * abs(value))


class OfFolds(Means):
    """Each fold's models are trained with class weights of their own."""

    def test_with_balanced_classes(self):
        random = numpy.random.default_rng(5)
        fold = numpy.arange(60) % 3
        # The classes' shares differ from fold to fold.
        y = numpy.array([random.choice(3, p=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.6, 0.2]][f]) for f in fold])
        test_x, test_y = random.normal(0, 1, (40, 4)).astype("float32"), random.integers(0, 3, 40)
        numpy.savez(self.path("data.npz"), input=self.x, y=y, f=fold)
        numpy.savez(self.path("test.npz"), input=test_x, y=test_y)
        self.train("--fold", "f", "--seeds", "2", "--loss", "cross_entropy:weight=balanced", "--epochs", "3", "--lr", "0.05",
                   "--test", self.path("test.npz"))
        weights = []
        for k in range(3):
            count = numpy.bincount(y[fold != k], minlength=3)
            weights.append((fold != k).sum() / (3 * count))
        losses, shares = [], []
        for k in range(3):  # models are seeds by folds
            rows = fold == k
            mean = (self.probabilities("best", k, self.x[rows]) + self.probabilities("best", 3 + k, self.x[rows])).numpy() / 2
            own = weights[k][y[rows]]
            losses += list(-own * numpy.log(mean[numpy.arange(len(own)), y[rows]]))
            shares += list(own)
        self.assertAlmostEqual(self.report()["ensemble"]["validation"]["loss"], sum(losses) / sum(shares), delta=1e-5)
        # Rows that all models answer count by the mean of their weights.
        mean = sum(self.probabilities("best", m, test_x).double().numpy() for m in range(6)) / 6
        own = numpy.mean(weights, 0)[test_y]
        wanted = (-own * numpy.log(mean[numpy.arange(40), test_y])).sum() / own.sum()
        self.assertAlmostEqual(self.report()["ensemble"]["test"]["loss"], wanted, delta=1e-5)
        with_first = weights[0][test_y]
        self.assertGreater(abs((-with_first * numpy.log(mean[numpy.arange(40), test_y])).sum() / with_first.sum() - wanted), 1e-4)


class OfSmoothedLabels(Means):
    """Its loss is cross_entropy with the label smoothing that its models are trained with, or the mean where they differ."""

    def has_loss(self, smoothing, *options):
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        numpy.savez(self.path("other.npz"), input=self.x[:37] + 1, y=self.y[:37])
        self.train(*options, "--epochs", "3", "--lr", "0.05", "--validation", self.path("other.npz"), "--test", self.path("data.npz"),
                   "--overwrite")
        count = self.report()["n"]
        for name, x, y in (("validation", self.x[:37] + 1, self.y[:37]), ("test", self.x, self.y)):
            mean = torch.stack([self.probabilities("best", m, x).double() for m in range(count)]).mean(0).log()
            loss, plain = (torch.nn.functional.cross_entropy(mean, torch.tensor(y), label_smoothing=s).item() for s in (smoothing, 0))
            self.assertAlmostEqual(self.report()["ensemble"][name]["loss"], loss, delta=1e-5)
            self.assertGreater(abs(loss - plain), 1e-4)

    def test_all_the_same(self):
        self.has_loss(0.4, "-n", "3", "--loss", "cross_entropy:label_smoothing=0.4")
        self.has_loss(0.3, "-n", "1", "--set", "label_smoothing=0.3")

    def test_a_mean_of_several(self):
        self.has_loss((0 + 0.1 + 0.5) / 3, "--set", "label_smoothing=0,0.1,0.5")

    def test_of_folds_by_the_models_that_answer(self):
        """Smoothing by fold: a column of --models."""
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y, f=numpy.arange(60) % 2)
        with open(self.path("models.csv"), "w", encoding="utf-8") as file:
            file.write("fold,label_smoothing,seed\n0,0.1,1\n1,0.6,2\n0,0.3,3\n")
        self.train("--fold", "f", "--models", self.path("models.csv"), "--epochs", "3", "--lr", "0.05")
        total = 0
        for fold, models, smoothing in ((0, (0, 2), 0.2), (1, (1,), 0.6)):
            rows = numpy.arange(60) % 2 == fold
            mean = torch.stack([self.probabilities("best", m, self.x[rows]).double() for m in models]).mean(0).log()
            total += torch.nn.functional.cross_entropy(mean, torch.tensor(self.y[rows]), label_smoothing=smoothing, reduction="sum").item()
        self.assertAlmostEqual(self.report()["ensemble"]["validation"]["loss"], total / 60, delta=1e-5)


class OfModels(Means):
    """Two of four learn so fast that they are no numbers before the first evaluation."""

    def setUp(self):
        super().setUp()
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        numpy.savez(self.path("other.npz"), input=self.x[:30] + 1, y=self.y[:30])
        self.common = ["--lr", "0.01,1e38,0.02,3e38", "--optimizer", "sgd", "--set", "momentum=0.9", "--epochs", "2"]

    def is_of_two(self, out, kind, sets):
        statuses = [model["status"] for model in self.report()["models"]]
        self.assertEqual(statuses, ["trained", "diverged", "trained", "diverged"])
        for name, x, y in sets:
            mean = (self.probabilities(kind, 0, x) + self.probabilities(kind, 2, x)) / 2
            wanted = torch.nn.functional.nll_loss(mean.log(), torch.tensor(y)).item()
            self.assertAlmostEqual(self.report()["ensemble"][name]["loss"], wanted, delta=1e-5)
        self.assertIn("ensemble of 2 of 4 models: 2 without a finite value left out", self.report()["notes"])
        self.assertIn(" n 2    loss", out[out.index("their mean answer"):])
        got, said = self.predicted()
        numpy.testing.assert_allclose(got, (self.probabilities(kind, 0, self.x) + self.probabilities(kind, 2, self.x)) / 2,
                                      rtol=1e-4, atol=1e-6)
        self.assertIn("60 rows by 2 models (2 without a finite value left out), mean -> ", said)

    def test_that_have_numbers(self):
        out = self.train(*self.common, "--validation", self.path("other.npz")).stdout
        self.is_of_two(out, "best", [("validation", self.x[:30] + 1, self.y[:30])])
        loss = self.report()["ensemble"]["validation"]["loss"]
        for bound, expect in ((loss + 1e-4, 0), (loss - 1e-4, 3)):
            self.train(*self.common, "--validation", self.path("other.npz"), "--overwrite", "--require", f"ensemble:loss<{bound}",
                       expect=expect)
        self.assertEqual(self.predicted("--reduce", "none")[0].shape, (4, 60, 3))
        self.assertIn("by 1 models", self.predicted("--top", "1")[1])

    def test_that_did_not_diverge(self):
        out = self.train(*self.common, "--test", self.path("other.npz")).stdout
        self.is_of_two(out, "last", [("test", self.x[:30] + 1, self.y[:30])])

    def test_none(self):
        self.train("-n", "2", "--lr", "1e38", "--optimizer", "sgd", "--epochs", "2", "--validation", self.path("other.npz"), expect=4)
        self.assertEqual(self.report()["ensemble"]["validation"], {})
        run = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("p.npz"), expect=2)
        self.assertIn("run] models: got all 2 diverged, expected one with a finite value; try --reduce none\n", run.stderr)


if __name__ == "__main__":
    unittest.main()
