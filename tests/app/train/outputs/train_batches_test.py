"""Evaluations and predictions of networks in which the rows of a batch affect each other: no batch of them is filled up."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train

ROWS, BATCHES = 1500, 2  # of evaluations: at most 1024 rows each


class Net(torch.nn.Module):
    """Its batch norm takes the statistics of a batch in evaluations too."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 8)
        self.norm = torch.nn.BatchNorm1d(8, track_running_stats=False)
        self.last = torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Masked(torch.nn.Module):
    """Parameters of other dtypes, which get no noise; and a result beside the answer, in which rows see each other."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 1)
        self.mask = torch.nn.Parameter(torch.tensor([True, False, True]), requires_grad=False)
        self.order = torch.nn.Parameter(torch.tensor([2, 0, 1]), requires_grad=False)

    def forward(self, x):
        return self.last(x[:, self.order] * self.mask), x @ x.T


class Batches(Train):
    NOTE = ("rows of a batch affect each other in evaluations: no batch of those is filled up, and what is measured depends on "
            "their sizes")

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        self.x = (random.normal(0, 1, (ROWS, 3)) + 2).astype("float32")
        self.x[0] = 200  # a row that fills up would repeat it, or the last one
        self.x[-1] = -300
        self.y = self.x.sum(1, keepdims=True).clip(-5, 12)
        numpy.savez(self.path("held.npz"), x=self.x, y=self.y)
        learned = (random.normal(0, 1, (100, 3)) + 2).astype("float32")
        numpy.savez(self.path("data.npz"), x=learned, y=learned.sum(1, keepdims=True))

    def answers(self, model, batches, x=None):
        """Of PyTorch in float64, in batches of nearly equal sizes."""
        net = Net().double()
        net.load_state_dict({k: v.double() for k, v in load_file(self.path(f"run/best/model-{model:04d}.safetensors")).items()})
        x = torch.tensor(self.x if x is None else x).double()
        bounds = [len(x) * k // batches for k in range(batches + 1)]
        with torch.no_grad():
            return torch.cat([net(x[a:b]) for a, b in zip(bounds, bounds[1:])]).numpy()

    def predicted(self, data, *options, expect=0):
        out = self.path("out.npz")
        run = self.workbench("predict", self.path("run"), "--data", self.path(data), "--out", out, "--reduce", "none", *options,
                             expect=expect)
        return run, None if expect else numpy.load(out)["prediction"]

    def test_batches_are_not_filled_up(self):
        digits.export(Net(), self.path("net.pt2"), torch.randn(5, 3))
        self.train("--lr", "0.1,0.05", "--batch", "50", "--epochs", "2", "--validation", self.path("held.npz"), "--test",
                   self.path("held.npz"), "--loss", "mse", "--check", "0")
        report = self.report()
        self.assertIn(self.NOTE, report["notes"])
        run, predicted = self.predicted("held.npz")
        self.assertIn("rows of a batch affect each other: the rows are answered in 2 batches of 750 rows", run.stdout)
        for m, model in enumerate(report["models"]):
            wanted = self.answers(m, BATCHES)
            loss = ((wanted - self.y) ** 2).mean()
            self.assertAlmostEqual(model["best"]["loss"] / loss, 1, delta=1e-4)
            self.assertAlmostEqual(model["test"]["loss"] / loss, 1, delta=1e-4)
            self.assertLess(abs(predicted[m] - wanted).max(), 1e-3)
        # Batches of two sizes.
        numpy.savez(self.path("odd.npz"), x=self.x[:1301], y=self.y[:1301])
        run, predicted = self.predicted("odd.npz")
        self.assertIn("in 2 batches of 650 or 651 rows", run.stdout)
        for m in range(2):
            self.assertLess(abs(predicted[m] - self.answers(m, 2, self.x[:1301])).max(), 1e-3)

    def test_a_network_of_one_batch_size(self):
        torch.export.save(torch.export.export(Net(), (torch.randn(50, 3),)), self.path("net.pt2"))
        why = "rows of a batch: got answers that depend on the other rows"
        self.refused(f"[net.pt2] {why} in evaluations, expected each by itself where 70 rows to evaluate do not fill batches that "
                     "the network takes; try an export with a dynamic batch dimension", "--lr", "0.1,0.05", "--validation", self.held(70))
        self.train("--validation", self.held(100), "--lr", "0.1,0.05", "--epochs", "1", "--check", "0")
        self.assertAlmostEqual(self.report()["models"][0]["best"]["loss"] / ((self.answers(0, 2, self.x[:100]) - self.y[:100]) ** 2)
                               .mean(), 1, delta=1e-4)
        self.held(70)
        run, _ = self.predicted("some.npz", expect=2)
        self.assertIn(f"[predict] {why}, expected each by itself where 70 rows do not fill batches of 50; try a multiple of 50 rows",
                      run.stderr)

    def test_outputs_that_nothing_reads(self):
        """Are not compared, so that batches are filled up as ever."""
        torch.export.save(torch.export.export(Masked(), (torch.randn(50, 3),)), self.path("net.pt2"))
        self.train("--validation", self.held(70), "--lr", "0.1,0.05", "--epochs", "1", "--init", "file", "--output", "0")
        _, predicted = self.predicted("some.npz")
        for m, model in enumerate(self.report()["models"]):
            net = Masked().double()
            net.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in
                                 load_file(self.path(f"run/best/model-{m:04d}.safetensors")).items()}, strict=False)
            with torch.no_grad():
                wanted = net.last(torch.tensor(self.x[:70]).double()[:, net.order] * net.mask).numpy()
            self.assertLess(abs(predicted[m] - wanted).max(), 1e-3)
            self.assertAlmostEqual(model["best"]["loss"] / ((wanted - self.y[:70]) ** 2).mean(), 1, delta=1e-4)

    def held(self, rows):
        numpy.savez(self.path("some.npz"), x=self.x[:rows], y=self.y[:rows])
        return self.path("some.npz")

    def test_others_say_nothing(self):
        """With running statistics each row is answered by itself."""
        net = Net()
        net.norm = torch.nn.BatchNorm1d(8)
        digits.export(net, self.path("net.pt2"), torch.randn(5, 3))
        self.train("--lr", "0.1,0.05", "--epochs", "1", "--validation", self.path("held.npz"), "--check", "0")
        self.assertFalse([note for note in self.report()["notes"] if "affect each other" in note])
        self.assertNotIn("affect each other", self.predicted("held.npz")[0].stdout)


if __name__ == "__main__":
    unittest.main()
