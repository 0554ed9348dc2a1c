"""What --check says of a step whose difference to float64 is no error: a note in the report, and the run goes on."""
import os
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from train_command import Train


class AtATie(torch.nn.Module):
    """relu of (x a + x b) + x c, c = -a: where b is lost beside a in float32 that is 0, in float64 it has the sign of x b."""

    def __init__(self, lost):
        super().__init__()
        a = torch.tensor([1.25, 1.5, 1.75])  # x a has no rounding
        self.a, self.b, self.c = (torch.nn.Parameter(t) for t in (a, torch.full((3,), lost), -a))

    def forward(self, x):
        z = (x * self.a + x * self.b) + x * self.c
        return torch.relu(z).sum(1) + self.a.square().sum()


class Notes(Train):
    def notes(self, lost):
        x = numpy.random.default_rng(0).integers(1, 9, (8, 3)).astype("float32")
        numpy.savez(self.path("data.npz"), x=x)
        torch.export.save(torch.export.export(AtATie(lost).eval(), (torch.tensor(x),), dynamic_shapes=({0: torch.export.Dim("batch")},)),
                          self.path("net.pt2"))
        self.printed = self.train("-n", "2", "--init", "file", "--loss", "output.0", "--optimizer", "sgd", "--steps", "4", "--check", "1",
                                  "--overwrite").stdout
        self.assertEqual(self.report()["checked_steps"], 1)
        self.fits_the_schema(self.report())
        return [note for note in self.report()["notes"] if note.startswith("check of step")]

    def test_of_a_tie(self):
        notes = self.notes(1e-9)
        self.assertEqual(len(notes), 2)
        for model, note in enumerate(notes):
            self.assertRegex(note, rf"^check of step 1, model {model}: gradient of [abc] off float64 by \S+ of the largest, loss by "
                                   r"\S+; no error: a tie, as of a relu's argument at zero or of two maxima: not there with "
                                   r"weights moved by 1 %$")
            self.assertIn(note, self.printed)
            self.assertIn(note, self.workbench("report", self.path("run")).stdout)

    def test_of_no_tie(self):
        self.assertEqual(self.notes(0.5), [])


if __name__ == "__main__":
    unittest.main()
