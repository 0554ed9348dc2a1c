"""A model, and a whole run, are stopped from another process by a row in the store."""
import os
import sqlite3
import subprocess
import sys
import time
import unittest

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


if __name__ == "__main__":
    unittest.main()
