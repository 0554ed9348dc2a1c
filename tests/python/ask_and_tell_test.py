"""The search by ask and tell: every trial's best loss, and where it was given up, against a module of its own in PyTorch."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "personas"), os.path.join(os.path.dirname(HERE), "app", "python")]

import package  # noqa: E402

package.enter()

import math  # noqa: E402
import random  # noqa: E402
import statistics  # noqa: E402
import unittest  # noqa: E402

import ask_and_tell  # noqa: E402
from separate_runs import Net, Runs, rows, separate, start  # noqa: E402


class Trial:
    """As Optuna's: values by step, given up where they are above the median of the trials before."""

    def __init__(self, study):
        self.study, self.reported = study, {}

    def suggest_float(self, name, low, high, log=False):
        self.rate = math.exp(self.study.draw.uniform(math.log(low), math.log(high)))
        return self.rate

    def report(self, value, step):
        self.reported[step] = value

    def should_prune(self):
        step = max(self.reported)
        others = [t.reported[step] for t in self.study.told if step in t.reported]
        return bool(others) and self.reported[step] > statistics.median(others)


class Study:
    def __init__(self):
        self.draw, self.told = random.Random(3), []

    def ask(self):
        return Trial(self)

    def tell(self, trial, value):
        trial.value = value
        self.told.append(trial)


class AskAndTell(Runs):
    def test_each_trial_is_as_alone(self):
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        study = Study()
        os.chdir(self.path(""))
        runs = ask_and_tell.search(study, Net, 3, data=(x, y), validation=(xv, yv), epochs=5, batch=16, order="sequential",
                                   dtype="f64", check=0, quiet=True, db=self.path("results.db"))
        given_up = 0
        for run, trials in zip(runs, (study.told[:8], study.told[8:16], study.told[16:])):
            for i, trial in enumerate(trials):
                looks, _ = separate(start(i), x, y, xv, yv, trial.rate, epochs=len(trial.reported))
                self.assertEqual(list(trial.reported), [4 * (e + 1) for e in range(len(looks))])
                for (_, loss, _), reported in zip(looks, trial.reported.values()):
                    self.assertAlmostEqual(loss, reported, delta=1e-9)
                self.assertAlmostEqual(trial.value, min(look[1] for look in looks), delta=1e-9)
                self.assertEqual(run.table["step"][i], max(trial.reported))
                stopped = run.table["status"][i] == "stopped"
                given_up += stopped
                self.assertTrue(stopped or len(looks) == 5)
        self.assertGreater(given_up, 4)
        self.assertLess(given_up, 20)


if __name__ == "__main__":
    unittest.main()
