"""Real networks, exported as TorchScript, fused from the command line, against PyTorch in float64.

Every network gets different checkpoints and different inputs, odd sizes, and N = 1 as well; the
outputs must agree to 1e-5, nothing may fall back to per_model, and the report must have its keys.
"""
import copy
import json
import sys
import unittest
from typing import List, Optional

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from safetensors.torch import load_file, save_file
    from command_line import CommandLine, randomised
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(13, 17), nn.Linear(17, 5)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class WithAux(Mlp):
    """With a head for training alone."""

    def __init__(self):
        super().__init__()
        self.aux = nn.Linear(17, 2)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 7, 3, padding=1), nn.Conv2d(7, 5, 3, stride=2)
        self.f = nn.Linear(5 * 3 * 3, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        return self.f(F.avg_pool2d(F.relu(self.c2(x)), 1).flatten(1))


class BiLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(6, 9, num_layers=2, bidirectional=True, batch_first=True)
        self.o = nn.Linear(18, 3)

    def forward(self, x):
        return self.o(self.r(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class TwoInTwoOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 7), nn.Linear(3, 7)

    def forward(self, left, right):
        u, v = torch.tanh(self.a(left)), self.b(right)
        return u * v, (u - v).sum(-1)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(6, 6)

    def forward(self, x):
        y = self.f(x).clone()
        y[:, 1:4] = y[:, 1:4] * 2 + 1
        y[:, 0] = 0.5
        rows = x.shape[0]  # a tensor in a trace
        rows *= 2
        return F.relu_(y).repeat(rows, 1) - 0.1 * x[:1]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.f(x)
        self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y - self.mean


class Scripted(nn.Module):
    """What only a script keeps: literals, also written to, loops over lists, options, numbers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gru, self.cell = nn.GRU(4, 3, bidirectional=True), nn.LSTMCell(4, 3)

    def forward(self, x, scale: Optional[torch.Tensor] = None, times: int = 2):
        made: List[torch.Tensor] = []
        y = x
        for i in range(times):
            y = self.linear(y) if i % 2 == 0 else torch.relu(self.linear(y)) + i
            if scale is not None:
                y = y * scale
            made.append(y.sum(0))
        weight = torch.tensor([0.5, 2.0, 3.0, -1.0], dtype=y.dtype)
        total = torch.zeros([4], dtype=y.dtype)
        total += y.sum(0).sum(0)
        total[1] = 7.0
        kept = torch.tensor([True, False, True, True])
        h, c = self.cell(y[0])
        while len(made) < 4:
            made.append(made[-1] * len(made))
        return (torch.where(kept, y * weight, total), torch.stack(made), self.gru(y)[0], h + c,
                y[:, torch.tensor([1, 0])], len(made) * 0.5)


class Counting(nn.Module):
    """Keeps a number between its calls; the answers asked for are those of a first call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * self.calls


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(3, 4)

    def forward(self, batch: dict[str, torch.Tensor], states: tuple[torch.Tensor, torch.Tensor]):
        y = self.a(batch["image"]) + self.b(batch["meta.size"]) * states[0]
        return {"y": y, "s": [states[1] + y, y.sum(-1)]}


def resnet18():
    import torchvision
    return torchvision.models.resnet18(num_classes=10)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value if isinstance(v, (torch.Tensor, dict, list, tuple)) for t in flat(v)]


class FuseNetworks(CommandLine):
    def prepare(self, make, inputs, n, script=False):
        """Writes arch.ts, w0..., x; returns models and one dict of inputs per model."""
        models = [randomised(make, 10 + i) for i in range(n)]
        torch.manual_seed(99)
        data = [{k: torch.randn(*s) for k, s in inputs.items()} for _ in range(n)]
        arch = copy.deepcopy(models[0])
        if script:
            torch.jit.script(arch).save(self.path("arch.ts"))
        else:
            example = copy.deepcopy(tuple(data[0].values()))
            torch.jit.trace(arch, example, check_trace=False).save(self.path("arch.ts"))
        for i, model in enumerate(models):
            save_file({k: v.contiguous() for k, v in model.state_dict().items()},
                      self.path(f"w{i}.safetensors"))
        save_file({k: torch.stack([d[k] for d in data]) for k in inputs},
                  self.path("x.safetensors"))
        return models, data

    def fuse(self, n, *more, expect=0):
        weights = [self.path(f"w{i}.safetensors") for i in range(n)]
        self.workbench("fuse", self.path("arch.ts"), "--weights", *weights, "--inputs",
                       self.path("x.safetensors"), "--outputs", self.path("y.safetensors"),
                       "--json", self.path("out.json"), "--budget", "0.02", "--no-store", *more,
                       expect=expect)
        with open(self.path("out.json")) as file:
            report = json.load(file)
        return load_file(self.path("y.safetensors")), report

    def agree(self, got, expected):
        """`expected`: per model the list of float64 outputs."""
        self.assertEqual(len(got), len(expected[0]))
        for k in range(len(expected[0])):
            for i, outputs in enumerate(expected):
                ref, y = outputs[k], got[f"output.{k}"][i]
                self.assertEqual(y.shape, ref.shape)
                error = (y.double() - ref).abs().max() / ref.abs().max()
                self.assertLess(float(error), 1e-5, f"output {k} of model {i}")

    def keys(self, report, n):
        for key in ("schema", "model", "n", "environment", "coverage", "coverage_time",
                    "fallbacks", "results", "chosen", "speedup", "correctness", "first_call_ns",
                    "memory"):
            self.assertIn(key, report)
        self.assertEqual(report["n"], n)
        self.assertEqual(set(report["coverage"]), {"strategy", "vmap", "shared", "per_model"})
        self.assertEqual(report["coverage"]["per_model"], 0)
        self.assertEqual(set(report["memory"]), {"wide_bytes", "separate_bytes"})
        self.assertLessEqual({"vs_loop", "vs_loop_ci95", "vs_best_baseline",
                              "vs_best_baseline_ci95", "best_baseline"}, set(report["speedup"]))
        self.assertLessEqual({"max_rel", "eager_max_rel", "tolerance", "isolated", "ordered",
                              "pass"}, set(report["correctness"]))
        self.assertTrue(report["correctness"]["pass"])
        self.assertIsNone(report["environment"]["gpu"])
        names = {r["name"]: r for r in report["results"]}
        self.assertIn("loop", names)
        for timing in report["results"]:
            self.assertLessEqual({"name", "kind", "median_ns", "q1_ns", "q3_ns", "samples_ns",
                                  "outliers", "calls_per_sample", "first_call_ns", "peak_bytes",
                                  "flops_share", "bytes_share"}, set(timing))
            self.assertGreaterEqual(len(timing["samples_ns"]), 3)
        self.assertEqual(names[report["chosen"]]["kind"], "candidate")

    def check(self, make, inputs, n=3, forms=(False, True)):
        for count, script in [(n, form) for form in forms] + [(1, forms[0])]:
            models, data = self.prepare(make, inputs, count, script)
            expected = []
            with torch.no_grad():
                for model, d in zip(models, data):
                    double = copy.deepcopy(model).double()
                    expected.append(flat(double(*(v.double() for v in d.values()))))
            got, report = self.fuse(count)
            self.agree(got, expected)
            self.keys(report, count)
        return report

    def test_mlp(self):
        report = self.check(Mlp, {"x": (5, 13)})
        self.assertNotIn("not read", "".join(report["notes"]))

    def test_parameters_that_forward_does_not_read_are_named(self):
        report = self.check(WithAux, {"x": (5, 13)})
        self.assertIn("2 of 6 parameters are not read by forward: aux.weight, aux.bias",
                      report["notes"])

    def test_cnn_with_flatten_and_pooling(self):
        self.check(Cnn, {"x": (2, 3, 15, 15)})

    def test_two_layer_bidirectional_lstm(self):
        self.check(BiLstm, {"x": (3, 7, 6)})

    def test_literals_loops_and_options_of_a_script(self):
        self.check(Scripted, {"x": (5, 2, 4)}, forms=(True,))

    def test_numbers_kept_between_calls_start_anew(self):
        self.check(Counting, {"x": (5, 4)}, forms=(True,))

    def test_transformer_encoder_layer(self):
        self.check(Encoder, {"x": (2, 5, 12)})

    def test_two_inputs_and_two_outputs(self):
        self.check(TwoInTwoOut, {"left": (3, 5), "right": (3, 3)})

    def test_slice_assignment_and_relu_in_place(self):
        self.check(InPlace, {"x": (3, 6)})

    def test_forward_that_updates_a_buffer(self):
        self.check(Counter, {"x": (5, 4)})

    def test_resnet18(self):
        self.check(resnet18, {"x": (2, 3, 33, 35)}, forms=(False,))

    def test_dicts_tuples_and_lists_by_name(self):
        models = [randomised(Nested, i) for i in range(3)]
        torch.jit.script(models[0]).save(self.path("arch.ts"))
        sizes = {"batch.image": (2, 5), "batch.meta.size": (2, 3), "states.0": (2, 4),
                 "states.1": (2, 4)}
        data = {k: torch.randn(3, *s) for k, s in sizes.items()}
        save_file(data, self.path("x.safetensors"))
        expected = []
        for i, model in enumerate(models):
            save_file(model.state_dict(), self.path(f"w{i}.safetensors"))
            d = {k: v[i].double() for k, v in data.items()}
            batch = {"image": d["batch.image"], "meta.size": d["batch.meta.size"]}
            with torch.no_grad():
                expected.append(flat(copy.deepcopy(model).double()(
                    batch, (d["states.0"], d["states.1"]))))
        got, report = self.fuse(3)
        self.agree(got, expected)
        self.keys(report, 3)

    def test_shared_input_and_shared_weights(self):
        models, data = self.prepare(Cnn, {"x": (2, 3, 15, 15)}, 3)
        for i, model in enumerate(models):
            with torch.no_grad():
                model.c1.weight.copy_(models[0].c1.weight)
                model.c1.bias.copy_(models[0].c1.bias)
            save_file(model.state_dict(), self.path(f"w{i}.safetensors"))
        x = data[0]["x"]
        save_file({"x": x}, self.path("x.safetensors"))
        with torch.no_grad():
            expected = [flat(copy.deepcopy(m).double()(x.double())) for m in models]
        got, report = self.fuse(3, "--shared-inputs", "x", "--share-weights")
        self.agree(got, expected)
        self.assertGreater(report["coverage"]["shared"], 1)
        self.assertTrue(any("equal in all checkpoints" in note for note in report["notes"]))
        got, report = self.fuse(3, "--shared-inputs", "x")
        self.agree(got, expected)
        self.assertEqual(report["coverage"]["shared"], 0)

    def test_several_n_give_a_curve(self):
        self.prepare(Mlp, {"x": (5, 13)}, 5)
        _, report = self.fuse(5, "-n", "1,2,5")
        self.assertEqual([point["n"] for point in report["curve"]], [1, 2, 5])
        self.keys(report, 5)

    def test_seeded_copies_without_weights(self):
        self.prepare(Cnn, {"x": (2, 3, 15, 15)}, 1)
        answers = []
        for _ in range(2):
            self.workbench("fuse", self.path("arch.ts"), "-n", "4", "--input", "x=2x3x15x15:f32",
                           "--seed", "7", "--budget", "0.02", "--outputs",
                           self.path("a.safetensors"), "--quiet")
            y = load_file(self.path("a.safetensors"))["output.0"]
            self.assertFalse(torch.equal(y[0], y[1]))
            answers.append(y)
        # The same copies and inputs; which kernels are fastest is measured anew, so the last bits
        # may differ, as they never do between two seeds by so little.
        error = (answers[1] - answers[0]).abs().max() / answers[0].abs().max()
        self.assertLess(error.item(), 1e-5)

    def test_other_dtypes(self):
        models, data = self.prepare(Mlp, {"x": (5, 13)}, 3)
        got, _ = self.fuse(3, "--dtype", "f64")
        with torch.no_grad():
            for i, model in enumerate(models):
                ref = copy.deepcopy(model).double()(data[i]["x"].double())
                self.assertLess(float((got["output.0"][i] - ref).abs().max()), 1e-12)
        for i, model in enumerate(models):
            halves = {k: v.to(torch.bfloat16 if i else torch.float16)
                      for k, v in model.state_dict().items()}
            save_file(halves, self.path(f"w{i}.safetensors"))
        got, report = self.fuse(3)
        self.assertEqual(got["output.0"].dtype, torch.float32)
        self.assertEqual(report["dtype"], "f32")

    def test_threads_and_strategy(self):
        self.prepare(Mlp, {"x": (5, 13)}, 3)
        _, report = self.fuse(3, "--threads", "1", "--strategy", "linear=vmap", "--explain")
        self.assertEqual(report["environment"]["threads"], 1)
        self.assertEqual(report["coverage"]["strategy"], 0)


if __name__ == "__main__":
    unittest.main()
