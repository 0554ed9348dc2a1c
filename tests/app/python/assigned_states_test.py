"""Names of parts and tensors; parts that are replaced; load_state_dict(assign=True): the tensors given become the wide module's own."""

import package

package.enter()

import copy  # noqa: E402
import pickle  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import stateless  # noqa: E402

import nwide as nw  # noqa: E402


class Assigned(unittest.TestCase):
    def test_a_state_of_another_dtype_is_assigned(self):
        """As in PyTorch the module computes in it from there on; its copies stay as they were."""
        for frozen in (False, True):
            for dtype in (torch.float64, torch.bfloat16):
                for called in (False, True):
                    with self.subTest(dtype=dtype, called=called, frozen=frozen):
                        models = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(3)]
                        wide, x = nw.compile(copy.deepcopy(models)), torch.randn(3, 5, 4)
                        if called:
                            wide(x).sum().backward()
                            for model, one in zip(models, x):  # whose statistics changed too
                                model(one)
                        before = copy.deepcopy(wide)
                        wide.freeze(frozen)

                        def converted(module):
                            return {k: v.to(dtype) if v.is_floating_point() else v for k, v in module.state_dict().items()}

                        wide.load_state_dict(converted(wide), assign=True)
                        for model in models:
                            model.load_state_dict(converted(model), assign=True)
                        got = wide(x.to(dtype))
                        expected = torch.stack([model(one.to(dtype)) for model, one in zip(models, x)])
                        self.assertEqual(got.dtype, dtype)
                        scale = 1e-12 if dtype is torch.float64 else 0.05
                        torch.testing.assert_close(got, expected, rtol=scale, atol=scale)
                        self.assertEqual(wide[1].module()[0].weight.dtype, dtype)
                        if not frozen:
                            got.sum().backward()
                            self.assertEqual(wide.get_parameter("0.weight").grad.dtype, dtype)
                        self.assertEqual(before(x[:, :3]).dtype, torch.float32)

    def test_ties_stay_when_a_state_is_assigned(self):
        def twice():
            layer = nn.Linear(4, 4)
            return nn.Sequential(layer, nn.Tanh(), layer)

        x = torch.randn(3, 5, 4)
        options = nw.Options(tune=False)  # compiled twice, tuning may choose two strategies
        wide, again = (nw.compile([twice() for _ in range(3)], options=options) for _ in range(2))
        wide.load_state_dict({name: value.clone() for name, value in wide.state_dict().items()}, assign=True)
        self.assertEqual(len(list(wide.parameters())), 2)
        wide(x).pow(2).sum().backward()
        torch.optim.SGD(wide.parameters(), lr=0.1).step()
        again.load_state_dict(wide.state_dict())
        self.assertTrue(torch.equal(again(x), wide(x)))

    def test_a_state_of_a_module_around_it(self):
        """PyTorch does not call the load_state_dict of modules inside."""
        def nets():
            return [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(3)]

        x, others = torch.randn(3, 5, 4), nets()
        outer = nn.Sequential(nw.compile(nets()), nn.Linear(2, 2))
        outer[0].freeze()
        outer(x)
        outer.load_state_dict(nn.Sequential(nw.compile(others), nn.Linear(2, 2)).state_dict())
        expected = torch.stack([m(one) for m, one in zip(others, x)])
        torch.testing.assert_close(outer[0](x), expected)
        outer.load_state_dict({k: v.double() for k, v in outer.state_dict().items()}, assign=True)
        torch.testing.assert_close(outer[0](x.double()), torch.stack([m.double()(one.double()) for m, one in zip(others, x)]))


class Names(unittest.TestCase):
    def test_parts_named_as_attributes_of_a_wide_module(self):
        class Net(nn.Module):
            def __init__(self, name):
                super().__init__()
                self.name = name
                self.add_module(name, nn.Sequential(nn.Linear(4, 3)))
                self.register_parameter("freeze", nn.Parameter(torch.rand(3)))
                self.register_buffer("export", torch.rand(3))

            def forward(self, x):
                return self._modules[self.name](x) * self.freeze + self.export

        for name in ("head", "n", "plan", "_slots"):
            models, x = [Net(name) for _ in range(3)], torch.randn(3, 5, 4)
            wide = nw.compile(models)
            torch.testing.assert_close(wide(x).detach(), torch.stack([m(one) for m, one in zip(models, x)]).detach())
            self.assertIs(wide.get_submodule(name), wide._modules[name])
            self.assertIs(wide.get_submodule(f"{name}.0"), wide._modules[name]._modules["0"])
            self.assertIs(wide.get_submodule(""), wide)
            for own, known in ((wide.get_parameter, wide.named_parameters()), (wide.get_buffer, wide.named_buffers())):
                for key, tensor in known:
                    self.assertIs(own(key), tensor, key)
                for missing in ("other", f"{name}.other", "other.weight", f"{name}.0.weight.more", "training"):
                    with self.assertRaises(AttributeError, msg=missing):
                        own(missing)
            given = {key: 2 * p.detach() for key, p in wide.named_parameters()}
            if name == "head":
                expected = torch.stack([torch.func.functional_call(m, {key: p[i] for key, p in given.items()}, x[i])
                                        for i, m in enumerate(models)])
                torch.testing.assert_close(torch.func.functional_call(wide, given, x).detach(), expected.detach())
            else:
                with self.assertRaisesRegex(TypeError, f"submodule `{name}`"):
                    torch.func.functional_call(wide, given, x)
        for model, name in ((lambda: Net("_model"), "_model"), (lambda: nn.Sequential(Net("_wide")), "0._wide")):
            with self.assertRaisesRegex(nw.Error, rf"^\[compile\] submodule {name}: got a name that .*; try to rename _"):
                nw.compile([model() for _ in range(3)])


class Frozen(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.models = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()).double() for _ in range(3)]
        self.x = torch.randn(3, 5, 4, dtype=torch.float64)

    def check(self, wide):
        with torch.no_grad():
            expected = torch.stack([m(one) for m, one in zip(self.models, self.x)])
            torch.testing.assert_close(wide(self.x), expected, rtol=1e-12, atol=1e-12)

    def test_copies_keep_what_is_frozen(self):
        for train in (False, True):
            for called in (False, True):
                with self.subTest(train=train, called=called):
                    for model in self.models:
                        model.train(train)
                    wide = nw.compile(copy.deepcopy(self.models)).freeze()
                    if called:
                        self.check(wide)
                    kept = copy.deepcopy(wide.state_dict())
                    with torch.no_grad():
                        for p in wide.parameters():
                            p.zero_()
                    before = copy.deepcopy(self.models)
                    for twin in (copy.deepcopy(wide), pickle.loads(pickle.dumps(wide)), copy.deepcopy(copy.deepcopy(wide)), wide):
                        self.models = copy.deepcopy(before)
                        for _ in range(2):  # statistics go on where they are
                            self.check(twin)
                        twin.load_state_dict(kept)  # as for the module itself, these count from here on
                        self.models = copy.deepcopy(before)
                        self.check(twin)

    def test_other_tensors_in_their_place_are_refused(self):
        for model in self.models:
            model.eval()
        wide = nw.compile(copy.deepcopy(self.models)).freeze()
        self.check(wide)
        own = dict(wide.named_parameters())
        others = {name: torch.zeros_like(p) for name, p in own.items()}
        for wide in (wide, copy.deepcopy(wide)):
            for given in (others, {"0.bias": others["0.bias"]}):
                for call in (wide, wide.at([0, 1, 2])) if given is others else (wide,):
                    with self.assertRaisesRegex(nw.Error, r"^\[wide\] 0\.(weight|bias): got another tensor than at freeze\(\), expected the one "
                                                          r"that is frozen; try freeze\(\) again, or freeze\(False\) "):
                        self.called_with(wide, given, call)
            self.check(wide)
        wide = nw.compile(copy.deepcopy(self.models)).freeze()
        torch.testing.assert_close(torch.func.functional_call(wide, dict(wide.named_parameters()), (self.x,)), wide(self.x), rtol=0, atol=0)
        wide.get_submodule("0").weight = nn.Parameter(others["0.weight"])
        with self.assertRaisesRegex(nw.Error, r"^\[wide\] 0\.weight: got another tensor than at freeze"):
            wide(self.x)
        with torch.no_grad():
            for model in self.models:
                model[0].weight.zero_()
        self.check(wide.freeze())

    def called_with(self, wide, given, call):
        with stateless._reparametrize_module(wide, given):
            return call(self.x)


class Swapped(unittest.TestCase):
    def test_conversions_that_swap_tensors(self):
        torch.manual_seed(0)
        models, x = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval() for _ in range(3)], torch.randn(3, 5, 4)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            wide = nw.compile(copy.deepcopy(models), x[0])
            with torch.no_grad():
                wide(x)
                self.assertEqual(wide.double()(x.double()).dtype, torch.float64)
                expected = torch.stack([copy.deepcopy(m).double()(one.double()) for m, one in zip(models, x)])
                torch.testing.assert_close(wide(x.double()), expected, rtol=1e-12, atol=1e-12)
            held = wide(x.double())  # a graph holds the weights
            with self.assertRaisesRegex(nw.Error, r"^\[wide\] conversion: got RuntimeError: _apply\(\): Couldn't swap .*, expected weights that "
                                                  r"no graph holds, .*; try torch.__future__.set_swap_module_params_on_conversion\(False\)$"):
                wide.float()
            self.assertEqual(held.dtype, torch.float64)
            del held
            with torch.no_grad():  # all is as before
                torch.testing.assert_close(wide(x.double()), expected, rtol=1e-12, atol=1e-12)
                torch.testing.assert_close(wide.float()(x), expected.float(), rtol=1e-4, atol=1e-5)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)


class Headed(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.body(x))


class Parts(unittest.TestCase):
    def test_parts_that_are_replaced_or_removed(self):
        torch.manual_seed(0)
        models, x = [Headed().double() for _ in range(2)], torch.randn(2, 5, 4, dtype=torch.float64)
        expected = torch.stack([m(one) for m, one in zip(models, x)])
        wide = nw.compile(models)
        other = nn.Linear(4, 7)
        for wide in (wide, copy.deepcopy(wide), pickle.loads(pickle.dumps(wide))):
            body = wide.get_submodule("body")
            for part, what, change in (
                    ("fc", "an assignment", lambda: setattr(wide, "fc", other)), ("fc", "an assignment", lambda: wide.add_module("fc", other)),
                    ("fc", "an assignment", lambda: wide.register_module("fc", other)), ("fc", "a removal", lambda: delattr(wide, "fc")),
                    ("fc", "an assignment", lambda: setattr(wide, "fc", None)), ("fc", "an assignment", lambda: wide._modules.update(fc=other)),
                    ("fc", "an assignment", lambda: wide.set_submodule("fc", other)), ("fc", "a removal", lambda: wide._modules.pop("fc")),
                    (r"body\.0", "an assignment", lambda: setattr(body, "0", other)), (r"body\.1", "a removal", lambda: delattr(body, "1")),
                    (r"body\.0", "an assignment", lambda: wide.set_submodule("body.0", other)),
                    (r"body\.0", "a removal", lambda: body._modules.__delitem__("0")), ("body", "a removal", lambda: wide._modules.clear())):
                with self.subTest(part, what=what), self.assertRaisesRegex(
                        nw.Error, rf"^\[wide\] {part}: got {what} after nw.compile, expected none; try the models before nw.compile$"):
                    change()
            torch.testing.assert_close(wide(x), expected, rtol=1e-12, atol=1e-12)
            wide.loss, wide.loss = nn.MSELoss(), nn.L1Loss()  # the user's own


if __name__ == "__main__":
    unittest.main()
