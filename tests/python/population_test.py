"""Population-based training: every evaluation of every model against modules that PyTorch trains, copies and changes alike."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "personas"), os.path.join(os.path.dirname(HERE), "app", "python")]

import package  # noqa: E402

package.enter()

import copy  # noqa: E402
import random  # noqa: E402
import unittest  # noqa: E402

import population  # noqa: E402
import torch  # noqa: E402
from separate_runs import Net, Runs, rows, start  # noqa: E402
from torch.nn import functional as F  # noqa: E402

RATES = [1e-4, 3e-3, 0.3, 1e-3, 0.03, 0.1, 3e-4, 0.01]


def separate(x, y, xv, yv, epochs, batch=16):
    """The validation losses of each epoch, by model."""
    draw = random.Random(0)
    models = [start(i).double() for i in range(len(RATES))]
    steps = [torch.optim.AdamW(m.parameters(), lr=lr) for m, lr in zip(models, RATES)]
    epochs_losses = []
    for _ in range(epochs):
        losses = []
        for model, step in zip(models, steps):
            model.train()
            for begin in range(0, len(x), batch):
                step.zero_grad()
                F.cross_entropy(model(x[begin:begin + batch]), y[begin:begin + batch]).backward()
                step.step()
            with torch.no_grad():
                losses.append(F.cross_entropy(model.eval()(xv), yv).item())
        epochs_losses.append(losses)
        order = sorted(range(len(RATES)), key=losses.__getitem__)
        quarter = len(order) // 4
        for good, bad in zip(order[:quarter], order[-quarter:]):
            models[bad].load_state_dict(models[good].state_dict())
            steps[bad].load_state_dict(copy.deepcopy(steps[good].state_dict()))
            steps[bad].param_groups[0]["lr"] *= draw.choice([0.8, 1.25])
    return epochs_losses, [step.param_groups[0]["lr"] for step in steps]


class Population(Runs):
    def test_as_in_pytorch(self):
        (x, y), (xv, yv) = rows(), rows(31, seed=4)
        run = population.train(Net, RATES, data=(x, y), validation=(xv, yv), epochs=6, batch=16, order="sequential", dtype="f64",
                               check=0, save=self.path("run"), quiet=True, db=self.path("results.db"))
        expected, rates = separate(x, y, xv, yv, 6)
        for model in range(len(RATES)):
            own = run.curves[run.curves["model"] == model]["loss"]
            self.assertEqual(len(own), 6)
            for epoch, loss in enumerate(own):
                self.assertAlmostEqual(loss, expected[epoch][model], delta=1e-8)
        said = [event["what"] for event in run.report["events"]]
        self.assertEqual(len([s for s in said if "takes the weights of model" in s]), 2 * 6)
        self.assertEqual(len([s for s in said if ": lr from " in s]), 2 * 6)
        self.assertNotEqual(rates, RATES)


if __name__ == "__main__":
    unittest.main()
