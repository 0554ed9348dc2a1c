"""The search by ask and tell: every trial's best loss, and where it was given up, against a module of its own in PyTorch."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "personas"), os.path.join(os.path.dirname(HERE), "app", "python")]

import package  # noqa: E402

package.enter()

import unittest  # noqa: E402

import ask_and_tell  # noqa: E402
import optuna  # noqa: E402
from optuna.trial import TrialState  # noqa: E402
from separate_runs import Net, Runs, rows, separate, start  # noqa: E402


class AskAndTell(Runs):
    def test_each_trial_is_as_alone(self):
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3), pruner=optuna.pruners.MedianPruner(n_startup_trials=8))
        os.chdir(self.path(""))
        runs = ask_and_tell.search(study, Net, 3, data=(x, y), validation=(xv, yv), epochs=5, batch=16, order="sequential",
                                   dtype="f64", check=0, quiet=True, db=self.path("results.db"))
        self.assertEqual(len(study.trials), 24)
        for trial in study.trials:
            run, i = runs[trial.number // 8], trial.number % 8
            reported = trial.intermediate_values
            looks, _ = separate(start(i), x, y, xv, yv, trial.params["lr"], epochs=len(reported))
            self.assertEqual(list(reported), [4 * (e + 1) for e in range(len(looks))])
            for (_, loss, _), value in zip(looks, reported.values()):
                self.assertAlmostEqual(loss, value, delta=1e-9)
            self.assertEqual(run.table["step"][i], max(reported))
            self.assertEqual(run.table["status"][i], "trained" if trial.state == TrialState.COMPLETE else "stopped")
            expected = min(look[1] for look in looks) if trial.state == TrialState.COMPLETE else looks[-1][1]
            self.assertAlmostEqual(trial.value, expected, delta=1e-9)
        given_up = study.get_trials(states=[TrialState.PRUNED])
        self.assertGreater(len(given_up), 2)
        self.assertGreaterEqual(min(trial.number for trial in given_up), 8)  # not before the first eight are told
        self.assertLess(min(len(trial.intermediate_values) for trial in given_up), 5)


if __name__ == "__main__":
    unittest.main()
