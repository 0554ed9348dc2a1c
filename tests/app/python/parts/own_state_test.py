"""Hooks and methods for a state_dict that the models have of their own: refused where a wide module would leave them out, in
saving and loading alone. What such code does to PyTorch's own module says whether it may be left out."""

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


class Halved(nn.Linear):
    """Saves half of its weight, by its own methods."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = destination[prefix + "weight"] / 2

    def _load_from_state_dict(self, state, prefix, *rest):
        state[prefix + "weight"] = state[prefix + "weight"] * 2
        super()._load_from_state_dict(state, prefix, *rest)


class Renamed(nn.Linear):
    """Takes old names too, as torchvision's do, and no longer has one."""

    def _load_from_state_dict(self, state, prefix, *rest):
        if prefix + "old" in state:
            state[prefix + "weight"] = state.pop(prefix + "old")
        state.pop(prefix + "gone", None)
        super()._load_from_state_dict(state, prefix, *rest)


class Plain(nn.Linear):
    """Loads by a method with fewer arguments than PyTorch's, as some before `strict` have."""

    def load_state_dict(self, state):
        return super().load_state_dict({name.replace("module.", ""): t for name, t in state.items()})


class Doubled(nn.Linear):
    def load_state_dict(self, state):
        return super().load_state_dict({name: t * 2 for name, t in state.items()})


class Noted(nn.Linear):
    """Asks for a name that older ones do not have."""

    def _load_from_state_dict(self, state, prefix, *rest):
        super()._load_from_state_dict(state, prefix, *rest)
        rest[2].extend([] if prefix + "note" in state else [prefix + "note"])


class Unknown(nn.Linear):
    """Has buffers of which NaN is a value."""

    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("roots", torch.tensor([complex(float("nan"), 1), 2j]))

    def _load_from_state_dict(self, *given):
        super()._load_from_state_dict(*given)

    def _save_to_state_dict(self, *given):
        super()._save_to_state_dict(*given)


class Counted(nn.Linear):
    """Counts its calls; in float64 it saves and loads other values."""

    calls = 0

    def _change(self, state, prefix):
        Counted.calls += 1
        if self.weight.dtype == torch.float64:
            state[prefix + "weight"] = state[prefix + "weight"] * 2

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._change(destination, prefix)

    def _load_from_state_dict(self, state, prefix, *rest):
        self._change(state, prefix)
        super()._load_from_state_dict(state, prefix, *rest)


def halve(module, state, prefix, *_):
    state[prefix + "weight"] = state[prefix + "weight"] / 2


def double(module, state, prefix, *_):
    state[prefix + "weight"] = state[prefix + "weight"] * 2


def named(module, state, prefix, *_):
    state[prefix + "weight"] = state.pop(prefix + "old")


def grown(module, _):
    with torch.no_grad():
        module.weight.mul_(2)


def hooked(add, hook):
    def make():
        layer = nn.Linear(4, 3)
        getattr(layer, add)(hook)
        return layer
    return make


SAVING = [hooked("register_state_dict_post_hook", halve), hooked("_register_state_dict_hook", lambda *given: halve(*given))]
LOADING = [hooked("register_load_state_dict_pre_hook", double), hooked("register_load_state_dict_pre_hook", named),
           hooked("register_load_state_dict_post_hook", grown)]
HARMLESS = [lambda: Renamed(4, 3), lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), lambda: nn.utils.parametrizations.weight_norm(
    nn.Linear(4, 3)), hooked("register_state_dict_post_hook", lambda *_: None), hooked("register_state_dict_pre_hook", lambda *_: None),
            hooked("register_load_state_dict_post_hook", lambda *_: None), lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)),
            hooked("register_load_state_dict_pre_hook", lambda module, state, prefix, *_: state.pop(prefix + "gone", None))]


class OwnState(unittest.TestCase):
    def pairs(self, make):
        torch.manual_seed(3)
        models = [nn.Sequential(make(), nn.Tanh()).eval() for _ in range(3)]
        return models, nw.compile(copy.deepcopy(models), options=OPTIONS)

    def same(self, models, wide):
        x = torch.randn(3, 5, 4)
        self.assertLess((wide(x) - torch.stack([m(one) for m, one in zip(models, x)])).abs().max().item(), 1e-6)

    def test_saving_that_changes_values_is_refused(self):
        for make in (*SAVING, lambda: Halved(4, 3)):
            models, wide = self.pairs(make)
            for call in (wide.state_dict, wide[1].state_dict, lambda w=wide: nn.ModuleList([w]).state_dict()):
                with self.assertRaisesRegex(nw.Error, r"^\[state_dict\] 0: got a hook or method of its own that changes 0.weight, "
                                                      r"expected tensors as they are; try wide.copy_to\(models\) and the state_dict"):
                    call()
            self.same(models, wide)
            copies = [copy.deepcopy(m) for m in models[::-1]]
            wide.copy_to(copies)
            self.same(copies, wide)
            self.same(models, copy.deepcopy(wide))

    def test_loading_that_changes_values_is_refused(self):
        for make in (*LOADING, lambda: Halved(4, 3)):
            models, wide = self.pairs(make)
            one = {name: t.detach() for name, t in models[0].named_parameters()}
            stacked = {name: torch.stack([t] * 3) for name, t in one.items()}
            what = "raises KeyError: '0.old'" if make is LOADING[1] else "changes 0.weight"
            inside = nn.ModuleList([wide])
            for call in (lambda: wide.load_state_dict(stacked), lambda: wide[1].load_state_dict(one),
                         lambda: inside.load_state_dict({f"0.{name}": t for name, t in stacked.items()})):
                with self.assertRaisesRegex(nw.Error, rf"^\[load_state_dict\] 0: got a hook or method of its own that {what}, "
                                                      r"expected tensors as they are; try load_state_dict of the models before"):
                    call()
            self.same(models, wide)

    def test_what_changes_no_value_is_left_out(self):
        for make in HARMLESS:
            models, wide = self.pairs(make)
            others, _ = self.pairs(make)
            for other in others:
                for p in other.parameters():
                    nn.init.normal_(p)
            states = [other.state_dict() for other in others]
            wide.load_state_dict({name: torch.stack([s[name] for s in states]) for name in states[0]})
            self.same(others, wide)
            for i, model in enumerate(models):
                wide[i].load_state_dict(model.state_dict())
                for name, t in model.state_dict().items():
                    self.assertTrue(torch.equal(t, wide[i].state_dict()[name]))
                    self.assertTrue(torch.equal(t, wide.state_dict()[name][i]))
            self.same(models, wide)

    def test_apply_writes_values_as_they_are(self):
        def shift(module):
            for p in module.parameters(recurse=False):
                p.data.add_(0.5)

        for make in (*SAVING, *LOADING, lambda: Halved(4, 3)):
            models, wide = self.pairs(make)
            for m in (*models, wide):
                m.apply(shift)
            self.same(models, wide)

    def test_the_models_and_chance_stay_as_they_are(self):
        models, wide = self.pairs(HARMLESS[0])
        before, chance = [t.clone() for t in (*models[0].parameters(), *wide.parameters())], torch.get_rng_state()
        wide.load_state_dict(wide.state_dict())
        self.assertTrue(all(map(torch.equal, before, (*models[0].parameters(), *wide.parameters()))))
        self.assertTrue(torch.equal(chance, torch.get_rng_state()))

    def test_a_load_state_dict_with_fewer_arguments(self):
        torch.manual_seed(4)
        models, others = ([Plain(4, 3) for _ in range(3)] for _ in range(2))
        wide = nw.compile(copy.deepcopy(models), options=OPTIONS)
        wide.load_state_dict({name: torch.stack([m.state_dict()[name] for m in others]) for name in others[0].state_dict()})
        self.same(others, wide)
        for i, model in enumerate(models):
            wide[i].load_state_dict(model.state_dict())
        self.same(models, wide)
        wide = nw.compile([Doubled(4, 3) for _ in range(3)])
        with self.assertRaisesRegex(nw.Error, r"^\[load_state_dict\] the model itself: got a hook or method of its own that changes weight, "):
            wide.load_state_dict(wide.state_dict())

    def test_loading_with_a_key_that_is_missing(self):
        models, wide = self.pairs(lambda: Noted(4, 3))
        self.assertTrue(models[0].load_state_dict(models[0].state_dict(), strict=False).missing_keys)
        wide.load_state_dict(wide.state_dict())
        wide[0].load_state_dict(wide[1].state_dict())
        self.same([models[1], *models[1:]], wide)

    def test_complex_buffers_with_nan(self):
        models, wide = self.pairs(Unknown)
        wide.load_state_dict({name: torch.stack([m.state_dict()[name] for m in models[::-1]]) for name in models[0].state_dict()})
        self.same(models[::-1], wide)
        got, own = wide[0].state_dict()["0.roots"], models[2].state_dict()["0.roots"]
        self.assertTrue(torch.equal(torch.view_as_real(got).nan_to_num(7), torch.view_as_real(own).nan_to_num(7)))

    def test_the_models_code_is_asked_once(self):
        models, wide = self.pairs(lambda: Counted(4, 3))
        states = [{name: t.detach() for name, t in m.named_parameters()} for m in models[::-1]]
        calls = []
        for _ in range(3):
            before = Counted.calls
            for i, state in enumerate(states):
                wide[i].load_state_dict(state)
                self.assertTrue(all(torch.equal(t, wide[i].state_dict()[name]) for name, t in state.items()))
            wide.load_state_dict(wide.state_dict())
            calls.append(Counted.calls - before)
        self.assertGreater(calls[0], 0)
        self.assertEqual(calls[1:], [0, 0])
        self.same(models[::-1], wide)

    def test_the_models_code_is_asked_again_for_other_dtypes(self):
        for convert in (lambda wide, state: wide.double(), lambda wide, state: wide.load_state_dict(state, assign=True)):
            _, wide = self.pairs(lambda: Counted(4, 3))
            state = {name: t.double() for name, t in wide.state_dict().items()}
            wide.load_state_dict(wide.state_dict())
            convert(wide, state)
            for call in (wide.state_dict, wide[1].state_dict, lambda w=wide: w.load_state_dict(state), lambda w=wide: w[0].load_state_dict(
                    {name: t[0] for name, t in state.items()})):
                with self.assertRaisesRegex(nw.Error, "a hook or method of its own that changes 0.weight"):
                    call()
            copied = copy.deepcopy(wide)
            self.assertTrue(torch.equal(copied.float().state_dict()["0.weight"], state["0.weight"].float()))


if __name__ == "__main__":
    unittest.main()
