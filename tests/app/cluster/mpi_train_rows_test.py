"""Trainings over ranks of models with rows, epochs and columns of their own: the run of one process, to the bit."""
import os
import sys
import unittest

import numpy
import safetensors.numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rank_training import RankTraining
from ranks import WHY_NOT

import digits

N, S = 7, 40
RUN = ["--target", "y", "--exact", "--batch", "4", "--check", "0", "--metric", "accuracy"]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiTrainRows(RankTraining):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(0)
        self.x = self.random.normal(0, 1, (S, 4)).astype("float32")
        self.y = (self.x @ self.random.normal(0, 1, (4, 3))).argmax(1)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        digits.export(torch.nn.Linear(4, 3), self.path("net.pt2"), torch.randn(3, 4))

    def write_rows(self):
        """Of each model a number of its own to learn from, of the last rank's at most half of the first one's; and to validate."""
        with open(self.path("rows.csv"), "w", encoding="utf-8") as file:
            file.write("model,row,use\n")
            for model, count in enumerate((29, 11, 5, 17, 3, 8, 13)):
                order = self.random.permutation(S)
                for row in order[:count]:
                    file.write(f"{model},{row},0\n")
                for row in order[-2 - model:]:
                    file.write(f"{model},{row},1\n")

    def both(self, *options, ranks=3):
        self.alone("one", *RUN, *options)
        self.run_ranks(ranks, *self.command("ranks", *RUN, *options), "--quiet")
        return self.same("one", "ranks")

    def test_rows_and_epochs_of_models_own(self):
        """The longest diverges, the last to end is stopped early, one ends in the midst of an idle rank's time."""
        self.write_rows()
        report = self.both("--rows", self.path("rows.csv"), "--normalize", "input=standard", "--set", "epochs=6,9,3,6,27,12,6", "--set",
                           "lr=1e30,0.1,0.05,1e-7,0.1,0.2,1e30", "--eval-every", "5", "--patience", "2", "--min-delta", "1e-3",
                           "--prune", "2,4")
        self.assertEqual({m["status"] for m in report["models"]}, {"trained", "diverged", "stopped", "pruned"})
        saved = [safetensors.numpy.load_file(self.path(f"{run}/run.safetensors"))["normalize.mean.input"] for run in ("one", "ranks")]
        self.assertEqual(saved[0].shape, (N, 4))
        numpy.testing.assert_array_equal(*saved)

    def test_all_that_run_end_at_once_before_the_longest_would_have(self):
        report = self.both("-n", "4", "--set", "epochs=9,1,2,2", "--set", "lr=1e30,0.1,0.2,0.3", "--validation", "0.2", "--eval-every", "5",
                           ranks=2)
        self.assertEqual(report["run"]["step"], 16)

    def test_a_longer_resume_with_others(self):
        """A run of epochs of their own that is killed is resumed by other ranks."""
        self.write_rows()
        options = ["--rows", self.path("rows.csv"), "--set", "epochs=20,30,10,20,90,40,20", "--lr", "0.05"]
        self.alone("one", *RUN, *options)
        job = self.start(3, *self.command("ranks", *RUN, *options, "--save-every", "3"), "--quiet")
        ranks = self.ranks_of(job, 3)
        self.await_saved("ranks", job)
        self.kill(ranks[1])
        job.communicate(timeout=120)
        self.run_ranks(2, "--resume", self.path("ranks"), "--quiet")
        self.same("one", "ranks")

    def test_epochs_from_files(self):
        """With a column of each model's own, of which a rank takes its models' from each file."""
        os.makedirs(self.path("epochs"))
        for epoch in range(3):
            own = {"input": self.random.normal(0, 1, (N, S, 4)).astype("float32"), "y": numpy.roll(self.y, epoch)}
            safetensors.numpy.save_file(own, self.path(f"epochs/{epoch}.safetensors"))
        numpy.savez(self.path("data.npz"), **own)
        options = ["-n", str(N), "--own", "input", "--lr", "log:0.01..0.1", "--epochs", "3", "--epoch-data", self.path("epochs")]
        self.alone("one", *RUN[:-2], *options)
        self.run_ranks(3, *self.command("ranks", *RUN[:-2], *options), "--quiet")
        self.same("one", "ranks")
        safetensors.numpy.save_file({**own, "input": own["input"][1:]}, self.path("epochs/1.safetensors"))
        text = self.run_ranks(3, *self.command("ranks", *RUN[:-2], *options), "--quiet", "--overwrite", expect=2)
        self.assertIn(f"[{self.path('epochs/1.safetensors')}] column input: got [{N - 1}, {S}, 4], expected [{N}, {S}, 4] as the first "
                      "epoch has; try the same rows in each", text)


if __name__ == "__main__":
    unittest.main()
