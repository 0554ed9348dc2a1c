"""Trainings over ranks of Open MPI: the run of one process, to the bit under --exact, whoever is killed meanwhile."""
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "..", "train"), os.path.join(HERE, ".."), os.path.join(HERE, "..", "..")):
    sys.path.insert(0, folder)
import digits
from ranks import WHY_NOT, Ranks
from train_command import Train

N, EVERY = 64, 6  # models; steps from one evaluation to the next
# Half of the models are pruned at each of the evaluations 1, 2, 4 and 8; some diverge, some stop early.
RUN = ["--grid", "lr=1e-4,3e-3,1e-2,3e-2,1e-1,3e-1,1e30,1", "--seeds", "8", "--exact", "--steps", "48", "--eval-every", str(EVERY),
       "--validation", "0.2", "--test", "0.1", "--prune", "2,1", "--patience", "1", "--metric", "accuracy", "--batch", "25",
       "--seed", "11"]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiTrain(Ranks, Train):
    def setUp(self):
        super().setUp()
        digits.write(self.folder, 300)

    def start(self, ranks, *arguments):
        return self.begin(ranks, "train", *arguments, "--db", self.path("runs.db"))

    def command(self, folder, *arguments):
        return [self.path("net.pt2"), "--data", self.path("data.npz"), "--save", self.path(folder), *arguments]

    def alone(self, folder, *arguments):
        self.workbench("train", *self.command(folder, *arguments), "--quiet", "--db", self.path("runs.db"))

    def document(self, folder):
        with open(self.path(f"{folder}/report.json"), encoding="utf-8") as file:
            return json.load(file)

    def same(self, one, other):
        """Files to the bit; the report and the store but for what tells where, when and how fast it was."""
        for kind in ("best", "last"):
            names = sorted(os.listdir(self.path(f"{one}/{kind}")))
            self.assertEqual(sorted(os.listdir(self.path(f"{other}/{kind}"))), names)
            for name in names:
                self.same_tensors(*(load_file(self.path(f"{run}/{kind}/{name}")) for run in (one, other)), (kind, name))
        self.same_tensors(*({k: v for k, v in load_file(self.path(f"{run}/run.safetensors")).items() if not k.startswith("best.")}
                            for run in (one, other)), "run")
        for name in ("models.csv", "split.npz"):
            with open(self.path(f"{one}/{name}"), "rb") as a, open(self.path(f"{other}/{name}"), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        reports = [self.document(run) for run in (one, other)]
        self.fits_the_schema(reports[1])
        for report in reports:
            for key in ("memory", "recordings", "first_call_ns", "loop_seconds"):
                del report[key]
            for key in ("id", "command", "dir", "name", "started", "seconds"):
                del report["run"][key]
            for key in ("date", "command", "cpu", "load", "threads"):  # each rank has its share of the cores
                report["environment"].pop(key, None)
            for row in report["history"]:
                del row["seconds"]
            report["notes"] = [n for n in report["notes"] if "separate runs" not in n]
        for key, value in reports[0].items():
            self.assertEqual(reports[1][key], value, key)
        self.assertEqual(sorted(os.listdir(self.path(other))), sorted(os.listdir(self.path(one))))
        self.same_rows()
        return reports[1]

    def same_tensors(self, one, other, what):
        self.assertEqual(one.keys(), other.keys(), what)
        for key, value in one.items():
            self.assertTrue(torch.equal(value, other[key]), (what, key))

    def same_rows(self):
        """One row a model in the store, which is read without the program."""
        store = sqlite3.connect(self.path("runs.db"))
        self.addCleanup(store.close)
        ids = [i for (i,) in store.execute("SELECT id FROM run ORDER BY id")]
        for sql in ("SELECT model, config, fold, status, at_step, more FROM run_model WHERE run = ? ORDER BY 1",
                    "SELECT model, metric, step, value FROM run_metric WHERE run = ? ORDER BY 1, 2, 3",
                    "SELECT step, model, what FROM run_event WHERE run = ? ORDER BY id",
                    "SELECT n, network, state FROM run WHERE id = ?"):
            one, *others = (store.execute(sql, (i,)).fetchall() for i in ids)
            self.assertTrue(one or "run_event" in sql)
            for other in others:
                self.assertEqual(other, one, sql)

    def test_the_run_of_one_process(self):
        self.alone("one", *RUN)
        text = self.run_ranks(3, *self.command("three", *RUN))
        self.assertIn(f"of {N}, which 3 ranks train", text)
        report = self.same("one", "three")
        self.assertEqual({m["status"] for m in report["models"]}, {"pruned", "diverged", "stopped", "trained"})
        self.assertEqual(len(report["models"]), N)

    def await_sums(self, job, begun):
        """Until the run has saved since `begun` and between two evaluations, from where a training loss goes on."""
        path = self.path("three/run.safetensors")
        while job.poll() is None:
            if os.path.exists(path) and os.stat(path).st_mtime_ns > begun:
                with safe_open(path, "pt") as file:
                    if json.loads(file.metadata()["workbench"])["state"]["step"] % EVERY:
                        return

    def test_killed_and_resumed_with_others(self):
        """Three ranks, of which one is killed; then two, then one process alone."""
        self.alone("one", *RUN)
        command = self.command("three", *RUN, "--save-every", "5", "--quiet")
        for victim in (1, 0):
            saved = self.path("three/run.safetensors")
            begun = os.stat(saved).st_mtime_ns if os.path.exists(saved) else 0
            job = self.start(*((3, *command) if victim else (2, "--resume", self.path("three"), "--quiet")))
            ranks = self.ranks_of(job, 3 if victim else 2)
            self.await_sums(job, begun)
            try:
                os.kill(ranks[victim], signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was faster
            job.communicate(timeout=120)
            end = time.monotonic() + 60
            while any(os.path.exists(f"/proc/{pid}") for pid in ranks.values()):
                self.assertLess(time.monotonic(), end, "ranks that stay")
                time.sleep(0.05)
        shutil.copytree(self.path("three"), self.path("alone"))
        self.run_ranks(2, "--resume", self.path("three"), "--quiet")
        self.same("one", "three")
        self.workbench("train", "--resume", self.path("alone"), "--quiet", "--db", self.path("runs.db"))
        shutil.rmtree(self.path("alone/ranks"), ignore_errors=True)
        self.same("one", "alone")

    def test_all_models_of_a_rank_end_before_the_others(self):
        """By diverging between two evaluations, on the first and on the last rank; and all of all ranks."""
        for name, rates in (("some", "1e30,1e30,0.01,0.02,1e30"), ("all", "1e30,1e30,1e30,1e30")):
            run = ["--lr", rates, "-n", str(rates.count(",") + 1), "--exact", "--steps", "20", "--eval-every", "8", "--validation",
                   "0.2", "--batch", "25", "--check", "0"]
            code = 0 if name == "some" else 4
            self.workbench("train", *self.command(f"one-{name}", *run), "--quiet", "--no-store", expect=code)
            self.run_ranks(2, *self.command(f"two-{name}", *run), "--quiet", "--no-store", expect=code)
            one, two = (self.document(f"{k}-{name}") for k in ("one", "two"))
            for report in (one, two):
                for row in report["history"]:
                    del row["seconds"]
            for key in ("models", "events", "history", "configs"):
                self.assertEqual(one[key], two[key], (name, key))
            self.assertEqual(one["run"]["step"], two["run"]["step"])

    def test_what_ranks_cannot_is_refused(self):
        def refused(message, *arguments, ranks=3, code=2):
            text = self.run_ranks(ranks, *arguments, "--quiet", expect=code)
            self.assertEqual([line for line in text.splitlines() if line.startswith("[") and message in line][:1] != [], True, text)
            self.assertEqual(len([line for line in text.splitlines() if line.startswith("[") and "; try " in line]), 1, text)

        for option in (["--part", "1/2"], ["--bench"], ["--no-save"]):
            refused(f"[{option[0]}] ranks: got 3, expected one process; try it without mpirun",
                    *self.command("run", "-n", "4", "--steps", "2", *option))
        refused("[train] ranks: got 3 for 2 models, expected no more than there are; try mpirun -n 2",
                *self.command("run", "-n", "2", "--steps", "2"))
        refused("[nothing.npz] data: got no file, expected a data set", self.path("net.pt2"), "--data", "nothing.npz", "-n", "4",
                "--save", self.path("run"))
        refused("[--metric] ", *self.command("run", "-n", "4", "--steps", "2", "--validation", "0.2", "--metric", "nothing"))
        self.assertFalse(os.path.exists(self.path("run")))
        self.run_ranks(2, *self.command("run", "-n", "4", "--steps", "2"), "--quiet")
        refused("--save: got a folder with a run in it", *self.command("run", "-n", "4", "--steps", "2"))
        self.run_ranks(2, *self.command("run", "-n", "4", "--steps", "4", "--overwrite"), "--quiet")
        self.assertEqual(self.document("run")["run"]["step"], 4)

    def test_a_run_at_its_end_is_made_longer(self):
        run = ["-n", "5", "--exact", "--lr", "log:1e-3..1e-1", "--validation", "0.2", "--batch", "25"]
        self.alone("one", *run, "--steps", "20", "--eval-every", "5")
        self.run_ranks(3, *self.command("two", *run, "--steps", "10", "--eval-every", "5"), "--quiet")
        self.run_ranks(2, "--resume", self.path("two"), "--quiet")
        self.run_ranks(2, "--resume", self.path("two"), "--steps", "20", "--quiet")
        self.same("one", "two")


if __name__ == "__main__":
    unittest.main()
