"""Forward passes that depend on grad mode, dtypes or other arguments, heads that are trained in turns, and inputs that change
between passes."""

import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402

import nwide as nw  # noqa: E402
from nwide import recording  # noqa: E402


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(4, 7), nn.Linear(7, 3), nn.Linear(7, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.a(h), self.b(h)


class Attributed(nn.Module):
    """Its second output depends on no parameter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        h = torch.softmax(x, -1)
        return self.layer(h), h


class Branching(nn.Module):
    """Computes and returns something else in grad mode."""

    def __init__(self, several):
        super().__init__()
        self.layer, self.several = nn.Linear(4, 3), several

    def forward(self, x):
        h = self.layer(x)
        if not torch.is_grad_enabled():
            return 2 * h
        return (h, h.mean(-1)) if self.several else h


class Tokens(nn.Module):
    """Takes numbers of tokens, or their embeddings."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(11, 4), nn.Linear(4, 3)

    def forward(self, x):
        if x.dtype == torch.long:
            return {"ids": self.layer(self.embedding(x)), "kind": "ids"}
        return {"floats": self.layer(x), "kind": "floats"}


class Hooked(nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            raise ValueError("no gradients here")
        return x


class Layers(nn.Module):
    """Two layers, the second of which a function calls: it gets the module, the layer as a function, and its input."""

    def __init__(self, how):
        super().__init__()
        self.a, self.b, self.how = nn.Linear(4, 5), nn.Sequential(nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), how

    def forward(self, x):
        return self.how(self, x, self.a(x))


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def clamped(module, x, h):
    if h.requires_grad:
        h.register_hook(lambda g: g.clamp(-0.01, 0.01))
    return module.b(h)


CHECKPOINTS = {
    "again": lambda m, x, h: checkpoint(m.b, h, use_reentrant=False),
    "reentrant": lambda m, x, h: checkpoint(lambda a, scale: m.b(a) * scale, h, 2.0, use_reentrant=True),
    "where it has an effect": lambda m, x, h: checkpoint(m.b, h, use_reentrant=True) if h.requires_grad else m.b(h),
    "sequential": lambda m, x, h: checkpoint_sequential(m.b, 2, h, use_reentrant=False)}
ASKS = {
    "of a result": lambda m, x, h: m.b(3 * h if h.requires_grad else h),
    "of an input": lambda m, x, h: m.b(3 * h if x.requires_grad else h),
    "of a parameter": lambda m, x, h: m.b(h) * (3 if m.a.weight.requires_grad else 1),
    "of whole numbers": lambda m, x, h: m.b(3 * h if h.argmax(-1).requires_grad else h)}


class Config:
    scale = 2.0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, by):
        if isinstance(by, float):
            return self.layer(x) * (-1 if str(by).startswith("-") else 1)
        return self.layer(x) * float(getattr(by, "scale", 0) or by.sum())


def gradients(module):
    return {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


class Modes(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_gradients(self, wide, models):
        own = [gradients(model) for model in models]
        for name, got in gradients(wide).items():
            if own[0][name] is None:
                self.assertIsNone(got, name)
            else:
                torch.testing.assert_close(got, torch.stack([g[name] for g in own]), msg=name)

    def test_heads_are_trained_in_turns(self):
        models, x = [Heads() for _ in range(3)], torch.randn(3, 5, 4)
        wide = nw.compile(models)
        for head in ("a", "b", "a"):
            for module in (wide, *models):
                module.zero_grad()
                for name, p in module.named_parameters():
                    p.requires_grad_(name.startswith(f"{head}."))
            k = "ab".index(head)
            wide(x)[k].pow(2).sum().backward()
            for model, own in zip(models, x):
                model(own)[k].pow(2).sum().backward()
            self.assert_gradients(wide, models)

    def test_an_output_without_parameters_is_asked_first(self):
        models, x = [Attributed() for _ in range(3)], torch.randn(3, 5, 4)
        wide = nw.compile(models)
        asked, own = x.clone().requires_grad_(), x.clone().requires_grad_()
        wide(asked)[1].pow(2).sum().backward()
        sum(model(i)[1].pow(2).sum() for model, i in zip(models, own)).backward()
        torch.testing.assert_close(asked.grad, own.grad)
        wide(x)[0].pow(2).sum().backward()
        for model, i in zip(models, x):
            model(i)[0].pow(2).sum().backward()
        self.assert_gradients(wide, models)

    def test_branches_on_grad_mode_are_those_of_the_mode(self):
        for several in (False, True):
            models, x = [Branching(several) for _ in range(3)], torch.randn(3, 5, 4)
            wide = nw.compile(models)
            for _ in range(2):
                for module in (wide, *models):
                    module.zero_grad()
                got, own = wide(x), [model(i) for model, i in zip(models, x)]
                self.assertIs(type(got), type(own[0]))
                got, own = (got, own) if several else ((got,), [(o,) for o in own])
                for g, *o in zip(got, *own):
                    torch.testing.assert_close(g, torch.stack(o))
                sum(g.pow(2).sum() for g in got).backward()
                sum(t.pow(2).sum() for o in own for t in o).backward()
                self.assert_gradients(wide, models)
                with torch.no_grad():
                    torch.testing.assert_close(wide(x), torch.stack([model(i) for model, i in zip(models, x)]))

    def assert_trains_like(self, models, x):
        wide = nw.compile(models)
        for _ in range(2):
            got, own = wide(x), torch.stack([model(i) for model, i in zip(models, x)])
            torch.testing.assert_close(got, own)
            for y in (got, own):
                y.pow(2).sum().backward()
            self.assert_gradients(wide, models)
            with torch.no_grad():
                torch.testing.assert_close(wide(x), torch.stack([model(i) for model, i in zip(models, x)]))

    def test_checkpoints_inside_of_a_model(self):
        for name, how in CHECKPOINTS.items():
            with self.subTest(name):
                self.assert_trains_like([Layers(how).eval() for _ in range(3)], torch.randn(3, 6, 4))

    def test_branches_on_whether_a_tensor_needs_a_gradient(self):
        for name, how in ASKS.items():
            with self.subTest(name):
                self.assert_trains_like([Layers(how).eval() for _ in range(3)], torch.randn(3, 6, 4))

    def test_a_hook_where_it_has_an_effect_is_refused(self):
        wide = nw.compile([Layers(clamped) for _ in range(3)])
        with self.assertRaisesRegex(nw.Error, "a hook on a tensor inside forward"):
            wide(torch.randn(3, 6, 4)).sum().backward()

    def test_functions_with_gradients_of_their_own_are_refused(self):
        for apply in (lambda h: Sign.apply(h), Sign.apply):  # looked up late, and bound before the recording
            wide = nw.compile([Layers(lambda m, x, h, apply=apply: apply(h)) for _ in range(3)])
            with self.assertRaisesRegex(nw.Error, r"Sign: got a torch.autograd.Function"):
                wide(torch.randn(3, 6, 4)).sum().backward()

    def test_hooks_of_single_models_are_refused(self):
        def scaled(*_):
            return torch.zeros(5, 4)

        for register in ("register_hook", "register_post_accumulate_grad_hook"):
            models, x = [nn.Linear(4, 5) for _ in range(3)], torch.randn(3, 6, 4)
            handle = getattr(models[2].weight, register)(scaled)
            wide = nw.compile(models)
            self.assertEqual(wide(x).shape, (3, 6, 5))
            with self.assertRaisesRegex(nw.Error, r"parameter weight: got a hook on it in one of the models, .*get_parameter\('weight'\)"):
                copy.deepcopy(wide)(x).sum().backward()
            handle.remove()
            self.assert_trains_like(models, x)

    def test_attention_in_eval_has_gradients(self):
        models = [nn.TransformerEncoderLayer(8, 2, 11, batch_first=True).eval() for _ in range(3)]
        self.assert_trains_like(models, torch.randn(3, 2, 5, 8))

    def test_later_calls_without_a_backward_pass_record_nothing(self):
        x = torch.randn(3, 5, 4)
        recorded, own = [], recording.Recorder.__call__

        def counted(recorder, tensors):
            recorded.append(torch.is_grad_enabled())
            return own(recorder, tensors)

        for several in (False, True):  # the second one cannot be differentiated
            model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
            if several:
                model.append(Hooked())
            wide = nw.compile([copy.deepcopy(model) for _ in range(3)])
            with mock.patch.object(recording.Recorder, "__call__", counted):
                wide(x)
                first = len(recorded)
                self.assertGreater(first, 0)
                for _ in range(3):
                    wide(x)
            self.assertEqual(len(recorded), first)
            recorded.clear()

    def test_results_have_the_form_of_their_dtype(self):
        models = [Tokens() for _ in range(3)]
        wide = nw.compile(models)
        ids, floats = torch.randint(11, (3, 5, 4)), torch.randn(3, 5, 4)
        for x in (floats, ids, floats, ids):
            got, own = wide(x), [model(i) for model, i in zip(models, x)]
            self.assertEqual((list(got), got["kind"]), (list(own[0]), own[0]["kind"]))
            torch.testing.assert_close(got[got["kind"]], torch.stack([o[got["kind"]] for o in own]))

    def test_arguments_are_told_apart_by_all_that_they_hold(self):
        models, x = [Scaled() for _ in range(3)], torch.randn(3, 5, 4)
        wide = nw.compile(models)
        ones = np.ones(2000)
        odd = ones.copy()
        odd[1000:1500] = 100
        config = Config()
        for by in (ones, odd, np.array([1.0]), np.array([1.00001]), 0.0, -0.0, config, config):
            with self.subTest(by=by):
                torch.testing.assert_close(wide(x, by), torch.stack([model(i, by) for model, i in zip(models, x)]), rtol=1e-6, atol=1e-6)
            if by is config:
                config.scale = 6.0  # set on the object alone

    def test_a_pass_is_compiled_with_its_own_inputs(self):
        models = [nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 3)) for _ in range(3)]
        wide = nw.compile(models)
        first, second = torch.randint(11, (3, 4, 5)), torch.randint(11, (3, 4, 5))
        y = wide(first)
        wide(second)
        second.fill_(-1)
        y.sum().backward()
        for model, i in zip(models, first):
            model(i).sum().backward()
        self.assert_gradients(wide, models)

    def test_inputs_whose_memory_was_freed_are_named(self):
        wide, x = nw.compile([nn.Linear(4, 3) for _ in range(3)]), torch.randn(3, 5, 4)
        wide(x).sum().backward()
        x.untyped_storage().resize_(0)
        for of in (wide.validate, wide.explain):
            with self.assertRaisesRegex(nw.Error, r"input .*: got memory that was freed"):
                of()

    def test_group_norms_keep_digits_of_values_far_from_0(self):
        def net():
            made = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2), nn.GroupNorm(2, 8))
            with torch.no_grad():
                made[0].bias.add_(300)
            return made

        models, x = [net() for _ in range(6)], torch.randn(6, 5, 6, 9, 9)
        exact = [copy.deepcopy(model).double() for model in models]
        wide = nw.compile(models)
        y, weight = wide(x), torch.randn(6, 5, 8, 4, 4)
        want = torch.stack([model(i.double()) for model, i in zip(exact, x)])
        (y * weight).sum().backward()
        (want * weight).sum().backward()
        self.assertLess((y - want).abs().max() / want.abs().max(), 1e-3)  # of separate models: 1e-4
        got = wide.get_parameter("0.weight").grad
        want = torch.stack([model[0].weight.grad for model in exact])
        self.assertLess((got - want).abs().max() / want.abs().max(), 1e-3)


class Outside(unittest.TestCase):
    """Tensors that forward takes from outside are constants of the program: their gradients would be missing."""

    def setUp(self):
        torch.manual_seed(0)
        self.p = nn.Parameter(torch.randn(4, dtype=torch.float64))
        self.scalar = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        self.linear = nn.Linear(4, 4).double()
        self.x = torch.randn(3, 5, 4, dtype=torch.float64)

    def test_a_call_whose_gradients_would_reach_them_is_refused(self):
        made = (self.p * 2).sum()  # one with a history of its own
        functions = {"parameter": lambda a: a * self.p, "scalar": lambda a: a * self.scalar, "module": lambda a: self.linear(a).tanh(),
                     "method": self.linear.forward, "history": lambda a: a * made, "result": lambda a: (a * 2, self.p)}
        for name, function in functions.items():
            with self.subTest(name):
                wide = nw.compile(function, n=3)
                expected = torch.vmap(function)(self.x)
                with torch.no_grad():
                    got = wide(self.x)
                for a, b in zip(*([t] if isinstance(t, torch.Tensor) else t for t in (got, expected))):
                    torch.testing.assert_close(a, b.expand_as(a).detach(), rtol=1e-12, atol=1e-12)
                wide(self.x)  # nothing here needs a gradient
                for _ in range(2):
                    with self.assertRaisesRegex(nw.Error, r"^\[backward\] tensor \(.*\) from outside of the model: got one that needs a "
                                                          r"gradient, expected parameters and arguments; try passing it as an argument"):
                        wide(self.x.clone().requires_grad_())

    def test_a_module_among_the_arguments(self):
        class Acts(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4).double()

            def forward(self, x, act):
                return act(self.linear(x))

        models, act = [Acts() for _ in range(3)], nn.PReLU().double()
        wide = nw.compile(copy.deepcopy(models))
        with self.assertRaisesRegex(nw.Error, r"^\[backward\] tensor \(1,\) from outside"):
            wide(self.x, act)
        act.requires_grad_(False)
        self.check(wide, models, act)
        act.requires_grad_(True)
        with self.assertRaisesRegex(nw.Error, r"^\[backward\] tensor \(1,\) from outside"):
            wide(self.x, act)

    def test_what_no_gradient_reaches_is_taken(self):
        def without(y):
            with torch.no_grad():
                goal = self.linear(y)
            return (y - goal).square() + self.p.detach() * (self.p > 0) + (self.scalar * 2).detach()

        class Teaches(nn.Module):
            def __init__(self, function):
                super().__init__()
                self.linear, self.function = nn.Linear(4, 4).double(), function

            def forward(self, x):
                return self.function(self.linear(x))

        models = [Teaches(without) for _ in range(3)]
        wide = nw.compile(copy.deepcopy(models))
        for _ in range(2):
            self.check(wide, models)

    def test_tensors_of_the_model_that_are_no_parameters(self):
        class Weighs(nn.Module):
            def __init__(self, buffer):
                super().__init__()
                self.linear, self.part = nn.Linear(4, 4).double(), nn.Module()
                ws = torch.ones(4, dtype=torch.float64, requires_grad=True)
                self.part.register_buffer("ws", ws) if buffer else setattr(self.part, "ws", ws)

            def forward(self, x):
                return self.linear(x) * self.part.ws

        for buffer in (False, True):
            for needs in (True, False):
                with self.subTest(buffer=buffer, needs=needs):
                    models = [Weighs(buffer) for _ in range(3)]
                    for m in models:
                        m.linear.requires_grad_(needs)
                    wide = nw.compile(copy.deepcopy(models))
                    for _ in range(2):
                        with self.assertRaisesRegex(nw.Error, r"^\[backward\] tensor part\.ws: got one that needs a gradient and is no parameter, "
                                                              r"expected parameters and arguments; try nn\.Parameter, or "):
                            wide(self.x)
                    with torch.no_grad():
                        torch.testing.assert_close(wide(self.x), torch.stack([m(one) for m, one in zip(models, self.x)]))
                    for m in models:
                        m.part.ws.requires_grad_(False)
                        m.linear.requires_grad_(True)
                    self.check(nw.compile(copy.deepcopy(models)), models)

    def check(self, wide, models, *more):
        wide.zero_grad()
        y = wide(self.x, *more)
        y.square().sum().backward()
        for i, (model, one) in enumerate(zip(models, self.x)):
            model.zero_grad()
            own = model(one, *more)
            own.square().sum().backward()
            torch.testing.assert_close(y[i], own, rtol=1e-12, atol=1e-12)
            for name, p in model.named_parameters():
                torch.testing.assert_close(wide.get_parameter(name).grad[i], p.grad, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
