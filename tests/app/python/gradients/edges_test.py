"""Where operators have a case of their own: queries without any key, a single image, transposed rows, rows that are ignored.

Against separate models in float64, in all strategies that apply."""

import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import tempfile  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x, mask):
        q, k, v = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, mask)


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, padding):
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


class Permuted(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.norm(x).permute(0, 2, 3, 1))


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4, affine=False, track_running_stats=False)

    def forward(self, x):
        return self.norm(self.layer(x).transpose(1, 2))


class Volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm3d(3), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.norm(x).movedim(1, -1))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        h = self.layer(x)
        return torch.cat([h[:, :1].masked_fill(x[:, :1] < -0.5, -torch.inf), h[:, 1:]], 1)


class Edges(unittest.TestCase):
    def check(self, model, *inputs, strategies=({},)):
        """Outputs, and gradients of parameters and real inputs; `inputs`: [N, ...]."""
        for n in (1, len(inputs[0])):
            for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-4)):
                for forced in strategies:
                    for tune in (False, True):
                        with self.subTest(n=n, dtype=dtype, forced=forced, tune=tune):
                            self.check_one(model, n, dtype, tolerance, nw.Options(tune=tune, threads=1, strategies=forced), inputs)

    def check_one(self, model, n, dtype, tolerance, options, inputs):
        torch.manual_seed(1)
        models = [model().to(dtype) for _ in range(n)]
        exact = copy.deepcopy(models)
        inputs = [t[:n].to(dtype) if t.is_floating_point() else t[:n] for t in inputs]
        wide = nw.compile(models, options=options)
        for passes in range(2):
            own = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs]
            y = wide(*own)
            twice = [t.detach().double().requires_grad_() if t.is_floating_point() else t for t in inputs]
            expected = torch.stack([m.double()(*arguments) for m, *arguments in zip(exact, *twice)])
            self.close(y, expected, tolerance)
            along = torch.randn(expected.shape, dtype=torch.float64)
            for m in exact:
                m.zero_grad()
            wide.zero_grad()
            y.backward(along.to(dtype))
            expected.backward(along)
            for a, b in zip(own, twice):
                if a.is_floating_point():
                    self.close(a.grad, b.grad, tolerance)
            for name, p in wide.named_parameters():
                self.close(p.grad, torch.stack([m.get_parameter(name).grad for m in exact]), tolerance)
            with torch.no_grad():
                if not any(name.endswith("running_mean") for name, _ in wide.named_buffers()):
                    self.close(wide(*inputs), expected, tolerance)

    def close(self, got, expected, tolerance):
        got, expected = got.detach(), expected.detach()
        self.assertEqual(got.shape, expected.shape)
        self.assertFalse(expected.isnan().any())
        self.assertLess(float((got.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-3)), tolerance)

    def test_queries_without_keys_are_0(self):
        x, keep = torch.randn(3, 2, 5, 8), torch.rand(3, 2, 1, 5, 5) > 0.3
        keep[..., 0] = True
        keep[..., -1, :] = False
        added = torch.zeros(keep.shape).masked_fill(~keep, -torch.inf)
        ways = ({}, {"attention": "math"}, {"attention": "fused"})
        self.check(Attention, x, keep, strategies=ways)
        padding = torch.zeros(3, 2, 5, dtype=torch.bool)
        padding[:, 1] = True
        padding[0, 0, 3:] = True
        self.check(Padded, x, padding, strategies=ways)
        # Masks of numbers are inputs without a gradient, as -inf has none.
        models = [Attention() for _ in range(3)]
        for way in (*ways, {"attention": "packed"}):
            wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False, strategies=way))
            with torch.no_grad():
                self.close(wide(x, added), torch.stack([m(a, b) for m, a, b in zip(models, x, added)]).double(), 1e-4)
                self.close(wide(x, keep), torch.stack([m(a, b) for m, a, b in zip(models, x, keep)]).double(), 1e-4)

    def test_batch_norm_of_one_image(self):
        self.check(Permuted, torch.randn(3, 1, 4, 7, 6), strategies=({}, {"batchnorm2d": "wide"}))
        self.check(Volume, torch.randn(2, 1, 3, 2, 4, 5), strategies=({}, {"batchnorm3d": "wide"}))

    def test_batch_norm_of_transposed_rows(self):
        self.check(Transposed, torch.randn(3, 3, 5, 4), strategies=({}, {"batchnorm1d": "wide"}))

    def test_embeddings_by_frequency_and_with_padding(self):
        ids = torch.randint(7, (3, 4, 6))
        for padding in (None, 0, 3):
            with self.subTest(padding=padding):
                self.check(lambda padding=padding: nn.Embedding(7, 5, padding_idx=padding, scale_grad_by_freq=True), ids)

    def test_training_takes_ignored_rows_whose_logits_are_infinite(self):
        """Ignored rows count as class 0, which their logits exclude."""
        x, y = torch.randn(53, 5).double(), torch.randint(3, (53,))
        excluded = x[:, 0] < -0.5
        y[excluded & (y == 0)] = 1
        y[:20] = -100
        self.assertTrue(excluded[:20].any())
        models = [Masked().double() for _ in range(2)]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = nw.train(copy.deepcopy(models), data=(x, y), loss="cross_entropy", optimizer="sgd", lr=[0.1, 0.5], epochs=4, batch=53,
                       order="sequential", quiet=True, no_store=True, save=os.path.join(folder.name, "run"))
        self.assertEqual(list(run.table["status"]), ["trained"] * 2)
        for model, trained, lr in zip(models, run.models, (0.1, 0.5)):
            optimizer = torch.optim.SGD(model.parameters(), lr=lr)
            for _ in range(4):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            for name, p in trained.named_parameters():
                self.close(p.detach(), model.get_parameter(name).detach(), 1e-9)


if __name__ == "__main__":
    unittest.main()
