"""The JSON report of a fusion, and the outputs that it wrote."""
import copy
import math
import os

import torch

from . import samples, timings
from .ledger import HELD, INDEPENDENT, RECOMPUTED, Ledger, near
from .work import DTYPES, nbytes, weights_of, work_of_module

WAYS = ("strategy", "vmap", "shared", "per_model")
SPEEDUP = ("vs_loop", "vs_loop_ci95", "vs_best_baseline", "vs_best_baseline_ci95", "best_baseline")
CORRECTNESS = {**timings.CORRECTNESS, "max_rel": INDEPENDENT, "eager_max_rel": INDEPENDENT}
POINT = {"n": INDEPENDENT, **{f"coverage.{way}": HELD for way in WAYS},
         **{f"coverage_time.{way}": RECOMPUTED for way in WAYS}, "coverage_time": RECOMPUTED,
         "fallbacks": HELD, **{f"fallbacks[].{name}": HELD for name in ("node", "operator", "reason")},
         **timings.below("results[]", timings.TIMING), "chosen": RECOMPUTED, "speedup": RECOMPUTED,
         **{f"speedup.{name}": RECOMPUTED for name in SPEEDUP}, **timings.below("correctness", CORRECTNESS),
         "first_call_ns": RECOMPUTED, "memory.wide_bytes": HELD, "memory.separate_bytes": INDEPENDENT,
         **{f"passes[].{name}": HELD for name in ("name", "milliseconds", "nodes_before", "nodes_after", "summary")},
         **{f"steps[].{name}": HELD for name in ("operator", "module", "primitive", "strategy", "shape", "median_ns")},
         "steps[].share": RECOMPUTED, **{f"steps[].{name}": HELD for name in ("node", "flops", "computed_flops", "bytes")},
         **{f"timeline[].{name}": HELD for name in ("name", "calls", "call_ns", "cores_a_lane", "lanes", "notes")},
         **{f"timeline[].items[].{name}": HELD for name in ("kind", "name", "module", "primitive", "strategy", "shape",
                                                           "node", "flops", "computed_flops", "bytes")},
         **{f"timeline[].spans.{name}": HELD for name in ("item", "lane", "core", "begin_ns", "end_ns")}, "other_load": HELD, "disturbed": RECOMPUTED, "notes": HELD, "plan": HELD}
FIELDS = {"schema": HELD, "model": INDEPENDENT, "device": INDEPENDENT, "dtype": INDEPENDENT, "mode": INDEPENDENT,
          "reduce": INDEPENDENT, "trusted": INDEPENDENT, "largest_n": HELD,
          "weights.checkpoints": INDEPENDENT, "weights.file_bytes": INDEPENDENT,
          "weights.packed_bytes": INDEPENDENT, "weights.equal_bytes": INDEPENDENT, "weights.load_ns": HELD,
          "along_n.crossover": RECOMPUTED, "along_n.best_n": RECOMPUTED, "along_n.models_per_s": RECOMPUTED,
          **timings.below("environment", timings.ENVIRONMENT), **POINT, **timings.below("curve[]", POINT)}


class Models:
    """N separate PyTorch modules, the inputs of each, and what the fusion gave."""

    def __init__(self, modules, inputs, outputs=None, files=()):
        self.modules, self.inputs = modules, inputs  # inputs[i]: the list of model i
        self.outputs, self.files = outputs, files    # outputs: stacked tensors, of all models
        self.exact = self._run(True)
        self.separate = self._run(False)

    def _run(self, double):
        results = []
        with torch.no_grad():
            for module, inputs in zip(self.modules, self.inputs):
                if double:
                    module = copy.deepcopy(module).double()
                    inputs = [t.double() if t.is_floating_point() else t for t in inputs]
                out = module(*inputs)
                results.append([out] if isinstance(out, torch.Tensor) else list(out))
        return results

    def equal(self, n, read=False):
        """The weights of a model that are the same in the first n; `read`: those that a call reads."""
        states = [m.state_dict() for m in self.modules[:n]]
        return [value for name, value in states[0].items() if all(torch.equal(value, s[name]) for s in states)
                and not (read and name.endswith("num_batches_tracked"))]

    @staticmethod
    def error(got, exact):
        """The worst over outputs and models of max|got - exact| / max|exact|."""
        worst = 0.0
        for mine, theirs in zip(got, exact):
            for a, b in zip(mine, theirs):
                difference = float((a.double() - b).abs().max())
                scale = float(b.abs().max())
                worst = max(worst, difference / scale if scale else difference)
        return worst

    def wide_error(self):
        return self.error([[t[i] for t in self.outputs] for i in range(len(self.modules))], self.exact)

    def own_error(self, n):
        return self.error(self.separate[:n], self.exact[:n])

    def reduced_error(self, kind):
        worst = 0.0
        for k, got in enumerate(self.outputs):
            all_models = torch.stack([outputs[k] for outputs in self.exact])
            if kind == "vote":
                classes = all_models.shape[-1]
                votes = torch.nn.functional.one_hot(all_models.argmax(-1), classes).sum(0)
                worst = max(worst, 0.0 if torch.equal(got.long(), votes.argmax(-1)) else math.inf)
            else:
                wanted = all_models.mean(0) if kind == "mean" else all_models.std(0)
                worst = max(worst, self.error([[got]], [[wanted]]))
        return worst


class Where:
    """A point of the curve as the auditor knows it."""
    min_samples = 10

    def __init__(self, report, point, models, shared=False):
        self.n, self.dtype, self.peaks = point["n"], report["dtype"], timings.Peaks(report["environment"])
        self.models = models
        self.work = models and work_of_module(models.modules[0], models.inputs[0])
        # Weights that are equal in all models are read once for all where they are shared.
        self.once = nbytes(models.equal(self.n, read=True)) if models and shared else 0
        counts = {t["steps"] / (1 if t["name"] == "vmap" else self.n) for t in point["results"]
                  if t["kind"] == "baseline"}
        self.nodes = counts.pop() if len(counts) == 1 else None

    def audit_work(self, ledger, path, t):
        if self.work is None:
            ledger.within(path + ".flops", t["flops"], 0, math.inf)
            ledger.within(path + ".bytes", t["bytes"], 1, math.inf)
        else:
            ledger.independent(path + ".flops", float(t["flops"]), float(self.n * self.work.flops))
            ledger.independent(path + ".bytes", float(t["bytes"]),
                               float(self.n * self.work.bytes - (self.n - 1) * self.once))
        ledger.held(path + ".steps", t["steps"] > 0 if t["kind"] == "candidate" else self.nodes is not None,
                    "the baselines run different operators")


def audit(report, seed=0, arguments=None, models=None, ns=None):
    """What is wrong in the report, one line each. `models`: of a network that is known in PyTorch."""
    ledger = Ledger(FIELDS)
    option = lambda name, default: (arguments[arguments.index(name) + 1]
                                    if arguments and name in arguments else default)
    ledger.held("schema", report["schema"] == 2)
    ledger.independent("model", report["model"], arguments[1] if arguments else report["model"])
    dtype = option("--dtype", report["dtype"] if report["dtype"] in DTYPES else "f32")
    for name, value in (("device", option("--device", "cpu")), ("dtype", dtype), ("mode", option("--mode", "default"))):
        ledger.independent(name, report[name], value)
    for name, value in (("reduce", option("--reduce", None)),
                        ("trusted", True if arguments and "--trust" in arguments else None)):
        if name in report:
            ledger.independent(name, report[name], value)
    timings.audit_environment(ledger, report["environment"], arguments)
    curve = report.get("curve", [report])
    wanted_ns = ns or [point["n"] for point in curve]
    if [point["n"] for point in curve] != wanted_ns:
        ledger.fail("curve", f"got n={[p['n'] for p in curve]}, expected {wanted_ns}")
    if "largest_n" in report:
        ledger.held("largest_n", report["largest_n"] >= report["n"])
    shared = bool(arguments) and "--share-weights" in arguments
    if "weights" in report:
        _audit_weights(ledger, report, models, shared)
    where = lambda point: Where(report, point, models, shared)
    _audit_point(ledger, "", report, report, where(report), seed)
    if "curve" in report:
        for i, point in enumerate(curve):
            _audit_point(ledger, f"curve[{i}].", point, report, where(point), seed)
        _audit_along_n(ledger, report, seed)
        for name in curve[-1]:
            if report[name] != curve[-1][name]:
                ledger.fail(name, "differs from the last point of the curve")
    return ledger.finish(report)


def _audit_weights(ledger, report, models, shared):
    w, n = report["weights"], report["n"]
    ledger.held("weights.load_ns", w["load_ns"] > 0)
    if models is None:
        for name in ("checkpoints", "file_bytes", "packed_bytes", "equal_bytes"):
            ledger.within("weights." + name, w[name], 0, math.inf)
        return
    one, same = nbytes(models.modules[0].state_dict().values()), nbytes(models.equal(n))
    ledger.independent("weights.checkpoints", w["checkpoints"], n)
    ledger.independent("weights.file_bytes", w["file_bytes"], sum(os.path.getsize(f) for f in models.files[:n]))
    ledger.independent("weights.equal_bytes", w["equal_bytes"], (n - 1) * same)
    ledger.independent("weights.packed_bytes", w["packed_bytes"], n * one - ((n - 1) * same if shared else 0))


def _audit_point(ledger, path, point, report, where, seed):
    ledger.independent(path + "n", point["n"], point["n"])
    for i, t in enumerate(point["results"]):
        timings.audit_timing(ledger, f"{path}results[{i}]", t, where)
    baselines = [t for t in point["results"] if t["kind"] == "baseline"]
    candidates = [t for t in point["results"] if t["kind"] == "candidate"]
    if len(candidates) != 1:
        ledger.fail(path + "results", f"got {len(candidates)} candidates, expected one")
    _audit_coverage(ledger, path, point, where.nodes)
    _audit_steps(ledger, path, point)
    for i, call in enumerate(point.get("timeline", [])):
        _audit_call(ledger, f"{path}timeline[{i}].", call, point["n"])
    ledger.held(path + "other_load", 0 <= point["other_load"] <= 1)
    ledger.recomputed(path + "disturbed", point["disturbed"], point["other_load"] > timings.DISTURBED)
    noted = any(note.startswith("disturbed: ") for note in point["notes"])
    ledger.held(path + "notes", noted == point["disturbed"] and all(point["notes"]), "do not say what disturbed")
    ledger.held(path + "plan", isinstance(point["plan"], str))
    for i, p in enumerate(point["passes"]):
        for name in p:
            good = bool(p["name"]) if name == "name" else name == "summary" or p[name] >= 0
            ledger.held(f"{path}passes[{i}].{name}", good)
    correctness = point["correctness"]
    timings.audit_correctness(_Checked(ledger, where, report, point), path + "correctness", correctness)
    ledger.recomputed(path + "chosen", point["chosen"], candidates[0]["name"] if correctness["pass"] else None)
    ledger.recomputed(path + "first_call_ns", point["first_call_ns"], candidates[0]["first_call_ns"])
    _audit_memory(ledger, path, point, where)
    _audit_speedup(ledger, path, point, baselines, candidates[0], seed)


class _Checked:
    """A ledger for which errors are computed by PyTorch instead of held to be possible."""

    def __init__(self, ledger, where, report, point):
        self.ledger, self.where, self.report, self.point = ledger, where, report, point
        self.recomputed = ledger.recomputed

    def held(self, path, good, what="is inconsistent"):
        name = path.rsplit(".", 1)[1]
        if name not in ("max_rel", "eager_max_rel"):
            return self.ledger.held(path, good, what)
        value, models, n = self.point["correctness"][name], self.where.models, self.point["n"]
        if models is None:
            return self.ledger.within(path, value, 0, math.inf)
        if name == "eager_max_rel":  # other kernels may sum in another order
            own = models.own_error(n)
            return self.ledger.within(path, value, own / 8, own * 8)
        if n != len(models.modules) or models.outputs is None:
            return self.ledger.within(path, value, 0, math.inf)
        if "reduce" in self.report:
            return self.ledger.within(path, value, models.reduced_error(self.report["reduce"]) * (1 - 1e-6), math.inf)
        # What is written was computed after timing, with the same bits as what was checked.
        return self.ledger.independent(path, value, models.wide_error(), 1e-4)


def _audit_coverage(ledger, path, point, nodes):
    counts = sum(point["coverage"].values())
    for way, count in point["coverage"].items():
        ledger.held(f"{path}coverage.{way}", way in WAYS and count >= 0 and counts == nodes,
                    f"all ways have {counts} nodes, one model has {nodes}")
    alone = 0
    for i, f in enumerate(point["fallbacks"]):
        alone += not f["reason"] or point["coverage"]["per_model"] > 0
        ledger.held(f"{path}fallbacks[{i}].node", 0 <= f["node"] < counts)
        ledger.held(f"{path}fallbacks[{i}].operator", "::" in f["operator"])
        ledger.held(f"{path}fallbacks[{i}].reason", isinstance(f["reason"], str))
    if not point["fallbacks"]:
        ledger.held(path + "fallbacks", point["coverage"]["per_model"] == 0, "are not said")


def _audit_steps(ledger, path, point):
    steps, shares = point.get("steps", []), point["coverage_time"]
    total = sum(s["median_ns"] for s in steps)
    found = dict.fromkeys(WAYS, 0.0)
    for i, s in enumerate(steps):
        for name in ("operator", "module", "primitive", "strategy", "shape"):
            ledger.held(f"{path}steps[{i}].{name}", isinstance(s[name], str) and (s[name] or name != "operator"))
        ledger.held(f"{path}steps[{i}].median_ns", s["median_ns"] >= 0)
        _audit_step_work(ledger, f"{path}steps[{i}].", s)
        share = s["median_ns"] / total if total else 0.0
        ledger.recomputed(f"{path}steps[{i}].share", s["share"], share)
        found[s["strategy"] if s["strategy"] in WAYS[1:] else "strategy"] += share
    if shares is None:
        ledger.recomputed(path + "coverage_time", None, None if not total else found)
        return
    for way, share in shares.items():
        ledger.recomputed(f"{path}coverage_time.{way}", share, found[way] if steps else share)
    if not near(sum(shares.values()), 1.0):
        ledger.fail(path + "coverage_time", f"sums to {sum(shares.values())}")


def _audit_step_work(ledger, path, step):
    for name in ("node", "flops", "computed_flops", "bytes"):
        if name in step:
            ledger.held(path + name, step[name] >= 0)


def _audit_call(ledger, path, call, n):
    """Spans lie inside the call and follow each other; every model of the loop is there."""
    spans, items = call["spans"], call["items"]
    ledger.held(path + "name", call["name"] in ("loop", "wide"))
    ledger.held(path + "calls", call["calls"] >= 1)
    for name in ("cores_a_lane", "call_ns"):
        ledger.held(path + name, call[name] > 0)
    for name in ("lanes", "notes"):
        ledger.held(path + name, all(call[name]))
    for i, item in enumerate(items):
        for name, value in item.items():
            good = bool(value) if isinstance(value, str) else value >= 0
            ledger.held(f"{path}items[{i}].{name}", good)
        _audit_step_work(ledger, f"{path}items[{i}].", item)
    count = len(spans["item"])
    for name, least, size in (("item", 0, len(items)), ("lane", 0, len(call["lanes"])), ("core", -1, 1 << 20)):
        ledger.held(f"{path}spans.{name}", len(spans[name]) == count and all(least <= v < size for v in spans[name]))
    ledger.held(path + "spans.begin_ns", spans["begin_ns"] == sorted(spans["begin_ns"]) and min(spans["begin_ns"]) >= 0)
    ledger.held(path + "spans.end_ns", all(b <= e <= call["call_ns"] for b, e in zip(spans["begin_ns"], spans["end_ns"])))
    if call["name"] == "loop":
        models = [items[int(i)]["name"] for i in spans["item"] if items[int(i)]["kind"] == "model"]
        if models != [f"model {i}" for i in range(n)]:
            ledger.fail(path + "spans", f"has the models {models}")


def _audit_memory(ledger, path, point, where):
    memory, n, work = point["memory"], point["n"], where.work
    ledger.held(path + "memory.wide_bytes", memory["wide_bytes"] > 0)
    if work is None:
        ledger.within(path + "memory.separate_bytes", memory["separate_bytes"], 1, math.inf)
        return
    weights = nbytes(weights_of(where.models.modules[0]))
    counts = nbytes(where.models.modules[0].buffers())
    least = n * weights + (work.bytes - weights)
    size = torch.empty(0, dtype=DTYPES[where.dtype]).element_size()
    ledger.within(path + "memory.separate_bytes", memory["separate_bytes"], least,
                  least + n * counts + size * (work.flops + work.others))


def _audit_speedup(ledger, path, point, baselines, candidate, seed):
    if not point["correctness"]["pass"] or not baselines:
        ledger.recomputed(path + "speedup", point["speedup"], None)
        return
    wanted = timings.speedups(baselines, candidate, seed)
    got = point["speedup"]
    if got is None:
        ledger.recomputed(path + "speedup", got, wanted)
        return
    flat = {"vs_best_baseline": wanted["vs_best"][0], "vs_best_baseline_ci95": wanted["vs_best"][1:],
            "best_baseline": wanted["name"]}
    if wanted["vs_loop"]:
        flat |= {"vs_loop": wanted["vs_loop"][0], "vs_loop_ci95": wanted["vs_loop"][1:]}
    if set(flat) != set(got):
        ledger.fail(path + "speedup", f"got {sorted(got)}, expected {sorted(flat)}")
    for name in got:
        ledger.recomputed(f"{path}speedup.{name}", got[name], flat.get(name))


def verdict(point, seed):
    """FASTER and the like, of the wide program of a point over the best baseline; None: no speedup."""
    baselines = [t for t in point["results"] if t["kind"] == "baseline"]
    if not point["correctness"]["pass"] or not baselines:
        return None
    if point["other_load"] > timings.DISTURBED:
        return "UNCLEAR"
    candidate = next(t for t in point["results"] if t["kind"] == "candidate")
    return samples.verdict(*timings.speedups(baselines, candidate, seed)["vs_best"])


def _audit_along_n(ledger, report, seed):
    slow = [p["n"] for p in report["curve"] if verdict(p, seed) != "FASTER"]
    crossover = min((p["n"] for p in report["curve"] if p["n"] > max(slow, default=0)), default=None)
    rates = []
    for p in report["curve"]:
        if p["correctness"]["pass"]:
            median = samples.summary(p["results"][-1]["samples_ns"])["median_ns"]
            rates.append((1e9 * p["n"] / median, -p["n"]))
    most, best = max(rates, default=(None, None))
    ledger.recomputed("along_n.crossover", report["along_n"]["crossover"], crossover)
    ledger.recomputed("along_n.best_n", report["along_n"]["best_n"], -best if best else None)
    ledger.recomputed("along_n.models_per_s", report["along_n"]["models_per_s"], most)
