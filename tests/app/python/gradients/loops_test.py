"""Gradients as training loops ask for them: autocast around the forward pass alone, a default dtype set between the two
passes, losses of some of the outputs. Against separate modules that are treated the same."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

OPTIONS = nw.Options(tune=False, threads=1)


def separate_gradients(models):
    return [[p.grad for p in m.parameters()] for m in models]


class Loops(unittest.TestCase):
    def close(self, wide, models, rtol):
        """The gradients of a wide module and of its separate ones; None in both or in neither."""
        expected = separate_gradients(models)
        for k, (name, p) in enumerate(wide.named_parameters()):
            own = [g[k] for g in expected]
            with self.subTest(parameter=name):
                if own[0] is None:
                    self.assertIsNone(p.grad)
                    continue
                self.assertIsNotNone(p.grad)
                scale = torch.stack(own).abs().max().item() + 1e-30
                self.assertLess((p.grad - torch.stack(own)).abs().max().item() / scale, rtol)


class Casts(Loops):
    def nets(self):
        torch.manual_seed(3)
        return [nn.Sequential(nn.Linear(6, 17), nn.GELU(), nn.Linear(17, 5), nn.LayerNorm(5)) for _ in range(3)]

    def test_autocast_around_the_forward_pass_alone(self):
        models, x = self.nets(), torch.randn(3, 4, 6)
        wide = nw.compile(models, x[0], options=OPTIONS)
        for step in range(3):
            for m in (wide, *models):
                m.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = wide(x)
                own = [m(one) for m, one in zip(models, x)]
            self.assertEqual(y.dtype, own[0].dtype)
            weight = torch.randn(y.shape[1:])
            (y * weight).sum().backward()
            sum((one * weight).sum() for one in own).backward()
            self.close(wide, models, 3e-2)
            with torch.no_grad():
                for m in (wide, *models):
                    for p in m.parameters():
                        p.sub_(p.grad, alpha=0.01)
        self.assertEqual(wide(x).dtype, torch.float32)

    def test_autocast_around_the_backward_pass_alone(self):
        models, x = self.nets(), torch.randn(3, 4, 6)
        wide = nw.compile(models, options=OPTIONS)
        for step in range(2):
            for m in (wide, *models):
                m.zero_grad()
            weight = torch.randn(4, 5)
            loss, own = (wide(x) * weight).sum(), sum((m(one) * weight).sum() for m, one in zip(models, x))
            self.assertEqual(loss.dtype, torch.float32)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss.backward()
            own.backward()  # PyTorch's own backward pass would round to bfloat16 in there
            self.close(wide, models, 1e-5)

    def test_recurrent_layers_under_autocast(self):
        """A GRU's state has the dtype of its input, that of autocast after another layer; its products have that of autocast."""
        class Last(nn.Module):
            def __init__(self, first, cell, **arguments):
                super().__init__()
                self.first, self.cell = first, cell(6, 5, batch_first=True, **arguments)

            def forward(self, x):
                y, states = self.cell(self.first(x))
                return y, states[0] if isinstance(states, tuple) else states

        for dtype in (torch.bfloat16, torch.float16):
            for cell, first, arguments in ((nn.GRU, True, {}), (nn.GRU, True, {"bias": False}), (nn.GRU, False, {}),
                                           (nn.GRU, False, {"bias": False}), (nn.LSTM, True, {}), (nn.RNN, True, {}),
                                           (nn.GRU, True, {"num_layers": 2, "bidirectional": True})):
                with self.subTest(cell.__name__, dtype=dtype, first=first, **arguments):
                    torch.manual_seed(5)
                    models = [Last(nn.Linear(6, 6) if first else nn.Identity(), cell, **arguments) for _ in range(3)]
                    wide, x = nw.compile(models, options=OPTIONS), torch.randn(3, 4, 7, 6)
                    for _ in range(2):
                        for m in (wide, *models):
                            m.zero_grad()
                        with torch.autocast("cpu", dtype=dtype):
                            got, expected = wide(x), [m(one) for m, one in zip(models, x)]
                            with torch.no_grad():
                                again = wide(x)
                        for y, own in zip((*got, *again), [*zip(*expected)] * 2):
                            self.assertEqual(y.dtype, own[0].dtype)
                            torch.testing.assert_close(y, torch.stack(own), rtol=2e-2, atol=2e-2)
                        weight = torch.randn(got[0].shape[1:])
                        (got[0] * weight).sum().backward()
                        sum((y * weight).sum() for y, _ in expected).backward()
                        self.close(wide, models, 5e-2)

    def test_norms_of_bfloat16_with_float32_weights(self):
        """Values and gradients have the dtypes of one model's call, whatever strategy computes the norm."""
        cases = {"LayerNorm": (lambda: nn.LayerNorm(12), (5, 12)), "GroupNorm": (lambda: nn.GroupNorm(3, 12), (5, 12, 7)),
                 "BatchNorm1d": (lambda: nn.BatchNorm1d(12).eval(), (5, 12)), "BatchNorm1d in training": (lambda: nn.BatchNorm1d(12), (5, 12))}
        for name, (make, shape) in cases.items():
            for forced in ({}, {"*": "vmap"}, {"*": "per_model"}):
                with self.subTest(name, forced=forced):
                    torch.manual_seed(4)
                    models, x = [make() for _ in range(3)], torch.randn(3, *shape).bfloat16()
                    for m in models:
                        for p in m.parameters():
                            nn.init.normal_(p)
                    wide = nw.compile(models, options=nw.Options(tune=False, threads=1, strategies=forced))
                    y, own = wide(x), [m(one) for m, one in zip(models, x)]
                    self.assertEqual(y.dtype, own[0].dtype)
                    torch.testing.assert_close(y, torch.stack(own), rtol=2e-2, atol=2e-2)
                    weight = torch.randn(y.shape[1:])
                    (y * weight).sum().backward()
                    sum((one * weight).sum() for one in own).backward()
                    self.assertEqual([p.grad.dtype for p in wide.parameters()], [p.grad.dtype for p in models[0].parameters()])
                    self.close(wide, models, 2e-2)

    def test_a_default_dtype_set_between_the_passes(self):
        class Shifted(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 5)

            def forward(self, x):
                return torch.sin(self.a(x) + torch.arange(5) * 0.5)

        models, x = [Shifted() for _ in range(3)], torch.randn(3, 4, 6)
        wide = nw.compile(models, options=OPTIONS)
        loss, own = wide(x).square().sum(), sum(m(one).square().sum() for m, one in zip(models, x))
        self.addCleanup(torch.set_default_dtype, torch.float32)
        torch.set_default_dtype(torch.float64)
        loss.backward()
        own.backward()
        torch.set_default_dtype(torch.float32)
        self.close(wide, models, 1e-5)
        self.assertEqual(wide(x).dtype, torch.float32)


class Heads(nn.Module):
    """Two heads on one body; with dropout, calls cannot be repeated."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(6, 11), nn.Linear(11, 3), nn.Linear(11, 2)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.dropout(torch.tanh(self.body(x)))
        return self.a(h), self.b(h)


class Spread(nn.Module):
    """The second output has an infinite derivative where the rows are equal."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 4)

    def forward(self, x):
        z = self.a(x)
        return z, (z - z.mean(0)).pow(2).sum(0).sqrt()


class SomeOutputs(Loops):
    LOSSES = {"first": lambda a, b: a.square().sum(), "second": lambda a, b: b.sin().sum(),
              "both": lambda a, b: a.square().sum() + b.sin().sum()}

    def setUp(self):
        torch.manual_seed(5)

    def together(self, models, x, losses):
        """A loop over losses with AdamW, which moves a parameter unless its gradient is None."""
        wide = nw.compile(models, options=OPTIONS)
        ours = torch.optim.AdamW(wide.parameters(), lr=0.05, weight_decay=0.3)
        own = [torch.optim.AdamW(m.parameters(), lr=0.05, weight_decay=0.3) for m in models]
        for name in losses:
            for optimizer in (ours, *own):
                optimizer.zero_grad()
            self.LOSSES[name](*wide(x)).backward()
            for m, one in zip(models, x):
                self.LOSSES[name](*m(one)).backward()
            self.close(wide, models, 1e-9)
            for optimizer in (ours, *own):
                optimizer.step()
        for name, p in wide.named_parameters():
            expected = torch.stack([dict(m.named_parameters())[name] for m in models])
            self.assertLess((p - expected).abs().max().item(), 1e-9, name)

    def test_a_head_that_the_loss_leaves_out_has_no_gradient(self):
        models, x = [Heads().double() for _ in range(3)], torch.randn(3, 5, 6).double()
        self.together(models, x, ["first"] * 3 + ["second", "first", "both", "both", "second", "first"])

    def test_calls_that_cannot_be_repeated(self):
        models, x = [Heads(0.5).double() for _ in range(3)], torch.randn(3, 5, 6).double()
        wide = nw.compile(models, options=OPTIONS)
        for name, without in (("first", "b"), ("second", "a"), ("both", ""), ("first", "b")):
            wide.zero_grad()
            self.LOSSES[name](*wide(x)).backward()
            for key, p in wide.named_parameters():
                self.assertEqual(p.grad is None, key.split(".")[0] == without, f"{name}: {key}")

    def test_an_output_that_is_only_looked_at_leaves_gradients_finite(self):
        models, x = [Spread().double() for _ in range(3)], torch.randn(3, 1, 6).double()
        wide = nw.compile(models, options=OPTIONS)
        for _ in range(3):
            for m in (wide, *models):
                m.zero_grad()
            wide(x)[0].square().sum().backward()
            sum(m(one)[0].square().sum() for m, one in zip(models, x)).backward()
            self.close(wide, models, 1e-9)
        self.assertTrue(torch.isfinite(wide.a.weight.grad).all())

    def test_two_backward_passes_of_one_call(self):
        models, x = [Heads().double() for _ in range(3)], torch.randn(3, 5, 6).double()
        wide = nw.compile(models, options=OPTIONS)
        for order in ("ab", "ba", "ab"):
            for m in (wide, *models):
                m.zero_grad()
            outputs, own = wide(x), [m(one) for m, one in zip(models, x)]
            for k, head in enumerate(order):
                at = "ab".index(head)
                outputs[at].square().sum().backward(retain_graph=k == 0)
                sum(o[at].square().sum() for o in own).backward(retain_graph=k == 0)
                self.close(wide, models, 1e-9)

    def test_jacobians_and_batches_of_cotangents(self):
        models, x = [nn.Sequential(nn.Linear(6, 5), nn.Tanh()).double() for _ in range(3)], torch.randn(3, 2, 6).double()
        wide = nw.compile(models, options=OPTIONS)
        jacobian = torch.autograd.functional.jacobian
        expected = torch.zeros(3, 2, 5, 3, 2, 6).double()
        for i, model in enumerate(models):
            expected[i, :, :, i] = jacobian(model, x[i])
        torch.testing.assert_close(jacobian(wide, x), expected, rtol=1e-9, atol=1e-9)
        a = x.clone().requires_grad_()
        for ask in (lambda: jacobian(wide, x, vectorize=True),
                    lambda: torch.autograd.grad(wide(a), a, torch.ones(4, 3, 2, 5).double(), is_grads_batched=True)):
            with self.assertRaisesRegex(nw.Error, r"^\[backward\] cotangents: got a batch of them at once, .*; try vectorize=False$"):
                ask()


if __name__ == "__main__":
    unittest.main()
