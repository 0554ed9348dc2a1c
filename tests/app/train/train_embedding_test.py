"""Indices that an embedding lacks are refused with file, column and row, before anything is written."""
import os
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train


class Direct(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.words(x).mean(1))


class Offset(Direct):
    """One table for three columns, as factorisation machines have it: of 3, 5 and 2 rows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.tensor([0, 3, 8]))

    def forward(self, x):
        return super().forward(x + self.offset)


class Columns(Direct):
    """Only the last column is looked up; the first is a number."""

    def forward(self, x):
        return self.out(self.words(x[:, 2]) * x[:, :1].float())


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = torch.nn.EmbeddingBag(10, 4, mode="sum"), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.words(x))


class Embeddings(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(2)
        self.x, self.y = random.integers(0, (3, 5, 2), (83, 3)), random.integers(0, 2, 83)

    def files(self, net, row, column, number):
        """`data.npz`, and `bad.npz` with another number in one place."""
        digits.export(net, self.path("net.pt2"), torch.tensor(self.x[:4]))
        numpy.savez(self.path("data.npz"), x=self.x, y=self.y)
        x = self.x.copy()
        x[row, column] = number
        numpy.savez(self.path("bad.npz"), x=x, y=self.y)

    def test_names_file_column_and_row(self):
        for net, number, index in ((Direct(), 10, 10), (Direct(), -1, -1), (Offset(), 4, 12), (Columns(), 11, 11), (Bag(), 10, 10)):
            with self.subTest(net=type(net).__name__, number=number):
                self.files(net, 71, 2, number)
                said = f"[bad.npz] column x: got index {index} in row 71, expected 0 to 9, as words.weight has 10 rows"
                self.refused(said, "-n", "3", "--epochs", "1", data="bad.npz")
                self.refused(said, "-n", "3", "--epochs", "1", "--validation", self.path("bad.npz"))
                self.assertFalse(os.path.exists(self.path("run")))
                self.train("-n", "3", "--epochs", "1", "--batch", "16")
                run = self.workbench("predict", self.path("run"), "--data", self.path("bad.npz"), "--out", self.path("out.npz"), expect=2)
                self.assertIn(said, run.stderr.replace(self.folder + "/", ""))
                self.workbench("predict", self.path("run"), "--data", self.path("data.npz"), "--out", self.path("out.npz"))
                os.rename(self.path("run"), self.path(f"run-{len(os.listdir(self.folder))}"))

    def test_columns_that_are_not_looked_up_may_have_any_number(self):
        self.files(Columns(), 5, 0, 1000)
        self.train("-n", "2", "--epochs", "1", data="bad.npz")

    def test_rows_of_each_model(self):
        self.files(Direct(), 0, 0, 0)
        x = numpy.stack([self.x, self.x + 1, self.x])
        x[1, 30, 1] = 99
        numpy.savez(self.path("own.npz"), x=x, y=self.y)
        self.refused("[own.npz] column x: got index 99 in row 30, expected 0 to 9", "-n", "3", "--epochs", "1", "--own", "x", data="own.npz")


if __name__ == "__main__":
    unittest.main()
