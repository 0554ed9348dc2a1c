"""Networks of many kinds as torch.export writes them, in both forms, fused from the command line.

Three checkpoints and inputs each; the outputs must agree with PyTorch in double precision to 2e-4.
None may be refused, and most must have nothing that is computed model by model.
"""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures"))
import export_networks  # noqa: E402

torch.set_num_threads(1)
BINARY = os.environ["WORKBENCH_BINARY"]
N = 3


def flat(value):
    """The tensors of a result in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value or [] for t in flat(v)] if isinstance(value, (list, tuple)) else []


def named(arguments):
    """Tensors by the path that leads to them."""
    found = {}

    def walk(value, name):
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{name}.{key}")
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                walk(item, f"{name}.{i}")

    for name, value in arguments.items():
        walk(value, name)
    return found


def double(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    if isinstance(value, dict):
        return {k: double(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(double(v) for v in value)
    return value


def prepare(name, folder):
    """Writes the checkpoints, the inputs and both forms; gives the arguments of `fused` by form."""
    make, inputs = export_networks.ALL[name]
    models = [export_networks.varied(make, 10 + i) for i in range(N)]
    torch.manual_seed(5)
    arguments = [inputs() for _ in range(N)]
    here = os.path.join(folder, name)
    os.makedirs(here)
    weights = []
    for i, model in enumerate(models):
        weights.append(os.path.join(here, f"w{i}.safetensors"))
        save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, weights[-1])
    data = [named(a) for a in arguments]
    save_file({k: torch.stack([d[k] for d in data]) for k in data[0]},
              os.path.join(here, "x.safetensors"))
    with torch.no_grad():
        expected = [flat(copy.deepcopy(m).double()(**double(a))) for m, a in zip(models, arguments)]
    exported = torch.export.export(models[0], (), arguments[0], strict=False)
    forms = {}
    for form in ("training", "decomposed"):
        if form == "decomposed":
            try:
                exported = exported.run_decompositions()
            except ValueError as error:  # PyTorch cannot; the test counts how often
                print(name, "does not decompose:", str(error)[:100], file=sys.stderr)
                break
        arch = os.path.join(here, form + ".pt2")
        torch.export.save(exported, arch)
        forms[form] = (here, arch, weights, expected)
    return forms


def fused(here, arch, weights, expected, binary=BINARY, device="cpu"):
    """What is wrong with a fusion, or how many of its nodes are computed model by model."""
    out, report = arch + ".out", arch + ".json"
    run = subprocess.run(
        [binary, "fuse", arch, "--device", device, "--weights", *weights, "--inputs", os.path.join(here, "x.safetensors"),
         "--outputs", out, "--json", report, "--budget", "0.001", "--threads", "1", "--no-store",
         "--quiet"], capture_output=True, text=True, timeout=300)
    if run.returncode:
        return f"exit code {run.returncode}: {run.stderr.strip()[-300:]}"
    got = load_file(out)
    if len(got) != len(expected[0]):
        return f"{len(got)} outputs, expected {len(expected[0])}"
    for k in range(len(got)):
        for i, outputs in enumerate(expected):
            y, ref = got[f"output.{k}"][i], outputs[k]
            if y.shape != ref.shape:
                return f"output {k}: {tuple(y.shape)}, expected {tuple(ref.shape)}"
            error = float((y.double() - ref).abs().max() / ref.abs().max().clamp_min(1e-9))
            if not error < 2e-4:
                return f"output {k} of model {i}: error {error:.1e}"
    with open(report) as file:
        return json.load(file)["coverage"]["per_model"]


class Pt2Networks(unittest.TestCase):
    maxDiff = None

    def test_every_network_is_right_in_both_forms(self):
        chosen = os.environ.get("WORKBENCH_NETWORKS", "").split(",")
        names = [n for n in export_networks.ALL if chosen == [""] or n in chosen]
        results = []
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            # One network is exported while others are fused, in processes of their own.
            for name in names:
                try:
                    for form, arguments in prepare(name, folder).items():
                        results.append((name, form, pool.submit(fused, *arguments)))
                except Exception as error:  # reported with the others
                    results.append((name, "export", f"{type(error).__name__}: {str(error)[:300]}"))
            results = [(n, f, r if isinstance(r, str) else r.result()) for n, f, r in results]
        faults = [r for r in results if not isinstance(r[2], int)]
        self.assertEqual(faults, [])
        self.assertGreaterEqual(len(results), 2 * len(names) - 2)
        whole = {name for name in names if all(r[2] == 0 for r in results if r[0] == name)}
        print("computed model by model:", [r for r in results if r[2]], file=sys.stderr)
        self.assertGreaterEqual(len(whole), 17 * len(names) // 20)


class BrokenArchives(unittest.TestCase):
    def test_each_is_refused_in_one_line(self):
        source = os.path.join(os.environ["WORKBENCH_SOURCE"], "tests/data/networks/pt2/torch-2.11.pt2")
        with open(source, "rb") as file:
            whole = file.read()
        graph = whole.index(b"torch.ops.aten.linear.default")
        broken = {"half": whole[:len(whole) // 2], "start": whole[:100], "no end": whole[:-1],
                  "changed": whole[:graph] + b"T" + whole[graph + 1:],
                  "empty": b"", "text": b"hello"}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in broken.items():
                path = os.path.join(folder, name.replace(" ", "-") + ".pt2")
                with open(path, "wb") as file:
                    file.write(data)
                run = subprocess.run([BINARY, "fuse", path, "-n", "2", "--no-store"],
                                     capture_output=True, text=True, timeout=100)
                self.assertEqual(run.returncode, 2, name)
                self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
                self.assertIn(os.path.basename(path), run.stderr)
                self.assertIn("; try ", run.stderr)


if __name__ == "__main__":
    unittest.main()
