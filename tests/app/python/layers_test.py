"""`nw.from_modules`: layers by a strategy chosen by name, and what it refuses."""

import package

package.enter()

import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.wide_compiler.core.blocks import WideAttention, WideMLP  # noqa: E402
from nwide.wide_compiler.core.primitives import WideConv2d, WideLinear, WideRMSNorm  # noqa: E402

LINE = r"^\[[^\]]+\] .+: got .+, expected .+; try .+$"


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(5, 9), nn.Linear(9, 5)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Rotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, rope=None):
        y = self.linear(x)
        return y if rope is None else y * rope.cos()


def norms(n, size=7):
    made = [nn.RMSNorm(size) for _ in range(n)]
    for norm in made:
        nn.init.normal_(norm.weight)
    return made


class Made(unittest.TestCase):
    def right(self, wide, modules, x):
        with torch.no_grad():
            expected = torch.stack([m.double()(one.double()) for m, one in zip(modules, x)])
            torch.testing.assert_close(wide(x), expected.float(), rtol=1e-4, atol=1e-5)

    def test_by_class(self):
        for n in (1, 5):
            modules, x = norms(n), torch.randn(n, 2, 3, 7)
            wide = nw.from_modules(modules, strategy="batched")
            self.right(wide, modules, x)
            self.assertEqual({row["strategy"] for row in wide.coverage if row["primitive"] == "rmsnorm"}, {"batched"})
            self.assertEqual((wide.strategy, wide.target), ("batched", "rmsnorm"))
            self.assertEqual(repr(wide), f"WideLayer({n} x RMSNorm((7,), eps=None, elementwise_affine=True), "
                                         "target=rmsnorm, strategy=batched)")

    def test_the_engine_chooses(self):
        for strategy in (None, "auto"):
            modules = [MLP() for _ in range(3)]
            wide = nw.from_modules(modules, strategy)
            self.assertEqual(repr(wide), "WideLayer(3 x MLP, strategy=auto)")
            self.right(wide, modules, torch.randn(3, 2, 5))

    def test_by_name(self):
        modules = [MLP() for _ in range(3)]
        wide = nw.from_modules(modules, "einsum", target="mlp_block")
        self.right(wide, modules, torch.randn(3, 2, 5))
        self.assertEqual({row["strategy"] for row in wide.coverage if row["primitive"] == "linear"}, {"einsum"})
        self.assertEqual(repr(wide), "WideLayer(3 x MLP, target=mlp_block, strategy=einsum)")

    def test_without_a_target(self):
        for strategy in ("vmap", "per_model"):
            modules = [MLP() for _ in range(3)]
            wide = nw.from_modules(modules, strategy)
            self.right(wide, modules, torch.randn(3, 2, 5))
            self.assertEqual({row["strategy"] for row in wide.coverage}, {strategy})

    def test_derived_classes_and_lists_of_modules(self):
        class Own(nn.Linear):
            pass

        modules = nn.ModuleList([Own(5, 3) for _ in range(3)])
        wide = nw.from_modules(modules, "baddbmm", options=nw.Options(threads=1))
        self.assertEqual(wide.target, "linear")
        self.right(wide, modules, torch.randn(3, 2, 5))

    def test_positions_are_the_same_for_all_models(self):
        modules = [Rotated() for _ in range(3)]
        wide, x, rope = nw.from_modules(modules), torch.randn(3, 2, 5, 6), torch.randn(5, 6)
        with torch.no_grad():
            for got in (wide(x, rope=rope), wide(x, rope), wide(x, rope=torch.stack([rope] * 3))):
                torch.testing.assert_close(got, torch.stack([m(one, rope) for m, one in zip(modules, x)]))
            torch.testing.assert_close(wide(x, rope=None), torch.stack([m(one) for m, one in zip(modules, x)]))


class Refused(unittest.TestCase):
    def refused(self, text, call, *arguments, **more):
        with self.assertRaises(nw.Error) as caught:
            call(*arguments, **more)
        self.assertRegex(str(caught.exception), LINE)
        self.assertIn(text, str(caught.exception))

    def test_strategies(self):
        self.refused("[WideRMSNorm] strategy of rmsnorm: got einsum, expected one of auto, one_pass, batched, vmap, per_model; "
                     "try strategy='one_pass'", WideRMSNorm.from_modules, norms(2), strategy="einsum")
        self.refused("[from_modules] strategy of MLP: got einsum, expected one of auto, vmap, per_model, as its class is no "
                     "target by itself; try target='mlp_block'", nw.from_modules, [MLP(), MLP()], "einsum")
        self.refused("[from_modules] strategy of MLP: got fast, expected one of auto, vmap, per_model, as its class is no "
                     "target by itself; try strategy='auto'", nw.from_modules, [MLP(), MLP()], "fast")

    def test_strategies_that_do_not_apply(self):
        convolutions = [nn.Conv2d(3, 5, 3) for _ in range(2)]
        wide = WideConv2d.from_modules(convolutions, strategy="depthwise")
        self.refused("[conv2d/depthwise]", wide, torch.randn(2, 1, 3, 5, 5))
        halves = WideRMSNorm.from_modules([norm.double() for norm in norms(2)], strategy="one_pass")
        self.refused("[rmsnorm/one_pass] call: got float64 on the CPU, expected float32 on the CPU; try batched", halves, torch.randn(2, 3, 7).double())

    def test_a_strategy_that_does_not_apply_to_another_call(self):
        wide = nw.from_modules([nn.RMSNorm(7, elementwise_affine=False) for _ in range(2)], strategy="one_pass")
        wide(torch.randn(2, 3, 7))
        self.refused("[rmsnorm/one_pass]", wide, torch.randn(2, 3, 7).double())

    def test_one_module_in_every_place(self):
        self.refused("[rmsnorm/batched] parameters: got one for all models, expected one for each model; try vmap",
                     WideRMSNorm.from_modules(norms(1) * 3, "batched"), torch.randn(3, 2, 7))

    def test_other_layers(self):
        self.refused("[WideLinear] modules: got Conv2d, expected torch.nn.Linear; try nw.from_modules, where it is conv2d",
                     WideLinear.from_modules, [nn.Conv2d(3, 5, 3)] * 2)
        self.refused("[WideMLP] modules: got Linear, expected mlp_block: Linear to 4D, GELU, Linear back; "
                     "try nw.from_modules, where it is linear", WideMLP.from_modules, [nn.Linear(3, 5)] * 2)
        wide = WideRMSNorm.from_modules([MLP(), MLP()], strategy="batched")
        self.refused("[WideRMSNorm] modules: got MLP, whose operators are of linear, expected some of rmsnorm, which has "
                     "strategy batched; try strategy='auto'", wide, torch.randn(2, 3, 5))

    def test_lists(self):
        self.refused("[WideLinear] modules: got Linear, expected a list of at least one nn.Module; try [module]",
                     WideLinear.from_modules, nn.Linear(3, 5))
        self.refused("[from_modules] modules: got none,", nw.from_modules, [])
        self.refused("[from_modules] modules: got int,", nw.from_modules, [nn.Linear(3, 5), 3])
        self.refused("[compile] the model itself of model 1: got in_features=3, out_features=4, bias=True",
                     WideLinear.from_modules, [nn.Linear(3, 5), nn.Linear(3, 4)])
        self.refused("[compile] options: got dict, expected nw.Options", nw.from_modules, norms(2), options={})

    def test_targets(self):
        self.refused("[from_modules] target: got mlp_blok, expected the name of a primitive or block; try target='mlp_block'",
                     nw.from_modules, [MLP()], target="mlp_blok")
        self.refused("try `workbench list primitives`", nw.from_modules, [MLP()], target="xyz")

    def test_packed_inputs(self):
        """As WideCompiler 0.4 had them: models side by side in the features or the channels."""
        wide = WideRMSNorm.from_modules(norms(3), strategy="batched")
        said = ("[WideRMSNorm] input x: got (2, 5, 21), whose dimension 2 holds 3 models side by side, expected [3, B, ...]; "
                "try nw.pack(x.chunk(3, 2)), and nw.unpack of the result")
        self.refused(said, wide, torch.randn(2, 5, 21))
        with torch.no_grad():
            wide(torch.randn(3, 2, 5, 7))
        self.refused(said, wide, torch.randn(2, 5, 21))
        self.refused(said.replace("(2,", "(3,"), wide, torch.randn(3, 5, 21))  # as many samples as models
        images = WideConv2d.from_modules([nn.Conv2d(3, 5, 3) for _ in range(2)])
        self.refused("[WideConv2d] input input: got (4, 6, 8, 8), whose dimension 1 holds 2 models side by side",
                     images, torch.randn(4, 6, 8, 8))
        self.refused("[run] input x: got (2, 5, 22), expected 3 models in dimension 0; try nw.pack",
                     WideRMSNorm.from_modules(norms(3)), torch.randn(2, 5, 22))
        masks = nw.from_modules([nn.Dropout(0.5) for _ in range(2)], "one_pass")  # takes any sizes
        self.refused("[dropout/one_pass]", masks, torch.randn(2, 4, 6).double())

    def test_positions(self):
        self.refused("[WideMLP] rope: got one, expected none, since forward of MLP has no argument rope; "
                     "try modules whose forward takes rope=None", WideMLP.from_modules([MLP(), MLP()]),
                     torch.randn(2, 3, 5), rope=torch.randn(3, 5))
        wide = WideAttention.from_modules([Rotated(), Rotated()])
        for shape in ((3,), (3, 5, 6), (2, 1, 5, 6)):
            self.refused(f"[WideAttention] rope: got {shape}, expected [T, head_dim] for all models, or [2, T, head_dim]; "
                         "try rope[0]", wide, torch.randn(2, 3, 5, 6), rope=torch.randn(shape))


if __name__ == "__main__":
    unittest.main()
