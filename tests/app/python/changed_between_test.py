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


class Gram(nn.Module):
    """Gives out a value from which another is made that PyTorch keeps, and not this one."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        h = self.linear(x)
        r = torch.relu(h)
        return r.mT @ r, h


class Standardized(nn.Module):
    """What is made of the input alone is kept, and not the input."""

    def __init__(self):
        super().__init__()
        self.linear, self.shift = nn.Linear(4, 5), nn.Parameter(torch.randn(4))

    def forward(self, x):
        s = torch.relu(x * 2 - 1)
        return self.linear(s) * torch.relu(torch.relu(s + self.shift) + self.shift).sum(-1, keepdim=True)


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        return torch.tanh(self.linear(x))


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


KINDS = {"mlp": LIKE_PYTORCH["mlp"][0], "scales": Scales, "gram": Gram, "standardized": Standardized, "tanh": Kept,
         "conv": LIKE_PYTORCH["conv"][0]}


def changed_gradients(module, x, changed, by_data):
    """As `gradients`; `changed`: a name in the state, "the input", or the number of an output. The loss itself keeps nothing of
    the outputs. `by_data`: changed where autograd does not see it."""
    module.zero_grad()
    given = x.clone().requires_grad_()
    inner = given * 1
    made = module(inner)
    outputs = made if isinstance(made, tuple) else (made,)
    torch.manual_seed(7)
    loss = sum((y * torch.randn(y.shape[-2:], dtype=y.dtype)).sum() for y in outputs)
    if changed is not None:
        t = inner if changed == "the input" else outputs[changed] if isinstance(changed, int) else state(module)[changed]
        with torch.no_grad():
            (t.data if by_data else t).mul_(3).add_(1)
    try:
        loss.backward()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None
    return [given.grad, *(p.grad for p in module.parameters())]


def same(one, other):
    return all(torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(one, other, strict=True))


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

    def test_a_change_is_seen_where_pytorch_sees_it(self):
        for name, make in KINDS.items():
            torch.manual_seed(0)
            models = [make().double() for _ in range(N)]
            given = LIKE_PYTORCH["conv"][1]() if name == "conv" else rows()
            for once in (False, True):  # the input is one for all models
                x = given.double() if once else torch.stack([given.double() + i for i in range(N)])
                own = [x if once else x[i] for i in range(N)]
                outputs = {"gram": 2}.get(name, 1)
                for changed in [*state(models[0]), "the input", *range(outputs)]:
                    for by_data in (False, True):
                        with self.subTest(name, once=once, changed=changed, by_data=by_data):
                            wide = nw.compile(copy.deepcopy(models), in_dims=None if once else 0,
                                              options=nw.Options(tune=False, threads=2))
                            changed_gradients(wide, x, None, by_data)  # what the first one keeps is more
                            got = changed_gradients(wide, x, changed, by_data)
                            theirs, plain = ([changed_gradients(copy.deepcopy(m), own[i], what, by_data) for i, m in enumerate(models)]
                                             for what in (changed, None))
                            self.assertEqual(got is None, theirs[0] is None)
                            if got is None or not all(map(same, theirs, plain)):
                                continue  # PyTorch reads what was changed
                            got[0] = got[0] if once else got[0].unbind()
                            if once:
                                torch.testing.assert_close(got[0], sum(p[0] for p in plain), rtol=1e-9, atol=1e-9)
                            for i, separate in enumerate(plain):
                                self.assertTrue(same([g[i] for g in got[1:]], separate[1:]))
                                self.assertTrue(once or same([got[0][i]], separate[:1]))

    def check(self, got, models, x):
        for i, model in enumerate(models):
            for ours, own in zip(got, gradients(copy.deepcopy(model), x[i]), strict=True):
                if own is None:
                    self.assertIsNone(ours)
                else:
                    torch.testing.assert_close(ours[i], own, rtol=1e-9, atol=1e-9)


if __name__ == "__main__":
    unittest.main()
