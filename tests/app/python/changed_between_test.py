"""Tensors that are changed in place between a forward pass and its backward pass: an error, as in PyTorch where it keeps them, or
else the gradients of the forward pass as it was. Never others."""

import package

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

N = 3


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(7, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(self.table(x))


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale, self.shift = nn.Linear(4, 5), nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(5))
        self.register_buffer("mask", torch.rand(5))
        self.register_buffer("offset", torch.rand(5))

    def forward(self, x):
        return self.linear(x) * self.scale * self.mask + self.shift + self.offset


def normed(norm):
    return lambda: nn.Sequential(nn.Linear(4, 5), norm(5), nn.ReLU(), nn.Linear(5, 2))


def rows():
    return torch.randn(6, 4)


# Of these a wide module keeps what PyTorch does; of norms something else, from which the same gradients follow.
LIKE_PYTORCH = {"mlp": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), rows),
                "embedding": (Looks, lambda: torch.randint(7, (6,))), "scales": (Scales, rows),
                "conv": (lambda: nn.Sequential(nn.Conv1d(4, 3, 2), nn.ReLU(), nn.Conv1d(3, 2, 2)), lambda: torch.randn(2, 4, 6))}
OTHERWISE = {"layer norm": (normed(nn.LayerNorm), rows), "batch norm": (normed(nn.BatchNorm1d), rows),
             "batch norm, fixed": (lambda: normed(nn.BatchNorm1d)().eval(), rows)}


def state(module):
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def gradients(module, x, changed=None):
    """Of the module's parameters and, where it has one, of the input, or None where PyTorch's error is raised."""
    module.zero_grad()
    given = x.detach().clone().requires_grad_(x.is_floating_point())
    inner = given * 1
    y = module(inner)
    if changed is not None:
        with torch.no_grad():
            (inner if changed == "the input" else state(module)[changed]).mul_(3)
    try:
        y.square().sum().backward()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None
    return [given.grad, *(p.grad for p in module.parameters())]


class ChangedBetween(unittest.TestCase):
    def test_an_error_or_the_gradients_as_they_were(self):
        for name, (make, inputs) in {**LIKE_PYTORCH, **OTHERWISE}.items():
            torch.manual_seed(0)
            models = [make().double() for _ in range(N)]
            x = torch.stack([inputs() for _ in range(N)])
            x = x.double() if x.is_floating_point() else x
            for warm in (False, True):  # the first backward pass computes forward again
                for changed in [*state(models[0]), "the input"]:
                    with self.subTest(name, warm=warm, changed=changed):
                        wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False, threads=1))
                        if warm:
                            gradients(wide, x)
                        got = gradients(wide, x, changed)
                        theirs = gradients(copy.deepcopy(models[0]), x[0], changed)
                        if warm and name in LIKE_PYTORCH:
                            self.assertEqual(got is None, theirs is None)
                        if got is not None:
                            self.check(got, models, x)

    def check(self, got, models, x):
        for i, model in enumerate(models):
            for ours, own in zip(got, gradients(copy.deepcopy(model), x[i]), strict=True):
                if own is None:
                    self.assertIsNone(ours)
                else:
                    torch.testing.assert_close(ours[i], own, rtol=1e-9, atol=1e-9)


if __name__ == "__main__":
    unittest.main()
