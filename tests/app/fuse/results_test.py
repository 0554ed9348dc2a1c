"""What `workbench fuse` writes: where it goes, and that nothing is lost when a part of it cannot be written."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
    import torch.nn as nn
    from safetensors.torch import load_file, save_file
    from command_line import CommandLine
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)


class Cast(nn.Module):
    """Rounds to bfloat16 inside, so that any two ways to compute it differ by that."""

    def __init__(self):
        super().__init__()
        self.l, self.m = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.m(self.l(x).relu())
        return y.float()


class Spectrum(nn.Module):
    """Complex results of float64, which safetensors cannot hold."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(64, 3).double()

    def forward(self, x):
        return torch.fft.fft(self.l(x))


class Results(CommandLine):
    def prepare(self, make, dtype=torch.float32):
        torch.manual_seed(3)
        self.models, self.x = [make().eval() for _ in range(3)], torch.randn(3, 16, 64, dtype=dtype)
        torch.export.save(torch.export.export(self.models[0], (self.x[0],)), self.path("net.pt2"))
        for i, model in enumerate(self.models):
            torch.save(model.state_dict(), self.path(f"w{i}.pt"))
        save_file({"x": self.x}, self.path("x.safetensors"))

    def fuse(self, *more, expect=0):
        return self.workbench("fuse", self.path("net.pt2"), "--weights", self.path("w*.pt"), "--inputs",
                              self.path("x.safetensors"), "--budget", "0.01", "--no-store", *more, expect=expect)

    def test_an_export_may_differ_as_much_as_the_networks_own_rounding(self):
        self.prepare(Cast)
        self.fuse(f"--export={self.path('wide.pt2')}", f"--export={self.path('wide.ts')}")
        with torch.no_grad():
            expected = torch.stack([model(x) for model, x in zip(self.models, self.x)])
            for wide in (torch.export.load(self.path("wide.pt2")).module(), torch.jit.load(self.path("wide.ts"))):
                self.assertLess(float((wide(self.x) - expected).abs().max() / expected.abs().max()), 2e-2)

    def test_the_report_is_kept_when_outputs_cannot_be_written(self):
        self.prepare(Spectrum, torch.float64)
        run = self.fuse("--outputs", self.path("y.safetensors"), "--json", self.path("r.json"), expect=2)
        self.assertIn("[safetensors] dtype: got ComplexDouble", run.stderr)
        self.assertIn("correct", run.stdout)
        with open(self.path("r.json"), encoding="utf-8") as file:
            self.assertTrue(json.load(file)["correctness"]["pass"])

    def test_json_on_stdout_stands_alone(self):
        self.prepare(Cast)
        self.assertEqual(json.loads(self.fuse("--json", "-").stdout)["n"], 3)
        self.assertIn("traceEvents", json.loads(self.fuse("--trace", "-").stdout))

    def test_places_that_cannot_be_written_are_refused_at_once(self):
        self.prepare(Cast)
        for option, path, said in (("--outputs", "y.npz", "file: got"), ("--json", "none/r.json", "[--json] folder: got no"),
                                   ("--trace", ".", "] path: got a folder, expected a file to write; try a name in it")):
            run = self.fuse(option, self.path(path), expect=2)
            self.assertEqual(run.stdout, "")
            self.assertIn(said, run.stderr)
        self.assertIn("expected a .safetensors; try " + self.path("y.safetensors"), self.fuse("--outputs", self.path("y.npz"), expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
