"""Exports of training keep the batch dynamic where the network's was.

PyTorch alone runs each export with batches of other sizes than the run's; the answers must be those of the checkpoints
in float64.
"""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import digits
from train_command import Train

ROWS = torch.Generator().manual_seed(5)


class Mlp(nn.Module):
    shape = (3, 4)

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x.flatten(1))))


class Cnn(nn.Module):
    shape = (2, 9, 8)

    def __init__(self):
        super().__init__()
        self.c, self.n, self.d = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 5, 3, stride=2)
        self.f = nn.Linear(5, 3)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.n(self.c(x))), 2)
        return self.f(nn.functional.adaptive_avg_pool2d(self.d(x), 1).flatten(1))


class Block(nn.Module):
    """A transformer's block, with shapes that multiply the batch by something."""
    shape = (24,)

    def __init__(self):
        super().__init__()
        self.e, self.a, self.n = nn.Linear(6, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)
        self.position, self.f = nn.Parameter(torch.randn(4, 8) / 4), nn.Linear(8, 3)

    def forward(self, x):
        b = x.shape[0]
        h = self.e(x.reshape(b * 4, 6)).view(b, 4, 8) + self.position
        h = self.n(h + self.a(h, h, h, need_weights=False)[0])
        q = h.view(b, 4, 2, 4).transpose(1, 2)
        h = h + nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(b, 4, 8)
        return self.f(h.mean(1))


class Lstm(nn.Module):
    shape = (24,)

    def __init__(self):
        super().__init__()
        self.r, self.f = nn.LSTM(6, 7, batch_first=True, bidirectional=True), nn.Linear(14, 3)

    def forward(self, x):
        return self.f(self.r(x.reshape(x.shape[0], 4, 6))[0][:, -1])


class OneMore(nn.Module):
    """Joins a row of its own to the batch and takes it off again: sizes of the form B + 1 and 2 B + 2."""
    shape = (5,)

    def __init__(self):
        super().__init__()
        self.row, self.f = nn.Parameter(torch.randn(1, 5)), nn.Linear(5, 3)

    def forward(self, x):
        rows = torch.cat([x, self.row])
        twice = torch.cat([rows, rows]).view(2, x.shape[0] + 1, 5)
        return self.f(twice.sum(0).narrow(0, 0, x.shape[0]))


class Dynamic(Train):
    def run_of(self, network, *arguments, batch=torch.export.Dim("batch", min=1)):
        """Trains three models, exports them; returns the models in float64 and what was printed."""
        x, y = torch.randn(50, *network.shape), torch.randint(0, 3, (50,))
        numpy.savez(self.path("data.npz"), x=x.numpy(), y=y.numpy())
        program = torch.export.export(network().eval(), (x[:3],), dynamic_shapes=({0: batch} if batch else None,))
        torch.export.save(program, self.path("net.pt2"))
        models = [network().eval() for _ in range(3)]
        starts = [self.path(f"w{i}.safetensors") for i in range(3)]
        for model, start in zip(models, starts):
            save_file(model.state_dict(), start)
        done = self.train("--weights", *starts, "--lr", "0.01,0.02,0.03", "--epochs", "1", "--validation", "0.2", "--check", "0",
                          "--overwrite", "--export", self.path("wide.pt2"), "--export", self.path("wide.ts"), *arguments)
        for i, model in enumerate(models):
            model.load_state_dict(load_file(self.path(f"run/best/model-{i:04d}.safetensors")))
        return [model.double() for model in models], done.stdout

    def forms(self):
        return torch.export.load(self.path("wide.pt2")).module(), torch.jit.load(self.path("wide.ts"))

    def agree(self, models, sizes, forms, normal=lambda x: x):
        for size in sizes:
            x = torch.randn(3, size, *models[0].shape, generator=ROWS)
            with torch.no_grad():
                expected = torch.stack([model(normal(rows).double()) for model, rows in zip(models, x)])
                for form in forms:
                    got = form(x)
                    self.assertEqual(got.shape, expected.shape)
                    self.assertLess((got - expected).abs().max() / expected.abs().max(), 1e-4, size)

    def test_networks(self):
        for network in (Mlp, Cnn, Block, Lstm, OneMore):
            with self.subTest(network=network.__name__):
                models, told = self.run_of(network, "--batch", "16")
                self.assertIn("3 models in evaluation, any batch", told)
                self.agree(models, (1, 2, 7, 33), self.forms())

    def test_normalised_rows_and_batches_of_one(self):
        models, told = self.run_of(Cnn, "--normalize", "x=standard", "--batch", "1")
        self.assertIn("any batch", told)
        forms = self.forms()
        mean, std = (forms[0].state_dict()[f"normalize.{what}.x"][0] for what in ("mean", "std"))
        self.assertTrue((std != 1).all())
        self.agree(models, (1, 2, 7, 33), forms, lambda x: ((x - mean) / std).float())

    def test_the_range_of_the_network_is_kept(self):
        models, told = self.run_of(Mlp, "--batch", "8", batch=torch.export.Dim("batch", min=3, max=40))
        self.assertIn("batches of 3 to 40", told)
        program = self.forms()[0]
        self.agree(models, (3, 40), [program])
        for size in (2, 41):
            with self.assertRaises(Exception):
                program(torch.randn(3, size, *Mlp.shape))

    def test_a_fixed_batch_stays_fixed(self):
        models, told = self.run_of(Mlp, batch=None)
        self.assertIn("3 models in evaluation, batches of 3\n", told)
        program = self.forms()[0]
        self.agree(models, (3,), [program])
        with self.assertRaises(Exception):
            program(torch.randn(3, 4, *Mlp.shape))

    def test_what_a_program_cannot_follow_is_said(self):
        """Every row times every other: a size that grows with the square of the batch."""
        class Pairs(Mlp):
            def forward(self, x):
                rows = x.flatten(1)
                return super().forward(x) + (rows @ rows.T).flatten().amax()
        models, told = self.run_of(Pairs, "--batch", "4")
        self.assertRegex(told, r"batches of 4 alone: argument \w+ of aten::\w+ is 16, 49, 121 in batches of 4, 7, 11\n")
        program = self.forms()[0]
        self.agree(models, (4,), [program])
        with self.assertRaises(Exception):
            program(torch.randn(3, 5, *Pairs.shape))

    def test_workbench_reads_what_it_wrote(self):
        self.run_of(Block, "--batch", "16")
        for size in (1, 5):
            x = torch.randn(2, 3, size, *Block.shape)
            save_file({"x": x}, self.path("x.safetensors"))
            self.workbench("fuse", self.path("wide.pt2"), "-n", "2", "--inputs", self.path("x.safetensors"), "--no-store",
                           "--budget", "0.02", "--quiet", "--outputs", self.path("y.safetensors"))
            (y,) = load_file(self.path("y.safetensors")).values()
            self.assertEqual(y.shape, (2, 3, size, 3))


if __name__ == "__main__":
    unittest.main()
