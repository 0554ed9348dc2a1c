"""A training over ranks in the store while it runs: the rows of one run, and requests that reach every rank."""
import os
import signal
import sqlite3
import sys
import time
import unittest

from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rank_training import RankTraining
from ranks import WHY_NOT

N = 7  # of three ranks the first has models 0 and 1, the second 2 and 3, the last 4 to 6
RUN = ["--target", "y", "--exact", "-n", str(N), "--check", "0", "--validation", "0.25", "--lr", "log:1e-3..1e-2", "--eval-every", "10"]
ENDLESS = "100000000"


@unittest.skipIf(WHY_NOT, WHY_NOT)
class MpiTrainStore(RankTraining):
    def setUp(self):
        super().setUp()
        self.linear_network_and_data()

    def query(self, sql, *values):
        store = sqlite3.connect(self.path("runs.db"), timeout=20)
        with store:
            rows = store.execute(sql, values).fetchall()
        store.close()
        return rows

    def until(self, job, what):
        end = time.monotonic() + 120
        while time.monotonic() < end and job.poll() is None:
            try:
                if os.path.exists(self.path("runs.db")) and what():
                    return
            except sqlite3.OperationalError:  # its tables are being made
                pass
            time.sleep(0.05)
        self.fail(f"waited in vain, rc {job.poll()}")

    def ask(self, *requests):
        """Each (what, model, key, value, source), all at once."""
        with sqlite3.connect(self.path("runs.db"), timeout=20) as store:
            store.executemany("INSERT INTO run_request(run, what, model, key, value, source, asked) "
                              "VALUES(1, ?, ?, ?, ?, ?, '2026-01-01T00:00:00Z')", [r + (None,) * (5 - len(r)) for r in requests])
        store.close()

    def weights_after(self, steps, model):
        if not os.path.exists(self.path(f"alone-{steps}")):
            self.workbench("train", *self.command(f"alone-{steps}", *RUN, "--steps", str(steps), "--quiet", "--no-store"))
        return load_file(self.path(f"alone-{steps}/last/model-{model:04}.safetensors"))

    def test_rows_and_requests(self):
        job = self.start(3, *self.command("run", *RUN, "--steps", ENDLESS, "--save-every", "50", "--quiet"))
        self.until(job, lambda: self.query("SELECT count(*) FROM run_metric")[0][0] > 100 * N)
        self.assertEqual(self.query("SELECT n, name, state FROM run"), [(N, "net", "running")])
        self.assertEqual([m for m, in self.query("SELECT model FROM run_model ORDER BY model")], list(range(N)))
        for (count,) in self.query("SELECT count(*) FROM run_metric GROUP BY step, metric"):
            self.assertEqual(count, N)
        self.ask(("stop", 5), ("set", 3, "lr", 0.5), ("set", None, "clip", 0), ("set", 4, "lr", -1), ("set", None, "warmth", 1),
                 ("copy", 4, None, None, 6), ("copy", 2, None, None, 0), ("stop", 99))
        self.until(job, lambda: self.query("SELECT count(*) FROM run_event")[0][0] >= 8)
        step, = {step for step, in self.query("SELECT step FROM run_request")}
        lr = float(self.query("SELECT json_extract(more, '$.hyperparameters.lr') FROM run_model WHERE model = 3")[0][0])
        refused = ["[train] lr: got -1, expected 0 to ", "[train] hyperparameter: got warmth, expected one of ",
                   "[train] source: got a model of another rank, expected 2 to 3; try one process",
                   "[train] model: got 99, expected 0 to 6; try one of these"]
        given = [r for r, in self.query("SELECT refused FROM run_request ORDER BY id")]
        self.assertEqual(given[:3] + given[5:6], [None] * 4)
        for words, text in zip(refused, [given[3], given[4], given[6], given[7]]):
            self.assertIn(words, text)
        events = dict(zip(*reversed(list(zip(*self.query("SELECT model, what FROM run_event"))))))
        for what, model in ((f"model 5 stopped at step {step}: asked to", 5),
                            (f"model 3 at step {step}: lr from {lr} to 0.5, asked to", 3),
                            (f"all models at step {step}: clip to 0, asked to", None),
                            (f"model 4 at step {step}: takes the weights of model 6, asked to", 4)):
            self.assertEqual(events.get(what, "none"), model, events)
        self.assertEqual(sorted((m is None, m) for w, m in events.items() if w.startswith(f"refused at step {step}: ")),
                         [(False, 2), (False, 4), (False, 99), (True, None)])
        self.ask(("stop",))
        text = job.communicate(timeout=120)[0]
        self.assertEqual(job.returncode, 130, text)
        self.assertEqual([line for line in text.splitlines() if line.startswith("[")], [])
        self.assertFalse(os.path.exists(self.path("run/ranks")))
        self.assertEqual(self.query("SELECT state FROM run"), [("interrupted",)])
        self.assertEqual([s for s, in self.query("SELECT status FROM run_model ORDER BY model")],
                         ["interrupted"] * 5 + ["stopped", "interrupted"])
        made = self.document("run")["run"]["step"]
        self.assertEqual(self.query("SELECT step FROM run_event WHERE what LIKE 'the run stopped at step %: asked to'"), [(made,)])
        self.run_ranks(2, "--resume", self.path("run"), "--steps", str(made + 45), "--quiet")
        self.assertEqual(self.query("SELECT id, state FROM run"), [(1, "complete")])
        self.assertEqual(self.query("SELECT count(*), count(DISTINCT what) FROM run_event"), [(9, 9)])
        for model, steps in ((0, made + 45), (1, made + 45), (2, made + 45), (5, step), (6, made + 45)):
            self.same_tensors(load_file(self.path(f"run/last/model-{model:04}.safetensors")), self.weights_after(steps, model), model)

    def test_what_a_killed_run_leaves(self):
        """It is shown as interrupted; one process goes on with it, and removes what the ranks would have needed."""
        job = self.start(2, *self.command("run", *RUN, "--steps", ENDLESS, "--save-every", "20", "--quiet"))
        ranks = self.ranks_of(job, 2)
        self.until(job, lambda: self.query("SELECT count(*) FROM run_metric")[0][0] > 0)
        os.kill(ranks[0], signal.SIGKILL)
        job.communicate(timeout=120)
        self.assertTrue(os.path.exists(self.path("run/ranks")))
        self.assertIn("interrupted", self.workbench("list", "runs", "--db", self.path("runs.db")).stdout)
        last = self.query("SELECT max(step) FROM run_metric")[0][0]
        self.workbench("train", "--resume", self.path("run"), "--steps", str(last + 60), "--quiet", "--db", self.path("runs.db"))
        self.assertFalse(os.path.exists(self.path("run/ranks")))
        self.assertEqual(self.query("SELECT id, state FROM run"), [(1, "complete")])
        self.same_tensors(load_file(self.path("run/last/model-0006.safetensors")), self.weights_after(last + 60, 6), 6)


if __name__ == "__main__":
    unittest.main()
