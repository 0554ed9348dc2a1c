"""Hyperparameters with a number for each model: their arithmetic, schedulers over them, and what takes one number alone."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

LR = [0.1, 0.25, 0.5]
OPTIONS = nw.Options(tune=False, threads=1)


def made():
    torch.manual_seed(0)
    models = [nn.Linear(3, 2).double() for _ in LR]
    return models, nw.compile(copy.deepcopy(models), options=OPTIONS)


class Numbers(unittest.TestCase):
    def test_are_computed_with_as_arrays(self):
        """With numbers, lists, arrays and tensors, on either side."""
        lr, own = nw.optim.PerModel(LR), np.array(LR)
        others = (2, 0.5, np.float64(3), np.float32(0.5), [1, 2, 3], (1.0, 2.0, 4.0), own + 1, torch.tensor([1.0, 2.0, 4.0]),
                  torch.tensor(2.0), nw.optim.PerModel([3, 2, 1]))
        for other in others:
            value = np.array(other.values if isinstance(other, nw.optim.PerModel) else
                             other.tolist() if isinstance(other, torch.Tensor) else other, dtype=float)
            cases = [(lr * other, own * value), (lr + other, own + value), (lr - other, own - value), (lr / other, own / value),
                     (lr ** other, own ** value)]
            if not isinstance(other, torch.Tensor):
                cases += [(other * lr, value * own), (other + lr, value + own), (other - lr, value - own), (other / lr, value / own)]
            for got, expected in cases:
                self.assertIs(type(got), nw.optim.PerModel)
                np.testing.assert_allclose(got.values, expected, rtol=1e-15)
        self.assertEqual((-lr).values, tuple(-v for v in LR))
        for function in (np.log10, np.abs, lambda values: np.maximum(values, 0.02), lambda values: np.multiply([1, 2, 3], values)):
            np.testing.assert_allclose(function(lr), function(own))  # NumPy's functions read it as a list

    def test_other_numbers_than_models_are_refused(self):
        lr = nw.optim.PerModel(LR)
        for other in ([1, 2], np.ones(4), torch.ones(2), nw.optim.PerModel([1])):
            with self.assertRaisesRegex(nw.Error, rf"^\[nw.optim\] hyperparameter: got {len(other)} values, expected 3, .*; try "):
                lr * other
        with self.assertRaises(TypeError):
            lr * None
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] hyperparameter: got a number for each model, expected one .* mul takes; try "):
            torch.ones(3) * lr

    def test_one_cycle(self):
        """Each model's rates and momenta are those of its own schedule."""
        models, wide = made()
        optimizer = nw.optim.AdamW(wide, lr=LR)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=nw.optim.PerModel(LR), total_steps=7)
        own = [torch.optim.AdamW(m.parameters()) for m in models]
        schedules = [torch.optim.lr_scheduler.OneCycleLR(each, max_lr=lr, total_steps=7) for each, lr in zip(own, LR)]
        x = torch.randn(3, 5, 3, dtype=torch.float64)
        for _ in range(6):
            optimizer.zero_grad()
            wide(x).square().sum().backward()
            for each, m, one in zip(own, models, x):
                each.zero_grad()
                m(one).square().sum().backward()
            for each in (optimizer, *own, schedule, *schedules):
                each.step()
        for name, p in wide.named_parameters():
            torch.testing.assert_close(p, torch.stack([m.get_parameter(name) for m in models]), rtol=1e-9, atol=1e-9)

    def test_states_in_torch_s_optimisers_are_refused(self):
        """At the step, with the reason."""
        for name, options in (("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("AdamW", {"weight_decay": 0.0}),
                              ("RMSprop", {})):
            _, wide = made()
            other = getattr(torch.optim, name)(wide.parameters(), **options)
            other.load_state_dict(getattr(nw.optim, name)(wide, lr=LR, **options).state_dict())
            wide(torch.randn(3, 5, 3, dtype=torch.float64)).sum().backward()
            with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] hyperparameter: got a number for each model, .*; try nw.optim"):
                other.step()


if __name__ == "__main__":
    unittest.main()
