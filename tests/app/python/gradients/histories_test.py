"""Which results have a gradient history, and what forward may not keep of one: buffers, lists, hooks."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402

OPTIONS = nw.Options(tune=False, threads=1)


def made(kind, n=3):
    models = []
    for i in range(n):
        torch.manual_seed(i)
        models.append(kind().double())
    return models, nw.compile(models, options=OPTIONS)


def each(models, x):
    return torch.stack([model(x[i]) for i, model in enumerate(models)])


class Histories(unittest.TestCase):
    def close(self, wide, models):
        for name, p in wide.named_parameters():
            expected = torch.stack([model.get_parameter(name).grad for model in models])
            self.assertLess((p.grad - expected).abs().max(), 1e-9, name)

    def refuses(self, text, call, error=nw.Error):
        with self.assertRaises(error) as raised:
            call()
        self.assertIn(text, str(raised.exception))


class Recurrent(nn.Module):
    """Keeps its state in a buffer."""

    detached = False

    def __init__(self):
        super().__init__()
        self.read, self.turn = nn.Linear(4, 5), nn.Linear(5, 5)
        self.register_buffer("h", torch.zeros(6, 5))

    def forward(self, x):
        h = torch.tanh(self.read(x) + self.turn(self.h))
        self.h = h.detach() if self.detached else h
        return h * h


class Detached(Recurrent):
    detached = True


class StateInABuffer(Histories):
    def setUp(self):
        torch.manual_seed(7)
        self.x = torch.randn(4, 3, 6, 4).double()

    def test_gradients_do_not_go_back_into_an_earlier_call(self):
        """PyTorch's do: a sum over calls is refused, where one call's gradients are right."""
        models, wide = made(Recurrent)
        wide(self.x[0]).sum().backward()
        each(models, self.x[0]).sum().backward()
        self.close(wide, models)
        loss = wide(self.x[1]).sum()
        self.assertLess((loss - each(models, self.x[1]).sum()).abs(), 1e-9)  # without a backward pass all is well
        self.refuses("[backward] h: got a value of an earlier call with its gradient", loss.backward)

    def test_a_new_state_has_none(self):
        models, wide = made(Recurrent)
        for x in self.x:
            for reset in (lambda h: torch.zeros_like(h), lambda h: h.zero_()):
                wide.zero_grad()
                wide.h = reset(wide.h)
                for model in models:
                    model.zero_grad()
                    model.h = torch.zeros(6, 5).double()
                wide(x).sum().backward()
                each(models, x).sum().backward()
                self.close(wide, models)
        with torch.no_grad():
            wide(self.x[0])
        wide(self.x[1]).sum().backward()  # the state of a call without gradients

    def test_of_some_models(self):
        _, wide = made(Recurrent)
        some = wide.at([2, 0])
        some(self.x[0, :2]).sum().backward()
        self.refuses("[backward] h: got a value of an earlier call with its gradient", some(self.x[1, :2]).sum().backward)
        self.refuses("[backward] h: got a value of an earlier call with its gradient", wide(self.x[1]).sum().backward)
        wide.h = torch.zeros_like(wide.h)
        some(self.x[0, :2]).sum().backward()

    def test_a_detached_state_goes_on(self):
        models, wide = made(Detached)
        for x in self.x:
            wide(x).sum().backward()
            each(models, x).sum().backward()
            self.close(wide, models)
        self.assertLess((wide.h - torch.stack([model.h for model in models])).abs().max(), 1e-12)


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        h = self.inner(x)
        with torch.no_grad():
            k = self.inner(x)
        return h, h.detach(), k, (h > 0).sum()


class Results(Histories):
    def test_have_a_history_where_pytorch_has(self):
        models, wide = made(Three)
        x = torch.randn(3, 5, 4).double()
        expected = [t.requires_grad for t in models[0](x[0])]
        self.assertEqual(expected, [True, False, False, False])
        for given in (x, x, x[:, :2], x.clone().requires_grad_()):
            self.assertEqual([t.requires_grad for t in wide(given)], expected)
            wide(given)[0].sum().backward()
            self.assertEqual([t.requires_grad for t in wide(given)], expected)
        wide(x)[1].numpy()
        self.refuses("does not require grad", lambda: wide(x)[2].sum().backward(), RuntimeError)

    def test_of_a_truncated_sequence(self):
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(4, 5)

            def forward(self, x, h):
                h = self.cell(x, h)
                return h * h, h.detach()

        models, wide = made(Cell)
        state, states = torch.zeros(3, 6, 5).double(), [torch.zeros(6, 5).double()] * 3
        for _ in range(3):
            x = torch.randn(3, 6, 4).double()
            y, state = wide(x, state)
            y.sum().backward()
            for i, model in enumerate(models):
                y, states[i] = model(x[i], states[i])
                y.sum().backward()
            self.close(wide, models)


class GradMode(Histories):
    def test_branches_take_the_side_of_the_call(self):
        asked = {"mode": lambda h: torch.is_grad_enabled(), "needs": lambda h: h.requires_grad,
                 "node": lambda h: h.grad_fn is not None, "leaf": lambda h: not h.is_leaf}
        for name, ask in asked.items():
            class Branch(nn.Module):
                def __init__(self, ask=ask):
                    super().__init__()
                    self.inner, self.ask = nn.Linear(4, 4), ask

                def forward(self, x):
                    h = self.inner(x)
                    return h * 2 if self.ask(h) else h * 3

            with self.subTest(name):
                models, wide = made(Branch)
                for size in (5, 5, 7):
                    x = torch.randn(3, size, 4).double()
                    y, expected = wide(x), each(models, x)
                    self.assertLess((y - expected).abs().max(), 1e-12)
                    y.sum().backward()
                    expected.sum().backward()
                    self.close(wide, models)
                    with torch.no_grad():
                        self.assertLess((wide(x) - each(models, x)).abs().max(), 1e-12)

    def test_draws_in_grad_mode_alone(self):
        class Noise(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)

            def forward(self, x):
                h = self.inner(x)
                return nn.functional.dropout(h, 0.5) if torch.is_grad_enabled() else h

        _, wide = made(Noise)
        x = torch.randn(3, 50, 4).double().requires_grad_()
        for _ in range(3):
            y = wide(x)
            self.assertTrue(0.3 < (y == 0).double().mean() < 0.7)
            x.grad = None
            y.sum().backward()
            inner = wide.get_parameter("inner.weight")
            expected = torch.bmm((y != 0).double() * 2, inner.detach())  # by the masks of this very call
            self.assertLess((x.grad - expected).abs().max(), 1e-9)

    def test_a_change_in_grad_mode_alone_is_refused(self):
        class Count(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)
                self.register_buffer("count", torch.zeros(()))

            def forward(self, x):
                if torch.is_grad_enabled():
                    self.count += 1
                return self.inner(x)

        _, wide = made(Count)
        for _ in range(2):
            self.refuses("[forward] count: got a change in grad mode alone", lambda: wide(torch.randn(3, 5, 4).double()))

    def test_anomalies_are_looked_for_around_it(self):
        models, wide = made(Three)
        for size in (5, 2):
            x = torch.randn(3, size, 4).double()
            with torch.autograd.set_detect_anomaly(True):
                wide(x)[0].square().sum().backward()
            sum(model(x[i])[0].square().sum() for i, model in enumerate(models)).backward()
            self.close(wide, models)
        with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where the forward pass stood
            self.refuses("returned nan values", lambda: (wide(x)[0] * float("nan")).sum().backward(), RuntimeError)
            self.assertTrue(torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled())


class KeptElsewhere(Histories):
    def test_is_refused(self):
        kept = []

        class Penalised(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 3)

            def forward(self, x):
                h = self.inner(x)
                kept.append(h.square().mean())
                return h

        hooked = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()).double() for _ in range(3)]
        for model in hooked:
            model[1].register_forward_hook(lambda module, inputs, output: kept.append(output))
        for models in ([Penalised().double() for _ in range(3)], hooked):
            wide = nw.compile(models, options=OPTIONS)
            self.refuses("[forward] tensor: got one that forward keeps outside of the model", lambda: wide(torch.randn(3, 5, 4).double()))
            kept.clear()

    def test_in_grad_mode_alone_is_refused_then(self):
        kept = []

        class Penalised(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 3)

            def forward(self, x):
                h = self.inner(x)
                if h.requires_grad:
                    kept.append(h.square().mean())
                return h

        models, wide = made(Penalised)
        x = torch.randn(3, 5, 4).double()
        for _ in range(2):
            with torch.no_grad():
                self.assertLess((wide(x) - each(models, x)).abs().max(), 1e-12)
            self.refuses("[forward] tensor: got one that forward keeps outside of the model", lambda: wide(x))
            kept.clear()

    def test_what_only_a_cycle_holds_is_not_kept(self):
        class Cycle(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 3)

            def forward(self, x):
                own = {"h": self.inner(x)}
                own["own"] = own
                return own["h"] * 2

        models, wide = made(Cycle)
        x = torch.randn(3, 5, 4).double()
        self.assertLess((wide(x) - each(models, x)).abs().max(), 1e-12)


if __name__ == "__main__":
    unittest.main()
