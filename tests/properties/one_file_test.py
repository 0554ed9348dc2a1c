"""What is new is one file. Those in fixtures/, one of each kind, are linked into a second program and a second
executable of tests, which differ from the first by them alone: that suffices to be listed, run, swept and tested."""
import json
import os
import re
import struct
import subprocess
import sys
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from folder import InFolder

BINARY = os.environ["WORKBENCH_BINARY"]
EXTRA = BINARY + "_extra"
TESTS = os.path.join(os.path.dirname(BINARY), "workbench_tests")
SOURCE = os.environ["WORKBENCH_SOURCE"]
NO_LAYERS = {"kernels", "passes", "rules", "init", "optimizers", "patterns"}  # of primitives/
FIXTURES = os.path.join(SOURCE, "tests", "properties", "fixtures")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


class OneFile(InFolder):
    def output(self, *command, expect=0):
        result = run(*command)
        self.assertEqual(result.returncode, expect, result.stdout[-2000:] + result.stderr[-2000:])
        return result.stdout if expect == 0 else result.stderr

    def listed(self, program, what):
        return {row["name"]: row for row in json.loads(self.output(program, "list", what, "--json"))[what]}

    def traced(self, name, module, sample):
        torch.jit.trace(module.eval(), sample).save(self.path(name))
        return self.path(name)

    def test_nothing_else_knows_them(self):
        names = {os.path.splitext(name)[0] for name in os.listdir(FIXTURES)}
        self.assertGreaterEqual(len(names), 7)
        mentions = re.compile(r"\b(" + "|".join(names) + r")\b")
        files = [os.path.join(SOURCE, "CMakeLists.txt")]
        for top in ("engine", "primitives", "blocks", "data", "app", "tests", "presets"):
            for where, _, inside in os.walk(os.path.join(SOURCE, top)):
                files += [os.path.join(where, name) for name in inside
                          if name.endswith((".cpp", ".h", ".py", ".txt", ".md", ".json"))]
        for file in files:
            if file == os.path.abspath(__file__):
                continue
            with open(file, encoding="utf-8") as text:
                found = set(mentions.findall(text.read()))
            own = {os.path.splitext(os.path.basename(file))[0]} if os.path.dirname(file) == FIXTURES else set()
            self.assertLessEqual(found, own, file)

    # ---- primitive

    def test_a_primitive_is_listed(self):
        plain, extra = self.listed(BINARY, "primitives"), self.listed(EXTRA, "primitives")
        self.assertEqual(set(extra) - set(plain), {"layerscale"})
        top = os.path.join(SOURCE, "primitives")
        files = {os.path.splitext(name)[0] for where, _, inside in os.walk(top) for name in inside
                 if os.path.relpath(where, top).split(os.sep)[0] not in NO_LAYERS and name.endswith(".cpp")}
        self.assertEqual(set(plain), files)
        self.assertEqual([s["name"] for s in extra["layerscale"]["strategies"]],
                         ["one_pass", "broadcast", "vmap", "per_model"])
        self.assertEqual([a["name"] for a in extra["layerscale"]["axes"]], ["B", "T", "D"])

    def test_a_primitive_is_swept(self):
        sweep = ("sweep", "ci", "--targets", "layerscale", "--no-store")
        self.output(EXTRA, *sweep, "--budget", "0.02", "--axis", "layerscale.T=3", "--json", self.path("r.json"))
        with open(self.path("r.json"), encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        self.assertEqual([(case["n"], case["shape"]) for case in cases], [(2, "B6 D10 T3"), (5, "B6 D10 T3")])
        for case in cases:
            self.assertEqual({t["strategy"]: t["status"] for t in case["trials"]},
                             {"one_pass": "ok", "broadcast": "ok", "vmap": "ok", "per_model": "ok"})
        self.output(BINARY, *sweep, expect=2)

    def test_a_primitive_is_tested(self):
        result = self.output(TESTS + "_extra", "--gtest_filter=Targets/*/layerscale:AgainstTorch.*:Axes.*")
        for test in ("StrategyValue.EqualsSeparateModels", "StrategyIsolation.NothingOfOneModelReachesAnother",
                     "StrategyGradient.EqualsSeparateModels", "TargetRefusal.DescriptorIsComplete"):
            self.assertIn(f"[       OK ] Targets/{test}/layerscale", result)
        self.assertIn("[       OK ] AgainstTorch.SingleModelsMeanWhatTorchMeans", result)
        self.assertNotIn("/layerscale", self.output(TESTS, "--gtest_list_tests"))

    # ---- the other kinds

    def test_a_rule_computes_what_it_claims(self):
        class Airy(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(5, 3)

            def forward(self, x):
                return torch.special.airy_ai(self.linear(x))

        net = self.traced("airy.ts", Airy(), torch.randn(4, 5))
        for program, per_model in ((BINARY, ["aten::special_airy_ai"]), (EXTRA, [])):
            self.output(program, "fuse", net, "-n", "3", "--input", "x=4x5:f32", "--budget", "0.02", "--no-store",
                        "--json", self.path("f.json"))
            with open(self.path("f.json"), encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual([f["operator"] for f in report["fallbacks"]], per_model)
            self.assertTrue(report["correctness"]["pass"])

    def test_a_pass_is_listed_runs_and_has_a_switch(self):
        plain, extra = self.listed(BINARY, "passes"), self.listed(EXTRA, "passes")
        self.assertEqual(set(extra) - set(plain), {"count-operators"})
        self.assertRegex(self.output(EXTRA, "trace", "mlp", "--wide", "2"), r"count-operators .* counted \d+ operators")
        off = self.output(EXTRA, "trace", "mlp", "--wide", "2", "--passes-off", "count-operators")
        self.assertNotIn("counted", off)
        self.assertNotIn("count-operators", self.output(BINARY, "trace", "mlp", "--wide", "2"))

    def test_a_panel_is_listed(self):
        plain, extra = self.listed(BINARY, "panels"), self.listed(EXTRA, "panels")
        self.assertEqual(set(extra) - set(plain), {"motto"})

    def test_a_command_is_listed_and_runs(self):
        self.assertRegex(self.output(EXTRA, "--help"), r"motto +what is believed here")
        self.assertEqual(self.output(EXTRA, "motto", "--loud"), "measure, then believe!\n")
        self.output(BINARY, "motto", expect=2)

    def test_a_report_is_written_in_a_format(self):
        sweep = ("sweep", "ci", "--targets", "prelu", "-n", "2", "--budget", "0.02", "--no-store")
        self.output(EXTRA, *sweep, "--json", self.path("r.json"))
        self.output(EXTRA, "report", self.path("r.json"), "--outline", self.path("r.txt"))
        with open(self.path("r.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "prelu B4 C16 H16 W16 N=2\n")
        self.assertEqual(self.output(EXTRA, "report", self.path("r.json"), "--outline", "-"),
                         "prelu B4 C16 H16 W16 N=2\n")
        self.output(BINARY, "report", self.path("r.json"), "--outline", "-", expect=2)

    def test_a_checkpoint_is_read_in_a_format(self):
        models = [torch.nn.Linear(5, 3) for _ in range(2)]
        os.mkdir(self.path("weights"))
        for i, model in enumerate(models):
            state = {name: value.detach() for name, value in model.state_dict().items()}
            with open(self.path(f"weights/{i}.raw"), "wb") as file:
                for name, value in state.items():
                    file.write(" ".join(["raw", name, *map(str, value.shape)]).encode() + b"\n")
                file.write(b"\n")
                for value in state.values():
                    file.write(struct.pack(f"<{value.numel()}f", *value.flatten().tolist()))
        net = self.traced("linear.ts", torch.nn.Linear(5, 3), torch.randn(4, 5))
        fuse = ("fuse", net, "--weights", self.path("weights"), "--input", "input=4x5:f32", "--budget", "0.02",
                "--no-store")
        self.output(EXTRA, *fuse, "--unstack", self.path("out"))
        self.output(BINARY, *fuse, expect=2)
        from safetensors.torch import load_file  # pylint: disable=import-outside-toplevel
        for written, model in zip(sorted(os.listdir(self.path("out"))), models):
            saved = load_file(os.path.join(self.path("out"), written))
            for name, value in model.state_dict().items():
                self.assertTrue(torch.equal(saved[name], value), name)


if __name__ == "__main__":
    unittest.main()
