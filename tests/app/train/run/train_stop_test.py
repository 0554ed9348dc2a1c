"""A model, and a whole run, are stopped from another process by a row in the store."""
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from train_command import Train


class Stop(Train):
    def setUp(self):
        super().setUp()
        self.linear_network_and_data()

    def query(self, sql, *values):
        store = sqlite3.connect(self.path("stop.db"), timeout=20)
        with store:
            rows = store.execute(sql, values).fetchall()
        store.close()
        return rows

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.path.exists(self.path("stop.db")):
                try:
                    if what():
                        return
                except sqlite3.OperationalError:  # its tables are being made
                    pass
            time.sleep(0.05)
        self.fail("waited too long")

    def test_one_model_then_the_run(self):
        said = open(self.path("said.txt"), "w+", encoding="utf-8")  # a pipe that nobody reads would fill up and hold it
        self.addCleanup(said.close)
        run = subprocess.Popen([os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), "--data", self.path("data.npz"),
                                "--target", "y", "--validation", "0.25", "-n", "5", "--check", "0", "--steps", "100000000",
                                "--save", self.path("run"), "--db", self.path("stop.db")],
                               stdout=said, stderr=subprocess.STDOUT)
        try:
            self.until(lambda: self.query("SELECT count(*) FROM run_metric")[0][0] > 0)
            self.query("INSERT INTO run_request(run, model, what, asked) VALUES(1, 3, 'stop', '2026-01-01T00:00:00Z')")
            self.until(lambda: self.query("SELECT 1 FROM run_event WHERE model = 3 AND what LIKE 'model 3 stopped at step %: asked to'"))
            self.assertEqual(self.query("SELECT count(*) FROM run_request WHERE taken IS NULL"), [(0,)])
            self.assertGreater(self.query("SELECT count(*) FROM run_time WHERE seconds > 0")[0][0], 0)
            self.query("INSERT INTO run_request(run, model, what, asked) VALUES(1, NULL, 'stop', '2026-01-01T00:00:00Z')")
            run.wait(timeout=60)
        finally:
            run.kill()
            run.wait()
        said.seek(0)
        text = said.read()
        self.assertEqual(run.returncode, 130, text[-2000:])
        self.assertIn("the run stopped at step", text)
        self.assertEqual(self.query("SELECT state FROM run"), [("interrupted",)])
        statuses = [status for status, in self.query("SELECT status FROM run_model ORDER BY model")]
        self.assertEqual(statuses, ["interrupted"] * 3 + ["stopped", "interrupted"])
        # Its last value is that of its last evaluation; the others went on.
        lasts = dict(self.query("SELECT model, max(step) FROM run_metric WHERE metric = 'loss' GROUP BY model"))
        self.assertLess(lasts[3], lasts[2])
        self.assertEqual(len({lasts[m] for m in (0, 1, 2, 4)}), 1)


class Said(Train):
    """Commands and options that a message names do what they say when they are pasted into a shell."""

    FOLDER = "my run's $(touch x) \"best\""

    def setUp(self):
        super().setUp()
        self.linear_network_and_data()

    def pasted(self, command, expect=0):
        run = subprocess.run(["bash", "-c", 'workbench() { "$WORKBENCH_BINARY" "$@"; }\n' + command], capture_output=True, text=True,
                             timeout=400, cwd=self.folder)
        self.assertEqual(run.returncode, expect, command + run.stdout[-2000:] + run.stderr[-2000:])
        self.assertFalse(os.path.exists(self.path("x")))
        return run

    def test_how_an_interrupted_run_goes_on(self):
        common = ["--data", self.path("data.npz"), "--target", "y", "-n", "2", "--check", "0", "--no-store", "--save",
                  self.path(self.FOLDER)]
        with subprocess.Popen([os.environ["WORKBENCH_BINARY"], "train", self.path("net.pt2"), *common, "--steps", "100000000", "--save-every",
                               "10"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            try:
                end = time.monotonic() + 60
                while not os.path.exists(self.path(f"{self.FOLDER}/run.safetensors")) and time.monotonic() < end:
                    time.sleep(0.05)
                run.send_signal(signal.SIGINT)
                text = run.communicate(timeout=60)[0]
            finally:
                run.kill()
        self.assertEqual(run.returncode, 130, text[-2000:])
        hint = re.search("interrupted at step (\\d+) of .*; go on with: (.*)\n", text)
        steps = int(hint[1]) + 3
        self.pasted(f"{hint[2]} --steps {steps} --no-store --quiet")
        with open(self.path(f"{self.FOLDER}/report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["run"]["step"], steps)
        refused = self.workbench("train", self.path("net.pt2"), *common, "--steps", "3", expect=2).stderr
        option = re.search("try (--resume .*) or --overwrite\n", refused)[1]
        self.pasted(f"workbench train {option} --steps {steps + 2} --no-store --quiet")

    def test_which_column_is_meant(self):
        with numpy.load(self.path("data.npz")) as data:
            numpy.savez(self.path("data.npz"), **{"my x": data["input"], "y": data["y"]})
        train = ["train", self.path("net.pt2"), "-n", "2", "--target", "y", "--no-store", "--no-save", "--epochs", "1", "--quiet", "--data"]
        refused = self.workbench(*train, self.path("data.npz"), expect=2).stderr
        self.pasted(f"workbench {shlex.join(train)} data.npz {re.search('; try (--column .*)', refused)[1]}")


if __name__ == "__main__":
    unittest.main()
