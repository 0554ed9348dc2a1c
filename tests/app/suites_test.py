"""The three suites of vanilla against compiled, from sweep to the files that they are written up in."""
import csv
import json
import os
import re
import struct
import sys
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import CommandLine

try:
    import pandas
except ImportError:
    pandas = None

GRID = ["batch_size", "seq_len", "d_model", "compiled", "forward_mean_ms", "forward_std_ms", "backward_mean_ms",
        "backward_std_ms", "total_mean_ms", "peak_memory_mb", "status"]
SIZES = ["model_size", "context_length", "num_params", "num_params_millions"] + [
    f"{phase}_{what}" for phase in ("forward", "fwd_bwd", "full_step") for what in ("vanilla_ms", "compiled_ms", "speedup")]
BYTES = re.compile(r"OOM [\d.]+ [MGT]B")


def read(path):
    """Column names, and rows as text: by pandas where this Python has it, as those who plot them do."""
    if pandas is None:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        return rows[0], [dict(zip(rows[0], row)) for row in rows[1:]]
    frame = pandas.read_csv(path, dtype=str, keep_default_na=False)
    return list(frame.columns), frame.to_dict("records")


def sizes_of_png(path):
    """Width and height, once the file was found whole: every part's checksum, and as many pixels as it says."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, pixels, size = 8, b"", None
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body), path
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        pixels += body if kind == b"IDAT" else b""
        at += 12 + length
    assert len(zlib.decompress(pixels)) == size[1] * (1 + 3 * size[0]), path
    return size


class Suites(CommandLine):
    def suite(self, *arguments, expect=0):
        """The sweep's JSON, and the folder with its files."""
        db, report = self.path("r.db"), self.path("report.json")
        self.workbench("sweep", *arguments, "--db", db, "--json", report, "--quiet", expect=expect)
        self.workbench("report", "last", "--db", db, "--csv-suite", self.path("suite"))
        with open(report, encoding="utf-8") as file:
            return json.load(file), self.path("suite")

    def test_attention_grid_has_a_row_for_every_cell(self):
        sweep, folder = self.suite("attention-grid", "--axis", "naive_attention.T=16,48", "--axis", "naive_attention.D=8",
                                   "--budget", "0.05")
        for name in ("attention-grid", "attention-grid-causal"):
            head, rows = read(f"{folder}/{name}.csv")
            self.assertEqual(head, GRID)
            self.assertEqual([(r["batch_size"], r["seq_len"], r["d_model"], r["compiled"]) for r in rows],
                             [("8", t, "8", c) for t in ("16", "48") for c in ("False", "True")])
            for row in rows:
                self.assertEqual(row["status"], "success")
                # Backward is a difference of two times: for small shapes noise may leave nothing.
                no_backward = not row["backward_mean_ms"]
                for name_ms in GRID[4:10]:
                    if not (no_backward and name_ms.startswith("backward_")):
                        self.assertGreater(float(row[name_ms]) + 1e-9, 0, name_ms)
                if no_backward:
                    self.assertEqual(row["backward_std_ms"], "")
                    self.assertLessEqual(float(row["total_mean_ms"]), float(row["forward_mean_ms"]))
                    continue
                self.assertAlmostEqual(float(row["total_mean_ms"]),
                                       float(row["forward_mean_ms"]) + float(row["backward_mean_ms"]), delta=2e-4)
        # A cell's figures are those of its case.
        case = next(c for c in sweep["cases"] if c["shape"] == "B8 T48 D8 causal1" and c["phase"] == "backward")
        samples = case["trials"][0]["samples_ns"]
        row = next(r for r in rows if r["seq_len"] == "48" and r["compiled"] == "True")
        self.assertAlmostEqual(float(row["total_mean_ms"]), sum(samples) / len(samples) * 1e-6, delta=1e-4)
        peaks = [c["trials"][0]["peak_bytes"] for c in sweep["cases"] if c["shape"] == "B8 T48 D8 causal1"]
        self.assertEqual(len(peaks), 2)
        self.assertAlmostEqual(float(row["peak_memory_mb"]), max(peaks) / 1024**2, delta=0.051)
        with open(f"{folder}/suite.md", encoding="utf-8") as file:
            self.assertIn("peak_memory_mb in the CSV file is in units of 1024 * 1024 bytes", file.read())
        self.plots(folder, "attention-grid", ["seq_len", "attention, d_model 8", "forward and backward", "speedup over vanilla",
                                              "peak memory of a call", "vanilla", "compiled"])
        if pandas is not None:  # numbers are numbers, without being told
            frame = pandas.read_csv(f"{folder}/attention-grid.csv")
            self.assertEqual(list(frame.columns), GRID)
            self.assertEqual(frame.shape, (4, len(GRID)))
            self.assertEqual(list(frame.select_dtypes("number").columns), GRID[:3] + GRID[4:10])
            self.assertEqual([bool(c) for c in frame["compiled"]], [False, True] * 2)
            self.assertFalse(frame.drop(columns=["backward_mean_ms", "backward_std_ms"]).isna().any().any())

    def plots(self, folder, name, words):
        """The same plots as SVG with these words, and as PNG."""
        with open(f"{folder}/{name}.svg", encoding="utf-8") as file:
            svg = file.read()
        for word in words:
            self.assertIn(word, svg)
        self.assertNotIn("max relative error", svg)  # which suites do not plot
        height = float(re.search(r'viewBox="0 0 800 ([\d.]+)"', svg).group(1))
        width, tall = sizes_of_png(f"{folder}/{name}.png")
        self.assertEqual(width, 1200)
        self.assertAlmostEqual(tall, 1.5 * height, delta=0.05 * tall)  # lines of notes may break elsewhere

    def test_several_models_have_files_of_their_own(self):
        _, folder = self.suite("attention-grid", "--axis", "naive_attention.T=16", "--axis", "naive_attention.D=8", "--axis",
                               "naive_attention.causal=0", "--phase", "forward", "--budget", "0.02", "-n", "1,3")
        for name in ("attention-grid.csv", "attention-grid-n3.csv"):
            self.assertEqual(len(read(f"{folder}/{name}")[1]), 2)

    def test_what_does_not_fit_says_what_it_would_need(self):
        sweep, folder = self.suite("attention-grid", "--axis", "naive_attention.T=2000000", "--axis", "naive_attention.D=8",
                                   "--axis", "naive_attention.B=1", "--axis", "naive_attention.causal=0", "--budget", "1000",
                                   expect=5)
        for case in sweep["cases"]:
            self.assertEqual([m["status"] for m in case["missing"]], ["oom"])
            self.assertGreater(case["missing"][0]["needed_bytes"], 2 * 4 * 2e6**2)  # of all scores, twice
            self.assertRegex(case["trials"][0]["reason"], r"no attempt, expected enough \(.* needed by estimate")
        _, rows = read(f"{folder}/attention-grid.csv")
        self.assertEqual([(r["compiled"], r["status"]) for r in rows], [("False", "OOM"), ("True", "OOM")])
        vanilla, compiled = (float(r["peak_memory_mb"]) for r in rows)
        self.assertGreater(vanilla, 1e7)
        self.assertLess(compiled, 1e3)  # whose own memory grows with the sequence alone

    def test_what_takes_too_long_is_skipped_and_says_so(self):
        sweep, folder = self.suite("attention-grid", "--axis", "naive_attention.T=8192", "--axis", "naive_attention.D=128",
                                   "--axis", "naive_attention.causal=0", "--phase", "forward", "--budget", "0.01")
        trial = sweep["cases"][0]["trials"][0]
        self.assertEqual(trial["status"], "skipped")
        self.assertRegex(trial["reason"], r"a call by estimate, expected at most .*; try --budget")
        self.assertEqual([r["status"] for r in read(f"{folder}/attention-grid.csv")[1]], ["skipped"] * 2)

    def test_vanilla_alone_is_skipped_where_compiled_has_the_time(self):
        sweep, folder = self.suite("attention-grid", "--axis", "naive_attention.T=1024", "--axis", "naive_attention.D=8",
                                   "--axis", "naive_attention.causal=0", "--phase", "forward", "--budget", "0.0005")
        (case,) = sweep["cases"]
        self.assertEqual([trial["status"] for trial in case["trials"]], ["ok"])
        (loop,) = case["missing"]
        self.assertEqual((loop["name"], loop["status"]), ("loop", "skipped"))
        self.assertRegex(loop["reason"], r"\[loop\] time: got .* a call by estimate, expected at most .*; try --budget")
        self.assertEqual([r["status"] for r in read(f"{folder}/attention-grid.csv")[1]], ["skipped", "success"])
        with open(f"{folder}/suite.md", encoding="utf-8") as page:
            self.assertRegex(page.read(), r"\| 8 \| 1024 \| skipped \([\d.]+ ms\) \| skipped \| [\d.]+ MB to [\d.]+ MB \|")

    def test_transformer_sizes_have_a_row_for_every_size_and_context(self):
        small = [f"language_model.{axis}" for axis in ("D=8", "F=12", "L=1", "h=2", "V=11", "B=2", "T=4,6")]
        arguments = [word for axis in small for word in ("--axis", axis)]
        _, folder = self.suite("transformer-sizes", *arguments, "--budget", "0.02")
        head, rows = read(f"{folder}/transformer-sizes.csv")
        self.assertEqual(head, SIZES)
        self.assertEqual([(r["context_length"], r["model_size"]) for r in rows],
                         [(t, s) for s in ("small", "medium", "large", "xl", "2.7B") for t in "46"])
        for row in rows:
            # Embedding and head, four projections, SwiGLU and three gains.
            self.assertEqual(int(row["num_params"]), 2 * 11 * 8 + 4 * 64 + 3 * 8 * 12 + 3 * 8)
            for name in SIZES[4:]:
                self.assertGreater(float(row[name]), 0, name)
        self.plots(folder, "transformer-sizes", ["speedup by size", "small", "2.7B", "context 4", "fwd_bwd", "full_step"])

    def test_published_sizes_that_do_not_fit_say_so(self):
        sweep, folder = self.suite("transformer-sizes", "--axis", "language_model.size=5", "--axis", "language_model.T=1024",
                                   "--axis", "language_model.B=64", "--phase", "step", "--budget", "100000", expect=5)
        self.assertEqual([c["trials"][0]["status"] for c in sweep["cases"]], ["oom"])
        _, rows = read(f"{folder}/transformer-sizes.csv")
        self.assertEqual(rows[0]["num_params_millions"], "3406.81")
        self.assertRegex(rows[0]["full_step_vanilla_ms"], BYTES)
        self.assertRegex(rows[0]["full_step_compiled_ms"], BYTES)
        # What was not asked for is no failure; `unsupported` is what cannot be done.
        for column in SIZES[4:10]:
            self.assertEqual(rows[0][column], "skipped", column)
        self.assertEqual(rows[0]["full_step_speedup"], "OOM")

    def test_components_say_why_in_their_own_figures(self):
        small = ["--axis", "naive_mha.T=32", "--axis", "naive_block.T=32", "--axis", "naive_layernorm.T=64"]
        sweep, folder = self.suite("components", *small, "--budget", "0.05")
        self.assertEqual(len(sweep["cases"]), 4)
        for case in sweep["cases"]:
            self.assertEqual([b["name"] for b in case["baselines"]], ["loop", "optimised"])
            forms = {w["form"]: w for w in case["work"]}
            self.assertEqual(list(forms), ["naive", "optimised", "compiled"])
            sentences = case["explanation"].split(". ")
            self.assertEqual(len(sentences), 2, case["explanation"])
            for sentence, (before, now) in zip(sentences, [("naive", "optimised"), ("optimised", "compiled")]):
                self.assertTrue(sentence.startswith(now + " takes "), sentence)
                for key, unit in (("operators", " operators"), ("passes", " times")):
                    text = "{:.1f}" if key == "passes" else "{}"
                    mine, other = (text.format(forms[f][key]) for f in (now, before))
                    wanted = f"{mine}{unit} " + ("as before" if mine == other else f"instead of {other}")
                    self.assertIn(wanted, sentence)
                timing = {"naive": case["baselines"][0], "optimised": case["baselines"][1], "compiled": case["trials"][0]}
                shares = [(t["flops_share"], t["bytes_share"]) for t in (timing[now], timing[before])]
                at = 0 if shares[0][0] >= shares[0][1] else 1
                peak = ("arithmetic peak", "memory bandwidth")[at]
                said = ["{:.0f}".format(100 * s[at]) if s[at] >= 0.1 else "{:.2g}".format(100 * s[at]) for s in shares]
                self.assertTrue(sentence.rstrip(".").endswith(
                    f", at {said[0]} % of the machine's {peak} instead of {said[1]} %"), sentence)
                flops = ["{:.4g}".format(forms[f]["flops"] * 1e-6) for f in (now, before)]
                self.assertIn(f"{flops[0]} million sums and products", sentence)
            self.assertLess(forms["optimised"]["operators"], forms["naive"]["operators"])
        head, rows = read(f"{folder}/components.csv")
        self.assertEqual(head, ["component", "form", "time_ms", "std_ms", "samples_per_s", "speedup", "error", "status"])
        self.assertEqual([r["form"] for r in rows], ["naive", "optimised", "compiled"] * 4)
        self.assertEqual({r["status"] for r in rows}, {"success"})
        self.plots(folder, "components", ["speedup over the naive form", "naive", "optimised", "compiled", "mha", "layernorm"])

    def peer(self, python):
        """A row with another Python beside it: the names of its baselines, its notes, and its CSV."""
        sweep, folder = self.suite("components", "--targets", "naive_layernorm", "--axis", "naive_layernorm.T=16", "--axis",
                                   "naive_layernorm.D=24", "-n", "2", "--budget", "0.02", "--peer", python)
        case = sweep["cases"][0]
        return [b["name"] for b in case["baselines"]], case["notes"], read(f"{folder}/components-n2.csv")[1]

    def test_a_python_with_torch_is_one_more_column(self):
        names, notes, rows = self.peer(sys.executable)
        if names == ["loop", "optimised"]:  # no compiler for what it generates
            self.assertRegex(notes[-1], r"^torch\.compile is not there: \[")
            return
        self.assertEqual(names, ["loop", "optimised", "torch.compile", "torch.compile vmap"], notes)
        self.assertEqual([r["form"] for r in rows], ["naive", "optimised", "torch.compile", "compiled"])
        self.assertGreater(float(rows[2]["time_ms"]), 0)

    def test_its_step_is_that_of_the_whole_network(self):
        sizes = {"size": 0, "D": 8, "F": 12, "L": 2, "h": 2, "V": 11, "T": 6}
        axes = [word for axis, size in sizes.items() for word in ("--axis", f"language_model.{axis}={size}")]
        sweep, _ = self.suite("transformer-sizes", *axes, "--phase", "step", "--budget", "0.02", "--peer", sys.executable)
        case = sweep["cases"][0]
        if not case["notes"]:
            self.assertEqual([b["name"] for b in case["baselines"]], ["loop", "torch.compile", "torch.compile vmap"])
        else:
            self.assertRegex(case["notes"][-1], r"^torch\.compile is not there: \[.*compiler")

    def test_a_python_without_it_is_said_and_no_error(self):
        names, notes, rows = self.peer("/bin/false")
        self.assertEqual(names, ["loop", "optimised"])
        self.assertEqual(notes, ["torch.compile is not there: [/bin/false] it said nothing"])
        self.assertEqual([r["form"] for r in rows], ["naive", "optimised", "compiled"])

    def test_other_sweeps_have_no_suite(self):
        db = self.path("r.db")
        self.workbench("sweep", "ci", "--targets", "linear", "-n", "2", "--strategy", "linear=einsum", "--budget", "0.01",
                       "--db", db, "--quiet")
        run = self.workbench("report", "last", "--db", db, "--csv-suite", self.path("suite"), expect=2)
        self.assertRegex(run.stderr, r"^\[--csv-suite\] sweep: got ci, expected cases of a suite \(attention-grid, components, transformer-sizes\).*\n$")
        self.assertFalse(os.path.exists(self.path("suite")))


if __name__ == "__main__":
    unittest.main()
