"""torch.compile as a baseline of sweeps and fusions: it is checked in every phase, counts, and its absence is one line."""
import json
import os
import stat
import statistics
import subprocess
import sys
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import BINARY, CommandLine

LOOP, VMAP = "torch.compile", "torch.compile vmap"
SIZES = ("--targets", "linear", "-n", "3", "--axis", "linear.B=5", "--axis", "linear.D=7", "--budget", "0.01")

# A Python that changes the script it is given before it runs it.
LIAR = """#!{python}
import sys
if sys.argv[1] == "-c":
    exec(sys.argv[2])
    sys.exit()
with open(sys.argv[1]) as file:
    script = file.read()
assert {old!r} in script
sys.argv = sys.argv[1:]
exec(compile(script.replace({old!r}, {new!r}), "peer", "exec"))
"""


def compiles():
    probe = "import torch; torch.compile(lambda x: (x + 1).sin())(torch.ones(3))"
    return subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0


def best_baseline(baselines, candidate):
    """By the medians over the rounds in common, as the ratios are of those."""
    rounds = len(candidate["samples_ns"])
    return min(baselines, key=lambda b: statistics.median(b["samples_ns"][:rounds]))["name"]


class Peers(CommandLine):
    def cases(self, *arguments):
        report = self.path("report.json")
        self.workbench("sweep", "ci", *SIZES, *arguments, "--no-store", "--json", report, "--quiet")
        with open(report, encoding="utf-8") as file:
            return json.load(file)["cases"]

    def liar(self, old, new):
        path = self.path("liar.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LIAR.format(python=sys.executable, old=old, new=new))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    @unittest.skipUnless(compiles(), "this Python's torch.compile finds no compiler")
    def test_it_is_a_baseline_in_every_phase(self):
        cases = self.cases("--phase", "forward,backward,step", "--peer", sys.executable)
        self.assertEqual([case["phase"] for case in cases], ["forward", "backward", "step"])
        for case in cases:
            medians = {b["name"]: b["median_ns"] for b in case["baselines"]}
            self.assertLessEqual({"loop", LOOP, VMAP}, set(medians), case["notes"])
            for trial in case["trials"]:
                if trial["status"] != "ok":
                    continue
                best = best_baseline(case["baselines"], trial)
                self.assertEqual(trial["speedup"]["vs_best_baseline"]["name"], best)
                self.assertAlmostEqual(trial["speedup"]["vs_best_baseline"]["value"], medians[best] / trial["median_ns"],
                                       delta=0.3 * medians[best] / trial["median_ns"])
            for b in case["baselines"]:
                if b["name"] in (LOOP, VMAP):
                    self.assertGreater(b["first_call_ns"], 10 * b["median_ns"])  # it compiled something
                    self.assertGreaterEqual(len(b["samples_ns"]), 10)

    @unittest.skipUnless(compiles(), "this Python's torch.compile finds no compiler")
    def test_a_wrong_step_is_no_baseline(self):
        [case] = self.cases("--phase", "step", "--peer",
                            self.liar("p.grad = g\n", "p.grad = -g\n"))
        names = [b["name"] for b in case["baselines"]]
        self.assertIn(VMAP, names)
        self.assertNotIn(LOOP, names)
        self.assertRegex(" ".join(case["notes"]), r"torch\.compile is not there: .*its relative error is")

    @unittest.skipUnless(compiles(), "this Python's torch.compile finds no compiler")
    def test_random_networks_have_no_results_to_check(self):
        report = self.path("report.json")
        self.workbench("sweep", "ci", "--targets", "dropout", "-n", "2", "--budget", "0.01", "--no-store", "--json",
                       report, "--quiet", "--peer", sys.executable)
        with open(report, encoding="utf-8") as file:
            notes = json.load(file)["cases"][0]["notes"]
        self.assertRegex(" ".join(notes), "torch.compile is not there: .*draws random numbers")

    def fused(self, *arguments):
        report = self.path("fused.json")
        self.workbench("fuse", *arguments, "--budget", "0.05", "--no-store", "--json", report, "--quiet", "--peer", sys.executable)
        with open(report, encoding="utf-8") as file:
            return json.load(file)

    @unittest.skipUnless(compiles(), "this Python's torch.compile finds no compiler")
    def test_fusions_of_registered_networks_and_of_trusted_files(self):
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.Tanh(), torch.nn.Linear(11, 3))
        torch.export.save(torch.export.export(net, (torch.randn(5, 7),)), self.path("net.pt2"))
        for arguments in (["deep_mlp", "-n", "3"],
                          [self.path("net.pt2"), "-n", "3", "--trust", "--input", "input=5x7", "--shared-inputs", "input"]):
            report = self.fused(*arguments)
            medians = {r["name"]: r["median_ns"] for r in report["results"] if r["kind"] == "baseline"}
            self.assertLessEqual({"loop", LOOP, VMAP}, set(medians), report["notes"])
            self.assertEqual(report["speedup"]["best_baseline"],
                             best_baseline([r for r in report["results"] if r["kind"] == "baseline"],
                                           next(r for r in report["results"] if r["kind"] == "candidate")))

    def test_a_file_that_is_not_trusted_stays_in_the_sandbox(self):
        torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.randn(2, 3),)), self.path("net.pt2"))
        run = subprocess.run([BINARY, "fuse", self.path("net.pt2"), "-n", "2", "--no-store", "--peer", sys.executable],
                             capture_output=True, text=True, timeout=400)
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertEqual(run.stderr, f"[--peer] network from a file: got {self.path('net.pt2')}, expected --trust beside it, because "
                                     "another program cannot start inside the sandbox; try --trust if you know who made the file\n")

    def test_compiled_beside_eager_finds_its_python(self):
        run = self.workbench("sweep", "ci", "-c", *SIZES, "--dry-run")
        self.assertRegex(run.stdout, r"\n  linear +2 ")  # modes eager and default
        run = subprocess.run([BINARY, "sweep", "ci", "-c", *SIZES, "--no-store"], capture_output=True, text=True,
                             env={**os.environ, "WORKBENCH_PYTHON": "/bin/false"}, timeout=400)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("note: torch.compile is not there: [/bin/false] it said nothing\n", run.stdout)


if __name__ == "__main__":
    unittest.main()
