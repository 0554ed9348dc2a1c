"""What forward changes: buffers, detached tensors, memory that results look at; against separate modules in float64."""

import package

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from separate_runs import Runs, rows  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402


class Changing(nn.Module):
    def __init__(self, forward, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.a, self.b, self.w = nn.Linear(5, 4), nn.Linear(4, 3), nn.Parameter(torch.randn(4))
        for name in ("p", "q"):
            self.register_buffer(name, torch.randn(4))
        self.function = forward
        self.double()

    def forward(self, x):
        return self.function(self, x)


def returns_a_parameter(m, x):
    return m.b(m.a(x)), m.w


def returns_a_changed_buffer(m, x):
    m.p.add_(1)
    return m.b(m.a(x)), m.p


def assigns_what_it_read(m, x):
    y = m.a(x) * m.p
    m.p = m.p * 0.5
    return y


def changes_what_it_read(m, x):
    y = m.a(x) * m.p.clone()
    m.p.mul_(0.5)
    return y


def writes_a_tensor_through_detach(m, x):
    y = m.a(x)
    y.detach().add_(x[:, :4])
    return m.b(y)


def writes_places_through_detach(m, x):
    y = m.a(x)
    y.detach()[:, 0] = 0
    y.data[y > 0] = 0.0
    return m.b(y)


def detached_with_a_history_of_its_own(m, x):
    y = m.a(x).detach()
    y.add_(x[:, :4] * m.w)
    return m.b(y)


def writes_a_list(m, x):
    y = m.a(x)
    with torch.no_grad():
        torch._foreach_mul_([y], 2.0)
    return m.b(y)


def swaps(m, x):
    m.p, m.q = m.q, m.p
    return m.a(x) * m.p


def shifts(m, x):
    y = m.a(x)
    m.p, m.q = y.detach().mean(0), m.p
    return y * m.q


def returns_views_of_the_old(m, x):
    view, old = m.p[1:4], m.p.detach()
    m.p = m.p + 1
    return m.a(x), view, old


def returns_a_view_beside_the_whole(m, x):
    y = m.a(x)
    y.add_(1)
    return y[:, :3], y


ALL = (returns_a_parameter, returns_a_changed_buffer, assigns_what_it_read, changes_what_it_read, writes_a_tensor_through_detach,
       writes_places_through_detach, detached_with_a_history_of_its_own, writes_a_list, swaps, shifts, returns_views_of_the_old,
       returns_a_view_beside_the_whole)


def leaves(results):
    return [results] if isinstance(results, torch.Tensor) else list(results)


class Changes(unittest.TestCase):
    def same(self, got, expected, what):
        if got is None or expected is None:
            rest = got if expected is None else expected
            self.assertTrue(rest is None or not rest.any(), what)
        else:
            self.assertLess(float((got - expected).abs().max()), 1e-10, what)

    def test_values_gradients_and_buffers(self):
        for forward in ALL:
            for n in (1, 3):
                models = [Changing(forward, i) for i in range(n)]
                wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False, threads=1))
                for call in range(3):
                    with self.subTest(forward.__name__, n=n, call=call):
                        self.once(wide, models, torch.randn(n, 6, 5, dtype=torch.float64, requires_grad=True))

    def once(self, wide, models, x):
        wide.zero_grad()
        got = leaves(wide(x))
        sum((t * t.cos()).sum() for t in got if t.requires_grad).backward()
        own = dict(wide.named_parameters())
        for i, model in enumerate(models):
            model.zero_grad()
            one = x[i].detach().clone().requires_grad_()
            expected = leaves(model(one))
            for k, (y, e) in enumerate(zip(got, expected)):
                self.same(y[i].detach(), e.detach(), f"result {k}")
            sum((t * t.cos()).sum() for t in expected if t.requires_grad).backward()
            self.same(x.grad[i], one.grad, "input")
            for name, p in model.named_parameters():
                self.same(None if own[name].grad is None else own[name].grad[i], p.grad, name)
            for name, buffer in model.named_buffers():
                self.same(wide.state_dict()[name][i], buffer, name)

    def test_what_cannot_be_followed_is_refused(self):
        def assigned(m, x):
            m.w.data = m.w.data * 0.5
            return m.a(x) * m.w

        x = torch.randn(3, 6, 5, dtype=torch.float64)
        with self.assertRaisesRegex(nw.Error, r"^\[forward\] data: got an assignment to it, expected .*; try copy_"):
            nw.compile([Changing(assigned, i) for i in range(3)])(x)
        models = [Changing(assigns_what_it_read, i) for i in range(3)]
        for model in models:
            model.a.register_full_backward_hook(lambda module, before, after: (before[0] * 2,))
        wide = nw.compile(models)
        with self.assertRaisesRegex(nw.Error, r"^\[backward\] a: got a backward hook, expected .*; try "):
            wide(x).sum().backward()


class Trained(Runs):
    def test_parameters_and_nested_buffers_that_forward_changes(self):
        class Clipped(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(5, 3)

            def forward(self, x):
                with torch.no_grad():
                    self.a.weight.clamp_(-0.2, 0.2)
                return self.a(x)

        self.refused("[train] parameter a.weight: got a change in forward, expected one that the optimizer alone changes; try a "
                     "buffer, or a loop of your own around the wide module",
                     lambda: self.train(Clipped, data=rows(), lr=0.1, seeds=2, epochs=1))

        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x):
                self.calls = self.calls + 1
                return x * self.calls

        self.refused("[train] buffer 0.calls: got an assignment in forward, which torch.export loses in a submodule, expected a "
                     "change in place; try self.calls.copy_(...)",
                     lambda: self.train(lambda: nn.Sequential(Inner(), nn.Linear(5, 3)), data=rows(), lr=0.1, seeds=2, epochs=1))


class Applied(unittest.TestCase):
    def test_apply_calls_a_function_with_each_models_modules(self):
        def layers():
            return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Sequential(nn.Tanh(), nn.Linear(7, 3)))

        def init(module):
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                nn.init.normal_(module.bias)

        models = [layers().eval() for _ in range(3)]
        wide = nn.Sequential(nn.Identity(), nw.compile(models)).eval()
        x, before = torch.randn(3, 4, 5), wide(torch.randn(3, 4, 5))
        torch.manual_seed(9)
        self.assertIs(wide.apply(init), wide)
        torch.manual_seed(9)
        for model in models:
            model.apply(init)
        self.assertFalse(torch.equal(wide(x), before))
        torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]), rtol=1e-4, atol=1e-5)
        for index, model in enumerate(models):
            for name, tensor in wide[1][index].state_dict().items():
                self.assertTrue(torch.equal(tensor, model.state_dict()[name]), name)

    def test_apply_refuses_a_function_that_changes_more_than_values(self):
        def freeze(module):
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad = False

        def slope(module):
            if isinstance(module, nn.LeakyReLU):
                module.negative_slope = 0.3

        def late(module, seen=[]):  # noqa: B006, of the second model alone
            if isinstance(module, nn.LeakyReLU):
                seen.append(module)
                module.negative_slope = 0.01 * len(seen)
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.weight)

        wide = nw.compile([nn.Sequential(nn.Linear(5, 4), nn.LeakyReLU()) for _ in range(2)])
        weights = {name: tensor.clone() for name, tensor in wide.state_dict().items()}
        for change, number in ((freeze, 0), (slope, 0), (late, 1)):
            with self.assertRaisesRegex(nw.Error, rf"^\[apply\] model {number}: got a function that changes more than values of tensors, expected one "
                                                  r"that changes these alone; try applying it to the modules before nw\.compile$"):
                wide.apply(change)
        for name, tensor in wide.state_dict().items():
            self.assertTrue(torch.equal(tensor, weights[name]), name)


if __name__ == "__main__":
    unittest.main()
