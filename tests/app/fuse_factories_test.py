"""Networks that make tensors of a dtype left to the default, fused in every form.

In double precision such a tensor is double, as it is in PyTorch under set_default_dtype; whole
numbers stay whole numbers.
"""
import copy
import sys
import unittest

try:
    import torch
    import torch.nn as nn
    from safetensors.torch import load_file, save_file
    from command_line import CommandLine, randomised
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)


class Factories(nn.Module):
    """Each into a layer of its own, which takes nothing but its weights' dtype."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(16, 5) for _ in range(4))
        self.e, self.f, self.g, self.h = (nn.Linear(16, 5) for _ in range(4))

    def forward(self, x):
        rows = x.shape[0]
        y = self.a(torch.zeros(rows, 16)) + self.b(torch.ones(rows, 16))
        y = y + self.c(torch.full((rows, 16), 0.3)) + self.d(torch.arange(0.0, 16.0))
        y = y + self.e(torch.linspace(-1.0, 1.0, 16)) + self.f(torch.eye(rows, 16))
        y = y + self.g(torch.empty(rows, 16).fill_(0.7)) + self.h(x)
        return y, torch.zeros(rows, 16).sum(1, keepdim=True) + x[:, :1]


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 5)

    def forward(self, x):
        at = torch.arange(5)
        twos = torch.full((5,), 2)
        return self.a(x)[:, at // 2], at // twos, (x[:, at] > 0).to(torch.int64) + twos


class Drawn(nn.Module):
    """Draws numbers that do not matter."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 5), nn.Linear(16, 5)

    def forward(self, x):
        return self.a(x) + self.b(torch.randn(x.shape[0], 16) * 0) + self.b(torch.rand(x.shape[0], 16) * 0)


def double(model, x):
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            out = copy.deepcopy(model).double()(x.double())
    finally:
        torch.set_default_dtype(torch.float32)
    return out if isinstance(out, tuple) else (out,)


class FuseFactories(CommandLine):
    def check(self, make, n=3):
        models = [randomised(make, 10 + i) for i in range(n)]
        torch.manual_seed(4)
        x = torch.randn(n, 6, 16)
        weights = [self.path(f"w{i}.safetensors") for i in range(n)]
        for model, path in zip(models, weights):
            save_file(model.state_dict(), path)
        save_file({"x": x}, self.path("x.safetensors"))
        arch = copy.deepcopy(models[0])
        torch.jit.trace(arch, x[0], check_trace=False).save(self.path("traced.ts"))
        torch.jit.script(arch).save(self.path("scripted.ts"))
        torch.export.save(torch.export.export(arch, (x[0],)), self.path("net.pt2"))
        expected = [double(model, x[i]) for i, model in enumerate(models)]
        for form in ("traced.ts", "scripted.ts", "net.pt2"):
            with self.subTest(form):
                out = self.path("y.safetensors")
                self.workbench("fuse", self.path(form), "--weights", *weights, "--inputs", self.path("x.safetensors"),
                               "--outputs", out, "--budget", "0.01", "--no-store", "--quiet")
                got = load_file(out)
                self.assertEqual(len(got), len(expected[0]))
                for k in range(len(got)):
                    for i in range(n):
                        y, ref = got[f"output.{k}"][i], expected[i][k]
                        self.assertEqual(y.is_floating_point(), ref.is_floating_point())
                        if not ref.is_floating_point():
                            self.assertEqual(y.dtype, ref.dtype)
                            self.assertTrue(torch.equal(y, ref))
                        else:
                            self.assertLess(float((y.double() - ref).abs().max() / ref.abs().max()), 1e-5)

    def test_real_numbers(self):
        self.check(Factories)

    def test_whole_numbers(self):
        self.check(Whole)

    def test_numbers_drawn_and_not_used(self):
        self.check(Drawn)


if __name__ == "__main__":
    unittest.main()
