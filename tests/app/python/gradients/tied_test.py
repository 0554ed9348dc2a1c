"""Tensors that some of the models hold as one: refused where a step or a call would change them, as every model of a wide module has
its own."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

OPTIONS = nw.Options(tune=False, threads=1)


class Critic(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(5, 1).double()

    def forward(self, x):
        return self.head(self.encoder(x).tanh())


def critics(groups, make=lambda: nn.Linear(4, 5).double()):
    """Four critics with as many encoders."""
    torch.manual_seed(0)
    encoders = [make() for _ in range(groups)]
    return [Critic(encoders[i * groups // 4]) for i in range(4)]


class Tied(unittest.TestCase):
    def test_what_is_learned_is_refused(self):
        for models in (critics(2), critics(3), nn.ModuleList(critics(2))):
            with self.assertRaisesRegex(nw.Error, r"^\[compile\] encoder.weight: got one tensor that models . and . hold, but not all, .*; "
                                                  r"try copy.deepcopy of every model"):
                nw.compile(models, options=OPTIONS)
        with self.assertRaisesRegex(nw.Error, r"^\[compile\] weight: got one tensor that models 0 and 2 hold, but not all"):
            layers = [nn.LayerNorm(4) for _ in range(3)]
            layers[2].weight = layers[0].weight
            nw.from_modules(layers)

    def test_what_all_hold_is_learned_as_one(self):
        """With or without their number."""
        x = torch.randn(4, 6, 4, dtype=torch.float64)
        for n in (None, 4):
            models = critics(1)
            wide = nw.compile(copy.deepcopy(models), n=n, options=OPTIONS)
            separate = torch.optim.SGD({id(p): p for m in models for p in m.parameters()}.values(), lr=0.1)
            optimizer = nw.optim.SGD(wide, lr=0.1)
            for _ in range(3):
                for step, loss in ((optimizer, lambda: wide(x).square().mean((1, 2)).sum()),
                                   (separate, lambda: sum(m(one).square().mean() for m, one in zip(models, x)))):
                    step.zero_grad()
                    loss().backward()
                    step.step()
            torch.testing.assert_close(wide.encoder.weight, models[0].encoder.weight)
            torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))

    def test_what_is_frozen_is_taken(self):
        models = critics(2)
        for m in models:
            m.encoder.requires_grad_(False)
        wide = nw.compile(models, options=OPTIONS)
        x = torch.randn(4, 6, 4, dtype=torch.float64)
        torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))
        optimizer = nw.optim.SGD(wide, lr=0.1)
        wide(x).square().sum().backward()
        optimizer.step()
        wide.copy_to(models)
        torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))

    def test_statistics_that_a_call_changes_are_refused(self):
        models = critics(2, lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, affine=False)).double().requires_grad_(False))
        x = torch.randn(4, 6, 4, dtype=torch.float64)
        wide = nw.compile(models, options=OPTIONS)
        for call in (lambda: wide(x), lambda: wide.at([1, 2])(x[1:3])):
            with self.assertRaisesRegex(nw.Error, r"^\[forward\] buffer encoder.1.running_mean: got a change of one tensor that some models "
                                                  r"hold, .*; try copy.deepcopy"):
                call()
        wide.eval()
        torch.testing.assert_close(wide(x), torch.stack([m.eval()(one) for m, one in zip(models, x)]))

    def test_one_model_twice(self):
        """Starts as one, goes on as two; both cannot be written into the one module again."""
        one, other = critics(4)[:2]
        wide = nw.compile([one, one, other], options=OPTIONS)
        self.assertEqual(wide.encoder.weight.shape, (3, 5, 4))
        wide.copy_to([one, one, other])
        with torch.no_grad():
            wide.head.bias[1] += 1
        before = copy.deepcopy([one.state_dict(), other.state_dict()])
        with self.assertRaisesRegex(nw.Error, r"^\[copy_to\] head.bias: got one tensor that several of these models hold, .*; try "):
            wide.copy_to([one, one, other])
        for model, state in zip((one, other), before):
            for name, value in model.state_dict().items():
                self.assertTrue(torch.equal(value, state[name]), name)
        apart = [copy.deepcopy(one), one, other]
        wide.copy_to(apart)
        x = torch.randn(3, 6, 4, dtype=torch.float64)
        torch.testing.assert_close(wide(x), torch.stack([m(part) for m, part in zip(apart, x)]))


if __name__ == "__main__":
    unittest.main()
