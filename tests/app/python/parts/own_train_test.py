"""A `train` that the models' classes have of their own, such as one that keeps batch norm frozen, beside separate modules."""

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


class Frozen(nn.Module):
    """Fine-tuning: batch norm stays in evaluation, the first layer is not trained in training."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.bn = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.bn(self.first(x))

    def train(self, mode=True):
        super().train(mode)
        self.bn.eval()
        self.first.weight.requires_grad_(not mode)
        return self


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Frozen()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(self.part(x))


class Merging(nn.Linear):
    """A layer that changes its weights with the mode, as some of LoRA's do."""

    merged = False

    def train(self, mode=True):
        super().train(mode)
        if self.merged == mode:
            self.weight.data += 1 if mode else -1
            self.merged = not mode
        return self


class Scaling(nn.Linear):
    def train(self, mode=True):
        super().train(mode)
        with torch.no_grad():
            self.bias.mul_(2)
        return self


class Replacing(nn.Module):
    """Leaves out its last layer in evaluation, by another layer in its place."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Tanh()

    def forward(self, x):
        return self.last(self.first(x))

    def train(self, mode=True):
        super().train(mode)
        self.last = nn.Tanh() if mode else nn.Identity()
        return self


class Counting(nn.Linear):
    count = 0

    def __init__(self):
        super().__init__(4, 2)

    def train(self, mode=True):
        self.requires_grad_(mode)
        self.count += 1
        return super().train(mode)


class Raising(Counting):
    def train(self, mode=True):
        self.requires_grad_(mode)
        raise ValueError("no evaluation")


class Renewing(nn.Linear):
    """Empties what it keeps between calls."""

    def __init__(self):
        super().__init__(4, 2)
        self.kept, self.past = {}, [[]]

    def train(self, mode=True):
        self.kept, self.past = {}, [[]]
        return super().train(mode)


class Sampling(nn.Module):
    """Draws masks in evaluation too, as Monte Carlo dropout does."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.first(x))

    def eval(self):
        super().eval()
        self.drop.train()
        self.first.bias.requires_grad_(False)
        return self


class Stepping(nn.Linear):
    def eval(self):
        self.step = 1
        return super().eval()


def modes(module):
    return [(path, m.training) for path, m in module.named_modules()]


class OwnTrain(unittest.TestCase):
    def beside(self, kind):
        torch.manual_seed(2)
        models = [kind().double() for _ in range(3)]
        return models, nw.compile(copy.deepcopy(models), options=OPTIONS), torch.randn(3, 5, 4, dtype=torch.float64)

    def same(self, models, wide, x):
        self.assertEqual(modes(wide), modes(models[0]))
        self.assertEqual([p.requires_grad for p in wide.parameters()], [p.requires_grad for p in models[0].parameters()])
        own = torch.stack([m(one) for m, one in zip(models, x)])
        self.assertLess((wide(x) - own).abs().max().item(), 1e-12)
        for name, t in models[0].state_dict().items():
            own = torch.stack([m.state_dict()[name] for m in models])
            self.assertLess((wide.state_dict()[name] - own).abs().max().item(), 1e-12, name)

    def test_train_and_eval_are_the_classes_own(self):
        for kind in (Frozen, Whole):
            for frozen in (False, True):
                models, wide, x = self.beside(kind)
                if frozen:
                    wide.freeze()
                for change in (lambda m: m.train(), lambda m: m.eval(), lambda m: m.train(True), lambda m: m.train(False)):
                    for m in (*models, wide):
                        change(m)
                    self.same(models, wide, x)
                    self.same(models, copy.deepcopy(wide), x) if not wide.training else None

    def test_train_of_a_part(self):
        models, wide, x = self.beside(Whole)
        for change in (lambda m: m.part.train(), lambda m: m.part.bn.train(), lambda m: m.part.eval(), lambda m: m.norm.eval(),
                       lambda m: m.part.train()):
            for m in (*models, wide):
                change(m)
            self.same(models, wide, x)

    def test_parts_are_picked_by_the_models_classes(self):
        models, wide, x = self.beside(Whole)
        for name, m in models[0].named_modules():
            if isinstance(m, nn.BatchNorm1d):
                for one in (*models, wide):
                    one.get_submodule(name).eval()
        self.assertFalse(any(isinstance(part, nn.BatchNorm1d) for part in wide.modules()))
        self.same(models, wide, x)

    def test_modules_that_are_added_take_the_mode(self):
        _, wide, _ = self.beside(Whole)
        wide.head = nn.Dropout()
        wide.part.more = nn.Dropout()
        for mode in (False, True):
            wide.train(mode)
            self.assertEqual((wide.head.training, wide.part.more.training), (mode, mode))

    def test_one_that_changes_more_than_modes_is_refused(self):
        for kind, what in ((Merging, "merged"), (Scaling, "bias")):
            models = [nn.Sequential(kind(4, 2)) for _ in range(2)]
            wide = nw.compile(models)
            x = torch.randn(2, 3, 4)
            before = wide(x)
            for call in (wide.eval, wide.get_submodule("0").eval):
                with self.assertRaisesRegex(nw.Error, rf"^\[wide\] train of 0: got one that changes {what}, expected one that sets modes; "
                                                      r"try self.training in forward$"):
                    call()
            self.assertEqual(modes(wide), [("", True), ("0", True)])
            self.assertLess((wide(x) - before).abs().max().item(), 1e-6)

    def test_one_that_replaces_a_submodule_is_refused_and_undone(self):
        models = [nn.Sequential(Replacing()) for _ in range(2)]
        wide = nw.compile(copy.deepcopy(models), options=OPTIONS)
        for call in (wide.eval, wide.get_submodule("0").eval):
            with self.assertRaisesRegex(nw.Error, r"^\[wide\] train of 0: got one that changes last, expected one that sets modes; "):
                call()
        x = torch.randn(2, 7, 4)
        self.assertEqual(modes(wide), [(path, True) for path, _ in models[0].named_modules()])
        got = [wide(x), *(m(one)[None] for m, one in zip([wide[i].module() for i in range(2)], x))]
        own = torch.stack([m(one) for m, one in zip(models, x)])
        self.assertLess((got[0] - own).abs().max().item(), 1e-6)
        self.assertLess((torch.cat(got[1:]) - own).abs().max().item(), 1e-6)

    def test_one_that_is_refused_leaves_requires_grad(self):
        for kind, error in ((Counting, nw.Error), (Raising, ValueError)):
            models, wide, x = self.beside(kind)
            with self.assertRaises(error):
                wide.eval()
            flags = [p.requires_grad for p in models[0].parameters()]
            for m in (wide, wide[0].module(), copy.deepcopy(wide)[1].module()):
                self.assertEqual([p.requires_grad for p in m.parameters()], flags)
            wide(x).sum().backward()
            for m, one in zip(models, x):
                m(one).sum().backward()
            for name, p in models[0].named_parameters():
                own = torch.stack([m.get_parameter(name).grad for m in models])
                self.assertLess((wide.get_parameter(name).grad - own).abs().max().item(), 1e-12)

    def test_one_that_renews_an_empty_container(self):
        models, wide, x = self.beside(Renewing)
        for change in (lambda m: m.eval(), lambda m: m.train(), lambda m: m.eval()):
            for m in (*models, wide):
                change(m)
            self.same(models, wide, x)
        models[0].kept["a"] = 1
        wide = nw.compile(models[0], n=2)
        with self.assertRaisesRegex(nw.Error, r"^\[wide\] train of the model itself: got one that changes kept, "):
            wide.train()

    def test_eval_of_the_classes_own(self):
        torch.manual_seed(2)
        model = nn.Sequential(Sampling(), nn.Tanh())
        for make in (lambda: copy.deepcopy(model), lambda: copy.deepcopy(model[0])):
            m, wide = make(), nw.compile([make() for _ in range(2)], options=OPTIONS)
            part = ("0",) if isinstance(m, nn.Sequential) else ()
            steps = [lambda m: m.eval(), lambda m: m.train(), lambda m: m.train(False), lambda m: nn.ModuleList([m]).eval()]
            for step in (*steps, *(lambda m, at=at: m.get_submodule(at).eval() for at in part)):
                for one in (m, wide):
                    self.assertIsNotNone(step(one))
                self.assertEqual(modes(wide), modes(m))
                self.assertEqual([p.requires_grad for p in wide.parameters()], [p.requires_grad for p in m.parameters()])
                drops = m.get_submodule(".".join((*part, "drop"))).training
                self.assertEqual(bool((wide(torch.ones(2, 50, 4)) == 0).any()), drops)

    def test_an_eval_that_changes_more_is_refused(self):
        wide = nw.compile([Stepping(4, 2) for _ in range(2)])
        with self.assertRaisesRegex(nw.Error, r"^\[wide\] eval of the model itself: got one that changes step, expected one that sets modes"):
            wide.eval()
        self.assertEqual(modes(wide), [("", True)])
        self.assertFalse(wide.train(False).training)


if __name__ == "__main__":
    unittest.main()
