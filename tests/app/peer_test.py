"""torch.compile as a baseline of sweeps: it is checked in every phase, counts, and its absence is one line."""
import json
import os
import stat
import subprocess
import sys
import unittest

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
            best = min(medians, key=medians.get)
            for trial in case["trials"]:
                if trial["status"] != "ok":
                    continue
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

    def test_compiled_beside_eager_finds_its_python(self):
        run = self.workbench("sweep", "ci", "-c", *SIZES, "--dry-run")
        self.assertRegex(run.stdout, r"\n  linear +2 ")  # modes eager and default
        run = subprocess.run([BINARY, "sweep", "ci", "-c", *SIZES, "--no-store"], capture_output=True, text=True,
                             env={**os.environ, "WORKBENCH_PYTHON": "/bin/false"}, timeout=400)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("note: torch.compile is not there: [/bin/false] it said nothing\n", run.stdout)


if __name__ == "__main__":
    unittest.main()
