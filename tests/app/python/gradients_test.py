"""Gradients through a wide module, against those of the separate modules."""

import package

package.enter()

import copy  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import nwide as nw  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures"))
import export_networks  # noqa: E402
import module_networks  # noqa: E402

ALL = {**export_networks.ALL, **module_networks.ALL}
REFUSED = {"fourier_operator": "does not support automatic differentiation"}  # by PyTorch
IN_SINGLE = {"waves", "llama", "t5", "qwen2"}  # compute in float32 whatever they are given
OPTIONS = nw.Options(tune=False, threads=1)


def mlp(i, inner=7):
    torch.manual_seed(i)
    return nn.Sequential(nn.Linear(5, inner), nn.Tanh(), nn.Linear(inner, 3)).double()


def cnn(i):
    torch.manual_seed(i)
    return nn.Sequential(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.0), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(6 * 9, 4)).double()


class Changing(nn.Module):
    """Two layers, a parameter and a buffer, and what a function makes of them."""

    def __init__(self, forward, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.a, self.b, self.w = nn.Linear(5, 4), nn.Linear(4, 3), nn.Parameter(torch.randn(4))
        self.register_buffer("mean", torch.randn(4))
        self.function = forward
        self.double()

    def forward(self, x):
        return self.function(self, x)


def whole_tensor(m, x):
    h = m.a(x)
    with torch.no_grad():
        h.clamp_(min=0)
    return m.b(h)


def column(m, x):
    h = m.a(x)
    with torch.no_grad():
        h[:, 0] = 0.5
    return m.b(h)


def view_made_before(m, x):
    h = m.a(x)
    view = h[:, 1:3]
    with torch.no_grad():
        view.mul_(2)
    return m.b(h) + view.sum()


def through_detach(m, x):
    h = m.a(x)
    h.detach().clamp_(min=0)
    return m.b(h)


def through_data(m, x):
    h = m.a(x)
    h.data.clamp_(min=0)
    return m.b(h)


def reads_data(m, x):
    h = m.a(x)
    return m.b(h) * h.data.sum(1, keepdim=True) + m.w.data.sum() * m.w.sum()


def similarity(m, x):
    return F.cosine_similarity(m.a(x), x[:, :4] * m.w, dim=1)


def copies(m, x):
    h = m.a(x)
    with torch.no_grad():
        h.copy_(x[:, :4])
    return m.b(h)


def parameter(m, x):
    with torch.no_grad():
        m.w.clamp_(-0.5, 0.5)
    return m.b(m.a(x) * m.w)


def moving_mean(m, x):
    h = m.a(x)
    with torch.no_grad():
        m.mean.mul_(0.9).add_(h.mean(0) * 0.1)
    return m.b(h * m.mean)


def several(m, x):
    h = m.a(x)
    with torch.no_grad():
        h.relu_()
        h[:, ::2].add_(1.0)
    h = h * 2
    h.add_(m.w)
    with torch.no_grad():
        h.t()[1].zero_()
    h[:, 1] = m.w[1] * x[:, 0]  # this one it sees
    return m.b(h)


def masked(m, x):
    h = m.a(x)
    with torch.no_grad():
        h.masked_fill_(h < 0, 0.1)
    return m.b(h.reshape(-1, 2).reshape(-1, 4))


def normalised_weight(m, x):
    with torch.no_grad():
        m.a.weight.copy_(m.a.weight / m.a.weight.norm(dim=1, keepdim=True))
    return m.b(m.a(x))


def twins(make, n=3):
    models = [make(i) for i in range(n)]
    return models, nw.compile(copy.deepcopy(models), options=OPTIONS)


def data(*sizes, seed=9):
    return torch.randn(*sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def off(got, expected, least=1e-9):
    """The difference as a part of the largest value, or of `least`."""
    if got is None or expected is None:
        rest = got if expected is None else expected
        return 0.0 if rest is None else float(rest.abs().max())
    if expected.numel() == 0:
        return 0.0
    return float((got - expected).detach().abs().max() / expected.abs().max().clamp_min(least))


class Turned(nn.Module):
    """Ends in an elementwise operator on a view whose dimensions are turned, which keeps them so; writes buffers."""

    def __init__(self, i):
        super().__init__()
        torch.manual_seed(i)
        self.c, self.n = nn.Conv2d(2, 3, 3, padding=1).double(), nn.BatchNorm2d(3).double()

    def forward(self, x):
        h = self.n(self.c(x))
        return h.permute(0, 2, 3, 1).sigmoid(), h.flatten(2).transpose(1, 2).tanh(), F.normalize(h[:, :, 0], dim=1)



class Gradients(unittest.TestCase):
    def same_gradients(self, wide, models, most=1e-9):
        for name, p in wide.named_parameters():
            if name == "0.bias" and "1.weight" in dict(wide.named_parameters()):
                continue  # before batch norm: no gradient but rounding
            for i, model in enumerate(models):
                own = dict(model.named_parameters())[name].grad
                self.assertLess(off(None if p.grad is None else p.grad[i], own), most, f"{name} of model {i}")

    def test_parameters_and_inputs(self):
        for n in (1, 3, 7):
            for make, sizes in ((mlp, (4, 5)), (cnn, (4, 2, 8, 8))):
                models, wide = twins(make, n)
                x = data(n, *sizes).requires_grad_()
                for seed in (1, 2):  # before and after gradients were asked for
                    wide.zero_grad()
                    x.grad = None
                    y = wide(x)
                    cotangent = data(*y.shape, seed=seed)
                    y.backward(cotangent)
                    for i, model in enumerate(models):
                        model.zero_grad()
                        own = x[i].detach().clone().requires_grad_()
                        out = model(own)
                        out.backward(cotangent[i])
                        self.assertLess(off(y[i], out), 1e-12)
                        self.assertLess(off(x.grad[i], own.grad), 1e-9)
                        for (name, b), other in zip(model.named_buffers(), wide[i].module().buffers()):
                            torch.testing.assert_close(other, b, msg=name)
                    self.same_gradients(wide, models)

    def test_outputs_whose_dimensions_are_turned(self):
        models, wide = twins(Turned)
        for seed in (1, 2):
            wide.zero_grad()
            x = data(3, 4, 2, 5, 6, seed=seed).requires_grad_()
            outputs = wide(x)
            sum((y * data(*y.shape, seed=seed)).sum() for y in outputs).backward()
            for i, model in enumerate(models):
                model.zero_grad()
                own = x[i].detach().clone().requires_grad_()
                for y, out in zip(outputs, model(own)):
                    self.assertLess(off(y[i], out), 1e-12)
                sum((y * data(3, *y.shape, seed=seed)[i]).sum() for y in model(own)).backward()
                self.assertLess(off(x.grad[i], own.grad), 1e-9)

    def test_ten_steps_each_from_the_same_state(self):
        models, wide = twins(cnn)
        optimizer = torch.optim.AdamW(wide.parameters(), lr=1e-2)
        own = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in models]
        for step in range(10):
            x, y = data(3, 4, 2, 8, 8, seed=step).requires_grad_(), torch.randint(0, 4, (3, 4))
            optimizer.zero_grad()
            sum(F.cross_entropy(out, target) for out, target in zip(wide(x), y)).backward()
            for i, (model, other) in enumerate(zip(models, own)):
                other.zero_grad()
                one = x[i].detach().clone().requires_grad_()
                F.cross_entropy(model(one), y[i]).backward()
                self.assertLess(off(x.grad[i], one.grad), 1e-9)
            self.same_gradients(wide, models)
            optimizer.step()
            for model, other in zip(models, own):
                other.step()
            wide.copy_to(models)

    def test_several_forward_passes_before_their_backward_passes(self):
        models, wide = twins(mlp)
        for _ in range(2):
            x = [data(3, 4, 5, seed=s).requires_grad_() for s in (1, 2)]
            first, second = wide(x[0]), wide(x[1])
            second.square().sum().backward()
            first.sum().backward()
            for i, model in enumerate(models):
                own = [t[i].detach().clone().requires_grad_() for t in x]
                model(own[0]).sum().backward()
                model(own[1]).square().sum().backward()
                self.assertLess(off(x[0].grad[i], own[0].grad), 1e-9)
                self.assertLess(off(x[1].grad[i], own[1].grad), 1e-9)
            self.same_gradients(wide, models)

    def test_from_two_threads(self):
        models, wide = twins(mlp)
        wide(data(3, 4, 5)).sum().backward()
        wrong = []

        def work(k):
            for step in range(20):
                x = data(3, 4, 5, seed=100 * k + step).requires_grad_()
                own = x.detach().clone().requires_grad_()
                got, = torch.autograd.grad(wide(x).square().sum(), x)
                expected, = torch.autograd.grad(sum(m(o).square().sum() for m, o in zip(models, own)), own)
                if off(got, expected) > 1e-9:
                    wrong.append((k, step))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_three_forward_passes_and_one_backward_pass(self):
        models, wide = twins(mlp)
        for seed in (3, 4):
            wide.zero_grad()
            x, other, third = (data(3, 4, 5, seed=seed + k) for k in range(3))
            (wide(x).square().mean() + torch.logsumexp(wide(other), 1).mean() - wide(third).mean()).backward()
            for model in models:
                model.zero_grad()
            (sum(m(one).square().mean() + torch.logsumexp(m(o), 0).mean() - m(t).mean()
                 for m, one, o, t in zip(models, x, other, third)) / 3).backward()
            self.same_gradients(wide, models)

    def test_a_shared_input_gets_the_sum(self):
        for n in (3, 7):
            models = [mlp(i) for i in range(n)]
            wide = nw.compile(copy.deepcopy(models), in_dims=None, options=nw.Options(tune=False, threads=2))
            for seed in (1, 2):
                x = data(4, 5, seed=seed).requires_grad_()
                own = x.detach().clone().requires_grad_()
                wide(x).square().sum().backward()
                sum(m(own).square().sum() for m in models).backward()
                self.assertEqual(x.grad.shape, x.shape)
                self.assertLess(off(x.grad, own.grad), 1e-9)

    def test_frozen_parameters_have_no_gradient(self):
        models, wide = twins(mlp)
        wide.get_submodule("0").requires_grad_(False)
        x = data(3, 4, 5)
        for _ in range(2):
            wide(x).square().sum().backward()
        self.assertIsNone(wide.get_parameter("0.weight").grad)
        sum(m(one).square().sum() for m, one in zip(models, x)).backward()
        for i, model in enumerate(models):
            self.assertLess(off(wide.get_parameter("2.weight").grad[i] / 2, model[2].weight.grad), 1e-9)
        wide.requires_grad_(False)
        self.assertFalse(wide(x).requires_grad)
        x.requires_grad_()
        got, = torch.autograd.grad(wide(x).square().sum(), x)
        own = x.detach().clone().requires_grad_()
        expected, = torch.autograd.grad(sum(m(o).square().sum() for m, o in zip(models, own)), own)
        self.assertLess(off(got, expected), 1e-9)
        wide.requires_grad_(True).freeze()  # the weights are constants from here on
        y = wide(x)
        self.assertLess(off(torch.autograd.grad(y.square().sum(), x)[0], expected), 1e-9)
        self.assertFalse(wide(x.detach()).requires_grad)

    def test_changes_in_place_are_refused_as_by_pytorch(self):
        _, wide = twins(mlp)
        x = data(3, 4, 5)
        for _ in range(2):
            y = wide(x)
            with torch.no_grad():
                wide.get_parameter("2.weight").mul_(2)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()
            wide(x).sum().backward()

    def test_graphs_are_kept_where_asked_for(self):
        _, wide = twins(mlp)
        x = data(3, 4, 5)
        for _ in range(2):
            loss = wide(x).square().sum()
            wide.zero_grad()
            loss.backward(retain_graph=True)
            once = [p.grad.clone() for p in wide.parameters()]
            loss.backward()
            for p, g in zip(wide.parameters(), once):
                torch.testing.assert_close(p.grad, 2 * g)
            with self.assertRaisesRegex(RuntimeError, "second time"):
                loss.backward()

    def test_second_derivatives_are_refused_by_name(self):
        _, wide = twins(mlp)
        x = data(3, 4, 5).requires_grad_()
        g, = torch.autograd.grad(wide(x).sum(), x, create_graph=True)
        with self.assertRaisesRegex(nw.Error, r"^\[backward\] second derivative: got .*, expected .*; try create_graph=False, or "
                                              r"torch.autograd.grad inside of forward, under torch.enable_grad\(\)"):
            g.square().sum().backward()

    def test_hooks_and_checkpoints(self):
        models, wide = twins(mlp)
        seen = []
        wide.get_parameter("0.weight").register_hook(lambda g: seen.append(g.shape))
        wide.get_parameter("2.bias").register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.shape))
        wide(data(3, 4, 5)).sum().backward()
        self.assertEqual(sorted(seen), [(3, 3), (3, 7, 5)])
        for _ in range(2):
            wide.zero_grad()
            x = data(3, 4, 5).requires_grad_()
            inner = checkpoint(wide, x, use_reentrant=False)
            (inner.square().sum() + checkpoint(wide, 2 * x, use_reentrant=True).sum()).backward()
            for i, model in enumerate(models):
                model.zero_grad()
                own = x[i].detach().clone().requires_grad_()
                (model(own).square().sum() + model(2 * own).sum()).backward()
                self.assertLess(off(x.grad[i], own.grad), 1e-9)
            self.same_gradients(wide, models)

    def test_checkpoints_draw_the_same_again(self):
        wide = nw.compile([nn.Sequential(nn.Dropout(0.5)) for _ in range(5)], options=OPTIONS)
        for _ in range(2):  # the first of which compiles
            x = data(5, 40, 30).requires_grad_()
            y = checkpoint(wide, x, use_reentrant=False)
            y.sum().backward()
            torch.testing.assert_close(x.grad * x.detach(), y.detach())

    def test_dropout_has_the_same_masks_on_the_way_back(self):
        torch.manual_seed(0)
        wide = nw.compile([nn.Sequential(nn.Dropout(0.5)) for _ in range(5)], options=OPTIONS)
        for _ in range(2):
            x = data(5, 40, 30).requires_grad_()
            y = wide(x)
            y.sum().backward()
            torch.testing.assert_close(x.grad * x.detach(), y.detach())
            masks = (x.grad != 0).flatten(1)
            self.assertLess(float((masks[0] == masks[1]).double().mean()), 0.6)

    def test_dropout_of_inputs_that_need_no_gradient(self):
        for dtype in (torch.float32, torch.float64):
            with self.subTest(dtype=dtype):
                models = [nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 2)).to(dtype) for _ in range(3)]
                wide = nw.compile(models, options=OPTIONS)
                wide(torch.ones(3, 7, 6, dtype=dtype)).sum().backward()
                weight, bias = [p.grad for p in wide.parameters()]
                self.assertTrue(torch.equal(bias, torch.full((3, 2), 7.0, dtype=dtype)))
                kept = weight[:, 0] / 2  # how many of seven rows: each that is kept counts 1 / 0.5
                self.assertTrue(torch.equal(kept, kept.round()) and 0 < kept.mean() < 7, kept)
                self.assertFalse(torch.equal(kept[0], kept[1]), kept)

    def test_what_has_no_gradient_is_refused_when_it_is_asked_for(self):
        class Straight(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sign()

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(5, 3)

            def forward(self, x):
                return Straight.apply(self.linear(x))

        wide = nw.compile([Net() for _ in range(3)], options=OPTIONS)
        x = torch.randn(3, 4, 5)
        for _ in range(2):
            y = wide(x)
            with self.assertRaisesRegex(nw.Error, r"^\[backward\] Straight: got .*, expected .*; try "):
                y.sum().backward()
        with torch.no_grad():
            self.assertEqual(wide(x).shape, (3, 4, 3))

    def test_changes_that_autograd_does_not_see(self):
        for i, forward in enumerate((whole_tensor, column, view_made_before, through_detach, through_data, reads_data, similarity,
                                     copies, parameter, moving_mean, several, masked, normalised_weight)):
            with self.subTest(forward.__name__):
                models, wide = twins(lambda k, forward=forward: Changing(forward, k))
                for seed in (i, i + 50):  # the second after the changes of the first
                    wide.zero_grad()
                    x = data(3, 6, 5, seed=seed).requires_grad_()
                    y = wide(x)
                    (y * y.cos()).sum().backward()
                    for k, model in enumerate(models):
                        model.zero_grad()
                        own = x.detach()[k].clone().requires_grad_()
                        expected = model(own)
                        (expected * expected.cos()).sum().backward()
                        self.assertLess(off(y[k], expected), 1e-12)
                        self.assertLess(off(x.grad[k], own.grad), 1e-12)
                        for name, value in [*model.named_parameters(), *model.named_buffers()]:
                            self.assertLess(off(dict(wide.state_dict())[name][k], value), 1e-12, name)
                    self.same_gradients(wide, models, 1e-12)

    def test_slopes_that_are_not_kept(self):
        wide = nw.compile([nn.Sequential(nn.Linear(5, 4), nn.RReLU()) for _ in range(3)], options=OPTIONS)
        with self.assertRaisesRegex(nw.Error, r"^\[backward\] operator: got .*rrelu.*; try "):
            wide(torch.randn(3, 4, 5)).sum().backward()
        with torch.no_grad():
            wide(torch.randn(3, 4, 5))

    def test_copies_share_what_is_compiled(self):
        _, wide = twins(cnn)
        x = data(3, 4, 2, 8, 8)
        wide(x).sum().backward()
        core = wide._last()
        target = copy.deepcopy(wide)
        target(x).sum().backward()
        with torch.no_grad():
            for _ in range(1000):
                for t, p in zip(target.parameters(), wide.parameters()):
                    t.lerp_(p * 2, 0.005)
        own = [target[i].module().train() for i in range(3)]
        out = target(x)
        self.assertIs(target._last(), core)
        self.assertEqual(core.signatures(), 1)
        self.assertLess(off(out, torch.stack([m(one) for m, one in zip(own, x)])), 1e-9)
        self.assertGreater(off(out, wide(x)), 1e-3)
        target(x)
        with self.assertRaisesRegex(nw.Error, r"^\[wide\] weights: got those of a copy .*, expected .*; try "):
            wide.export("never.pt2")
        wide(x)
        self.assertTrue(wide.validate().passed)
        wide.eval()  # another size is recorded as the copy is, in training
        separate = [target[i].module().train() for i in range(3)]
        self.assertLess(off(target(x[:, :1]), torch.stack([m(o) for m, o in zip(separate, x[:, :1])])), 1e-9)
        wide.train()
        target.eval()  # a new kind of call, of the copy alone
        separate = [target[i].module().eval() for i in range(3)]
        self.assertLess(off(target(x[:, :2]), torch.stack([m(o) for m, o in zip(separate, x[:, :2])])), 1e-9)
        self.assertTrue(wide.training)
        wide(x[:, :3]).sum().backward()
        separate = [wide[i].module() for i in range(3)]
        self.assertLess(off(wide(x[:, :3]), torch.stack([m(o) for m, o in zip(separate, x[:, :3])])), 1e-9)

    def test_what_is_kept_is_bounded(self):
        wide = nw.compile([mlp(i) for i in range(3)], options=nw.Options(tune=False, threads=1, signatures=4))
        gc.collect()  # modules of earlier tests, which are counted while they exist
        before = nw.cache_info()
        for batch in range(1, 20):
            wide(data(3, batch, 5)).sum().backward()
        after = nw.cache_info()
        self.assertLessEqual(after.programs - before.programs, 2 * 4)
        self.assertGreaterEqual(after.compiled - before.compiled, 19)
        self.assertGreater(after.bytes, before.bytes)

    def test_the_plan_tells_of_the_passes_of_a_training_step(self):
        wide, x = nw.compile([mlp(i) for i in range(3)], options=OPTIONS), data(3, 4, 5)
        wide(x)
        self.assertNotIn("backward pass", wide.plan())
        wide(x).sum().backward()
        alone, forward, backward = re.split("forward pass that saves [1-9][0-9]* bytes: |backward pass: ", wide.plan())
        for plan in (alone, forward, backward):
            self.assertRegex(plan, r"^[13] ranges? of models on 1 thread\n[13] models? at a time: [1-9][0-9]* steps, ")

    def test_no_gradient_takes_todays_way(self):
        _, wide = twins(mlp)
        x = data(3, 4, 5)
        wide(x).sum().backward()
        for quiet in (torch.no_grad, torch.inference_mode):
            with quiet():
                self.assertFalse(wide(x).requires_grad)

    def test_every_network(self):
        torch.set_num_threads(1)
        chosen = os.environ.get("WORKBENCH_NETWORKS", "").split(",")
        for name in ALL:
            if name == "writes" or (chosen != [""] and name not in chosen):  # the first changes its own input
                continue
            with self.subTest(name):
                if name in REFUSED:
                    self.assertRaisesRegex(nw.Error, REFUSED[name], wrong, name)
                else:
                    self.assertEqual(wrong(name, most=1e-6 if name in IN_SINGLE else 1e-8), "")


def real(tree):
    """Double precision, and gradients are asked of."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().double().requires_grad_() if t.is_floating_point() else t.clone(), tree)


def wrong(name, n=3, most=0.0):
    """What is wrong with the gradients of a network in double precision, or ""."""
    make, inputs = ALL[name]
    models = [export_networks.varied(make, 10 + i).double() for i in range(n)]
    torch.manual_seed(5)
    arguments = [inputs() for _ in range(n)]
    ours, theirs = real(nw.pack(arguments)), [real(a) for a in arguments]
    expected = [tensors(m(**a)) for m, a in zip(models, theirs)]
    cotangents = [[torch.randn_like(t) if t.requires_grad else None for t in outputs] for outputs in expected]
    if not any(c is not None for c in cotangents[0]):
        return ""
    for outputs, own in zip(expected, cotangents):
        torch.autograd.backward([t for t, c in zip(outputs, own) if c is not None], [c for c in own if c is not None])
    wide = nw.compile([export_networks.varied(make, 10 + i).double() for i in range(n)], options=OPTIONS)
    got = tensors(wide(**ours))
    pairs = [(t, torch.stack([own[k] for own in cotangents])) for k, t in enumerate(got) if cotangents[0][k] is not None]
    torch.autograd.backward([t for t, _ in pairs], [c for _, c in pairs])
    pairs = [(f"input {k}", t.grad, [tensors(own)[k].grad for own in theirs]) for k, t in enumerate(tensors(ours))]
    pairs += [(path, p.grad, [m.get_parameter(path).grad for m in models]) for path, p in wide.named_parameters()]
    # A bias that softmax or a norm takes out has no gradient but rounding.
    least = 1e-3 * max(float(g.abs().max()) for _, _, each in pairs for g in each if g is not None and g.numel())
    for what, g, each in pairs:
        for i, own in enumerate(each):
            if not off(None if g is None else g[i], own, least) < most:
                return f"{what} of model {i}: off by {off(None if g is None else g[i], own, least):.1e}"
    return ""


if __name__ == "__main__":
    unittest.main()
