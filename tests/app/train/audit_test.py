"""Training runs whose every number is computed again (audit/): 12 drawn configurations; and planted errors.

By hand, of 60 drawn configurations those from FIRST on, END not among them: audit_test.py --drawn FIRST END
"""
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from audit import Job, Truth, audit, drawn, gather, networks, planned, planted

BINARY = os.environ["WORKBENCH_BINARY"]
ALL, FEW, AT_ONCE = 60, 12, 2
KILLS = 5  # tries to end a run before its own end
DRAWS = 20  # tries to draw rows and rates that suit


def program(*arguments):
    run = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=400, check=False)
    if run.returncode:
        raise AssertionError(f"{' '.join(arguments)}: {run.returncode}\n{run.stdout[-1000:]}{run.stderr[-1000:]}")
    return run.stdout


# A process of its own, which need not wait for an audit beside it: runs a command, and kills it once it has saved so often.
KILLED_AFTER = """
import os, subprocess, sys, time

saves, state, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
    seen = set()
    while len(seen) < saves and process.poll() is None:
        if os.path.exists(state):
            seen.add((os.stat(state).st_ino, os.stat(state).st_mtime_ns))
        time.sleep(0.0003)
    process.kill()
"""


def resumed_after_kill(argv, folder):
    """What a run prints that goes on after kill -9 in its midst: some saves after it began, fewer where it was too fast."""
    state = os.path.join(folder, "run.safetensors")
    for saves in range(KILLS, 0, -1):
        shutil.rmtree(folder, ignore_errors=True)
        run = subprocess.run([sys.executable, "-S", "-c", KILLED_AFTER, str(saves), state, BINARY, *argv, "--overwrite", "--save-every",
                              "5"], check=True, timeout=400, stderr=subprocess.PIPE, text=True)
        if os.path.exists(state) and not os.path.exists(os.path.join(folder, "report.json")):
            return program("train", "--resume", folder, "--db", argv[argv.index("--db") + 1])
    raise AssertionError(f"every run ended before it was killed; {run.stderr}")


class Runs:
    """Exports of the networks, made once, and a folder for each configuration."""

    def __init__(self, folder):
        self.folder = folder
        self.exports = {}

    def export(self, made):
        torch.manual_seed(7)
        network = made.make()
        key = repr((network, {name: tuple(t.shape) for name, t in network.state_dict().items()}, vars(network).get("width"),
                    vars(network).get("logs")))
        if key not in self.exports:
            self.exports[key] = os.path.join(self.folder, f"net-{len(self.exports)}.pt2")
            networks.export(network, self.exports[key])
        return network, self.exports[key]

    def prepared(self, number, choices):
        """A configuration's job, files and truth, before it runs: one with which some model's best step is not its last, and whose
        curves rounding alone does not change."""
        for attempt in range(DRAWS):
            made = drawn.draw(number, choices, attempt)
            folder = os.path.join(self.folder, f"{number}-{attempt}")
            os.mkdir(folder)
            network, net = self.export(made)
            argv, predicted = drawn.write(made, folder, net)
            job = Job(argv, network)
            if made.weights:
                argv = [*argv, *drawn.write_weights(len(job.models), made.make, folder, job.dtype)]
                job = Job(argv, network)
            truth = Truth(job, {}, {})
            decisions = planned(truth)
            if truth.chaotic:
                continue
            if not job.validated or any(best and best < end for best, end in zip(decisions.best_step, decisions.at_step)):
                return made, folder, job, predicted, truth
        raise AssertionError(f"configuration {number}: every draw is best at its last step, or changed by rounding alone")

    @staticmethod
    def gathered(prepared):
        made, folder, job, predicted, _ = prepared
        run = job.asked.options.save
        printed = resumed_after_kill(job.argv, run) if made.killed else program(*job.argv)
        return gather(run, printed, job, program, folder, predicted)


def best_is_not_last(job, evidence):
    """Whether some model's best weights are others than its last ones."""
    return not job.validated or any(m["best"] and m["best"]["step"] < m["at_step"] for m in evidence.report["models"])


class Drawn(unittest.TestCase):
    maxDiff = None
    numbers = range(FEW)

    def test_nothing_is_wrong(self):
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        choices = drawn.configurations(ALL)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
            runs, begun = Runs(folder), []
            for number in self.numbers:
                with self.subTest(number):
                    prepared = runs.prepared(number, choices[number])
                    begun.append((prepared, pool.submit(runs.gathered, prepared)))
            for (made, _, job, _, truth), gathered in begun:
                with self.subTest(made.number, argv=" ".join(job.argv)):
                    evidence = gathered.result()
                    self.assertEqual("\n".join(audit(job, evidence, truth)), "")
                    self.assertTrue(best_is_not_last(job, evidence), "no model's best step is before its last one")


class Planted(unittest.TestCase):
    """A right run of 12 models, of which some stop, each time with one error."""
    maxDiff = None

    def test_every_error_is_found(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job, evidence = self.right_run(folder.name)
        truth = Truth(job, evidence.checkpoints, evidence.report)
        self.assertEqual("\n".join(audit(job, evidence, truth)), "")
        self.assertGreater(len(planted.PLANTED), 30)
        for what, where, plant in planted.PLANTED:
            with self.subTest(what):
                wrong = copy.deepcopy(evidence)
                plant(wrong, job, truth)
                same = all(wrong.checkpoints[key][name].equal(t) for key, own in evidence.checkpoints.items() for name, t in own.items())
                findings = audit(job, wrong, truth if same else None)
                self.assertTrue(any(where in finding for finding in findings), findings)

    @staticmethod
    def right_run(folder):
        def path(name):
            return os.path.join(folder, name)
        random = numpy.random.default_rng(1)
        x = random.normal(0, 1, (60, networks.FEATURES)).astype("float32")
        y = (x[:, :3] + random.normal(0, 1.5, (60, 3))).argmax(1)
        numpy.savez(path("data.npz"), x=x, y=y, w=random.uniform(0.2, 3, 60).astype("float32"))
        numpy.savez(path("more.npz"), x=x[:20] + 1)
        network = networks.Mlp()
        networks.export(network, path("net.pt2"))
        argv = ["train", path("net.pt2"), "--data", path("data.npz"), "--save", path("run"), "--db", path("results.db"), "--log",
                path("log.csv"), "--folds", "3", "--test", "0.2", "--sample-weight", "w", "--target", "y", "--loss",
                "cross_entropy:weight=balanced:label_smoothing=0.1", "--metric", "accuracy", "--lr", "0.1,0.03", "--seeds", "2", "--seed",
                "3", "--epochs", "12", "--batch", "8", "--patience", "3", "--normalize", "x=standard", "--threads", "1"]
        job = Job(argv, network)
        more = [(path("more.npz"), []), (path("more.npz"), ["--reduce", "std"])]
        return job, gather(path("run"), program(*argv), job, program, folder, more)


if __name__ == "__main__":
    if "--drawn" in sys.argv:
        at = sys.argv.index("--drawn")
        Drawn.numbers = range(int(sys.argv[at + 1]), min(int(sys.argv[at + 2]), ALL))
        del sys.argv[at:at + 3]
    unittest.main()
