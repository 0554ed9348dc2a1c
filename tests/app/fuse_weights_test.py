"""Checkpoints in, ensembles and checkpoints out, and refusals, from the command line.

The oracle is PyTorch: the same networks in float64 there, the same files read by its own readers.
"""
import copy
import glob
import json
import os
import sqlite3
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


class Net(nn.Module):
    """Batch norm, tied weights, and a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(7, 7)
        self.norm = nn.BatchNorm1d(7)
        self.outer = nn.Linear(7, 7)
        self.outer.weight = self.inner.weight
        self.head = nn.Linear(7, 5)
        self.register_buffer("scale", torch.full((1,), 0.5), persistent=False)

    def forward(self, x):
        return self.head(self.outer(torch.relu(self.norm(self.inner(x)))) * self.scale)


class Heads(nn.Module):
    """A backbone that is worth sharing, and a small head."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(256, 256), nn.ReLU())])
        self.head = nn.Linear(256, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


class FuseWeights(CommandLine):
    def prepare(self, make=Net, n=3, batch=4, width=7):
        self.models = [randomised(make, i) for i in range(n)]
        torch.manual_seed(99)
        self.x = torch.randn(n, batch, width)
        torch.jit.trace(copy.deepcopy(self.models[0]), self.x[0]).save(self.path("net.ts"))
        save_file({"x": self.x}, self.path("x.safetensors"))
        with torch.no_grad():
            self.expected = torch.stack([copy.deepcopy(m).double()(x.double())
                                         for m, x in zip(self.models, self.x)])

    def fuse(self, weights, *more, expect=0):
        run = self.workbench("fuse", self.path("net.ts"), "--weights", *weights, "--inputs",
                          self.path("x.safetensors"), "--outputs", self.path("y.safetensors"),
                          "--json", self.path("out.json"), "--budget", "0.02", "--no-store", *more,
                          expect=expect)
        with open(self.path("out.json")) as file:
            report = json.load(file)
        return load_file(self.path("y.safetensors"))["output.0"], report, run.stdout

    def near(self, got, expected, tolerance=1e-5):
        self.assertEqual(got.shape, expected.shape)
        error = (got.double() - expected).abs().max() / expected.abs().max()
        self.assertLess(float(error), tolerance)

    def test_torch_checkpoints_of_training(self):
        self.prepare()
        for i, net in enumerate(self.models):
            state = {"module." + k: v for k, v in net.state_dict().items()
                     if k not in ("outer.weight", "norm.num_batches_tracked")}
            torch.save({"epoch": i, "state_dict": state}, self.path(f"seed{i}.pt"),
                       _use_new_zipfile_serialization=i != 1)
        got, report, text = self.fuse([self.path("seed*.pt")])
        self.near(got, self.expected)
        notes = "\n".join(report["notes"])
        for said in ("3 checkpoints taken (seed0.pt .. seed2.pt)", "taken from 'state_dict'",
                     "prefix 'module.' dropped", "are tied: one is in the checkpoint",
                     "missing in all checkpoints"):
            self.assertIn(said, notes)
        self.assertEqual(report["weights"]["checkpoints"], 3)
        self.assertIn("3 checkpoints of", text)

    def test_checkpoints_that_a_frozen_network_cannot_use(self):
        self.prepare()
        torch.jit.freeze(torch.jit.load(self.path("net.ts")).eval()).save(self.path("net.ts"))
        for i, net in enumerate(self.models):
            torch.save(net.state_dict(), self.path(f"w{i}.pt"))
        refused = self.workbench("fuse", self.path("net.ts"), "--weights", self.path("w*.pt"), "--input", "x=4x7",
                                 "--no-store", expect=2).stderr
        self.assertRegex(refused, r"\[.*w0.pt\] tensors: got none that the network has, expected its 0 weights; "
                                  "try an export that was not frozen")
        said = self.workbench("fuse", self.path("net.ts"), "-n", "3", "--input", "x=4x7", "--no-store").stdout
        self.assertIn("no weights that models could differ in", said)

    def test_saved_buffers_of_other_names_are_not_taken_from_the_network(self):
        class Normalised(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = nn.Linear(7, 5)
                self.register_buffer("mean", torch.zeros(7))
                self.register_buffer("std", torch.ones(7))

            def forward(self, x):
                return self.l((x - self.mean) / self.std.abs().add(1))

        self.prepare(Normalised)
        torch.export.save(torch.export.export(self.models[0], (self.x[0],)), self.path("net.pt2"))
        for i, net in enumerate(self.models):
            state = {k.replace("mean", "mu").replace("std", "sigma"): v for k, v in net.state_dict().items()}
            torch.save(state, self.path(f"w{i}.pt"))
        for net in ("net.pt2", "net.ts"):
            refused = self.workbench("fuse", self.path(net), "--weights", self.path("w*.pt"), "--input", "x=4x7",
                                     "--no-store", expect=2).stderr
            self.assertRegex(refused, r"tensors: got none for mean, std \(but mu, sigma\), expected all 4")
        for i, net in enumerate(self.models):
            torch.save({k: v for k, v in net.state_dict().items() if k != "std"}, self.path(f"w{i}.pt"))
        self.assertIn("got none for std", self.workbench(
            "fuse", self.path("net.pt2"), "--weights", self.path("w*.pt"), "--input", "x=4x7", "--no-store",
            expect=2).stderr)

    def test_what_lies_beside_the_weights_is_no_buffer_of_another_name(self):
        class Rotary(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = nn.Linear(7, 5)
                self.register_buffer("inv_freq", torch.arange(7.0), persistent=False)

            def forward(self, x):
                return self.l(x * self.inv_freq)

        self.prepare(Rotary)
        for i, net in enumerate(self.models):
            optimizer = torch.optim.Adam(net.parameters())
            net(self.x[i]).sum().backward()
            optimizer.step()
            torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "best": torch.rand(7)},
                       self.path(f"w{i}.pt"))
        with torch.no_grad():
            expected = torch.stack([copy.deepcopy(m).double()(x.double()) for m, x in zip(self.models, self.x)])
        got, report, _ = self.fuse([self.path("w*.pt")])
        self.near(got, expected)
        self.assertIn("inv_freq is missing in all checkpoints", "\n".join(report["notes"]))

    def test_reduce(self):
        self.prepare(n=5)
        for i, net in enumerate(self.models):
            torch.save(net.state_dict(), self.path(f"w{i}.pt"))
        weights = [self.path("w*.pt")]
        got, report, _ = self.fuse(weights, "--reduce", "mean")
        self.near(got, self.expected.mean(0))
        self.assertEqual(report["reduce"], "mean")
        got, _, _ = self.fuse(weights, "--reduce", "std")
        self.near(got, self.expected.std(0))
        got, _, _ = self.fuse(weights, "--reduce", "vote")
        votes = nn.functional.one_hot(self.expected.argmax(-1), 5).sum(0)
        self.assertTrue(torch.equal(got, votes.argmax(-1)))
        error = self.workbench("fuse", self.path("net.ts"), "-n", "1", "--input", "x=4x7:f32",
                            "--reduce", "std", "--no-store", expect=2).stderr
        self.assertIn("[--reduce] std: got n=1, expected at least 2 models", error)

    def test_unstack_gives_the_networks_back(self):
        self.prepare(n=11)
        for i, net in enumerate(self.models):
            torch.save(net.state_dict(), self.path(f"w{i}.pt"))
        got, report, _ = self.fuse([self.path("w*.pt")], "--unstack", self.path("apart"))
        files = sorted(glob.glob(self.path("apart/*")))
        self.assertEqual([os.path.basename(f) for f in (files[0], files[-1])],
                         ["model-00.safetensors", "model-10.safetensors"])
        self.assertTrue(any("weights as they were given" in n for n in report["notes"]))
        for i, (file, net) in enumerate(zip(files, self.models)):
            state = load_file(file)
            for name, tensor in state.items():
                self.assertTrue(torch.equal(tensor, net.state_dict()[name]), name)
            fresh = randomised(Net, 1000)
            fresh.load_state_dict(state)  # strict: tied weights are there under both names
            with torch.no_grad():
                self.near(got[i], fresh.double()(self.x[i].double()))

    def test_a_shared_backbone_is_computed_once(self):
        self.prepare(Heads, n=6, batch=8, width=256)
        for i, net in enumerate(self.models):
            net.backbone = self.models[0].backbone
            save_file(net.state_dict(), self.path(f"w{i}.safetensors"))
        save_file({"x": self.x[0]}, self.path("x.safetensors"))
        with torch.no_grad():
            expected = torch.stack([copy.deepcopy(m).double()(self.x[0].double())
                                    for m in self.models])
        # One thread: waking others costs more than these layers, and more again beside other tests.
        shared_input = ("--shared-inputs", "x", "--explain", "--threads", "1")
        got, apart, text = self.fuse([self.path("w*.safetensors")], *shared_input)
        self.near(got, expected)
        backbone = sum(p.numel() * 4 for p in self.models[0].backbone.parameters())
        self.assertEqual(apart["weights"]["equal_bytes"], 5 * backbone)
        self.assertTrue(any("--share-weights would save" in n for n in apart["notes"]))
        self.assertEqual(apart["coverage"]["shared"], 0)
        got, shared, _ = self.fuse([self.path("w*.safetensors")], "--share-weights", *shared_input)
        self.near(got, expected)
        # Four linear layers and their activations once for all; the head alone for every model.
        self.assertGreaterEqual(shared["coverage"]["shared"], 8)
        steps = [s for s in shared["steps"] if "head" not in s["module"] and s["primitive"]]
        self.assertFalse(any("[6," in s["shape"] for s in steps), steps)
        self.assertLess(shared["memory"]["wide_bytes"], apart["memory"]["wide_bytes"] / 3)
        time = {name: r["median_ns"] for name, report in (("apart", apart), ("shared", shared))
                for r in report["results"] if r["kind"] == "candidate"}
        self.assertLess(time["shared"], time["apart"])

    def test_seeded_copies(self):
        self.prepare()
        self.workbench("fuse", self.path("net.ts"), "-n", "8", "--input", "x=4x7:f32", "--budget",
                    "0.02", "--no-store", "--unstack", self.path("copies"), "--quiet")
        copies = [load_file(f) for f in sorted(glob.glob(self.path("copies/*")))]
        self.assertEqual(len(copies), 8)
        own = self.models[0].state_dict()
        for name in copies[0]:
            values = torch.stack([c[name].double() for c in copies])
            if not own.get(name, torch.zeros(1)).is_floating_point():
                continue
            for i in range(8):
                for j in range(i):
                    self.assertFalse(torch.equal(values[i], values[j]), name)
            if name.endswith("running_var"):
                self.assertGreater(float(values.min()), 0)
            if name in own and own[name].numel() > 20:
                self.assertLess(abs(float(values.mean() - own[name].mean())), 0.1)
                self.assertLess(abs(float(values.std() / own[name].std()) - 1), 0.2)

    def test_curve(self):
        self.prepare()
        report = self.path("curve.json")
        text = self.workbench("fuse", self.path("net.ts"), "-n", "1,2,4", "--input", "x=4x7:f32",
                           "--budget", "0.02", "--db", self.path("r.db"), "--json", report).stdout
        with open(report) as file:
            curve = json.load(file)
        along = curve["along_n"]
        rates = {p["n"]: 1e9 * p["n"] / r["median_ns"] for p in curve["curve"]
                 for r in p["results"] if r["kind"] == "candidate"}
        self.assertEqual(along["best_n"], max(rates, key=rates.get))
        self.assertAlmostEqual(along["models_per_s"] / max(rates.values()), 1, 6)
        self.assertIn(along["crossover"], (None, 1, 2, 4))
        self.assertGreater(curve["largest_n"], 1000)
        for line in ("largest n", "faster from", "most "):
            self.assertIn(line, text)
        with sqlite3.connect(self.path("r.db")) as store:
            more = json.loads(store.execute("SELECT more FROM fuse").fetchone()[0])
        self.assertEqual(more["along_n"], along)

    def test_refusals_are_one_line_and_leave_the_store_alone(self):
        self.prepare()
        store = self.path("r.db")
        self.workbench("fuse", "mlp", "-n", "2", "--budget", "0.02", "--db", store, "--quiet")
        good = self.models[0].state_dict()
        torch.save(good, self.path("good.pt"))

        class Payload:
            def __reduce__(self):
                return os.system, (f"touch {self_path}",)
        self_path = self.path("ran")
        torch.save({"w": Payload()}, self.path("payload.pt"))
        torch.save(randomised(Net, 1), self.path("module.pt"))
        torch.save({k: v for k, v in good.items() if k != "head.bias"}, self.path("less.pt"))
        torch.save({**good, "head.bias": torch.zeros(6)}, self.path("shape.pt"))
        torch.save({**good, "outer.weight": torch.zeros(7, 7)}, self.path("untied.pt"))
        with open(self.path("good.pt"), "rb") as file:
            whole = file.read()
        for name, data in (("cut.pt", whole[:-100]), ("cut.safetensors", b"\xff" * 9), ("empty.pt", b""),
                           ("text.pt", b"hello, this is no checkpoint"), ("nest.pt", b"\x80\x02" + b"(" * 99)):
            with open(self.path(name), "wb") as file:
                file.write(data)
        save_file({"y": self.x}, self.path("y.safetensors"))
        save_file({"x": self.x[:, :, :3].contiguous()}, self.path("narrow.safetensors"))

        class Depends(nn.Module):
            def forward(self, x):
                return x[x > 0]
        torch.jit.trace(Depends(), torch.randn(4, 7)).save(self.path("depends.ts"))

        def dump():
            with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
                return "\n".join(db.iterdump())
        before = dump()
        net, weights = self.path("net.ts"), lambda name: ("--weights", self.path(name))
        inputs = ("--input", "x=4x7:f32")
        table = [
            (2, "posix.system", net, *weights("payload.pt"), *inputs),
            (2, "__main__.Net", net, *weights("module.pt"), *inputs),
            (2, "got none for head.bias", net, *weights("less.pt"), *inputs),
            (2, r"head.bias: got [6], expected [5]", net, *weights("shape.pt"), *inputs),
            (2, "got different values", net, *weights("untied.pt"), *inputs),
            (2, "zip", net, *weights("cut.pt"), *inputs),
            (2, "header length", net, *weights("cut.safetensors"), *inputs),
            (2, "an empty file", net, *weights("empty.pt"), *inputs),
            (2, "zip archive", net, *weights("text.pt"), *inputs),
            (2, "no such file", net, *weights("gone.pt"), *inputs),
            (2, "a TorchScript module", net, *weights("net.ts"), *inputs),
            (2, "expected at most the 1 checkpoints", net, *weights("good.pt"), *inputs, "-n", "2"),
            (2, "input", net, *weights("good.pt")),
            (2, "input", net, "-n", "2", "--inputs", self.path("y.safetensors")),
            (2, "forward with x f32[4, 3]", net, "-n", "2", "--inputs", self.path("narrow.safetensors")),
            (2, "--share-weights", net, "-n", "2", *inputs, "--share-weights"),
            (2, "--shared-inputs", net, "-n", "2", *inputs, "--shared-inputs", "z"),
            (2, "--reduce", net, "-n", "2", *inputs, "--reduce", "median"),
            (2, "aten::", self.path("depends.ts"), "-n", "2", *inputs),
            (5, "memory", net, "-n", "1000000000", *inputs),
            (1, "--unstack", net, "-n", "2", *inputs, "--unstack", self.path("good.pt")),
            (2, "[--outputs] folder: got no", net, "-n", "2", *inputs, "--outputs", self.path("no/y.safetensors")),
        ]
        for code, said, *arguments in table:
            with self.subTest(said=said, arguments=arguments):
                run = self.workbench("fuse", *arguments, "--budget", "0.02", "--db", store, expect=code)
                self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
                self.assertIn(said, run.stderr)
                self.assertRegex(run.stderr, r"\[.+\] .+: got .+, expected .+; try ")
                self.assertEqual(dump(), before)
        self.assertFalse(os.path.exists(self_path))


if __name__ == "__main__":
    unittest.main()
