"""Metrics of test rows, of the mean answer and of out-of-fold rows are those of each model's best weights, not its last."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 32)
        self.norm = torch.nn.BatchNorm1d(32)  # buffers are weights too
        self.last = torch.nn.Linear(32, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Best(Train):
    """Labels are noise: the validation loss is best early, and the last weights are far from those."""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(4)
        self.x, self.y = random.normal(0, 1, (150, 5)).astype("float32"), random.integers(0, 3, 150)
        self.held_x, self.held_y = random.normal(0, 1, (70, 5)).astype("float32"), random.integers(0, 3, 70)
        numpy.savez(self.path("data.npz"), x=self.x, y=self.y)
        numpy.savez(self.path("test.npz"), x=self.held_x, y=self.held_y)
        digits.export(Net(), self.path("net.pt2"), torch.randn(3, 5))
        self.common = ["--lr", "0.02,0.05,0.03", "--epochs", "8", "--metric", "accuracy", "--check", "0", "--overwrite"]

    def probabilities(self, kind, model, x):
        net = Net().eval()
        net.load_state_dict(load_file(self.path(f"run/{kind}/model-{model:04d}.safetensors")))
        with torch.no_grad():
            return net(torch.tensor(x)).double().softmax(1).numpy()

    @staticmethod
    def metrics(p, y):
        return {"loss": -numpy.log(p[numpy.arange(len(y)), y]).mean(), "accuracy": (p.argmax(1) == y).mean()}

    def same(self, got, p, y):
        for name, wanted in self.metrics(p, y).items():
            self.assertAlmostEqual(got[name], wanted, delta=1e-4)

    def test_of_test_rows_and_of_the_mean_answer(self):
        for averaged in ([], ["--set", "ema=0.9"]):
            out = self.train(*self.common, *averaged, "--validation", "0.3", "--test", self.path("test.npz")).stdout
            report = self.report()
            best = [self.probabilities("best", i, self.held_x) for i in range(3)]
            last = [self.probabilities("last", i, self.held_x) for i in range(3)]
            for i, model in enumerate(report["models"]):
                self.same(model["test"], best[i], self.held_y)
                far = self.metrics(last[i], self.held_y)["loss"] - model["test"]["loss"]
                self.assertGreater(abs(far), 0.02)  # else this test sees nothing
            self.same(report["ensemble"]["test"], sum(best) / 3, self.held_y)
            split = numpy.load(self.path("run/split.npz"))["validation"]
            mean = sum(self.probabilities("best", i, self.x[split]) for i in range(3)) / 3
            self.same(report["ensemble"]["validation"], mean, self.y[split])
            loss = self.metrics(mean, self.y[split])["loss"]
            self.assertRegex(out, rf"their mean answer +n 3 +loss {loss:.4g} .* of the validation rows\n")
            for bound, expect in ((loss + 1e-3, 0), (loss - 1e-3, 3)):
                self.train(*self.common, *averaged, "--validation", "0.3", "--require", f"ensemble:loss<{bound}", expect=expect)

    def test_of_out_of_fold_rows(self):
        for averaged in ([], ["--set", "ema=0.9"]):
            self.train("-n", "3", "--folds", "3", *self.common[2:], "--lr", "0.05", *averaged)
            oof = numpy.load(self.path("run/oof.npz"))
            report = self.report()
            together = numpy.zeros((150, 3))
            for fold in range(3):
                rows, model = oof["fold"] == fold, oof["model"][0, fold]
                self.assertLess(report["models"][model]["best"]["step"], report["run"]["step"])
                together[rows] = self.probabilities("best", model, self.x[rows])
            self.assertLess(abs(oof["prediction"][0] - together).max(), 1e-5)
            self.same(report["ensemble"]["validation"], together, self.y)

    def test_predictions_of_a_model_without_a_best(self):
        """Model 1 validates rows of one class, of which there is no area under a curve: it answers with its last weights."""
        held = [range(100, 150), numpy.flatnonzero(self.y == 1)[-20:], range(100, 150)]
        rows = [(m, row, int(row in held[m])) for m in range(3) for row in range(150)]
        numpy.savez(self.path("rows.npz"), **dict(zip(("model", "row", "use"), numpy.array(rows).T)))
        for averaged in ([], ["--set", "ema=0.9"]):
            self.train(*self.common[:4], *averaged, "--rows", self.path("rows.npz"), "--drop-last", "--monitor", "auc", "--overwrite",
                       "--check", "0")
            bests = [model["best"] for model in self.report()["models"]]
            self.assertIsNone(bests[1])
            self.assertTrue(bests[0] and bests[2])
            for use in ("best", "last"):
                self.workbench("predict", self.path("run"), "--data", self.path("test.npz"), "--out", self.path("p.npz"), "--use", use,
                               "--reduce", "none")
                predicted = numpy.load(self.path("p.npz"))["prediction"]
                for m in range(3):
                    wanted = self.probabilities(use if m != 1 else "last", m, self.held_x)
                    self.assertLess(abs(predicted[m] - wanted).max(), 1e-5, (averaged, use, m))


if __name__ == "__main__":
    unittest.main()
