"""Metrics beside scikit-learn's on what the models answer: where a problem has two classes, and where a metric has no value."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import save_file
from sklearn import metrics

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

ROWS = 67


class OfTwoClasses(Train):
    """The same answers as one logit, as two scores of classes, and as one of two labels."""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(3)
        self.x = random.normal(0, 1, (ROWS, 5)).astype("float32")
        self.y = (self.x[:, 0] + random.normal(0, 1, ROWS) > 0.9).astype("int64")
        self.w = random.uniform(0.2, 2, ROWS).astype("float32")
        self.starts = [torch.nn.Linear(5, 1) for _ in range(3)]

    def f1(self, net, loss, y, starts):
        """Each model's on all rows; a rate of 0 leaves models as they started."""
        digits.export(net, self.path("net.pt2"), torch.randn(3, 5))
        numpy.savez(self.path("data.npz"), input=self.x, y=y, w=self.w)
        files = []
        for m, start in enumerate(starts):
            files += ["--weights", self.path(f"start-{m}.safetensors")]
            save_file({name: tensor.contiguous() for name, tensor in start.items()}, files[-1])
        self.train(*files, "--loss", loss, "--lr", "0", "--set", "weight_decay=0", "--epochs", "1", "--validation", self.path("data.npz"),
                   "--metric", "f1", "--sample-weight", "w", "--overwrite")
        return [model["last"]["f1"] for model in self.report()["models"]]

    def test_f1_is_that_of_class_1_in_every_form(self):
        column = self.y.astype("float32")[:, None]
        said = [(start(torch.tensor(self.x)).detach().numpy()[:, 0] > 0).astype(int) for start in self.starts]
        wanted = [metrics.f1_score(self.y, own, sample_weight=self.w) for own in said]
        self.assertGreater(max(abs(a - metrics.f1_score(self.y, own, sample_weight=self.w, average="macro"))
                               for a, own in zip(wanted, said)), 0.02)
        one = [start.state_dict() for start in self.starts]
        two = [{name: torch.cat([torch.zeros_like(t), t]) for name, t in own.items()} for own in one]
        numpy.testing.assert_allclose(self.f1(torch.nn.Linear(5, 1), "bce_with_logits", column, one), wanted, atol=1e-6)
        vote = self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("vote.csv"), "--reduce",
                              "vote", expect=2)
        self.assertIn("[--reduce] vote: got outputs of a run with --loss bce_with_logits, expected scores of classes", vote.stderr)
        numpy.testing.assert_allclose(self.f1(torch.nn.Linear(5, 2), "cross_entropy", self.y, two), wanted, atol=1e-6)
        labels = [{name: torch.cat([t, -t]) for name, t in own.items()} for own in one]
        other = [metrics.f1_score(1 - self.y, 1 - own, sample_weight=self.w) for own in said]
        numpy.testing.assert_allclose(self.f1(torch.nn.Linear(5, 2), "bce_with_logits", numpy.hstack([column, 1 - column]), labels),
                                      (numpy.array(wanted) + other) / 2, atol=1e-6)

    def test_f1_of_three_classes_is_their_mean(self):
        classes = (self.x[:, 1] * 2).astype("int64") % 3
        nets = [torch.nn.Linear(5, 3) for _ in range(3)]
        wanted = [metrics.f1_score(classes, net(torch.tensor(self.x)).argmax(1), sample_weight=self.w, average="macro") for net in nets]
        numpy.testing.assert_allclose(self.f1(nets[0], "cross_entropy", classes, [net.state_dict() for net in nets]), wanted, atol=1e-6)


class OfFewRows(Train):
    def test_r2_of_one_row_has_no_value(self):
        """The two numbers of a row, over 1, 2 and 3 rows to validate, and over 2 of which the last has weight 0."""
        random = numpy.random.default_rng(4)
        net = torch.nn.Linear(5, 2)
        digits.export(net, self.path("net.pt2"), torch.randn(3, 5))
        x, y = random.normal(0, 1, (7, 5)).astype("float32"), random.normal(0, 1, (7, 2)).astype("float32")
        numpy.savez(self.path("data.npz"), input=x, y=y, w=numpy.ones(7, "float32"))
        for rows, w in ((1, [1]), (2, [1, 1]), (3, [0.5, 1, 2]), (2, [1, 0])):
            numpy.savez(self.path("held.npz"), input=x[:rows], y=y[:rows], w=numpy.array(w, "float32"))
            self.train("-n", "2", "--init", "file", "--loss", "mse", "--lr", "0", "--set", "weight_decay=0", "--epochs", "1", "--metric",
                       "mae,r2", "--sample-weight", "w", "--validation", self.path("held.npz"), "--test", self.path("held.npz"), "--overwrite")
            report, out = self.report(), net(torch.tensor(x[:rows])).detach().numpy()
            self.fits_the_schema(report)
            counts = numpy.array(w) > 0
            wanted = metrics.r2_score(y[:rows][counts], out[counts], sample_weight=numpy.array(w)[counts])
            for values in (report["models"][0]["last"], {"r2": None, **report["models"][1]["test"]}, report["ensemble"]["validation"]):
                self.assertAlmostEqual(values["mae"], metrics.mean_absolute_error(y[:rows], out, sample_weight=w), delta=1e-5)
                if counts.sum() < 2:
                    self.assertTrue(numpy.isnan(wanted))
                    self.assertIsNone(values["r2"])
                else:
                    self.assertAlmostEqual(values["r2"], wanted, delta=1e-4 * max(1, abs(wanted)))


class OfTargetsFarFromZero(Train):
    """R² beside scikit-learn's of the targets as the file has them, on what models answer that stay as they are."""

    def r2(self, bias, y, w):
        random = numpy.random.default_rng(6)
        x, net = random.normal(0, 1, (len(y), 3)).astype("float32"), torch.nn.Linear(3, 2)
        torch.nn.init.constant_(net.bias, bias)
        digits.export(net, self.path("net.pt2"), torch.randn(3, 3))
        numpy.savez(self.path("data.npz"), input=x, y=y, w=w)
        self.train("-n", "1", "--init", "file", "--loss", "mse", "--lr", "0", "--set", "weight_decay=0", "--epochs", "1", "--metric",
                   "mae,r2", "--sample-weight", "w", "--batch", "7", "--validation", self.path("data.npz"), "--overwrite")
        out, last = net(torch.tensor(x)).detach().numpy().astype("float64"), self.report()["models"][0]["last"]
        self.assertAlmostEqual(last["mae"], metrics.mean_absolute_error(y, out, sample_weight=w), delta=1e-5 * (1 + last["mae"]))
        wanted = metrics.r2_score(y, out, sample_weight=w)
        self.assertAlmostEqual(last["r2"], wanted, delta=1e-4 * abs(wanted))

    def test_rows_of_weight_0_change_nothing(self):
        random = numpy.random.default_rng(7)
        y, w = random.normal(0, 1, (29, 2)), random.uniform(0.1, 2, 29)
        y[0], w[0] = 3e12, 0
        self.r2(0, y, w)
        y[0], w[0], y[11], w[11] = 0.5, 1, 3e12, 0
        self.r2(0, y, w)

    def test_targets_keep_their_digits(self):
        """float32 rounds these to multiples of 128, which would leave no variance."""
        random = numpy.random.default_rng(8)
        self.r2(1.7e9, 1.7e9 + random.normal(0, 20, (29, 2)), numpy.ones(29))
        self.r2(1.7e9, 1700000000 + random.integers(0, 60, (29, 2)), numpy.ones(29))


if __name__ == "__main__":
    unittest.main()
