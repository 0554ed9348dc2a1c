"""WideCompiler's classes of single layers and blocks: each held against a loop of the separate modules in float64."""

import package

package.enter()

import copy  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import subprocess  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.wide_compiler.core import blocks, primitives  # noqa: E402


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_layer, self.out_layer = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        return self.out_layer(functional.silu(self.in_layer(x)))


class Modulation(nn.Module):
    """Adaptive layer norm: the normalised input, scaled and shifted by a conditioning, and a gate."""

    def __init__(self, d, e):
        super().__init__()
        self.linear, self.norm = nn.Linear(e, 3 * d), nn.LayerNorm(d, eps=1e-6, elementwise_affine=False)

    def forward(self, x, emb):
        shift, scale, gate = self.linear(functional.silu(emb)).chunk(3, dim=-1)
        return self.norm(x) * (1 + scale[:, None]) + shift[:, None], gate


def rotate(x, rope):
    if rope is None:
        return x
    even, odd = x[..., 0::2], x[..., 1::2]
    return x * rope.cos() + torch.stack([-odd, even], -1).flatten(-2) * rope.sin()


def attend(parts, h, rope):
    q, k, v = (t.unflatten(-1, (h, -1)).transpose(1, 2) for t in parts)
    return functional.scaled_dot_product_attention(rotate(q, rope), rotate(k, rope), v).transpose(1, 2).flatten(-2)


class Attention(nn.Module):
    def __init__(self, d=12, h=3):
        super().__init__()
        self.h, self.qkv, self.out = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, rope=None):
        return self.out(attend(self.qkv(x).chunk(3, -1), self.h, rope))


class Joint(nn.Module):
    def __init__(self, d=12, h=3):
        super().__init__()
        self.h = h
        self.qkv, self.out = (nn.ModuleList([nn.Linear(d, wide) for _ in range(2)]) for wide in (3 * d, d))

    def forward(self, text, image, rope=None):
        parts = [layer(x).chunk(3, -1) for layer, x in zip(self.qkv, (text, image))]
        y = attend([torch.cat(pair, 1) for pair in zip(*parts)], self.h, rope)
        return self.out[0](y[:, :text.shape[1]]), self.out[1](y[:, text.shape[1]:])


class MLP(nn.Module):
    def __init__(self, d=5):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Double(nn.Module):
    def __init__(self, d=12, h=3):
        super().__init__()
        self.attention = Joint(d, h)
        self.before, self.after, self.mlp = (
            nn.ModuleList([make(d) for _ in range(2)]) for make in (nn.LayerNorm, nn.LayerNorm, MLP))

    def forward(self, text, image, rope=None):
        attended = self.attention(self.before[0](text), self.before[1](image), rope=rope)
        return tuple(x + y + mlp(norm(x + y)) for x, y, norm, mlp in zip((text, image), attended, self.after, self.mlp))


class Single(nn.Module):
    def __init__(self, d=12, h=3):
        super().__init__()
        self.modulation, self.attention, self.mlp = Modulation(d, 7), Attention(d, h), MLP(d)

    def forward(self, x, emb, rope=None):
        y, gate = self.modulation(x, emb)
        return x + gate[:, None] * (self.attention(y, rope) + self.mlp(y))


class Products(nn.Module):
    """Attention written out in products, as in `naive_attention`."""

    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(5))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(5, 5) for _ in range(3))

    def forward(self, x):
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.products = Three(), nn.Linear(5, 5), Products()

    def forward(self, x):
        return self.out(self.products(*self.qkv(x).chunk(3, -1)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.mlp, self.norms = Heads(), MLP(), nn.ModuleList([Normalised(), Normalised()])

    def forward(self, x):
        x = x + self.heads(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


def attention(d=6):
    return nn.MultiheadAttention(d, 3, batch_first=True)


def on_itself(module, x):
    return module(x, x, x, need_weights=False)[0]


def on_other(module, x, context):
    return module(x, context, context, need_weights=False)[0]


def states_in_a_row(module, x):
    y, state = module(x)
    return y, *(s[0] for s in (state if isinstance(state, tuple) else (state,)))


def plain(module, *inputs, **more):
    return module(*inputs, **more)


# Class, one module, shapes of one model's inputs (None: indices of an embedding), WideCompiler's strategies, and how a
# separate module is called.
PRIMITIVES = [
    ("WideLinear", lambda: nn.Linear(5, 7), [(2, 3, 5)], ["einsum"], plain),
    ("WideMLPEmbedder", Embedder, [(3, 5)], ["fused"], plain),
    ("WideEmbedding", lambda: nn.Embedding(11, 5), [None], ["indexed", "gather"], plain),
    ("WideConv1d", lambda: nn.Conv1d(3, 5, 3, padding=1), [(2, 3, 7)], ["grouped"], plain),
    ("WideConv2d", lambda: nn.Conv2d(3, 5, 3), [(2, 3, 7, 5)], ["grouped", "channels_last"], plain),
    ("WideConv3d", lambda: nn.Conv3d(3, 2, 3), [(2, 3, 5, 4, 3)], ["grouped"], plain),
    ("WideConvTranspose1d", lambda: nn.ConvTranspose1d(3, 5, 4, 2, 1), [(2, 3, 7)], ["grouped"], plain),
    ("WideConvTranspose2d", lambda: nn.ConvTranspose2d(3, 5, 4, 2, 1), [(2, 3, 5, 3)], ["grouped", "channels_last"], plain),
    ("WideBatchNorm1d", lambda: nn.BatchNorm1d(3), [(5, 3)], ["wide"], plain),
    ("WideBatchNorm2d", lambda: nn.BatchNorm2d(3), [(2, 3, 5, 7)], ["wide"], plain),
    ("WideBatchNorm3d", lambda: nn.BatchNorm3d(3), [(2, 3, 5, 2, 3)], ["wide"], plain),
    ("WideLayerNorm", lambda: nn.LayerNorm(7), [(2, 3, 7)], ["wide"], plain),
    ("WideRMSNorm", lambda: nn.RMSNorm(7), [(2, 3, 7)], ["batched"], plain),
    ("WideGroupNorm", lambda: nn.GroupNorm(3, 9), [(2, 9, 5, 3)], ["fused"], plain),
    ("WideInstanceNorm2d", lambda: nn.InstanceNorm2d(3, affine=True), [(2, 3, 5, 7)], ["fused"], plain),
    ("WideAdaLayerNormZeroSingle", lambda: Modulation(7, 5), [(2, 3, 7), (2, 5)], ["fused"], plain),
    ("WideAttention", attention, [(2, 5, 6)], ["fused"], on_itself),
    ("WideMultiheadCrossAttention", attention, [(2, 5, 6), (2, 7, 6)], ["fused"], on_other),
    ("WideGRU", lambda: nn.GRU(5, 7, batch_first=True), [(2, 3, 5)], ["fused"], states_in_a_row),
    ("WideLSTM", lambda: nn.LSTM(5, 7, batch_first=True), [(2, 3, 5)], ["fused"], states_in_a_row),
    ("WideRNN", lambda: nn.RNN(5, 7, batch_first=True), [(2, 3, 5)], ["fused"], states_in_a_row),
    ("WidePReLU", lambda: nn.PReLU(3), [(2, 3, 5)], ["wide"], plain),
    ("WideDropout", lambda: nn.Dropout(0.5), [(2, 3, 5)], ["independent", "shared"], plain),
    ("WideAdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((3, 1)), [(2, 3, 7, 5)], ["batched"], plain),
]
BLOCKS = [
    ("WideMLP", MLP, [(2, 3, 5)], ["fused"], plain),
    ("WideAttention", Attention, [(2, 5, 12)], ["fused"], plain),
    ("WideJointAttention", Joint, [(2, 3, 12), (2, 5, 12)], ["fused"], plain),
    ("WideDoubleStreamBlock", Double, [(2, 3, 12), (2, 5, 12)], ["fused"], plain),
    ("WideSingleStreamBlock", Single, [(2, 5, 12), (2, 7)], ["fused"], plain),
    ("WideNaiveAttention", Products, [(2, 5, 3)] * 3, ["fused"], plain),
    ("WideNaiveBlock", Block, [(2, 3, 5)], [], plain),
    ("WideNaiveLayerNorm", Normalised, [(2, 3, 5)], [], plain),
    ("WideNaiveLinears", Three, [(2, 3, 5)], [], plain),
    ("WideNaiveMHA", Heads, [(2, 3, 5)], [], plain),
]


def drawn(make, n):
    """N modules whose tensors all differ, in eval mode."""
    modules = [make().eval() for _ in range(n)]
    with torch.no_grad():
        for module in modules:
            for name, t in [*module.named_parameters(), *module.named_buffers()]:
                if t.is_floating_point():
                    t.copy_(torch.rand_like(t) + 0.5 if "running_var" in name else torch.randn_like(t) * 0.5)
    return modules


def inputs_for(shapes, n):
    return [torch.randint(0, 11, (n, 2, 3)) if shape is None else torch.randn(n, *shape) for shape in shapes]


def tensors(results):
    return results if isinstance(results, (tuple, list)) else (results,)


def double(t):
    return t.double() if torch.is_tensor(t) and t.is_floating_point() else t


class Close(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def right(self, wide, modules, inputs, call=plain, **more):
        """Against the separate modules in float64; keyword arguments are the same for all."""
        with torch.no_grad():
            got = tensors(wide(*inputs, **more))
            each = [tensors(call(copy.deepcopy(m).double(), *(double(x[i]) for x in inputs),
                                 **{name: double(t) for name, t in more.items()})) for i, m in enumerate(modules)]
        self.assertEqual(len(got), len(each[0]))
        for k, y in enumerate(got):
            expected = torch.stack([one[k] for one in each])
            self.assertEqual(y.shape, expected.shape)
            self.assertLess(float((y.double() - expected).abs().max() / expected.abs().max()), 1e-4)


class Classes(Close):
    def every(self, module, rows):
        for name, make, shapes, strategies, call in rows:
            kind = getattr(module, name)
            for n in (1, 3):
                modules, inputs = drawn(make, n), inputs_for(shapes, n)
                for strategy in [None, "auto", "sequential", "vmap", *strategies]:
                    with self.subTest(name, n=n, strategy=strategy):
                        wide = kind.from_modules(modules, strategy=strategy, options=nw.Options(tune=False))
                        self.right(wide, modules, inputs, call)
                        self.assertEqual(wide.strategy, {None: "auto", "sequential": "per_model"}.get(strategy, strategy))
                        self.assertIn(f"{name}({n} x {type(modules[0]).__name__}", repr(wide))
                        self.assertIn(f"strategy={wide.strategy})", repr(wide))

    def test_primitives(self):
        self.every(primitives, PRIMITIVES)

    def test_blocks(self):
        self.every(blocks, BLOCKS)

    def test_one_for_each_registered_target(self):
        for kind, module, rows in (("primitives", primitives, PRIMITIVES), ("blocks", blocks, BLOCKS)):
            said = subprocess.run([os.environ["WORKBENCH_BINARY"], "list", kind, "--json"], capture_output=True, text=True,
                                  check=True)
            listed = [row["name"] for row in json.loads(said.stdout)[kind]]
            self.assertEqual(sorted(getattr(module, name).target for name in module.__all__), sorted(listed))
            self.assertEqual({row[0] for row in rows}, set(module.__all__))

    def test_asked_strategies_are_what_runs(self):
        for module, rows in ((primitives, PRIMITIVES), (blocks, BLOCKS)):
            for name, make, shapes, strategies, _ in rows:
                for strategy in strategies:
                    modules, inputs = drawn(make, 3), inputs_for(shapes, 3)
                    for m in modules:
                        m.train(name == "WideDropout")
                    kind = getattr(module, name)
                    wide = kind.from_modules(modules, strategy=strategy, options=nw.Options(tune=False))
                    with torch.no_grad():
                        wide(*inputs)
                    used = {row["primitive"]: row["strategy"] for row in wide.coverage}
                    forced = nw.layers.TARGETS[kind.target].forced[strategy]
                    with self.subTest(name, strategy=strategy):
                        self.assertTrue(any(used.get(primitive) == way for primitive, way in forced.items()), wide.coverage)


class AsInTheReadme(Close):
    """Lines of WideCompiler 0.7's README, the import and the device changed."""

    def test_primitives(self):
        from nwide.wide_compiler.core.primitives import WideLinear, WideRMSNorm

        norms = drawn(lambda: torch.nn.RMSNorm(256), 8)
        wide_norm = WideRMSNorm.from_modules(norms, strategy="batched")
        x = torch.randn(8, 4, 128, 256)
        out = wide_norm(x)
        self.assertEqual(out.shape, (8, 4, 128, 256))
        self.right(wide_norm, norms, [x])
        layers = drawn(lambda: torch.nn.Linear(256, 33), 8)
        self.right(WideLinear.from_modules(layers, strategy="einsum"), layers, [x])

    def test_blocks(self):
        from nwide.wide_compiler.core.blocks import WideAttention, WideMLP

        mlps = drawn(lambda: MLP(256), 8)
        wide_mlp = WideMLP.from_modules(mlps, strategy="fused")
        x = torch.randn(8, 4, 128, 256)
        self.assertEqual(wide_mlp(x).shape, (8, 4, 128, 256))
        self.right(wide_mlp, mlps, [x[:, :1, :9]])
        attns = drawn(lambda: Attention(256, 4), 8)
        for attn in attns:
            for p in attn.parameters():
                p.data *= 0.1
        wide_attn = WideAttention.from_modules(attns, strategy="fused")
        rope = torch.randn(128, 64)
        out = wide_attn(x, rope=rope)
        self.assertEqual(out.shape, (8, 4, 128, 256))
        self.right(wide_attn, attns, [x[:, :1]], rope=rope)
        self.right(wide_attn, attns, [x[:, :1]])

    def test_two_streams(self):
        from nwide.wide_compiler.core.blocks import WideDoubleStreamBlock

        streams = drawn(lambda: Double(256, 2), 2)
        for stream in streams:
            for p in stream.parameters():
                p.data *= 0.1
        wide_block = WideDoubleStreamBlock.from_modules(streams, strategy="fused")
        txt = torch.randn(2, 4, 64, 256)
        img = torch.randn(2, 4, 256, 256)
        rope = torch.randn(320, 128)
        txt_out, img_out = wide_block(txt, img, rope=rope)
        self.assertEqual((txt_out.shape, img_out.shape), (txt.shape, img.shape))
        self.right(wide_block, streams, [txt[:, :1], img[:, :1]], rope=rope)


class Calls(Close):
    def test_positions_of_their_own(self):
        """`rope` may have N in front: then every model has its own."""
        modules = drawn(Attention, 3)
        x, rope = torch.randn(3, 2, 5, 12), torch.randn(3, 5, 4)
        wide = blocks.WideAttention.from_modules(modules, "fused")
        with torch.no_grad():
            for got in (wide(x, rope=rope), wide(x, rope)):
                for y, m, one, r in zip(got, modules, x, rope):
                    torch.testing.assert_close(y, m.double()(one.double(), rope=r.double()).float(), rtol=1e-4, atol=1e-5)
                    m.float()

    def test_states(self):
        """Recurrent layers take and give states in a row, whatever they have of layers and directions."""
        for name, kind, count in (("WideLSTM", nn.LSTM, 2), ("WideGRU", nn.GRU, 1)):
            for layers, both in ((1, False), (2, True)):
                modules = drawn(lambda: kind(5, 7, layers, batch_first=True, bidirectional=both), 3)
                wide = getattr(primitives, name).from_modules(modules, "fused")
                x = torch.randn(3, 2, 4, 5)
                before = [torch.randn(3, *(() if layers == 1 else (4,)), 2, 7) for _ in range(count)]

                def call(module, x, *state):
                    state = tuple(s[None] if layers == 1 else s for s in state)
                    y, state = module(x, state if count == 2 else state[0])
                    return y, *(s[0] if layers == 1 else s for s in (state if count == 2 else (state,)))

                self.right(wide, modules, [x, *before], call)

    def test_statistics_in_training(self):
        modules, x = drawn(lambda: nn.BatchNorm2d(3), 3), torch.randn(3, 2, 3, 5, 7)
        for m in modules:
            m.train()
        wide = primitives.WideBatchNorm2d.from_modules(modules, strategy="wide")
        self.right(wide, modules, [x])
        for i, (m, one) in enumerate(zip(modules, x)):
            m(one)
            torch.testing.assert_close(wide[i].state_dict()["running_var"], m.running_var)

    def test_masks(self):
        modules, x = [nn.Dropout(0.5) for _ in range(3)], torch.ones(3, 7, 501)
        for strategy, same in (("independent", False), ("sequential", False), ("shared", True)):
            y = primitives.WideDropout.from_modules(modules, strategy)(x)
            self.assertEqual(torch.equal(y[0], y[1]), same)
            self.assertLess(abs(float((y == 0).float().mean()) - 0.5), 0.05)

    def test_models_come_out_as_they_went_in(self):
        modules = drawn(attention, 3)
        wide = primitives.WideAttention.from_modules(modules)
        x = torch.randn(3, 2, 5, 6)
        self.assertEqual(list(wide.state_dict()), list(modules[0].state_dict()))
        self.assertNotIn("forward", vars(modules[0]))
        with torch.no_grad():
            one = wide[1].module()
            torch.testing.assert_close(on_itself(one, x[1]), on_itself(modules[1], x[1]))
            for twin in (copy.deepcopy(wide), pickle.loads(pickle.dumps(wide))):
                torch.testing.assert_close(twin(x), wide(x))
        self.assertTrue(wide.validate())


if __name__ == "__main__":
    unittest.main()
