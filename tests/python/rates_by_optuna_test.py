"""Rates that Optuna proposes, tried by wide runs, against the same search over modules that PyTorch trains one by one."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "personas"), os.path.join(os.path.dirname(HERE), "app", "python")]

import package  # noqa: E402

package.enter()

import statistics  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

import rates_by_optuna as persona  # noqa: E402
import torch  # noqa: E402

ROUNDS, SEEDS, EPOCHS, BATCH = 2, 8, 10, 50


def alone(rate, seed):
    """The best validation loss of one model. Seeds count on over the rates of a round, as `nw.train` counts them."""
    x, y = persona.x, persona.y
    torch.manual_seed(seed)
    model = persona.make().double()
    step = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for _ in range(EPOCHS):
        for begin in range(0, 300, BATCH):
            step.zero_grad()
            (model(x[begin:begin + BATCH]) - y[begin:begin + BATCH]).square().mean().backward()
            step.step()
        losses.append((model(x[300:]) - y[300:]).square().mean().item())
    return min(losses)


class RatesByOptuna(unittest.TestCase):
    def test_the_same_search(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            wide = persona.search(persona.wide, ROUNDS)
            os.chdir(HERE)
        separate = persona.search(lambda rates, _: [statistics.mean(alone(rate, SEEDS * k + s) for s in range(SEEDS))
                                                    for k, rate in enumerate(rates)], ROUNDS)
        self.assertEqual(len(wide.trials), 8 * ROUNDS)
        for ours, theirs in zip(wide.trials, separate.trials, strict=True):
            self.assertAlmostEqual(ours.params["lr"], theirs.params["lr"], delta=1e-9)
            self.assertAlmostEqual(ours.value, theirs.value, delta=1e-9)
        self.assertEqual(wide.best_trial.number, separate.best_trial.number)


if __name__ == "__main__":
    unittest.main()
