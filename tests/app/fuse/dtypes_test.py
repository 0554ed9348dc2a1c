"""Networks of several floating dtypes, from the command line, against PyTorch with the same dtypes.

Each weight and input keeps the dtype that its file gives it; only those of the network's own dtype
follow --dtype.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
    import torch.nn as nn
    from safetensors.torch import load_file, save_file
    from command_line import CommandLine
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)


class Clock(nn.Module):
    """Reads the part of a second of a time stamp, which float32 cannot hold."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(1, 1)

    def forward(self, t):
        return self.l(torch.fmod(t, 1.0).float()), t - 1.7e9


class Rotary(nn.Module):
    """A bfloat16 network with a float32 table that is saved."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4).bfloat16()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, 2) / 2.0) + torch.rand(2) / 10)

    def forward(self, x, pos):
        a = pos.float()[:, None] * self.inv_freq
        return self.l(x) * torch.cat([a.cos(), a.sin()], -1).bfloat16()


class Step(nn.Module):
    """A bfloat16 network that gets a float32 time step."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4).bfloat16()

    def forward(self, x, t):
        return self.l(x), t * 1.0


class Norm(nn.Module):
    """A bfloat16 network that keeps its norm in float32."""

    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(4, 4).bfloat16(), nn.LayerNorm(4)
        nn.init.normal_(self.n.weight, 1, 0.1)

    def forward(self, x):
        return self.n(self.l(x).float())


class Half(nn.Module):
    """A float32 network of half-precision inputs and results."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.l(x.float()).half(), x * 3.3


def rows(dtype):
    return torch.randn(3, 4).to(dtype)


CASES = {
    Clock: lambda: {"t": 1.7e9 + 100 * torch.rand(4, 1, dtype=torch.float64)},
    Rotary: lambda: {"x": rows(torch.bfloat16), "pos": torch.randint(900, 1100, (3,))},
    Step: lambda: {"x": rows(torch.bfloat16), "t": torch.tensor([999.0, 981.0, 333.0]) + torch.randint(9, (3,))},
    Norm: lambda: {"x": rows(torch.bfloat16)},
    Half: lambda: {"x": rows(torch.half)},
}


class Dtypes(CommandLine):
    def prepare(self, make, inputs, kind):
        torch.manual_seed(5)
        self.models, self.given = [make().eval() for _ in range(3)], [inputs() for _ in range(3)]
        net = self.path("net." + kind)
        if kind == "pt2":
            torch.export.save(torch.export.export(self.models[0], (), self.given[0]), net)
        else:
            torch.jit.trace(self.models[0], example_kwarg_inputs=self.given[0]).save(net)
        for i, model in enumerate(self.models):
            torch.save(model.state_dict(), self.path(f"w{i}.pt"))
        save_file({name: torch.stack([one[name] for one in self.given]) for name in self.given[0]},
                  self.path("x.safetensors"))
        return net

    def fuse(self, net, *more, expect=0):
        return self.workbench("fuse", net, "--weights", self.path("w*.pt"), "--inputs", self.path("x.safetensors"),
                              "--outputs", self.path("y.safetensors"), "--budget", "0.01", "--no-store", *more,
                              expect=expect)

    def same(self, got, expected, what, inside=None):
        """`inside`: the narrower dtype of what the result is made from."""
        self.assertEqual(got.dtype, expected.dtype, what)
        near = {torch.bfloat16: 2e-2, torch.half: 2e-3, torch.float32: 1e-5, torch.float64: 1e-12}[inside or got.dtype]
        error = (got.double() - expected.double()).abs().max() / expected.double().abs().max()
        self.assertLess(float(error), near, what)

    def test_each_tensor_keeps_its_dtype(self):
        for make, inputs in CASES.items():
            for kind in ("pt2", "ts"):
                with self.subTest(make=make.__name__, kind=kind), torch.no_grad():
                    net = self.prepare(make, inputs, kind)
                    exports = [self.path("wide.pt2"), self.path("wide.ts")]
                    self.fuse(net, *(f"--export={path}" for path in exports))
                    results = [model(**one) for model, one in zip(self.models, self.given)]
                    results = [r if isinstance(r, tuple) else (r,) for r in results]
                    expected = [torch.stack(one) for one in zip(*results)]
                    written = load_file(self.path("y.safetensors"))
                    given = load_file(self.path("x.safetensors"))
                    loaded = [torch.export.load(exports[0]).module(), torch.jit.load(exports[1])]
                    again = [wide(*(given[name] for name in self.given[0])) for wide in loaded]
                    inside = torch.bfloat16 if make is Norm else None
                    for k, right in enumerate(expected):
                        self.same(written[f"output.{k}"], right, f"--outputs {k}", inside)
                        for path, all_of in zip(exports, again):
                            self.same(all_of[k] if isinstance(all_of, (tuple, list)) else all_of, right, path, inside)

    def test_float64_inputs_by_chance_are_converted_and_said(self):
        """NumPy's float64: the models themselves refuse it beside float32 weights."""
        with torch.no_grad():
            net = self.prepare(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh()), lambda: {"input": rows(torch.float32)}, "ts")
            given = load_file(self.path("x.safetensors"))["input"]
            save_file({"input": given.double()}, self.path("x.safetensors"))
            with self.assertRaises(RuntimeError):
                self.models[0](given[0].double())
            text = self.fuse(net).stdout
            self.assertIn("input input is converted from f64 to f32, as forward refuses it", text)
            self.same(load_file(self.path("y.safetensors"))["output.0"],
                      torch.stack([model(x) for model, x in zip(self.models, given)]), "converted")

    def test_only_what_is_refused_is_converted(self):
        class Late(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = nn.Linear(4, 1)

            def forward(self, x, t):
                return self.l(x) * (t - 1e9).float()

        with torch.no_grad():
            net = self.prepare(Late, lambda: {"x": rows(torch.float32), "t": 1e9 + torch.rand(3, 1, dtype=torch.float64)}, "ts")
            given = load_file(self.path("x.safetensors"))
            save_file({"x": given["x"].double(), "t": given["t"]}, self.path("x.safetensors"))
            text = self.fuse(net).stdout
            self.assertIn("input x is converted from f64 to f32", text)
            self.assertNotIn("input t is converted", text)
            self.same(load_file(self.path("y.safetensors"))["output.0"],
                      torch.stack([model(**one) for model, one in zip(self.models, self.given)]), "one converted")

    def test_a_run_in_another_dtype_changes_the_networks_own_alone(self):
        with torch.no_grad():
            net = self.prepare(Norm, CASES[Norm], "pt2")
            self.fuse(net, "--dtype", "f32")
            expected = torch.stack([model.float()(one["x"].float()) for model, one in zip(self.models, self.given)])
            self.same(load_file(self.path("y.safetensors"))["output.0"], expected, "--dtype f32")

    def test_an_export_of_fixed_sizes_refuses_others(self):
        class Squares(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = nn.Linear(4, 4)

            def forward(self, x):
                return self.l(x) * x.shape[0] ** 2

        torch.manual_seed(6)
        models = [Squares() for _ in range(3)]
        x = torch.randn(3, 5, 4)
        torch.export.save(torch.export.export(models[0], (x[0],), dynamic_shapes={"x": {0: torch.export.Dim("b")}}),
                          self.path("net.pt2"))
        for i, model in enumerate(models):
            torch.save(model.state_dict(), self.path(f"w{i}.pt"))
        save_file({"x": x}, self.path("x.safetensors"))
        self.fuse(self.path("net.pt2"), f"--export={self.path('wide.ts')}")
        wide = torch.jit.load(self.path("wide.ts"))
        self.same(wide(x), torch.stack([model(x[i]) for i, model in enumerate(models)]).detach(), "as exported")
        for sizes in ((3, 9, 4), (3, 1, 4), (5, 3, 4)):
            with self.assertRaisesRegex(torch.jit.Error, r"\[input x\] sizes: got others, expected \[3, 5, 4\]"):
                wide(torch.randn(sizes))


if __name__ == "__main__":
    unittest.main()
