"""Trainings over ranks of Open MPI: the run of one process, to the bit under --exact, whoever is killed meanwhile."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rank_training import RankTraining
from ranks import BINARY, ENVIRONMENT, MPIRUN, WHY_NOT

import digits

N, EVERY = 64, 6  # models; steps from one evaluation to the next
# Half of the models are pruned at each of the evaluations 1, 2, 4 and 8; some diverge, some stop early.
RUN = ["--grid", "lr=1e-4,3e-3,1e-2,3e-2,1e-1,3e-1,1e30,1", "--seeds", "8", "--exact", "--steps", "48", "--eval-every", str(EVERY),
       "--validation", "0.2", "--test", "0.1", "--prune", "2,1", "--patience", "1", "--metric", "accuracy", "--batch", "25",
       "--seed", "11"]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiTrain(RankTraining):
    def setUp(self):
        super().setUp()
        digits.write(self.folder, 300)

    def test_the_run_of_one_process(self):
        self.alone("one", *RUN)
        text = self.run_ranks(3, *self.command("three", *RUN))
        self.assertIn(f"of {N}, which 3 ranks train", text)
        report = self.same("one", "three")
        self.assertEqual({m["status"] for m in report["models"]}, {"pruned", "diverged", "stopped", "trained"})
        self.assertEqual(len(report["models"]), N)

    def test_killed_and_resumed_with_others(self):
        """Three ranks, of which one is stopped, then one killed; then two, then one process alone."""
        self.alone("one", *RUN)
        command = self.command("three", *RUN, "--save-every", "5", "--quiet")
        resume = "--resume", self.path("three"), "--quiet"
        saved = self.path("three/run.safetensors")
        for count, victim, signum, arguments in ((3, 2, signal.SIGSTOP, command), (3, 1, signal.SIGKILL, resume),
                                                 (2, 0, signal.SIGKILL, resume)):
            begun = os.stat(saved).st_mtime_ns if os.path.exists(saved) else 0
            job = self.start(count, *arguments)
            ranks = self.ranks_of(job, count)
            # Between two evaluations, from where a training loss goes on.
            self.await_saved("three", job, lambda step: step % EVERY and os.stat(saved).st_mtime_ns > begun)
            self.kill(ranks[victim], signum)
            stopped = time.monotonic()
            text = job.communicate(timeout=120)[0]
            if signum == signal.SIGSTOP:
                self.assertLess(time.monotonic() - stopped, 80)
                self.assertEqual([line for line in text.splitlines() if line.startswith("[") and "; try " in line],
                                 ["[train] rank 2: got no heartbeat for 40 s, expected one; try train --resume "
                                  f"{self.path('three')} with as many as there are"], text)
                self.assertEqual(job.returncode, 1, text)
            end = time.monotonic() + 60
            while any(os.path.exists(f"/proc/{pid}") for pid in ranks.values()):
                self.assertLess(time.monotonic(), end, "ranks that stay")
                time.sleep(0.05)
        shutil.copytree(self.path("three"), self.path("alone"))
        self.run_ranks(2, "--resume", self.path("three"), "--quiet")
        self.same("one", "three")
        self.workbench("train", "--resume", self.path("alone"), "--quiet", "--db", self.path("runs.db"))
        self.same("one", "alone")

    def test_rows_of_all_models_are_logged_and_told_while_they_train(self):
        run = ["-n", "5", "--lr", "1e-4,1e-3,1e-3,1e-2,0.1", "--validation", "0.2", "--batch", "25", "--check", "0"]

        def rows(text):
            head, *lines = csv.reader(text.splitlines())
            self.assertEqual(head, ["step", "epoch", "seconds", "model", "train_loss", "loss"])
            return [(int(step), int(model), float(train), float(loss)) for step, _, _, model, train, loss in lines]

        def reported(folder):
            return [(r["step"], m, r["train_loss"][m], r["loss"][m]) for r in self.document(folder)["history"] for m in range(5)]

        def same(logged, expected):
            self.assertEqual([r[:2] for r in logged], [r[:2] for r in expected])
            for a, b in zip(logged, expected):
                self.assertAlmostEqual(a[2], b[2], delta=1e-6)
                self.assertAlmostEqual(a[3], b[3], delta=1e-6)

        job = self.start(3, *self.command("endless", *run, "--steps", "100000000", "--eval-every", "5", "--quiet", "--log",
                                          self.path("log.csv")))
        end, log = time.monotonic() + 120, ""
        while log.count("\n") < 16:
            self.assertIsNone(job.poll())
            self.assertLess(time.monotonic(), end, "no rows while it trains")
            time.sleep(0.05)
            if os.path.exists(self.path("log.csv")):
                with open(self.path("log.csv"), encoding="utf-8") as file:
                    log = file.read()
        self.assertEqual([r[:2] for r in rows(log)[:15]], [(step, m) for step in (5, 10, 15) for m in range(5)])
        job.kill()
        job.wait()

        text = self.run_ranks(3, *self.command("told", *run, "--steps", "20", "--eval-every", "5", "--log", self.path("log.csv")))
        with open(self.path("log.csv"), encoding="utf-8") as file:
            same(rows(file.read()), reported("told"))
        told = re.findall(r"step (\d+)/20 .* loss (\S+) · best loss (\S+) \(model (\d)\)", text)
        self.assertEqual([int(t[0]) for t in told], [5, 10, 15, 20])
        for step, median, value, model in told:
            best = min((r for r in reported("told") if r[0] <= int(step)), key=lambda r: r[3])
            losses = sorted(r[2] for r in reported("told") if r[0] == int(step))
            self.assertEqual((value, int(model), median), (f"{best[3]:.4g}", best[1], f"{losses[2]:.4g}"))

        def printed(*arguments):
            return subprocess.run([MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", "3", BINARY, "train", *arguments,
                                   "--log", "-", "--no-store"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  env=ENVIRONMENT, timeout=300, check=True).stdout
        same(rows(printed(*self.command("lines", *run, "--steps", "10", "--eval-every", "5"))), reported("lines"))
        same(rows(printed("--resume", self.path("lines"), "--steps", "20")), reported("lines")[10:])

    def test_ctrl_c_is_one_line(self):
        """To mpirun, which asks the ranks to end and ends with 1; or to rank 0 alone."""
        for victim in ("mpirun", "rank 0"):
            job = self.begin(2, "train", *self.command(victim, "-n", "5", "--steps", "1000000", "--save-every", "5", "--quiet"), "--db",
                             self.path("runs.db"), OMPI_MCA_odls_base_sigkill_timeout="4")
            ranks = self.ranks_of(job, 2)
            self.await_saved(victim, job, lambda step: step > 0)
            self.kill(job.pid if victim == "mpirun" else ranks[0], signal.SIGINT)
            text = job.communicate(timeout=120)[0]
            self.assertEqual([line for line in text.splitlines() if line.startswith("[w")], ["[workbench] cancelled"], text)
            self.assertEqual(job.returncode, 1 if victim == "mpirun" else 130, text)

    def test_threads_are_a_rank_s_share_of_the_cores(self):
        """By itself mpirun binds one or two ranks to one core each."""
        cores = sorted(os.sched_getaffinity(0))
        some = cores[:max(2, len(cores) - 1)]
        together = ["taskset", "-c", ",".join(map(str, some))]
        for name, ranks, before, binding, threads in (
                ("alone", 1, [], [], len(cores)), ("two", 2, [], [], max(1, len(cores) // 2)), ("core", 1, [], ["--bind-to", "core"], 1),
                ("together", 2, together, ["--bind-to", "none"], max(1, len(some) // 2))):
            subprocess.run([*before, MPIRUN, "--oversubscribe", *binding, "-n", str(ranks), BINARY, "train",
                            *self.command(name, "-n", "2", "--steps", "2", "--no-store", "--quiet")], env=ENVIRONMENT, timeout=120,
                           check=True)
            self.assertEqual(self.document(name)["environment"]["threads"], threads, name)

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

    def test_some_ranks_alone_have_averages_and_momentum(self):
        run = ["--set", "ema=0,0,0,0.9", "--set", "momentum=0,0.9,0,0", "--lr", "0.01,0.02,0.03,0.04", "--optimizer", "sgd", "--exact",
               "--validation", "0.2", "--batch", "25", "--eval-every", "5"]
        self.alone("one", *run, "--steps", "20")
        self.run_ranks(2, *self.command("two", *run, "--steps", "10"), "--quiet")
        self.run_ranks(4, "--resume", self.path("two"), "--steps", "20", "--quiet")
        self.same("one", "two")


if __name__ == "__main__":
    unittest.main()
