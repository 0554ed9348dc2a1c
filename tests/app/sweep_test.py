"""Sweeps through the real binary: what would run, what ends them, and what is kept."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from folder import InFolder
from processes import alive, children

BINARY = os.environ["WORKBENCH_BINARY"]
QUICK = ["--no-store", "--budget", "0.01"]


def workbench(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


class Sweep(InFolder):
    def preset(self, **keys):
        text = {"schema": 2, "name": "mine", "description": "d", "targets": ["layernorm"],
                "sweep": "ci", "n": [2], "budget_s": 0.01, **keys}
        with open(self.path("mine.json"), "w", encoding="utf-8") as file:
            json.dump({k: v for k, v in text.items() if v is not None}, file)
        return self.path("mine.json")

    def refused(self, pattern, *arguments):
        run = workbench("sweep", *arguments, "--dry-run")
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertRegex(run.stderr, pattern)

    def start(self, *arguments):
        process = subprocess.Popen([BINARY, "sweep", *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    # ---- what would run

    def test_dry_run_says_all_and_runs_nothing(self):
        run = workbench("sweep", "ci", "--dry-run", "--json", self.path("none.json"))
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, r"^sweep ci: \d+ cases, \d+ trials, about \d+.*hanging\n")
        self.assertRegex(run.stdout, r"\n  layernorm +2 +\d+  4,16  B4 T64 D128 +one_pass, wide, vmap, per_model")
        self.assertFalse(os.path.exists(self.path("none.json")))

    def test_baselines_are_those_that_were_asked_for(self):
        for preset, asked, expected in (({}, ["--baselines", "loop,vmap"], {"loop", "vmap"}),
                                        ({"baselines": ["loop"]}, [], {"loop"}),
                                        ({"baselines": ["loop"]}, ["--baselines", "vmap"], {"vmap"})):
            report = self.path("report.json")
            run = workbench("sweep", self.preset(**preset), *QUICK, "--quiet", *asked, "--json", report)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            with open(report, encoding="utf-8") as file:
                cases = json.load(file)["cases"]
            self.assertGreater(len(cases), 0)
            for case in cases:
                self.assertEqual({b["name"] for b in case["baselines"]}, expected)
        self.refused(r"^\[--baselines\] baseline: got lop, expected one of loop, threads, vmap, .*; try ", self.preset(),
                     "--baselines", "loop,lop")

    def test_lists_multiply_and_repeat_nothing(self):
        run = workbench("sweep", self.preset(), "--dry-run", "--targets", "layernorm,linear,layernorm",
                        "-n", "2,3,2", "--dtype", "f32,f64", "--phase", "forward,backward",
                        "--mode", "eager,default", "--device", "cpu,cpu", "--strategy",
                        "linear=einsum", "--axis", "layernorm.D=8,16", "--axis", "layernorm.B=1,2")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = {line.split()[0]: line.split() for line in run.stdout.splitlines()[2:]}
        kinds = 2 * 2 * 2 * 2  # N, dtype, phase, mode
        self.assertEqual(rows["linear"][1:3], [str(kinds), str(kinds)])
        self.assertEqual(int(rows["layernorm"][1]), kinds * 4)

    def test_every_preset_plans(self):
        listed = json.loads(workbench("list", "presets", "--json").stdout)["presets"]
        names = [p["name"] for p in listed]
        self.assertTrue({"quick", "full", "ci", "models", "published"} <= set(names), names)
        for name in names:
            self.assertEqual(workbench("sweep", name, "--dry-run").returncode, 0, name)

    def test_published_has_its_rows_and_says_whose_figures(self):
        report = self.path("r.json")
        run = workbench("sweep", "published", "--targets", "mlp", *QUICK, "--json", report)
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = [line.split() for line in run.stdout.split("sweep published ·")[1].splitlines()]
        ours = [row for row in rows if row[:1] == ["mlp"]]
        self.assertEqual([(row[1], row[-1]) for row in ours], [("20", "3.2x"), ("100", "40x")])
        self.assertRegex(run.stdout, "published: .*A100.*[Aa]nother machine, another method")
        plot = workbench("report", report, "--svg", "-", "--published")
        self.assertEqual((plot.returncode, plot.stderr), (0, ""))
        self.assertIn("published (A100)", plot.stdout)
        self.assertNotIn("published (A100)", workbench("report", report, "--svg", "-").stdout)
        # Where there are no figures, that is said.
        backward = workbench("sweep", self.preset(targets=["linear"]), "--phase", "backward", *QUICK, "--json", report)
        self.assertEqual(backward.returncode, 0, backward.stderr)
        plot = workbench("report", report, "--svg", "-", "--published")
        self.assertEqual((plot.returncode, plot.stdout), (2, ""))
        self.assertEqual(plot.stderr, "[--published] figures: got none of forward calls of linear in f32, expected a target of the "
                         "sweep published; try it without --published\n")

    def test_presets_are_held_against_their_schema(self):
        self.refused(r"mine.json\] budget_s: got \"long\", expected a number of seconds; try 0.5",
                     self.preset(budget_s="long"))
        self.refused(r"targets: got \"linear\", expected a list of names", self.preset(targets="linear"))
        self.refused(r"key: got buget_s, expected one of .*; try budget_s", self.preset(buget_s=1))
        self.refused(r"schema: got 7, expected 2", self.preset(schema=7))
        self.refused(r"schema: got 0, expected 2", self.preset(schema=None))
        self.refused(r"sweep: got fast, expected quick, full and ci|sweep: got fast", self.preset(sweep="fast"))
        self.refused(r"modes: got warp, expected eager", self.preset(modes=["warp"]))
        self.refused(r"dtypes: got none, expected at least one", self.preset(dtypes=[]))
        self.refused(r"phases: got sideways", self.preset(phases=["sideways"]))
        self.refused(r"n: got 0, expected positive", self.preset(n=[0]))
        self.refused(r"n: got 1000000001, expected positive numbers up to 1000000000", self.preset(n=[1000000001]))
        self.refused(r"n: got \"4\", expected a list of numbers", self.preset(n="4"))
        self.refused(r"n: got \[4.5\], expected a list of numbers", self.preset(n=[4.5]))
        self.refused(r"n: got \[1e\+99\], expected a list of numbers", self.preset(n=[1e99]))
        self.refused(r"axes: got .*expected sizes by axis by target", self.preset(axes={"linear": [1]}))
        self.refused(r"axis: got Q, expected one of B", self.preset(axes={"layernorm": {"Q": [1]}}))
        self.refused(r"lineer", self.preset(axes={"lineer": {"B": [1]}}))
        self.refused(r"phase: got sideways, expected forward", self.preset(), "--phase", "sideways")
        self.refused(r"\[mine\] strategies: got one_pas, expected one that a target has; try one_pass",
                     self.preset(strategies=["vmap", "one_pas"]))
        # One that only other targets have is no mistake.
        self.assertEqual(workbench("sweep", self.preset(strategies=["vmap", "einsum"]), "--dry-run").returncode, 0)
        for twice in (["linear=packed", "linear=einsum"], ["linear=einsum,linear=einsum"], ["*=vmap", "*=per_model"]):
            words = [word for one in twice for word in ("--strategy", one)]
            self.refused(r"\[--strategy\] strategy: got (linear|\*) twice, expected it once", self.preset(), *words)
        with open(self.path("torn.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.refused(r"torn.json\] preset: got bad JSON", self.path("torn.json"))
        self.refused(r"none.json\] preset: got no readable file", self.path("none.json"))

    def test_figures_beside_a_preset_are_checked(self):
        preset = self.preset(targets=["linear"], n=None)
        why = "as a .csv beside mine.json has its published figures; try .*, or another name for the file"
        for text, pattern in (("linear,32,8\n", r"mine.csv\] line 1: got .*expected target,n,speedup, " + why),
                              ("target,n,speedup\nlinear,x,8\n", r"mine.csv\] line 2: got linear,x,8.*, " + why)):
            with open(self.path("mine.csv"), "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(pattern, preset)

    def test_axes_of_targets_left_out_do_not_matter(self):
        run = workbench("sweep", self.preset(targets=["layernorm", "linear"],
                                             axes={"linear": {"D": [8]}}), "--targets", "layernorm",
                        "--dry-run")
        self.assertEqual(run.returncode, 0, run.stderr)

    # ---- what is shown

    def test_output(self):
        preset = self.preset(targets=["layernorm", "linear"])
        quiet = workbench("sweep", preset, *QUICK, "--quiet")
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (0, "", ""))
        run = workbench("sweep", preset, *QUICK, "--top", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr.splitlines()[1], r"^\[2/2\] linear .* N=2 · [\d.]+ cases/min · \d+ s left$")
        self.assertNotIn("\x1b", run.stderr)
        summary = run.stdout.split("sweep mine ·")[1]
        self.assertIn("and 1 more; --top 0 shows all", summary)
        self.assertRegex(summary, r"time: .*timing \d+ %, compiling and tuning \d+ %, checking \d+ %")
        self.assertIn("next: workbench", summary)

    def test_notes_on_baselines_are_kept_and_shown(self):
        report, db = self.path("notes.json"), self.path("notes.db")
        run = workbench("sweep", self.preset(n=[1]), "--budget", "0.01", "--db", db, "--json", report)
        self.assertEqual(run.returncode, 0, run.stderr)
        note = "baseline threads is not available: one "  # thread, or model
        self.assertIn("\n  note: " + note, run.stdout)
        with open(report, encoding="utf-8") as file:
            notes = json.load(file)["cases"][0]["notes"]
        self.assertTrue(any(n.startswith(note) for n in notes), notes)
        for name in ("json", "md", "html"):
            self.assertIn(note, workbench("report", "last", "--" + name, "-", "--db", db).stdout, name)

    def test_without_a_loop_nothing_is_said_of_it(self):
        report = self.path("no_loop.json")
        run = workbench("sweep", self.preset(baselines=["vmap"]), *QUICK, "--json", report)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("0.00x", run.stdout)
        with open(report, encoding="utf-8") as file:
            speedups = [t["speedup"] for t in json.load(file)["cases"][0]["trials"]]
        self.assertTrue(speedups and all(set(s) == {"vs_best_baseline"} for s in speedups), speedups)
        for name in ("csv", "md", "html", "svg", "junit"):
            text = workbench("report", report, "--" + name, "-", *(["--over", "loop"] if name == "svg" else []))
            self.assertEqual(text.returncode, 0, text.stderr)
            self.assertNotRegex(text.stdout, r"0\.00x|name=\"vs_loop\"", name)

    def test_a_busy_machine_is_said(self):
        spin = [sys.executable, "-c", "while True: pass"]
        others = [subprocess.Popen(spin) for _ in os.sched_getaffinity(0)]
        try:
            run = workbench("sweep", self.preset(), "--no-store", "--budget", "0.05")
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout.splitlines()[1], r"^note: other programs took \d+ % of the cores as it began")
        self.assertRegex(run.stdout, r"UNCLEAR, disturbed\n")
        self.assertRegex(run.stdout, r"\n  1 of 1 cases is disturbed, UNCLEAR: .*--resume --again disturbed")
        self.assertNotRegex(run.stdout, "FASTER|SLOWER")

    # ---- what ends it

    def test_cancel_keeps_what_is_done(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            report = self.path("cut.json")
            process = self.start("ci", "--targets", "layernorm,linear", "--budget", "1.5", "-n", "2,3",
                                 "--no-store", "--json", report)
            process.stderr.readline()
            self.assertTrue(process.stderr.readline().startswith("[2/4]"))
            worker = wait_for(lambda: children(process.pid))[0]
            begun = time.monotonic()
            process.send_signal(how)
            out, errors = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begun, 5)
            self.assertEqual(process.returncode, 130, errors)
            self.assertEqual(errors.splitlines()[-1], "[workbench] cancelled")
            self.assertFalse(alive(worker))
            with open(report, encoding="utf-8") as file:
                data = json.load(file)
            self.assertEqual(data["sweep"]["state"], "cancelled")
            statuses = [{t["status"] for t in c["trials"]} for c in data["cases"]]
            self.assertEqual(statuses, [{"ok"}, {"cancelled"}])
            self.assertIn("layernorm", out)

    def test_the_worker_does_not_outlive_a_killed_sweep(self):
        process = self.start("ci", "--targets", "linear", "--budget", "5", "--no-store")
        worker = wait_for(lambda: children(process.pid))[0]
        wait_for(lambda: os.getpgid(worker) == worker)  # its own group, right after the fork
        time.sleep(1)
        process.kill()
        process.wait()
        wait_for(lambda: not alive(worker), seconds=10)

    def test_a_worker_that_dies_costs_what_ran(self):
        report = self.path("dead.json")
        process = self.start("ci", "--targets", "linear", "-n", "2,3", "--budget", "0.3", "--no-store",
                             "--json", report)
        worker = wait_for(lambda: children(process.pid))[0]
        with open(f"/proc/{worker}/oom_score_adj", encoding="ascii") as file:
            wait_for(lambda: file.seek(0) or int(file.read()) > 0)
        time.sleep(0.5)
        os.kill(worker, signal.SIGSEGV)
        _, errors = process.communicate(timeout=120)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(data["sweep"]["state"], "complete")
        first, second = ([(t["status"], t["reason"]) for t in c["trials"]] for c in data["cases"])
        dead = [reason for status, reason in first if status == "crashed"]
        self.assertTrue(all("SIGSEGV" in reason for reason in dead), dead)
        # It may have met a baseline, which has no status: then every trial is there.
        self.assertLessEqual({status for status, _ in first}, {"ok", "crashed"})
        self.assertEqual({status for status, _ in second}, {"ok"})
        self.assertEqual(process.returncode, 5 if dead else 0, errors)

    def test_too_large_is_oom_without_an_attempt(self):
        report = self.path("large.json")
        begun = time.monotonic()
        run = workbench("sweep", "ci", "--targets", "linear", "-n", "100000000", *QUICK, "--json", report)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(run.returncode, 5, run.stderr)
        with open(report, encoding="utf-8") as file:
            for trial in json.load(file)["cases"][0]["trials"]:
                self.assertEqual(trial["status"], "oom")
                self.assertRegex(trial["reason"], r"no attempt, expected enough \([\d.]+ TB needed by estimate, .* available")

    def test_the_worker_is_not_a_command_for_people(self):
        self.assertNotRegex(workbench("--help").stdout, r"(?m)^  worker")
        run = workbench("worker")
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr, "[worker] pipes: got none, expected those of a sweep; try workbench sweep\n")


if __name__ == "__main__":
    unittest.main()
