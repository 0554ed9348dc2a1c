"""Every number that sweeps and fusions report is computed again by the auditor; planted errors are found.

By hand, over N drawn sweeps instead of a few: WORKBENCH_AUDIT_DRAWN=60 python audit_reports_test.py Drawn
"""
import copy
import json
import os
import random
import statistics
import sys
import tempfile
import unittest

try:
    import scipy  # noqa: F401
    import torch
    import torch.nn as nn
    from safetensors.torch import load_file, save_file
    import audit_reports as auditor
    from audit import fusion, samples, sweep, timings, work
    from command_line import CommandLine, randomised
except ImportError as error:
    print(f"needs torch, safetensors and scipy: {error}")
    sys.exit(1)

# Peaks of the machine that no other test measures anew meanwhile.
CACHE = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = CACHE.name
DRAWN = int(os.environ.get("WORKBENCH_AUDIT_DRAWN", "1"))
FORMATS = {"csv": auditor.audit_csv, "md": auditor.audit_markdown, "html": auditor.audit_html,
           "junit": auditor.audit_junit}


class Audited(CommandLine):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.db = self.path("results.db")

    def sweep(self, *arguments, seed=0, expect=0, preset="ci", **known):
        """A report that has been audited, with the store and all formats."""
        arguments = ["sweep", preset, *arguments, "--json", self.path("sweep.json"), "--quiet", "--db", self.db]
        arguments += ["--seed", str(seed)] if seed else []
        self.workbench(*arguments, expect=expect)
        report = auditor.read(self.path("sweep.json"))
        errors = auditor.audit_sweep(report, seed, arguments, **known)
        errors += auditor.audit_store(report, self.db) + self.format_errors(report["sweep"]["id"], report)
        self.assertEqual(errors, [])
        return report

    def format_errors(self, sweep_or_file, report):
        options = [word for name in (*FORMATS, "json") for word in ("--" + name, self.path("out." + name))]
        self.workbench("report", sweep_or_file, *options, "--db", self.db)
        errors = [] if auditor.read(self.path("out.json")) == report else ["json: differs from what the sweep wrote"]
        for name, audit in FORMATS.items():
            with open(self.path("out." + name), encoding="utf-8", newline="") as file:
                errors += audit(report, file.read())
        return errors

    def fuse(self, model, *arguments, models=None, seed=0, **known):
        arguments = ["fuse", model, *arguments, "--json", self.path("fuse.json"), "--explain", "--db", self.db,
                     "--budget", "0.02"]
        self.workbench(*arguments)
        report = auditor.read(self.path("fuse.json"))
        if models is not None and "--outputs" in arguments:
            written = load_file(self.path("y.safetensors"))
            models.outputs = [written[f"output.{k}"] for k in range(len(written))]
        errors = auditor.audit_fusion(report, seed, arguments, models, **known)
        errors += auditor.audit_fusion_store(report, self.db, 1)
        self.assertEqual(errors, [])
        return report


class Sweeps(Audited):
    def test_several_targets_ns_and_dtypes(self):
        report = self.sweep("--targets", "linear,layernorm,lenet", "-n", "2,5", "--dtype", "f32,f64", "--budget",
                            "0.005", "--name", "audited", "--axis", "lenet.H=12,14", name="audited",
                            asked={"n": [2, 5], "dtype": ["f32", "f64"],
                                   "target": ["linear", "layernorm", "lenet"], "phase": ["forward"]})
        self.assertEqual(len(report["cases"]), 2 * 2 * 4)

    def test_phases_threads_and_seeds(self):
        self.sweep("--targets", "linear,attention", "--phase", "forward,backward,step", "-n", "3", "--threads", "1",
                   "--budget", "0.01", seed=7, asked={"phase": ["forward", "backward", "step"]})

    def test_what_is_unsupported(self):
        report = self.sweep("--targets", "conv2d", "--dtype", "f64", "--mode", "default,reduce-overhead", "-n", "2,4",
                            "--budget", "0.01")
        self.assertIn("unsupported", {t["status"] for c in report["cases"] for t in c["trials"]})

    def test_what_hangs(self):
        report = self.sweep("--targets", "linear", "-n", "2", "--budget", "0.01", "--timeout", "0.02", expect=5)
        self.assertIn("timeout", {t["status"] for c in report["cases"] for t in c["trials"]})

    def test_comparisons(self):
        reports = []
        for name in ("before", "after"):
            reports.append(self.sweep("--targets", "linear,embedding", "-n", "2,3,5", "--budget", "0.01",
                                      "--name", name))
        before, after = reports
        self.assertEqual(self.compared("before", "after", before, after), [])
        # As quiet machines would take them, one strategy slower, one baseline drifting, one case disturbed.
        before, after = quiet(before), quiet(after, noise=8)
        for case in after["cases"]:
            for t in case["trials"] + case["baselines"]:
                slower = {"einsum": 3.0, "vmap": 1.04}.get(t["name"], 1.0)
                t["samples_ns"] = [slower * s for s in t["samples_ns"]]
        after["cases"][0]["other_load"] = 0.3
        settle(after)
        files = [self.path("a.json"), self.path("b.json")]
        for file, report in zip(files, (before, after)):
            write(file, report)
        self.assertEqual(self.compared(*files, before, after), [])
        verdicts = {t["verdict"] for t in auditor.read(self.path("compare.json"))["trials"]}
        self.assertTrue({"SLOWER", "UNCLEAR"} <= verdicts, verdicts)

    def compared(self, a, b, before, after, change=None):
        self.workbench("compare", a, b, "--json", self.path("compare.json"), "--db", self.db)
        got = auditor.read(self.path("compare.json"))
        if change:
            change(got)
        return auditor.audit_comparison(got, before, after)


class Drawn(Audited):
    """Sweeps whose targets, Ns, dtypes, phases, threads and seeds are drawn."""

    def test_drawn(self):
        for seed in range(DRAWN):
            draw = random.Random(seed)
            targets = draw.sample(sorted(work.TARGETS), 3)
            asked = {"target": targets, "n": sorted(draw.sample(range(1, 12), draw.choice([1, 2]))),
                     "dtype": draw.sample(["f32", "f64"], draw.choice([1, 1, 2])),
                     "phase": [draw.choice(["forward", "forward", "backward", "step"])]}
            arguments = ["--targets", ",".join(targets), "-n", ",".join(map(str, asked["n"])), "--dtype",
                         ",".join(asked["dtype"]), "--phase", asked["phase"][0], "--budget", "0.005"]
            if draw.random() < 0.5:
                arguments += ["--threads", "1"]
            with self.subTest(seed=seed, arguments=" ".join(arguments)):
                self.sweep(*arguments, seed=seed, asked=asked)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(8 * 16, 5)
        self.norm = nn.LayerNorm(5)

    def forward(self, x, scale):
        logits = self.head(self.features(x).flatten(1))
        return self.norm(logits) * scale, logits.softmax(-1)


class Exported(Audited):
    """With a network to fuse."""

    def export(self, n=4, same_head=False):
        """An exported network, checkpoints and inputs of n models, as `Models`."""
        modules = [randomised(Net, seed) for seed in range(n)]
        if same_head:
            for module in modules[1:]:
                module.head.load_state_dict(modules[0].head.state_dict())
        torch.manual_seed(99)
        x, scale = torch.randn(n, 2, 3, 8, 8), torch.rand(n, 2, 5)
        torch.export.save(torch.export.export(modules[0], (x[0], scale[0])), self.path("net.pt2"))
        files = [self.path(f"w{i}.safetensors") for i in range(n)]
        for module, file in zip(modules, files):
            save_file({k: v.contiguous() for k, v in module.state_dict().items()}, file)
        save_file({"x": x, "scale": scale}, self.path("x.safetensors"))
        return auditor.Models(modules, [[x[i], scale[i]] for i in range(n)], files=files)

    def arguments(self, models, *more):
        return [self.path("net.pt2"), "--weights", *models.files, "--inputs", self.path("x.safetensors"),
                "--outputs", self.path("y.safetensors"), *more]


class Fusions(Exported):
    def test_an_exported_network_against_separate_modules(self):
        models = self.export()
        report = self.fuse(*self.arguments(models), models=models, ns=[4])
        self.assertGreater(report["correctness"]["max_rel"], 0)

    def test_several_ns_in_double(self):
        models = self.export()
        models = auditor.Models([m.double() for m in models.modules],
                                [[t.double() for t in inputs] for inputs in models.inputs], files=models.files)
        self.fuse(*self.arguments(models, "-n", "1,2,4", "--dtype", "f64"), models=models, ns=[1, 2, 4])

    def test_reduced_and_shared(self):
        for kind in ("mean", "std", "vote"):
            models = self.export(same_head=True)
            self.db = self.path(kind + ".db")
            self.fuse(*self.arguments(models, "--reduce", kind), models=models)
        models = self.export(same_head=True)
        self.db = self.path("shared.db")
        report = self.fuse(*self.arguments(models, "--share-weights"), models=models)
        self.assertGreater(report["weights"]["equal_bytes"], 0)

    def test_registered_names(self):
        report = self.fuse("mlp", "-n", "2,5,9", "--threads", "1", ns=[2, 5, 9])
        self.assertEqual(report["along_n"]["best_n"] in (2, 5, 9), True)


def write(path, report):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file)


# ---- reports as a quiet machine gives them, into which errors are planted

TIMES_US = {"loop": 100, "threads": 70, "vmap": 80}  # of the others: 30, and 69 for the second candidate


def quiet(report, noise=7):
    """The report with the times of an undisturbed machine."""
    report, draw = copy.deepcopy(report), random.Random(noise)
    for where in report.get("cases") or report.get("curve") or [report]:
        where["other_load"] = 0.02
        where["notes"] = [n for n in where["notes"] if not n.startswith("disturbed")]
        candidates = [t for t in where.get("trials", []) + where.get("results", []) if t["kind"] == "candidate"]
        timed = [t for t in where.get("baselines", []) + candidates + where.get("results", []) if t["samples_ns"]]
        for t in timed:
            middle = TIMES_US.get(t["name"] if t["kind"] == "baseline" else "", 30)
            if t in candidates[1:2] and middle == 30:
                middle = 69
            t["samples_ns"] = [1e3 * middle * draw.gauss(1, 0.004) for _ in range(20)] + [1.5e3 * middle]
            t["calls_per_sample"] = 40
    settle(report)
    return report


def settle_timing(t, where):
    t.update(samples.summary(t["samples_ns"]))
    if not t["samples_ns"]:
        return
    seconds = t["median_ns"] * 1e-9
    t["flops_share"] = t["flops"] / seconds / where.peaks.flops[where.dtype]
    t["bytes_share"] = t["bytes"] / seconds / where.peaks.bandwidth(t["bytes"])
    t["bound"] = "unknown"
    shares = {"compute": t["flops_share"], "memory": t["bytes_share"],
              "launch": t["steps"] * where.peaks.step_ns / t["median_ns"] /
                        (min(where.peaks.threads, where.n) if t["name"] == "threads" else 1)}
    most = max(shares, key=shares.get)
    if shares[most] >= 0.4:
        t["bound"] = most


def settle(report):
    """Makes all that follows from the samples follow from them."""
    peaks = timings.Peaks(report["environment"])
    for case in report.get("cases", []):
        where = sweep.Where(case, peaks, 10)
        case["disturbed"] = case["other_load"] > 0.1
        for t in case["baselines"] + case["trials"]:
            settle_timing(t, where)
        for t in case["trials"]:
            if t["speedup"] is None:
                continue
            s = timings.speedups(case["baselines"], t, 0)
            for name, key in (("vs_loop", "vs_loop"), ("vs_best_baseline", "vs_best")):
                t["speedup"][name].update(value=s[key][0], ci95=list(s[key][1:]))
            t["speedup"]["vs_best_baseline"]["name"] = s["name"]
            t["verdict"] = "UNCLEAR" if case["disturbed"] else samples.verdict(*s["vs_best"])
    if "cases" in report:
        report["crossover"] = sweep.crossovers(report["cases"], lambda _, t: t["verdict"] == "FASTER")
        return
    for point in report["curve"]:
        point["disturbed"] = False
        for t in point["results"]:
            settle_timing(t, fusion.Where(report, point, None))
        s = timings.speedups(point["results"][:-1], point["results"][-1], 0)
        point["speedup"] = {"vs_loop": s["vs_loop"][0], "vs_loop_ci95": list(s["vs_loop"][1:]),
                            "vs_best_baseline": s["vs_best"][0], "vs_best_baseline_ci95": list(s["vs_best"][1:]),
                            "best_baseline": s["name"]}
    last = report["curve"][-1]
    report.update(copy.deepcopy(last))
    medians = [p["results"][-1]["median_ns"] for p in report["curve"]]
    rates = [1e9 * p["n"] / m for p, m in zip(report["curve"], medians)]
    report["along_n"] = {"crossover": report["curve"][0]["n"], "models_per_s": max(rates),
                         "best_n": report["curve"][rates.index(max(rates))]["n"]}


def trial(report, index=0, case=0):
    return report["cases"][case]["trials"][index]


def outlier_dropped(report):
    t = trial(report)
    t["outliers"] = 0


def warm_up_counted(report):
    t = trial(report)
    t["median_ns"] = statistics.median([t["first_call_ns"]] + t["samples_ns"])


def not_the_best(report):
    best = trial(report)["speedup"]["vs_best_baseline"]
    value, low, high = samples.interval(report["cases"][0]["baselines"][0]["samples_ns"], trial(report)["samples_ns"], 0)
    best.update(name="loop", value=value, ci95=[low, high])


def wrong_interval(report):
    s = trial(report)["speedup"]
    s["vs_best_baseline"]["ci95"] = s["vs_loop"]["ci95"]


def narrow_interval(report):
    s = trial(report)["speedup"]["vs_best_baseline"]
    s["ci95"] = [s["value"] * (end / s["value"])**0.9 for end in s["ci95"]]


def not_widened(report):
    t = trial(report)
    best = samples.best(report["cases"][0]["baselines"], t)
    factor = samples.widening(*map(samples.np.asarray, (best["samples_ns"], t["samples_ns"])))
    s = t["speedup"]["vs_best_baseline"]
    s["ci95"] = [s["value"] * (end / s["value"])**(1 / factor) for end in s["ci95"]]


def too_early(report):
    entry = next(c for c in report["crossover"] if c["n"] is None)
    entry["n"] = max(c["n"] for c in report["cases"])


def ratio_of_other_medians(report):
    s = trial(report)["speedup"]["vs_loop"]
    s.update(value=1 / s["value"], ci95=[1 / s["ci95"][1], 1 / s["ci95"][0]])


def not_disturbed(report):
    report["cases"][0]["other_load"] = 0.3


def wrong_but_fast(report):
    trial(report)["correctness"]["max_rel"] = 0.2


def incorrect_with_speedup(report):
    t = trial(report)
    t["correctness"].update(max_rel=0.2, failure="output 0 of model 1: relative error 0.2", **{"pass": False})
    t.update(status="incorrect", reason="output 0 of model 1: relative error 0.2")


def second_chosen(report):
    for t in report["cases"][0]["trials"]:
        t["chosen"] = True


def renamed(report):
    trial(report)["p95_ns"] = 1.0


SWEEP_ERRORS = {
    "the mean for the median": (lambda r: trial(r).update(median_ns=statistics.mean(trial(r)["samples_ns"])),
                                r"trials\[0\].median_ns"),
    "quartiles of another definition": (
        lambda r: trial(r).update(q1_ns=statistics.quantiles(trial(r)["samples_ns"], n=4)[0]), r"q1_ns"),
    "an outlier that is not counted": (outlier_dropped, r"outliers: got 0, expected 1"),
    "a sample of the warm-up in the median": (warm_up_counted, r"median_ns"),
    "a best baseline that is not the best": (not_the_best, r"vs_best_baseline.name: got 'loop'"),
    "the interval of another ratio": (wrong_interval, r"vs_best_baseline.ci95"),
    "an interval of 90 %": (narrow_interval, r"vs_best_baseline.ci95"),
    "rounds taken for independent": (not_widened, r"vs_best_baseline.ci95"),
    "a speedup upside down": (ratio_of_other_medians, r"vs_loop.value"),
    "FASTER within 3 %": (lambda r: trial(r, 1).update(verdict="FASTER"), r"trials\[1\].verdict: got 'FASTER'"),
    "a crossover where nothing is faster": (too_early, r"crossover\[\d+\].n"),
    "a share of another peak": (lambda r: trial(r).update(flops_share=2 * trial(r)["flops_share"]), r"flops_share"),
    "a share of the memory's bandwidth": (
        lambda r: trial(r).update(bytes_share=trial(r)["bytes"] / trial(r)["median_ns"] * 1e9 /
                                  r["environment"]["peaks"]["bytes_per_s"]), r"bytes_share"),
    "the bytes of one model": (lambda r: trial(r).update(bytes=trial(r)["bytes"] / r["cases"][0]["n"]),
                               r"trials\[0\].bytes: got"),
    "sums counted once": (lambda r: trial(r).update(flops=trial(r)["flops"] / 2), r"trials\[0\].flops: got"),
    "disturbed and not marked": (not_disturbed, r"disturbed: got False"),
    "a pass above what is allowed": (wrong_but_fast, r"correctness.pass: got True"),
    "a speedup of what is incorrect": (incorrect_with_speedup, r"speedup"),
    "two strategies chosen": (second_chosen, r"several are chosen"),
    "fewer samples than there must be": (lambda r: r["cases"][0]["baselines"][0].update(
        samples_ns=r["cases"][0]["baselines"][0]["samples_ns"][:4]), r"4 samples of \d+ calls are too few"),
    "a baseline of another network": (lambda r: r["cases"][0]["baselines"][0].update(
        steps=r["cases"][0]["baselines"][0]["steps"] + 1), r"run different operators"),
    "a field that nobody knows": (renamed, r"p95_ns: got 1.0, which nobody audits"),
    "another machine's threads": (lambda r: r["environment"].update(threads=99), r"environment.threads"),
}


def coverage_off(report):
    report["curve"][0]["coverage"]["strategy"] += 1


def half_error(report):
    report["correctness"]["max_rel"] /= 2
    report["curve"][-1]["correctness"]["max_rel"] /= 2


FUSION_ERRORS = {
    "a node counted twice": (coverage_off, r"curve\[0\].coverage.strategy: all ways have"),
    "a share of the time that is off": (
        lambda r: r["coverage_time"].update(strategy=r["coverage_time"]["strategy"] * 0.9), r"coverage_time"),
    "models a second of one model": (
        lambda r: r["along_n"].update(models_per_s=r["along_n"]["models_per_s"] / r["along_n"]["best_n"]),
        r"along_n.models_per_s"),
    "faster from the second n": (
        lambda r: r["along_n"].update(crossover=r["curve"][1]["n"]), r"along_n.crossover"),
    "the memory of one model": (
        lambda r: r["memory"].update(separate_bytes=r["memory"]["separate_bytes"] // 4), r"memory.separate_bytes"),
    "an error that the outputs do not have": (half_error, r"correctness.max_rel"),
    "weights counted once": (lambda r: r["weights"].update(packed_bytes=r["weights"]["packed_bytes"] // 4),
                             r"weights.packed_bytes"),
    "chosen although it fails": (
        lambda r: r["correctness"].update({"pass": False, "failure": "output 0: relative error 1"}), r"chosen"),
    "the interval of another baseline": (
        lambda r: r["speedup"].update(vs_best_baseline_ci95=r["speedup"]["vs_loop_ci95"]), r"vs_best_baseline_ci95"),
    "a first call that was another's": (lambda r: r.update(first_call_ns=1.0), r"first_call_ns"),
    "the first point at the top": (lambda r: r.update(r["curve"][0]), r"n: differs from the last point"),
}


class Planted(Exported):
    """All of these must be found."""
    made = None

    def linear_sweep(self):
        """One sweep for all tests, audited, with its store."""
        self.db = os.path.join(CACHE.name, "planted.db")
        if Planted.made is None:
            Planted.made = self.sweep("--targets", "linear", "-n", "3,4", "--budget", "0.01", "--name", "a")
        return copy.deepcopy(Planted.made)

    def found(self, planted, report, audit):
        self.assertEqual(audit(copy.deepcopy(report)), [])
        for name, (plant, pattern) in planted.items():
            with self.subTest(name):
                changed = copy.deepcopy(report)
                plant(changed)
                self.assertRegex("\n".join(audit(changed)), pattern)

    def test_sweeps(self):
        report = quiet(self.linear_sweep())
        self.found(SWEEP_ERRORS, report, auditor.audit_sweep)

    def test_fusions(self):
        models = self.export()
        report = quiet(self.fuse(*self.arguments(models, "-n", "1,2,4"), models=models))
        self.found(FUSION_ERRORS, report, lambda r: auditor.audit_fusion(r, models=models))

    def test_formats(self):
        report = quiet(self.linear_sweep())
        report["cases"][0]["other_load"] = 0.3
        t = trial(report, -1)
        t.update(status="skipped", reason="no budget", correctness=None, samples_ns=[], speedup=None, verdict=None,
                 chosen=False, first_call_ns=0, steps=0, flops=0, bytes=0, flops_share=None, bytes_share=None,
                 bound=None, with_packing_ns=None)
        settle(report)
        write(self.path("quiet.json"), report)
        self.assertEqual(self.format_errors(self.path("quiet.json"), report), [])
        texts = {}
        for name in FORMATS:
            with open(self.path("out." + name), encoding="utf-8", newline="") as file:
                texts[name] = file.read()
        median = repr(trial(report)["median_ns"])
        for name, old, new in (
                ("csv", median, repr(trial(report, 1)["median_ns"])), ("csv", ",vs_loop,", ",vs_best,"),
                ("csv", "UNCLEAR", "FASTER"), ("md", "| 30.", "| 31."), ("md", "| never |", "| 3 |"),
                ("md", "30 % of cores", "3 % of cores"), ("html", f'data-v="{median}"', 'data-v="1"'),
                ("html", "3.33x", "2.33x"), ("junit", f'value="{median}"', 'value="1"'),
                ("junit", 'skipped="1"', 'skipped="0"')):
            with self.subTest(f"{new} for {old} in {name}"):
                self.assertIn(old, texts[name])
                self.assertNotEqual(FORMATS[name](report, texts[name].replace(old, new, 1)), [])

    def test_stores_and_comparisons(self):
        report = self.linear_sweep()
        changed = copy.deepcopy(report)
        trial(changed)["samples_ns"].reverse()
        trial(changed, 1)["speedup"]["vs_loop"]["value"] += 1e-9
        errors = "\n".join(auditor.audit_store(changed, self.db))
        self.assertRegex(errors, "trial 0: other samples")
        self.assertRegex(errors, "trial 1 vs_loop: got")
        before, after = quiet(report), quiet(report, noise=9)
        write(self.path("b.json"), before)
        write(self.path("c.json"), after)

        def narrow(data):
            change = data["trials"][0]["change"]
            change["interval"] = [(end + change["value"]) / 2 for end in change["interval"]]

        for name, change, pattern in (
                ("an interval too narrow", narrow, "interval"),
                ("a change upside down", lambda d: d["trials"][0]["change"].update(
                    value=1 / d["trials"][0]["change"]["value"]), "value"),
                ("noise that is left out", lambda d: d.update(noise=0.0), "noise"),
                ("a trial that is left out", lambda d: d["trials"].pop(), "trials")):
            with self.subTest(name):
                self.workbench("compare", self.path("b.json"), self.path("c.json"), "--json", self.path("d.json"))
                got = auditor.read(self.path("d.json"))
                self.assertEqual(auditor.audit_comparison(got, before, after), [])
                change(got)
                self.assertRegex("\n".join(auditor.audit_comparison(got, before, after)), pattern)


class Statistics(unittest.TestCase):
    def test_mersenne_twister(self):  # the number that the C++ standard gives for mt19937_64
        self.assertEqual(int(samples.mersenne_twister(5489, 10000)[-1]), 9981545732273789042)

    def test_other_draws_give_nearly_the_same_interval(self):
        draw = samples.np.random.default_rng(3)
        for count in (10, 24, 60):
            a, b = draw.lognormal(0.7, 0.05, count), draw.lognormal(0, 0.05, count)
            value, low, high = samples.interval(a, b, 0)
            rough = samples.rough_interval(a, b, count)
            self.assertEqual(value, rough[0])
            for end, other in ((low, rough[1]), (high, rough[2])):
                self.assertLess(abs(end - other), 0.3 * (high - low))

    def test_intervals_hold_the_truth(self):
        draw = samples.np.random.default_rng(5)
        inside = 0
        for _ in range(100):
            _, low, high = samples.rough_interval(draw.lognormal(0.7, 0.1, 30), draw.lognormal(0, 0.1, 30))
            inside += low <= samples.math.exp(0.7) <= high
        self.assertGreater(inside, 88)


if __name__ == "__main__":
    unittest.main()
