"""Wide programs taken home: `fuse --export` to both forms, run by PyTorch alone on new inputs.

Every exported program must agree with float64 runs of the separate models to 2e-4, hold nothing
but ATen operators, and carry the weights under their own names.
"""
import copy
import os
import resource
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)

from command_line import BINARY, randomised
from fuse_networks_test import BiLstm, Counter, Encoder, Mlp, TwoInTwoOut, flat, resnet18


class NormCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, 7, 3, padding=1, bias=False), nn.BatchNorm2d(7)
        self.c2, self.n2 = nn.Conv2d(7, 4, 3, stride=2, groups=1), nn.GroupNorm(2, 4)
        self.f = nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.n1(self.c1(x))), 2)
        return self.f(F.gelu(self.n2(self.c2(x))).mean((2, 3)))


class Reader(nn.Module):
    """Integers in: an embedding, masked attention, and a position table that is a constant."""

    def __init__(self):
        super().__init__()
        self.e, self.a = nn.Embedding(50, 12), nn.MultiheadAttention(12, 3, batch_first=True)
        self.o = nn.Linear(12, 50)

    def forward(self, ids, scale):
        x = self.e(ids) * scale + torch.arange(7.0)[:, None] / 7
        y, _ = self.a(x, x, x, need_weights=False)
        y = y[:, [0, 2, 3]]
        return self.o(y), ids.argmax(-1), y.amax(1) > 0


class Trained(nn.Module):
    """Left in training mode: batch norm updates its buffers in every call."""

    def __init__(self):
        super().__init__()
        self.f, self.n = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        return F.batch_norm(self.f(x), self.n.running_mean, self.n.running_var, self.n.weight,
                            self.n.bias, True, 0.1)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(8, 400)

    def forward(self, x):
        return F.dropout(self.f(x), 0.25, True)


class Weighed(nn.Module):
    """Two inputs whose batches lie in different dimensions."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(5, 3)

    def forward(self, x, z):
        return (self.f(x) * z.T[:, :, None]).sum(1)


class Export(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    limits = {}  # of the program's process

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def workbench(self, *arguments, code=0):
        done = subprocess.run([BINARY, "fuse", *arguments, "--no-store", "--budget", "0.02"],
                              capture_output=True, text=True, **self.limits)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def prepare(self, make, inputs, n, shared=(), dtype=torch.float32):
        """Saves network, checkpoints and sample inputs; returns the models."""
        models = [randomised(make, 20 + i) for i in range(n)]
        example = tuple(f(9) for f in inputs.values())
        torch.jit.trace(copy.deepcopy(models[0]), example, check_trace=False).save(self.path("arch.ts"))
        for i, model in enumerate(models):
            save_file({k: v.contiguous() for k, v in model.state_dict().items()},
                      self.path(f"w{i}.safetensors"))
        save_file({k: f(1) if k in shared else torch.stack([f(50 + i) for i in range(n)])
                   for k, f in inputs.items()}, self.path("x.safetensors"))
        return models

    def export(self, n, *more):
        self.workbench(self.path("arch.ts"), "--weights",
                       *(self.path(f"w{i}.safetensors") for i in range(n)), "--inputs",
                       self.path("x.safetensors"), "--export", self.path("wide.pt2"), "--export",
                       self.path("wide.ts"), "--quiet", *more)
        program = torch.export.load(self.path("wide.pt2"))
        for node in program.graph.nodes:
            if node.op == "call_function" and "getitem" not in str(node.target):
                self.assertTrue(str(node.target).startswith("aten."), node.target)
                self.assertNotIn("_cpu", str(node.target))  # runs wherever it is taken
        self.assertEqual(sorted(os.listdir(self.dir.name)).count("wide.pt2.part"), 0)
        self.check_sample(program)
        return program, torch.jit.load(self.path("wide.ts"))

    def check_sample(self, program):
        """The inputs that the program was made with: torch.compile and AOTInductor want them."""
        given, keywords = program.example_inputs
        self.assertEqual(keywords, {})
        saved = load_file(self.path("x.safetensors"))
        for got, (_, want) in zip(given, sorted(saved.items(), key=lambda item: (
                list(program.module_call_graph[0].signature.forward_arg_names).index(item[0])))):
            self.assertTrue(torch.equal(got, want.to(got.dtype)))

    def agree(self, got, expected, tolerance):
        self.assertEqual(len(got), len(expected))
        for y, ref in zip(got, expected):
            self.assertEqual(y.shape, ref.shape)
            if not ref.is_floating_point():
                self.assertTrue(torch.equal(y, ref))
                continue
            error = (y.double() - ref).abs().max() / ref.abs().max()
            self.assertLess(float(error), tolerance)

    def expected(self, models, data, shared):
        """[N, ...] each, from separate models in float64."""
        each = []
        for i, model in enumerate(models):
            mine = [v if k in shared else v[i] for k, v in data.items()]
            mine = [v.double() if v.is_floating_point() else v for v in mine]
            with torch.no_grad():
                each.append(flat(copy.deepcopy(model).double()(*mine)))
        return [torch.stack(parts) for parts in zip(*each)]

    def check(self, make, inputs, n=3, shared=(), more=(), dtype=torch.float32, tolerance=2e-4):
        models = self.prepare(make, inputs, n, shared)
        program, script = self.export(n, *more)
        self.assertEqual(program.module_call_graph[0].signature.forward_arg_names, list(inputs))
        self.check_weights(program, script, models, dtype)
        for seed in (70, 90):  # a program is no recording of one call
            data = {k: f(seed) if k in shared else torch.stack([f(seed + i) for i in range(n)])
                    for k, f in inputs.items()}
            data = {k: v.to(dtype) if v.is_floating_point() else v for k, v in data.items()}
            expected = self.expected(models, data, shared)
            module = program.module()
            with torch.no_grad():
                self.agree(flat(module(*data.values())), expected, tolerance)
                self.agree(flat(script(*data.values())), expected, tolerance)
                self.agree(flat(script(**data)), expected, tolerance)
                if len(expected) == 1:
                    self.assertIsInstance(module(*data.values()), torch.Tensor)
                    self.assertIsInstance(script(**data), torch.Tensor)
        return program, script

    def check_weights(self, program, script, models, dtype):
        names = [k for k, _ in models[0].named_parameters()]
        self.assertEqual(sorted(k for k, _ in program.named_parameters()), sorted(names))
        self.assertEqual(sorted(k for k, _ in script.named_parameters()), sorted(names))
        for name in names:
            own = [m.state_dict()[name].to(dtype) for m in models]
            for form in (program.state_dict[name], dict(script.named_parameters())[name]):
                self.assertTrue(form.requires_grad)
                if form.shape == own[0].shape:  # shared
                    self.assertTrue(all(torch.equal(w, own[0]) for w in own))
                    own = own[:1]
                    self.assertTrue(torch.equal(form, own[0]))
                else:
                    self.assertTrue(torch.equal(form, torch.stack(own)))

    def normal(*sizes):
        return lambda seed: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))

    def integers(high, *sizes):
        return lambda seed: torch.randint(high, sizes,
                                          generator=torch.Generator().manual_seed(seed))

    def test_mlp(self):
        self.check(Mlp, {"x": Export.normal(5, 13)})

    def test_one_model(self):
        self.check(Mlp, {"x": Export.normal(5, 13)}, n=1)

    def test_convolutions_and_norms(self):
        self.check(NormCnn, {"x": Export.normal(2, 3, 15, 13)})

    def test_two_layer_bidirectional_lstm(self):
        self.check(BiLstm, {"x": Export.normal(3, 7, 6)}, n=2)

    def test_transformer_encoder_layer(self):
        self.check(Encoder, {"x": Export.normal(2, 5, 12)})

    def test_resnet18(self):
        self.check(resnet18, {"x": Export.normal(2, 3, 33, 35)}, n=2)

    def test_two_inputs_and_two_outputs(self):
        self.check(TwoInTwoOut, {"left": Export.normal(3, 5), "right": Export.normal(3, 3)})

    def test_embedding_and_attention(self):
        self.check(Reader, {"ids": Export.integers(50, 2, 7), "scale": Export.normal(1)})

    def test_shared_input(self):
        self.check(NormCnn, {"x": Export.normal(2, 3, 15, 13)}, shared=("x",),
                   more=("--shared-inputs", "x"))

    def test_shared_weights(self):
        def make():
            model = NormCnn()
            with torch.no_grad():
                model.c1.weight.copy_(torch.linspace(-1, 1, model.c1.weight.numel()).view_as(
                    model.c1.weight))
            return model
        program, _ = self.check(make, {"x": Export.normal(2, 3, 15, 13)},
                                more=("--share-weights",))
        self.assertEqual(program.state_dict["c1.weight"].dim(), 4)
        self.assertEqual(program.state_dict["c2.weight"].dim(), 5)

    def test_double(self):
        self.check(Encoder, {"x": Export.normal(2, 5, 12)}, more=("--dtype", "f64"),
                   dtype=torch.float64, tolerance=1e-12)

    def test_bfloat16(self):
        self.check(Mlp, {"x": Export.normal(5, 13)}, more=("--dtype", "bf16"),
                   dtype=torch.bfloat16, tolerance=4e-2)

    def updates(self, make, inputs, changed):
        """Three calls in a row: results and changed buffers as those of the separate models."""
        models = self.prepare(make, inputs, 3)
        program, script = self.export(3)
        module = program.module()
        separate = [copy.deepcopy(m).double() for m in models]
        for seed in (70, 80, 90):
            data = [torch.stack([f(seed + i) for i in range(3)]) for f in inputs.values()]
            with torch.no_grad():
                expected = [flat(m(*(v[i].double() for v in data)))
                            for i, m in enumerate(separate)]
                expected = [torch.stack(parts) for parts in zip(*expected)]
                self.agree(flat(module(*data)), expected, 2e-4)
                self.agree(flat(script(*data)), expected, 2e-4)
            for name in changed:
                want = torch.stack([m.state_dict()[name] for m in separate])
                for form in (module.state_dict()[name], script.state_dict()[name]):
                    self.agree([form], [want], 2e-4)
                    self.assertFalse(form.requires_grad)

    def test_a_forward_that_updates_its_own_buffer(self):
        self.updates(Counter, {"x": Export.normal(5, 4)}, ["mean"])

    def test_batch_norm_in_training(self):
        self.updates(Trained, {"x": Export.normal(7, 6)}, ["n.running_mean", "n.running_var"])

    def test_dropout_draws_a_mask_for_every_model_and_call(self):
        models = self.prepare(Noisy, {"x": Export.normal(3, 8)}, 2)
        for form in self.export(2):
            run = form.module() if hasattr(form, "module_call_graph") else form
            data = torch.stack([Export.normal(3, 8)(1)] * 2)
            with torch.no_grad():
                once, again = run(data), run(data)
            self.assertFalse(torch.equal(once == 0, again == 0))
            self.assertFalse(torch.equal(once[0] == 0, once[1] == 0))
            for i, model in enumerate(models):
                kept = once[i] != 0
                self.assertAlmostEqual(kept.double().mean().item(), 0.75, delta=0.06)
                want = model.f(data[i]) / 0.75
                self.assertLess((once[i] - want)[kept].abs().max().item(), 1e-4)

    def test_gradients_flow_to_the_weights(self):
        self.prepare(Mlp, {"x": Export.normal(5, 13)}, 2)
        for form in self.export(2):
            run = form.module() if hasattr(form, "module_call_graph") else form
            run(torch.randn(2, 5, 13))[1].sum().backward()
            gradient = dict(run.named_parameters())["fc2.weight"].grad
            self.assertEqual(float(gradient[0].abs().max()), 0)
            self.assertGreater(float(gradient[1].abs().max()), 0)

    def test_inputs_have_the_order_of_forward(self):
        class Minus(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, z, a):
                return self.layer(z) - 2 * a

        inputs = {"z": Export.normal(5, 4), "a": Export.normal(5, 4)}
        models = self.prepare(Minus, inputs, 3)
        z, a = (torch.stack([make(90 + 10 * k + i) for i in range(3)]) for k, make in enumerate(inputs.values()))
        want = torch.stack([model(*own) for model, *own in zip(models, z, a)])
        program, script = self.export(3)
        with torch.no_grad():
            self.agree([program.module()(z, a)], [want], 2e-4)
            self.agree([script(z, a)], [want], 2e-4)

    def test_what_models_say_together(self):
        models = self.prepare(Mlp, {"x": Export.normal(5, 13)}, 4)
        x = torch.stack([Export.normal(5, 13)(70 + i) for i in range(4)])
        each = self.expected(models, {"x": x}, ())[0]
        for how, want in (("mean", each.mean(0)), ("std", each.std(0)),
                          ("vote", each.argmax(-1).mode(0).values)):
            program, script = self.export(4, "--reduce", how)
            with torch.no_grad():
                self.agree([program.module()(x)], [want], 2e-4)
                self.agree([script(x)], [want], 2e-4)

    def test_other_sizes_are_refused_by_the_archive(self):
        self.prepare(Mlp, {"x": Export.normal(5, 13)}, 2)
        program, _ = self.export(2)
        with self.assertRaises(Exception):
            program.module()(torch.randn(3, 5, 13))

    def test_a_dynamic_batch_stays_dynamic(self):
        """An export with two dynamic sizes: the batch, of two inputs, may be any; the other stays as given."""
        models = [randomised(Weighed, 20 + i) for i in range(3)]
        batch, width = torch.export.Dim("batch", min=1, max=50), torch.export.Dim("width", min=2)
        example = (torch.randn(4, 6, 5), torch.randn(6, 4))
        torch.export.save(torch.export.export(models[0], example, dynamic_shapes=({0: batch, 1: width}, {0: width, 1: batch})),
                          self.path("net.pt2"))
        for i, model in enumerate(models):
            save_file(model.state_dict(), self.path(f"w{i}.safetensors"))
        save_file({"x": torch.randn(3, 4, 7, 5), "z": torch.randn(7, 4)}, self.path("x.safetensors"))
        for reduce, together in (((), lambda each: each), (("--reduce", "mean"), lambda each: each.mean(0))):
            done = self.workbench(
                self.path("net.pt2"), "--weights", *(self.path(f"w{i}.safetensors") for i in range(3)), "--inputs",
                self.path("x.safetensors"), "--shared-inputs", "z", "--export", self.path("wide.pt2"), "--export",
                self.path("wide.ts"), *reduce)
            self.assertIn("batches of 1 to 50", done.stdout)
            forms = torch.export.load(self.path("wide.pt2")).module(), torch.jit.load(self.path("wide.ts"))
            for size in (1, 2, 7, 33):
                data = {"x": torch.randn(3, size, 7, 5), "z": torch.randn(7, size)}
                expected = [together(each) for each in self.expected(models, data, ("z",))]
                for form in forms:
                    with torch.no_grad():
                        self.agree(flat(form(*data.values())), expected, 2e-4)
            for sizes in ((51, 7), (4, 8)):
                with self.assertRaises(Exception):
                    forms[0](torch.randn(3, *sizes, 5), torch.randn(sizes[1], sizes[0]))

    def test_registered_networks(self):
        done = self.workbench("lenet", "-n", "2", "--export", self.path("wide.pt2"), "--outputs",
                              self.path("y.safetensors"))
        self.assertIn("exported to", done.stdout)
        module = torch.export.load(self.path("wide.pt2")).module()
        y = load_file(self.path("y.safetensors"))["output.0"]
        self.assertEqual(module(torch.zeros(2, 8, 1, 28, 28)).shape, y.shape)
        self.assertIn("any batch", done.stdout)
        self.assertEqual(module(torch.zeros(2, 3, 1, 28, 28)).shape, (2, 3, *y.shape[2:]))

    def refused(self, code, pattern, *arguments):
        done = self.workbench("lenet", "-n", "2", "--quiet", *arguments, code=code)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_refusals(self):
        self.refused(2, r"^\[wide.onnx\] export: got no known extension, expected .pt2 "
                     r"\(torch.export archive\) or .ts \(TorchScript\); try wide.pt2\n$",
                     "--export", "wide.onnx")
        self.refused(2, r"\] folder: got none, expected one to write into; try mkdir",
                     "--export", self.path("none/wide.pt2"))
        os.mkdir(self.path("folder.ts"))
        self.refused(2, r"\] path: got a folder, expected a file to write",
                     "--export", self.path("folder.ts"))
        self.limits = {"restore_signals": False,  # Python ignores SIGXFSZ: a full file is an error
                       "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        for name in ("full.ts", "full.pt2"):
            self.refused(1, r"\] writing: got File too large, expected a place to write",
                         "--export", self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))


if __name__ == "__main__":
    unittest.main()
