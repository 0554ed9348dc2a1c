"""Callbacks of `nw.train`: what they see, and what they stop, change and copy, against separate modules in PyTorch."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import math  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import unittest  # noqa: E402

import nwide_program  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, start  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import nwide as nw  # noqa: E402

STEPS = 4  # an epoch of 53 rows in batches of 16
OPTIONS = {"batch": 16, "order": "sequential", "dtype": "f64", "check": 0}


def losses_of(model, rates, x, y, xv, yv):
    """Of each epoch, trained at its rate, the loss on the validation rows."""
    step = torch.optim.AdamW(model.double().parameters(), lr=rates[0])
    losses = []
    for lr in rates:
        step.param_groups[0]["lr"] = lr
        model.train()
        for begin in range(0, len(x), 16):
            step.zero_grad()
            F.cross_entropy(model(x[begin:begin + 16]), y[begin:begin + 16]).backward()
            step.step()
        with torch.no_grad():
            losses.append(F.cross_entropy(model.eval()(xv), yv).item())
    return losses


class Callbacks(Runs):
    def train(self, models=Net, *beside, save="run", **options):
        (x, y), held = rows(), rows(31, seed=4)
        return nw.train(models, *beside, data=(x, y), validation=held, save=self.path(save), db=self.path("results.db"), quiet=True,
                        **{**OPTIONS, **options})

    def check(self, run, model, rates):
        own = run.curves[run.curves["model"] == model]["loss"]
        expected = losses_of(start(model), rates, *rows(), *rows(31, seed=4))
        self.assertEqual(len(own), len(expected))
        for value, loss in zip(own, expected):
            self.assertAlmostEqual(value, loss, delta=1e-9)

    def test_models_that_skip_all_steps_run(self):
        """The rows of the first step have no weight: the models still are as they began, and run."""
        x, y = rows(64)
        weight = torch.ones(64)
        weight[:32] = 0
        looks = []
        nw.train(Net, data={"x": x, "y": y, "w": weight}, sample_weight="w", target="y", save=self.path("skips"),
                 validation={"x": x, "y": y, "w": torch.ones(64)}, batch=32, eval_every=1, epochs=1, lr=0.01, seeds=2,
                 order="sequential", dtype="f64", check=0, db=self.path("results.db"), quiet=True,
                 callbacks=lambda look: looks.append((look.step, look.running, look.values)))
        self.assertEqual([look[:2] for look in looks], [(1, [0, 1]), (2, [0, 1])])
        self.assertEqual([[loss > 0 for loss in look[2]["train_loss"]] for look in looks], [[False, False], [True, True]])
        for seed, loss in enumerate(looks[0][2]["loss"]):
            with torch.no_grad():
                self.assertAlmostEqual(loss, F.cross_entropy(start(seed).double().eval()(x), y).item(), delta=1e-9)

    def test_stops_and_changes(self):
        seen = []

        def steer(look):
            seen.append((look.step, look.steps, list(look.running), [h["lr"] for h in look.hyperparameters], look.values["loss"]))
            if look.step == STEPS:
                look.set(1, lr=0.05)
                look.stop(2)
            if look.step == 2 * STEPS:
                look.set(lr=0.002)

        run = self.train(lr=[1e-3, 1e-2, 0.1], epochs=4, callbacks=steer)
        self.assertEqual([look[:4] for look in seen], [
            (4, 16, [0, 1, 2], [1e-3, 1e-2, 0.1]), (8, 16, [0, 1], [1e-3, 0.05, 0.1]), (12, 16, [0, 1], [0.002] * 3),
            (16, 16, [0, 1], [0.002] * 3)])
        self.check(run, 0, [1e-3, 1e-3, 0.002, 0.002])
        self.check(run, 1, [1e-2, 0.05, 0.002, 0.002])
        self.check(run, 2, [0.1])
        self.assertEqual(list(run.table["status"]), ["trained", "trained", "stopped"])
        self.assertEqual(list(run.table["lr"]), [1e-3, 1e-2, 0.1])  # what they began with
        self.assertIn("model 1 at step 4: lr from 0.01 to 0.05, asked to", [e["what"] for e in run.report["events"]])
        for look in seen:
            values = run.curves[run.curves["step"] == look[0]].set_index("model")["loss"]
            for model, loss in enumerate(look[4]):
                self.assertTrue(math.isnan(loss) if model not in look[2] else loss == values[model])

    def test_all_stopped_is_an_end(self):
        run = self.train(seeds=2, lr=0.01, epochs=50, callbacks=[lambda look: look.step == 3 * STEPS and look.stop()])
        self.assertEqual((run.state, list(run.table["status"]), list(run.table["step"])), ("complete", ["stopped"] * 2, [12, 12]))
        self.check(run, 1, [0.01] * 3)

    def test_each_wide_run(self):
        seen = []
        self.train(seeds=2, lr=0.01, epochs=1, batch=[8, 16], callbacks=lambda look: seen.append((look.chosen, look.step)))
        self.assertEqual(seen, [({"batch": 8}, 7), ({"batch": 16}, 4)])

    def test_interrupted_and_gone_on_with(self):
        def steer(look):
            if look.step == STEPS:
                look.set(0, lr=0.03)
            if look.step == 2 * STEPS:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()

        seen = []
        run = self.train(lr=[1e-3, 1e-2], epochs=4, callbacks=steer)
        self.assertEqual((run.state, run.report["run"]["step"]), ("interrupted", 8))
        run.resume(callbacks=lambda look: seen.append((look.step, look.hyperparameters[0]["lr"])), quiet=True)
        self.assertEqual(seen, [(12, 0.03), (16, 0.03)])
        self.check(run, 0, [1e-3, 0.03, 0.03, 0.03])
        self.check(run, 1, [1e-2] * 4)

    def test_errors_of_a_callback(self):
        def fails(look):
            if look.step == 2 * STEPS:
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.train(seeds=2, lr=0.01, epochs=4, callbacks=fails)
        run = nw.open_run(self.path("run"), Net)
        self.assertEqual((run.state, run.report["run"]["step"]), ("interrupted", 8))
        run.resume(quiet=True)
        self.check(run, 1, [0.01] * 4)

    def test_what_is_refused(self):
        def steering(what):
            return lambda: self.train(seeds=2, lr=0.01, epochs=2, callbacks=what, save=str(len(os.listdir(self.path("")))))

        for words, what in (
                ("[callback] seed: got it, expected a hyperparameter that a running model may change; try look.set(3, lr=1e-4)",
                 lambda look: look.set(0, seed=3)),
                ("[callback] lr: got nan, expected a finite number; try look.set(3, lr=1e-4)", lambda look: look.set(0, lr=math.nan)),
                ("[callback] model: got 2, expected 0 to 1; try one of look.running", lambda look: look.stop(2)),
                ("[train] lr: got -1, expected 0 to 1e+300; try 0.001", lambda look: look.set(0, lr=-1)),
                ("[train] dropout: got it, expected one that this run has a use for; try lr", lambda look: look.set(0, dropout=0.1)),
                ("[train] callbacks: got int, expected a function or a list of them; try callbacks=[f]", 3)):
            self.refused(words, steering(what))
        self.refused("[train] callbacks: got no_store too, expected a store, through which the run is told, and its own words; try "
                     "a run without no_store=", lambda: self.train(seeds=2, callbacks=print, no_store=True, save="other"))

    def test_nobody_who_answers(self):
        self.train(seeds=2, lr=0.01, epochs=1)
        path, environment = nwide_program.program()
        child = subprocess.Popen([path, "train", f"--resume={self.path('run')}", "--epochs=4", "--wait", f"--db={self.path('results.db')}"],
                                 env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        while not child.stdout.readline().startswith("epoch 2 "):
            self.assertIsNone(child.poll())
        child.stdout.close()
        self.assertNotEqual(child.wait(60), 0)
        run = nw.open_run(self.path("run"), Net)
        self.assertEqual(run.resume(epochs=4, quiet=True).state, "complete")


if __name__ == "__main__":
    unittest.main()
