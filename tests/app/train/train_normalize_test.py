"""--normalize beside NumPy's float64: columns that do not vary, and columns far from 0."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

ROWS = 61


class Normalize(Train):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(5)

    def check(self, x, said="standard"):
        """Validation loss and predictions of models that stay as they are, of rows `x` in float64."""
        starts = [torch.nn.Linear(x.shape[1], 1) for _ in range(3)]
        digits.export(starts[0], self.path("net.pt2"), torch.randn(3, x.shape[1]))
        files = []
        for m, start in enumerate(starts):
            files += ["--weights", self.path(f"start-{m}.safetensors")]
            save_file({name: tensor.contiguous() for name, tensor in start.state_dict().items()}, files[-1])
        y = self.random.normal(0, 1, (ROWS, 1))
        numpy.savez(self.path("data.npz"), input=x, y=y)
        self.train(*files, "--loss", "mse", "--lr", "0", "--set", "weight_decay=0", "--epochs", "1", "--validation", self.path("data.npz"),
                   "--normalize", f"input={said}", "--overwrite")
        x = x.astype("float64")
        std = x.std(0)
        mean, std = (x.mean(0), numpy.where(x.min(0) == x.max(0), 1, std)) if said == "standard" else map(float, said.split(","))
        normal = torch.tensor((x - mean) / std).float()
        answers = [start(normal).detach().numpy() for start in starts]
        for model, answer in zip(self.report()["models"], answers):
            wanted = ((answer.astype("float64") - y) ** 2).mean()
            self.assertAlmostEqual(model["last"]["loss"], wanted, delta=2e-5 * wanted)
        self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("out.npz"), "--use", "last",
                       "--reduce", "none")
        with numpy.load(self.path("out.npz")) as file:
            numpy.testing.assert_allclose(file["prediction"], answers, atol=2e-5)

    def test_columns_that_do_not_vary_become_0(self):
        """The sum of 61 times 0.1 by 61 is not 0.1: divided by such a deviation, rounding would be all there is."""
        x = self.random.normal(0, 1, (ROWS, 4))
        x[:, 1], x[:, 3] = 0.1, 1e9 / 3
        self.check(x)
        self.check(x.astype("float32"))

    def test_columns_far_from_0_keep_their_digits(self):
        """Seconds since 1970 that vary by 30, which float32 rounds to multiples of 128."""
        self.check(1.7e9 + self.random.normal(0, 30, (ROWS, 3)))
        self.check(1.7e9 + self.random.normal(0, 30, (ROWS, 3)), said="1700000000,30")
        self.check((1700000000 + self.random.normal(0, 30, (ROWS, 3))).astype("int64"))


if __name__ == "__main__":
    unittest.main()
