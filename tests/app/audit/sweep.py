"""The JSON report of a sweep."""
import re

from . import samples, timings
from .ledger import HELD, INDEPENDENT, RECOMPUTED, Ledger
from .work import work_of_target

CASE = {"target": INDEPENDENT, "n": INDEPENDENT, "shape": HELD, "dtype": INDEPENDENT, "device": INDEPENDENT,
        "mode": INDEPENDENT, "phase": INDEPENDENT, "machine": INDEPENDENT, "other_load": HELD, "disturbed": RECOMPUTED, "notes": HELD,
        "seconds.setup": HELD, "seconds.compile": HELD, "seconds.check": HELD, "seconds.baselines": HELD,
        "seconds.timing": HELD, "seconds.total": HELD, "missing[].name": HELD, "missing[].status": HELD,
        "missing[].reason": HELD, "missing[].needed_bytes": HELD, "baselines": HELD, "trials": HELD}
TRIAL = {**timings.TIMING, "strategy": HELD, "status": HELD, "reason": HELD, "chosen": HELD,
         "needed_bytes": HELD, "speedup": RECOMPUTED, "speedup.vs_loop.value": RECOMPUTED,
         "speedup.vs_loop.ci95": RECOMPUTED, "speedup.vs_best_baseline.value": RECOMPUTED,
         "speedup.vs_best_baseline.ci95": RECOMPUTED, "speedup.vs_best_baseline.name": RECOMPUTED,
         "verdict": RECOMPUTED, "correctness": HELD, **timings.below("correctness", timings.CORRECTNESS)}
CROSSOVER = ("target", "shape", "dtype", "device", "mode", "phase", "strategy", "n")
FIELDS = {"schema": HELD, "sweep.id": HELD, "sweep.name": INDEPENDENT, "sweep.command": INDEPENDENT,
          "sweep.state": HELD, "changes": HELD, "cases": HELD, "crossover": RECOMPUTED,
          **timings.below("environment", timings.ENVIRONMENT), **timings.below("cases[]", CASE),
          **timings.below("cases[].baselines[]", timings.TIMING), **timings.below("cases[].trials[]", TRIAL),
          **{f"crossover[].{name}": RECOMPUTED for name in CROSSOVER}}

STATUSES = ("ok", "incorrect", "unsupported", "oom", "timeout", "crashed", "cancelled", "interrupted", "skipped")
KEY = ("target", "shape", "dtype", "device", "mode", "phase")


class Where:
    """A case as the auditor knows it."""

    def __init__(self, case, peaks, min_samples):
        self.n, self.dtype, self.peaks, self.min_samples = case["n"], case["dtype"], peaks, min_samples
        self.case = case
        self.work = work_of_target(case["target"], case["shape"], case["dtype"], case["phase"])
        steps = {t["steps"] / (1 if t["name"] == "vmap" else self.n) for t in case["baselines"]}
        self.nodes = steps.pop() if len(steps) == 1 else None

    def audit_work(self, ledger, path, t):
        if self.work is None:
            ledger.fail(path + ".flops", f"the auditor has no model of {self.case['target']}")
        elif self.case["phase"] == "forward":
            ledger.independent(path + ".flops", float(t["flops"]), float(self.n * self.work.flops))
            ledger.independent(path + ".bytes", float(t["bytes"]), float(self.n * self.work.bytes))
        else:
            for name, (least, most) in (("flops", self.work.flops), ("bytes", self.work.bytes)):
                ledger.within(f"{path}.{name}", t[name], self.n * least, self.n * most)
        steps = t["steps"] > 0 if t["kind"] == "candidate" else self.nodes is not None
        ledger.held(path + ".steps", steps, "the baselines run different operators")


def audit(report, seed=0, arguments=None, name=None, min_samples=10, asked=None):
    """What is wrong in the report, one line each. `arguments`: of the command that wrote it; `asked`: the
    values that its cases may have, {"n": [2, 4], "dtype": ["f32"], ...}."""
    ledger = Ledger(FIELDS)
    ledger.held("schema", report["schema"] == 2)
    sweep = report["sweep"]
    ledger.held("sweep.id", bool(sweep["id"]))
    ledger.independent("sweep.name", sweep["name"], name if name is not None else sweep["name"])
    timings.audit_command(ledger, "sweep.command", sweep["command"], arguments)
    ledger.held("sweep.state", sweep["state"] in ("running", "complete", "cancelled", "interrupted"))
    ledger.held("changes", all(isinstance(line, str) and line for line in report["changes"]))
    timings.audit_environment(ledger, report["environment"], arguments)
    if not report["cases"]:
        ledger.held("cases", True)
    peaks = timings.Peaks(report["environment"])
    for i, case in enumerate(report["cases"]):
        _audit_case(ledger, f"cases[{i}]", case, Where(case, peaks, min_samples), seed, asked or {})
    _audit_tolerances(ledger, report["cases"])
    _audit_crossovers(ledger, report)
    return ledger.finish(report)


def _audit_case(ledger, path, case, where, seed, asked):
    for name in ("target", "n", "dtype", "device", "mode", "phase"):
        allowed = asked.get(name, [case[name]])
        ledger.independent(f"{path}.{name}", case[name], case[name] if case[name] in allowed else allowed[0])
    ledger.independent(path + ".machine", case["machine"], timings.this_machine())
    ledger.held(path + ".shape", re.fullmatch(r"[A-Za-z_]+-?\d+( [A-Za-z_]+-?\d+)*", case["shape"]))
    ledger.held(path + ".other_load", 0 <= case["other_load"] <= 1)
    ledger.recomputed(path + ".disturbed", case["disturbed"], case["other_load"] > timings.DISTURBED)
    ledger.held(path + ".notes", all(case["notes"]))
    _audit_seconds(ledger, path + ".seconds", case.get("seconds", {}))
    for i, missing in enumerate(case.get("missing", [])):
        at = f"{path}.missing[{i}]"
        ledger.held(at + ".name", missing["name"] not in [b["name"] for b in case["baselines"]], "was timed")
        ledger.held(at + ".status", missing["status"] in ("oom", "skipped", "unsupported"))
        ledger.held(at + ".reason", bool(missing["reason"]))
        ledger.held(at + ".needed_bytes", missing["needed_bytes"] >= 0)
    for name in ("baselines", "trials"):
        if not case[name]:
            ledger.held(f"{path}.{name}", name == "baselines", "a case without trials")
    for i, t in enumerate(case["baselines"]):
        timings.audit_timing(ledger, f"{path}.baselines[{i}]", t, where)
        if t["kind"] != "baseline" or not t["samples_ns"]:
            ledger.fail(f"{path}.baselines[{i}].kind", "is no baseline that was timed")
    for i, t in enumerate(case["trials"]):
        _audit_trial(ledger, f"{path}.trials[{i}]", t, case, where, seed)
    if sum(t["chosen"] for t in case["trials"]) > 1:
        ledger.fail(path + ".trials", "several are chosen")


def _audit_seconds(ledger, path, seconds):
    parts = sum(value for name, value in seconds.items() if name != "total")
    for name, value in seconds.items():
        ledger.held(f"{path}.{name}", value >= 0 if name != "total" else value >= 0.999 * parts,
                    "is less than its parts")


def _audit_trial(ledger, path, t, case, where, seed):
    timings.audit_timing(ledger, path, t, where)
    ok = t["status"] == "ok"
    ledger.held(path + ".strategy", t["strategy"] == t["name"] and t["kind"] == "candidate")
    ledger.held(path + ".status", t["status"] in STATUSES and (bool(t["samples_ns"]) or not ok),
                "is ok and was not timed")
    ledger.held(path + ".reason", (t["reason"] is None) == (ok or t["status"] == "cancelled"),
                f"{t['reason']!r} of a trial that is {t['status']}")
    ledger.held(path + ".chosen", not t["chosen"] or ok, "what failed is chosen")
    if "needed_bytes" in t:
        ledger.held(path + ".needed_bytes", t["needed_bytes"] > 0)
    if t["correctness"] is None:
        ledger.held(path + ".correctness", t["status"] not in ("ok", "incorrect"), "was not checked")
    else:
        timings.audit_correctness(ledger, path + ".correctness", t["correctness"])
        if t["status"] in ("ok", "incorrect") and t["correctness"]["pass"] != ok:
            ledger.fail(path + ".status", f"is {t['status']}, its check says {t['correctness']['pass']}")
    if not ok or not case["baselines"]:
        for name in ("speedup", "verdict"):
            ledger.recomputed(f"{path}.{name}", t[name], None)
        return
    _audit_speedup(ledger, path, t, case, seed)


def _audit_speedup(ledger, path, t, case, seed):
    wanted = timings.speedups(case["baselines"], t, seed)
    if t["speedup"] is None:
        ledger.recomputed(path + ".speedup", None, wanted)
        ledger.recomputed(path + ".verdict", t["verdict"], "?")
        return
    if ("vs_loop" in t["speedup"]) != (wanted["vs_loop"] is not None):
        ledger.fail(path + ".speedup.vs_loop", "does not go with the baselines")
    for name, key in (("vs_loop", "vs_loop"), ("vs_best_baseline", "vs_best")):
        if name in t["speedup"] and wanted[key] is not None:
            value, low, high = wanted[key]
            ledger.recomputed(f"{path}.speedup.{name}.value", t["speedup"][name]["value"], value)
            ledger.recomputed(f"{path}.speedup.{name}.ci95", t["speedup"][name]["ci95"], [low, high])
    ledger.recomputed(path + ".speedup.vs_best_baseline.name", t["speedup"]["vs_best_baseline"]["name"],
                      wanted["name"])
    disturbed = case["other_load"] > timings.DISTURBED
    ledger.recomputed(path + ".verdict", t["verdict"],
                      "UNCLEAR" if disturbed else samples.verdict(*wanted["vs_best"]))


def _audit_tolerances(ledger, cases):
    """One for a target and dtype; the separate models' own error is that of the case."""
    seen = {}
    for i, case in enumerate(cases):
        own = set()
        for k, t in enumerate(case["trials"]):
            if t["correctness"] is None:
                continue
            own.add(t["correctness"]["eager_max_rel"])
            first = seen.setdefault((case["target"], case["dtype"]), t["correctness"]["tolerance"])
            if first != t["correctness"]["tolerance"]:
                ledger.fail(f"cases[{i}].trials[{k}].correctness.tolerance", f"got {first} elsewhere")
        if len(own) > 1:
            ledger.fail(f"cases[{i}]", f"several errors of the separate models: {sorted(map(str, own))}")


def crossovers(cases, faster):
    """The smallest N from which every larger N that was tried is FASTER, by strategy in order of
    appearance; what is unsupported was not tried. `faster(case, trial)` says which are."""
    curves = {}
    for case in cases:
        for t in case["trials"]:
            points = curves.setdefault((*(case[name] for name in KEY), t["strategy"]), [])
            if t["status"] != "unsupported":
                points.append((case["n"], t["status"] == "ok" and faster(case, t)))
    found = []
    for key, points in curves.items():
        slow = [n for n, fast in points if not fast]
        good = [n for n, fast in points if fast and n > max(slow, default=0)]
        found.append(dict(zip(KEY + ("strategy", "n"), (*key, min(good, default=None)))))
    return found


def _audit_crossovers(ledger, report):
    wanted = crossovers(report["cases"], lambda _, t: t["verdict"] == "FASTER")
    got = report["crossover"]
    if len(got) != len(wanted):
        ledger.fail("crossover", f"got {len(got)} entries, expected {len(wanted)}")
    if not got:
        ledger.recomputed("crossover", got, wanted)
    for i, (mine, theirs) in enumerate(zip(wanted, got)):
        for name in CROSSOVER:
            ledger.recomputed(f"crossover[{i}].{name}", theirs[name], mine[name])
