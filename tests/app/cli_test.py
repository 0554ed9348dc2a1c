"""The command line: every error is one line on stderr with its documented exit code."""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)

BINARY = os.environ["WORKBENCH_BINARY"]
TO_STDOUT = ["sweep", "ci", "--targets", "linear", "-n", "2", "--budget", "0.01", "--no-store", "--quiet", "--json", "-"]


def workbench(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300)


class Branch(torch.nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x + 1
        return x - 1


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        torch.manual_seed(0)
        torch.jit.trace(torch.nn.Linear(3, 2), torch.randn(4, 3)).save(cls.path("net.ts"))
        torch.jit.script(Branch()).save(cls.path("branch.ts"))
        for i in range(2):
            linear = torch.nn.Linear(3, 2)
            save_file(linear.state_dict(), cls.path(f"w{i}.safetensors"))
        save_file({"weight": torch.zeros(2, 3)}, cls.path("half.safetensors"))
        save_file({"weight": torch.zeros(3, 3), "bias": torch.zeros(3)},
                  cls.path("wrong.safetensors"))
        save_file({"input": torch.randn(2, 4, 3)}, cls.path("x.safetensors"))
        save_file({"input": torch.randn(3, 4, 3)}, cls.path("x3.safetensors"))
        save_file({"other": torch.randn(2, 4, 3)}, cls.path("other.safetensors"))
        with open(cls.path("torn.safetensors"), "wb") as file:
            file.write(b"\x08\0\0\0\0\0\0\0{}")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def refused(self, exit_code, pattern, *arguments):
        run = workbench(*arguments)
        self.assertEqual(run.returncode, exit_code, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)
        self.assertTrue(run.stderr.startswith("["), run.stderr)

    def swept(self, name):
        """A store with a small sweep."""
        run = workbench("sweep", "ci", "--targets", "linear", "-n", "1", "--dtype", "f32", "--phase", "forward",
                        "--budget", "0.01", "--quiet", "--db", self.path(name))
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.path(name)

    def test_the_report_about_a_gpu_is_rehearsed_on_the_cpu(self):
        run = workbench("gpu-report", "--device", "cpu", "--out", self.path("gpu"))
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        with open(self.path("gpu/gpu-report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual({stage["name"]: stage["status"] for stage in report["stages"]}, dict.fromkeys(
            ("machine", "ladder", "sandbox", "numerics", "graphs", "assertions", "peaks", "figures"), "ok"))
        self.assertEqual(report["verdict"]["status"], "ok")

    def test_usage(self):
        self.refused(2, "got fus, expected one of .*fuse.*try workbench fuse", "fus")
        self.refused(2, "fuse --help", "fuse")
        self.refused(2, "--frob", "fuse", "mlp", "--frob")
        self.refused(2, "got frobs, expected primitives", "list", "frobs")
        self.refused(2, "--md: got nothing named, expected primitives, blocks or models", "list", "--md")
        for stored in ("sweeps", "fusions", "runs"):
            self.refused(2, f"--md: got {stored}, expected primitives, blocks or models", "list", stored, "--md")
        self.refused(2, "--n.*got 0", "fuse", "mlp", "-n", "0")
        for command in (["fuse", "mlp"], ["sweep", "ci"]):
            self.refused(2, "--n. models: got 9223372036854775807, expected at most 1000000000", *command,
                         "-n", "9223372036854775807")
        self.refused(2, "--n.*got x", "fuse", "mlp", "-n", "4,x")
        self.refused(2, "threads", "fuse", "mlp", "--threads", "many")
        self.refused(2, r"\[--threads\] threads: got 1000, expected at most", "fuse", "mlp", "--threads", "1000")
        self.refused(2, "budget: got -1, expected a positive number", "fuse", "mlp", "--budget", "-1")
        self.refused(2, "seed: got -1, expected a number from 0 on", "fuse", "mlp", "--seed", "-1")
        for command in (["fuse", "mlp"], ["sweep", "ci"], ["trace", "mlp"], ["train", "mlp"]):
            self.refused(2, "seed: got 18446744073709551616, expected a number up to 18446744073709551615",
                         *command, "--seed", "18446744073709551616")
        self.refused(2, "top: got -1, expected a number from 0 on", "sweep", "ci", "--top", "-1")
        self.refused(2, r"\[--axis\] axis: got linear.D twice, expected it once",
                     "sweep", "ci", "--axis", "linear.D=8", "--axis", "linear.D=16")
        self.refused(2, r"\[--axis\] sizes: got none for linear.D, expected numbers", "sweep", "ci", "--axis", "linear.D=")
        self.refused(2, r"\[--axis\] sizes: got 8x, expected numbers", "sweep", "ci", "--axis", "linear.D=8x")

    def test_output_that_cannot_be_written(self):
        for command in (["--help"], ["--version"], ["sweep", "--help"], ["list"], ["list", "--json"], ["info"], TO_STDOUT):
            with open("/dev/full", "w") as full:
                run = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(run.returncode, 1, command)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
            self.assertRegex(run.stderr, r"^\[(stdout|workbench)\] .*No space left on device")

    def test_a_reader_that_closes_the_pipe_has_read_enough(self):
        reader, writer = os.pipe()
        os.close(reader)
        for command in (["list", "primitives", "--json"], TO_STDOUT):
            run = subprocess.run([BINARY, *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300,
                                 restore_signals=False)  # SIGPIPE is ignored, as by many a service
            self.assertEqual((run.returncode, run.stderr), (0, ""), command)
        os.close(writer)

    def test_progress_and_errors_that_stderr_does_not_take_are_dropped(self):
        report = self.path("unseen.json")
        sweep = ["sweep", "ci", "--targets", "linear", "-n", "2,3", "--budget", "0.01", "--no-store", "--json", report]
        reader, pipe = os.pipe()
        os.close(reader)
        with open("/dev/full", "w") as full:
            for how in ({"stderr": full}, {"stderr": pipe}, {"preexec_fn": lambda: os.close(2)}):
                run = subprocess.run([BINARY, *sweep], stdout=subprocess.PIPE, timeout=300, **how)
                self.assertEqual(run.returncode, 0, how)
                with open(report, encoding="utf-8") as file:
                    data = json.load(file)
                self.assertEqual((data["sweep"]["state"], len(data["cases"])), ("complete", 2))
                os.remove(report)
            for how in ({"stderr": full}, {"preexec_fn": lambda: os.close(2)}):
                run = subprocess.run([BINARY, "fuse", "nosuch.pt2"], stdout=subprocess.PIPE, timeout=300, **how)
                self.assertEqual((run.returncode, run.stdout), (2, b""), how)
        os.close(pipe)

    def test_a_limit_on_the_size_of_files_is_an_error(self):
        page = self.path("page.json")
        run = subprocess.run([BINARY, "sweep", "ci", "--targets", "linear", "-n", "2", "--budget", "0.01", "--no-store",
                              "--quiet", "--json", page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        self.assertEqual((run.returncode, run.stdout), (1, ""), run.stderr)
        self.assertRegex(run.stderr, r"^\[.*page.json\] writing: got File too large, expected .*; try .*\n$")
        self.assertFalse(os.path.exists(page))

    def test_a_limit_on_open_files_is_an_error(self):
        run = subprocess.run([BINARY, "fuse", self.path("net.ts"), "--input", "input=4x3:f32", "-n", "2", "--no-store"],
                             capture_output=True, text=True, timeout=300,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.assertEqual((run.returncode, run.stdout), (1, ""), run.stderr)
        self.assertEqual(run.stderr, "[sandbox] open files: got a limit of 40, expected at least 101; try ulimit -n 1024\n")

    def test_names(self):
        self.refused(2, "lenet", "fuse", "lenett")
        self.refused(2, r"strategy of linear: got grouped, expected one of .*vmap",
                     "fuse", "mlp", "--strategy", "linear=grouped")
        self.refused(2, "got linear, expected PRIMITIVE=STRATEGY", "fuse", "mlp", "--strategy",
                     "linear")
        self.refused(2, "no such preset.*try quick", "sweep", "quik")
        self.refused(2, "no such preset.*try quick", "--sweep", "quik")
        self.refused(2, "no such preset.*try quick", "--sweep=quik")
        self.refused(2, "linear", "sweep", "ci", "--targets", "lineer")
        self.refused(2, "axis: got Q, expected one of", "sweep", "ci", "--targets", "linear",
                     "--axis", "linear.Q=3")
        self.refused(2, r"\[lstm\] axis: got layer, expected one of B, T, I, H, layers, .*; try lstm.layers=",
                     "sweep", "ci", "--targets", "lstm", "--axis", "lstm.layer=2")
        self.refused(2, r"\[linear\] T: got 0, expected at least 1; try T=1", "sweep", "ci", "--targets", "linear",
                     "--axis", "linear.T=0")
        self.refused(2, r"\[linear\] D: got 2147483648, expected at most 2147483647; try D=256", "sweep", "ci",
                     "--targets", "linear", "--axis", "linear.D=2147483648")
        # An axis that no sweep of the target has, but its layer does.
        self.refused(2, r"\[conv2d\] groups: got 3, expected a divisor of C=32 and O=32; try groups=1",
                     "sweep", "ci", "--targets", "conv2d", "--axis", "conv2d.groups=3")

    def test_device_dtype_and_mode(self):
        self.refused(2, "got tpu, expected cpu", "fuse", "mlp", "--device", "tpu")
        if not torch.cuda.is_available():
            self.refused(6, "cuda", "fuse", "mlp", "--device", "cuda")
            self.refused(6, "cuda", "sweep", "ci", "--device", "cuda:3")
        self.refused(2, "got f8, expected f32", "fuse", "mlp", "--dtype", "f8")
        self.refused(2, "got fast", "fuse", "mlp", "--mode", "fast")

    def test_reduce_overhead_on_the_cpu_is_mode_default_with_a_note(self):
        report = self.path("mlp.json")
        run = workbench("fuse", "mlp", "-n", "2", "--budget", "0.01", "--mode", "reduce-overhead", "--no-store",
                        "--json", report)
        self.assertEqual(run.returncode, 0, run.stderr)
        note = "mode reduce-overhead captures CUDA graphs; on the CPU mode default runs instead"
        self.assertIn(note, run.stdout)
        with open(report) as file:
            self.assertEqual(json.load(file)["mode"], "default")

    def test_files(self):
        net = self.path("net.ts")
        w = [self.path(f"w{i}.safetensors") for i in range(2)]
        x = self.path("x.safetensors")
        self.refused(2, "got none, expected a network", "fuse", self.path("none.ts"))
        self.refused(2, "unknown kind", "fuse", w[0])
        self.refused(2, r"inputs: got none, expected \(input: Tensor\)", "fuse", net, "-n", "2")
        self.refused(2, "neither --weights nor -n", "fuse", net, "--input", "input=4x3:f32")
        self.refused(2, r"got other, expected \(input: Tensor\)", "fuse", net, "--weights", *w,
                     "--inputs", self.path("other.safetensors"))
        self.refused(2, "header length: got 8, expected at most 2", "fuse", net, "--weights",
                     self.path("torn.safetensors"), "--input", "input=4x3:f32")
        self.refused(2, "got none for bias", "fuse", net, "--weights", w[0],
                     self.path("half.safetensors"), "--inputs", x)
        self.refused(2, r"bias: got \[3\], expected \[2\]", "fuse", net, "--weights", w[0],
                     self.path("wrong.safetensors"), "--inputs", x)
        self.refused(2, "got 3 models, expected 2 as there are checkpoints", "fuse", net,
                     "--weights", *w, "--inputs", self.path("x3.safetensors"))
        self.refused(2, "got 2 models, expected 5", "fuse", net, "-n", "5", "--inputs", x)
        self.refused(2, "got 3, expected at most the 2 checkpoints", "fuse", net, "--weights", *w,
                     "--inputs", x, "-n", "3")
        self.refused(2, "got y, expected one of input", "fuse", net, "--weights", *w, "--inputs",
                     x, "--shared-inputs", "y")
        self.refused(2, "expected NAME=SIZES:DTYPE", "fuse", net, "-n", "2", "--input", "4x3")
        self.refused(2, "--outputs. folder: got no /nowhere", "fuse", net, "--weights", *w, "--inputs", x,
                     "--outputs", "/nowhere/y.safetensors", "--budget", "0.01")

    def test_what_cannot_be_fused(self):
        self.refused(2, "data", "fuse", self.path("branch.ts"), "-n", "2", "--input", "x=3:f32")
        self.refused(5, "memory: got .* for n=10000000, expected at most", "fuse", "resnet18",
                     "-n", "10000000")

    def test_tables_beside_the_code_are_those_of_the_registry(self):
        for folder in ("primitives", "blocks"):
            with open(os.path.join(os.environ["WORKBENCH_SOURCE"], folder, "README.md"), encoding="utf-8") as file:
                self.assertEqual(file.read(), workbench("list", folder, "--md").stdout,
                                 f"./workbench list {folder} --md > {folder}/README.md makes it anew")

    def test_a_picture_that_cannot_be_written_is_said(self):
        self.refused(1, "/nowhere/p.png. writing: got No such file", "--screenshot", "/nowhere/p.png", "--view", "plot")

    def test_a_picture_of_a_store_that_cannot_be_read_is_refused(self):
        store = self.path("text.db")
        with open(store, "w", encoding="utf-8") as file:
            file.write("no database at all, but long enough to look like one")
        self.refused(1, r"text.db\] store: got a file that is no database", "--screenshot", self.path("none.png"), "--view",
                     "plot", "--db", store)
        self.assertFalse(os.path.exists(self.path("none.png")))

    def test_a_picture_never_replaces_the_store(self):
        store = self.swept("kept.db")
        os.symlink(store, self.path("link.png"))
        for name in ("kept.db", "link.png"):
            self.refused(2, r"^\[--screenshot\] file: got .*, which is the results store, expected another one",
                         "--screenshot", self.path(name), "--view", "plot", "--db", store)
        with open(store, "rb") as file:
            self.assertEqual(file.read(15), b"SQLite format 3")

    def test_the_explorer_opens_what_is_stored_and_proposes_no_file(self):
        self.refused(2, r"^\[rep.json\] sweep: got no such number or name in .*, expected the number or name of a stored "
                     r"sweep, or last; try workbench list sweeps$", "--screenshot", self.path("none.png"), "--open",
                     "rep.json", "--db", self.swept("opened.db"))

    def test_a_picture_shows_the_panel_that_was_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures = {}
            for view in ("run", "trainings", "matrix", "point", "trials"):  # from all sides of the window
                path = os.path.join(folder, view + ".png")
                run = workbench("--screenshot", path, "--view", view, "--size", "400x300", "--db", os.path.join(folder, "r.db"))
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                with open(path, "rb") as file:
                    pictures[view] = file.read()
            self.assertEqual(len(set(pictures.values())), len(pictures))

    def test_one_target_is_told_in_full(self):
        text = workbench("list", "conv2d").stdout
        for part in ("torch.nn.Conv2d", "grouped", "unfold", "B8 C64 k3 H32 W32", "conv2d.groups", "tolerance"):
            self.assertIn(part, text)
        one = json.loads(workbench("list", "conv2d", "--json").stdout)
        self.assertEqual(one["name"], "conv2d")
        self.assertGreater(one["tolerance"]["bf16"], one["tolerance"]["f64"])

    def test_a_target_s_strategies_are_those_that_a_sweep_runs(self):
        report = self.path("strategies.json")
        run = workbench("sweep", "ci", "--targets", "linear,mlp_block,mlp", "-n", "2", "--budget", "0.001", "--no-store", "--json", report)
        self.assertEqual(run.returncode, 0, run.stderr)
        ran = {}
        with open(report, encoding="utf-8") as file:
            for case in json.load(file)["cases"]:
                ran[case["target"]] = [t["strategy"] for t in case["trials"]]
        listed = {t["name"]: [s["name"] for s in t["strategies"]]
                  for group in json.loads(workbench("list", "--json").stdout).values() for t in group if t["name"] in ran}
        self.assertEqual({name: sorted(names) for name, names in listed.items()}, {name: sorted(names) for name, names in ran.items()})
        self.assertIn("wide", listed["mlp"])
        self.assertRegex(workbench("list", "mlp_block").stdout, r"\n *wide +the engine chooses for each part\n")

    def test_help_version_list_info(self):
        for arguments in (["--help"], ["fuse", "--help"], ["--version"], ["list"], ["info"]):
            run = workbench(*arguments)
            self.assertEqual((run.returncode, run.stderr), (0, ""), arguments)
            self.assertTrue(run.stdout)
        listed = json.loads(workbench("list", "--json").stdout)
        self.assertEqual(set(listed), {"primitives", "blocks", "models", "passes", "presets", "panels"})
        self.assertIn("linear", [p["name"] for p in listed["primitives"]])
        self.assertEqual(set(json.loads(workbench("list", "models", "--json").stdout)), {"models"})
        self.assertIn("eager", json.loads(workbench("info", "--json").stdout)["modes"])

    def test_passes(self):
        table = json.loads(workbench("list", "passes", "--json").stdout)["passes"]
        names = [row["name"] for row in table]
        self.assertEqual(names, ["fold", "common-subexpressions", "layout", "dead-code", "relu-after-pool", "pool-places", "faster-kernels", "paddings", "split",
                                 "products", "chains", "ranges", "kernels", "memory-plan"])
        self.assertEqual(table[2]["stage"], "on the program")
        self.assertEqual(table[2]["off"], "--passes-off layout")
        lines = workbench("list", "passes").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines if line.startswith("  ")], names)
        self.refused(2, r"^\[--passes-off\] name: got layuot, expected one of fold, .*; try layout$",
                     "trace", "mlp_block", "--passes-off", "split,layuot")
        run = workbench("trace", "mlp_block", "--wide", "4", "--passes-off", "layout")
        self.assertEqual(run.returncode, 0, run.stderr)
        ran = run.stdout.split("# passes")[1].split("# coverage")[0]
        self.assertIn("dead-code", ran)
        self.assertNotIn("layout", ran)

    def test_trace(self):
        run = workbench("trace", "mlp_block", "--wide", "4")
        self.assertEqual(run.returncode, 0, run.stderr)
        for part in ("one model as recorded", "aten::addmm", "4 models as they run",
                     "aten::linear", "# passes", "dead-code", "# coverage"):
            self.assertIn(part, run.stdout)

    def test_trace_of_checkpoints(self):
        same = [self.path("w0.safetensors")] * 2
        for options, shared in (([], "0 shared"), (["--share-weights"], "1 shared")):
            run = workbench("trace", self.path("net.ts"), "--input", "input=4x3", "--weights", *same, "--wide", "2",
                            *options)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertIn("# 2 models as they run", run.stdout)
            self.assertIn(shared, run.stdout.split("# coverage")[1])
        self.refused(2, r"\[--share-weights\] weights: got none, expected --weights", "trace", "mlp", "--share-weights")

    def test_sweep(self):
        report = self.path("sweep.json")
        run = workbench("sweep", "ci", "--targets", "linear,mlp_block", "-n", "2,3", "--budget",
                        "0.01", "--json", report, "--axis", "linear.B=3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout.splitlines()[0], r"sweep ci: 4 cases, \d+ trials, about")
        self.assertIn("over best baseline", run.stdout)
        self.assertIn("[4/4] mlp_block", run.stderr)
        with open(report) as file:
            data = json.load(file)
        self.assertEqual(set(data), {"schema", "sweep", "environment", "changes", "cases",
                                     "crossover"})
        self.assertEqual(data["sweep"]["state"], "complete")
        self.assertEqual([(c["target"], c["n"]) for c in data["cases"]],
                         [("linear", 2), ("linear", 3), ("mlp_block", 2), ("mlp_block", 3)])
        self.assertTrue(data["cases"][0]["shape"].startswith("B3"))
        for case in data["cases"]:
            self.assertEqual(case["baselines"][0]["name"], "loop")
            self.assertEqual(sum(t["chosen"] for t in case["trials"]), 1)
            for trial in case["trials"]:
                self.assertEqual(trial["status"], "ok", trial)
                self.assertTrue(trial["correctness"]["pass"])
                self.assertEqual(len(trial["speedup"]["vs_loop"]["ci95"]), 2)
                self.assertIn(trial["verdict"], ("FASTER", "SLOWER", "SAME", "UNCLEAR"))

    def test_axes_that_no_sweep_has(self):
        """What a layer may be told beyond the shapes of its sweeps is an axis like any other."""
        report = self.path("axes.json")
        axes = {"linear": "T=3", "attention": "causal=1", "lstm": "layers=2", "batchnorm1d": "affine=0",
                "dropout": "percent=0", "embedding": "padding_idx=1", "mlp_block": "hidden=7"}
        run = workbench("sweep", "ci", "--targets", ",".join(axes), "-n", "2", "--budget", "0.01", "--json", report,
                        *(word for target, axis in axes.items() for word in ("--axis", f"{target}.{axis}")))
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        self.assertEqual({c["target"] for c in cases}, set(axes))
        for case in cases:
            self.assertIn(axes[case["target"]].replace("=", ""), case["shape"].split())
            self.assertEqual({t["status"] for t in case["trials"]} - {"unsupported"}, {"ok"}, case["target"])

    def test_all_axes_are_listed_with_their_defaults(self):
        text = workbench("list", "linear").stdout
        for row in (r"linear\.B +the sweep's +samples", r"linear\.T +none: x is \[B, D\] +steps",
                    r"linear\.O +D +features out"):
            self.assertRegex(text, row)
        self.assertRegex(workbench("list", "attention").stdout, r"attention\.causal +0 +1: causal, no step attends")
        axes = {a["name"]: a for a in json.loads(workbench("list", "lstm", "--json").stdout)["axes"]}
        self.assertEqual((axes["layers"]["otherwise"], axes["layers"]["derived"]), (1, None))
        self.assertEqual((axes["H"]["otherwise"], axes["H"]["derived"]), (None, None))

    def test_what_does_not_apply_is_unsupported_with_its_reason(self):
        report = self.path("lstm.json")
        run = workbench("sweep", "ci", "--targets", "dropout", "-n", "2", "--budget", "0.01",
                        "--json", report, "--quiet")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        run = workbench("sweep", "ci", "--targets", "linear", "-n", "2", "--mode",
                        "reduce-overhead", "--json", report, "--quiet")
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(report) as file:
            for trial in json.load(file)["cases"][0]["trials"]:
                self.assertEqual(trial["status"], "unsupported")
                self.assertIn("reduce-overhead", trial["reason"])
                self.assertIsNone(trial["speedup"])

    def test_interrupt_ends_cleanly(self):
        report = self.path("cut.json")
        with subprocess.Popen([BINARY, "sweep", "quick", "--device", "cpu", "--targets", "linear",
                               "--budget", "5", "--json", report], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            time.sleep(4)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(errors.splitlines()[-1], "[workbench] cancelled")
        with open(report) as file:
            self.assertEqual(json.load(file)["sweep"]["state"], "cancelled")


if __name__ == "__main__":
    unittest.main()
