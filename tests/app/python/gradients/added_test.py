"""Parameters that users add to a wide module, beside the models' own: optimisers and clipping, against PyTorch's of separate tensors."""

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

N = 3
LR = [0.1, 0.01, 0.2]
OPTIONS = nw.Options(tune=False, threads=1)
CASES = ((nw.optim.SGD, torch.optim.SGD, {"momentum": 0.9}), (nw.optim.AdamW, torch.optim.AdamW, {"weight_decay": 0.1}),
         (nw.optim.RMSprop, torch.optim.RMSprop, {"momentum": 0.5}))


def made():
    """A wide module, and the models that it is made of."""
    torch.manual_seed(0)
    models = [nn.Linear(3, 4).double() for _ in range(N)]
    return nw.compile(copy.deepcopy(models), options=OPTIONS), models


def added(shape):
    """A wide module with a parameter and a module of the user's own, both, and the models."""
    wide, models = made()
    wide.mix = nn.Parameter(torch.ones(shape, dtype=torch.float64))
    wide.add_module("head", nn.Linear(4, 2).double())
    return wide, [wide.mix, *wide.head.parameters()], models


def give_gradients(wide, others, models, twins):
    """The same numbers as gradients of the wide parameters and of the separate ones."""
    for p in wide.parameters():
        p.grad = torch.randn_like(p)
    for i, model in enumerate(models):
        model.weight.grad, model.bias.grad = wide.weight.grad[i].clone(), wide.bias.grad[i].clone()
    for other, twin in zip(others, twins):
        twin.grad = other.grad.clone()


class Added(unittest.TestCase):
    def same(self, wide, others, models, twins):
        for name, p in models[0].named_parameters():
            torch.testing.assert_close(getattr(wide, name), torch.stack([getattr(m, name) for m in models]), rtol=1e-12, atol=1e-12)
        for other, twin in zip(others, twins):
            torch.testing.assert_close(other, twin, rtol=1e-12, atol=1e-12)

    def test_every_number_is_stepped(self):
        """Added parameters of any shape, also of one that seems to count models, take one number for each hyperparameter."""
        for ours, theirs, options in CASES:
            for shape in ((), (2,), (5,), (N,), (N, 4)):
                with self.subTest(ours.__name__, shape=shape):
                    wide, others, models = added(shape)
                    twins = [nn.Parameter(p.detach().clone()) for p in others]
                    optimizer = ours(wide, lr=0.1, **options)
                    separate = theirs([*twins, *(p for m in models for p in m.parameters())], lr=0.1, **options)
                    for _ in range(3):
                        give_gradients(wide, others, models, twins)
                        optimizer.step()
                        separate.step()
                    self.same(wide, others, models, twins)

    def test_numbers_for_each_model(self):
        """Go with the models' own parameters; those that were added need a group with one number."""
        for ours, theirs, options in CASES:
            for shape in ((), (2,), (N,)):
                with self.subTest(ours.__name__, shape=shape):
                    wide, others, models = added(shape)
                    twins = [nn.Parameter(p.detach().clone()) for p in others]
                    give_gradients(wide, others, models, twins)
                    with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] parameter: got one for all .*; try a group of its own"):
                        ours(wide, lr=LR, **options).step()
                    self.same(wide, others, models, twins)
                    own = [wide.weight, wide.bias]
                    optimizer = ours(wide, lr=LR, **options, params=[{"params": own}, {"params": others, "lr": 0.1}])
                    separate = [theirs(m.parameters(), lr=lr, **options) for m, lr in zip(models, LR)]
                    separate.append(theirs(twins, lr=0.1, **options))
                    for _ in range(3):
                        give_gradients(wide, others, models, twins)
                        for each in (optimizer, *separate):
                            each.step()
                    self.same(wide, others, models, twins)

    def test_another_wide_module(self):
        """Of as many models: each model's own, too."""
        wide, models = made()
        torch.manual_seed(1)
        heads = [nn.Linear(4, 2).double() for _ in range(N)]
        wide.head = nw.compile(copy.deepcopy(heads), options=OPTIONS)
        optimizer = nw.optim.AdamW(wide, lr=LR)
        separate = [torch.optim.AdamW([*m.parameters(), *head.parameters()], lr=lr) for m, head, lr in zip(models, heads, LR)]
        x = torch.randn(N, 5, 3, dtype=torch.float64)
        for _ in range(3):
            for each in (optimizer, *separate):
                each.zero_grad()
            wide.head(wide(x)).square().sum().backward()
            sum(head(m(own)).square().sum() for head, m, own in zip(heads, models, x)).backward()
            norms = [nn.utils.clip_grad_norm_([*m.parameters(), *head.parameters()], 0.1) for m, head in zip(models, heads)]
            torch.testing.assert_close(nw.clip_grad_norm_(wide, 0.1), torch.stack(norms))
            for each in (optimizer, *separate):
                each.step()
        self.same(wide, list(wide.head.parameters()), models, [torch.stack([getattr(head, name) for head in heads])
                                                               for name in ("weight", "bias")])

    def test_put_into_a_group_behind_the_optimiser_s_back(self):
        wide, _ = made()
        optimizer = nw.optim.SGD(wide, lr=0.1)
        for shape in ((), (2,), (5,)):
            wide.mix = nn.Parameter(torch.ones(shape, dtype=torch.float64))
            optimizer.param_groups[0]["params"][2:] = [wide.mix]
            before = {name: p.detach().clone() for name, p in wide.named_parameters()}
            for p in wide.parameters():
                p.grad = torch.ones_like(p)
            with self.assertRaisesRegex(nw.Error, rf"^\[nw.optim\] parameter: got one of shape \[{', '.join(map(str, shape))}\], "):
                optimizer.step()
            for name, p in wide.named_parameters():
                self.assertTrue(torch.equal(p, before[name]), name)

    def test_weights_that_lie_otherwise(self):
        """Those of models in channels_last, or transposed, are stepped as PyTorch's; one that the user lays otherwise is refused."""
        torch.manual_seed(0)
        turned = nn.Linear(36, 2).double()
        turned.weight = nn.Parameter(turned.weight.detach().T.contiguous().T)
        models = [nn.Sequential(nn.Conv2d(3, 4, 3).double().to(memory_format=torch.channels_last), nn.Tanh(), nn.Flatten(),
                                copy.deepcopy(turned)) for _ in range(N)]
        x = torch.randn(N, 5, 3, 5, 5, dtype=torch.float64)
        for once in (False, True):
            separate = [copy.deepcopy(models[0])] if once else copy.deepcopy(models)
            wide = nw.compile(models[0], n=N, share_weights=True, options=OPTIONS) if once else nw.compile(models, options=OPTIONS)
            optimizer = nw.optim.AdamW(wide, lr=0.1)
            others = torch.optim.AdamW([p for m in separate for p in m.parameters()], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                wide(x).square().sum().backward()
                optimizer.step()
                others.zero_grad()
                sum(separate[0 if once else i](own).square().sum() for i, own in enumerate(x)).backward()
                others.step()
            for name, p in wide.named_parameters():
                torch.testing.assert_close(p, separate[0].get_parameter(name) if once else torch.stack(
                    [m.get_parameter(name) for m in separate]), rtol=1e-9, atol=1e-9)
        kernel = wide.get_parameter("0.weight")
        kernel.data = kernel.data.to(memory_format=torch.channels_last)
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] parameter: got one that is not contiguous, of shape \[4, 3, 3, 3\], "
                                              r".*; try p.data = p.data.contiguous\(\)"):
            optimizer.step()

    def test_clipping(self):
        """Refused by name beside the models' own, whose norms are theirs alone."""
        for shape in ((), (2,), (5,), (N,)):
            wide, others, models = added(shape)
            give_gradients(wide, others, models, [])
            with self.assertRaisesRegex(nw.Error, r"^\[clip_grad_norm_\] mix: got one parameter for all models, .*; try "):
                nw.clip_grad_norm_(wide, 0.1)
            norms = nw.clip_grad_norm_(wide, 0.1, params=[wide.weight, wide.bias])
            torch.testing.assert_close(norms, torch.stack([nn.utils.clip_grad_norm_(m.parameters(), 0.1) for m in models]))
            for name, p in models[0].named_parameters():
                torch.testing.assert_close(getattr(wide, name).grad, torch.stack([getattr(m, name).grad for m in models]))
            nn.utils.clip_grad_norm_(others, 0.1)  # PyTorch's own does not mix models there


if __name__ == "__main__":
    unittest.main()
