"""What `workbench train` promises of bits, memory and recordings, whatever N is."""
import csv
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import digits
from train_command import Train


class Exact(Train):
    def configurations(self, models):
        """A CSV file of some models of a fixed population."""
        draws = numpy.random.default_rng(3)
        rows = [[f"{10 ** draws.uniform(-3.5, -2):.6g}", f"{10 ** draws.uniform(-5, -1):.6g}",
                 int(draws.integers(1000)), f"{draws.uniform(0, 0.5):.3f}"] for _ in range(13)]
        with open(self.path("models.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["lr", "weight_decay", "seed", "dropout"])
            writer.writerows(rows[m] for m in models)

    def weights(self, models, *arguments):
        self.configurations(models)
        self.train("--models", self.path("models.csv"), "--exact", "--steps", "24", "--check", "0", "--overwrite",
                   "--validation", "0.2", *arguments)
        return {m: load_file(self.path(f"run/last/model-{at:04d}.safetensors")) for at, m in enumerate(models)}

    def test_neighbours_order_threads_and_stopping_change_no_bit(self):
        digits.write(self.folder, 300)
        everyone = self.weights(range(13), "--threads", "2")

        def same(weights):
            for m, tensors in weights.items():
                for name, value in tensors.items():
                    self.assertTrue(torch.equal(value, everyone[m][name]), (m, name))

        same(self.weights([5]))
        same(self.weights([5, 2, 11], "--threads", "1"))
        same(self.weights([int(m) for m in numpy.random.default_rng(1).permutation(13)], "--threads", "1"))
        pruned = self.weights(range(13), "--prune", "3,1", "--eval-every", "8")
        left = [i for i, m in enumerate(self.report()["models"]) if m["status"] == "trained"]
        self.assertTrue(0 < len(left) < 13, left)
        same({m: pruned[m] for m in left})
        self.assertFalse(torch.equal(everyone[0]["f.weight"], everyone[1]["f.weight"]))

    def test_memory_and_recordings_do_not_grow(self):
        digits.write(self.folder, 300)
        parameters = sum(p.numel() for p in digits.Cnn().parameters())
        reports = []
        for n, steps in ((8, "12"), (64, "12"), (8, "300")):
            for exact in ([], ["--exact"]):
                self.train("-n", str(n), *exact, "--steps", steps, "--overwrite", "--lr", "1e-3", "--schedule", "cosine")
                report = self.report()
                self.assertLessEqual(report["memory"]["state_bytes"], 1.1 * n * 3 * 4 * parameters)
                self.assertGreater(report["memory"]["range_bytes"], 0)
                self.assertEqual((report["memory"]["recomputed"], report["memory"]["saved_bytes"]), (0, 0))
                reports.append(report)
        few, many, long = reports[1::2]
        self.assertEqual(few["memory"]["models_at_a_time"], 1)
        self.assertEqual(few["memory"]["range_bytes"], many["memory"]["range_bytes"])
        self.assertEqual(few["recordings"], long["recordings"])


if __name__ == "__main__":
    unittest.main()
