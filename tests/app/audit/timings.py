"""What sweeps and fusions have in common: environments, timings, speedups, correctness."""
import math
import os
import platform
import re
import socket

import torch

from . import samples
from .ledger import HELD, INDEPENDENT, RECOMPUTED

NAMES_THE_BOUND = 0.4  # of the median, for a bound to be named
LONGEST_SAMPLE = 2     # times calls_per_sample, where calls became faster than while warming up
SAMPLE_NS = 1e6        # of calls at least
DISTURBED = 0.1        # of the cores, for other programs

TIMING = {"name": HELD, "kind": HELD, "samples_ns": HELD, "calls_per_sample": HELD, "first_call_ns": HELD,
          "cold_ns": HELD, "with_packing_ns": HELD, "peak_bytes": HELD, "steps": HELD,
          "median_ns": RECOMPUTED, "q1_ns": RECOMPUTED, "q3_ns": RECOMPUTED, "outliers": RECOMPUTED,
          "flops": INDEPENDENT, "bytes": INDEPENDENT, "flops_share": RECOMPUTED, "bytes_share": RECOMPUTED,
          "computed_flops": HELD, "computed_share": RECOMPUTED, "bound": RECOMPUTED}
CORRECTNESS = {"max_rel": HELD, "eager_max_rel": HELD, "tolerance": HELD, "isolated": HELD, "ordered": HELD,
               "pass": RECOMPUTED, "note": HELD, "failure": HELD}
ENVIRONMENT = {"cpu.model": INDEPENDENT, "cpu.cores": INDEPENDENT, "cpu.governor": INDEPENDENT,
               "cpu.mhz": HELD, "cpu.max_mhz": HELD, "cpu.temperature_c": HELD, "cpu.throttles": HELD,
               "cpu.load": HELD, "peaks.flops_per_s.f32": HELD, "peaks.flops_per_s.f64": HELD,
               "peaks.flops_per_s.f16": HELD, "peaks.flops_per_s.bf16": HELD, "peaks.bytes_per_s": RECOMPUTED,
               "peaks.bandwidth[].working_set": HELD, "peaks.bandwidth[].bytes_per_s": HELD,
               "peaks.step_ns": HELD, "threads": INDEPENDENT, "memory_bytes": INDEPENDENT, "gpu": INDEPENDENT,
               "gpu_note": HELD, "libtorch": INDEPENDENT, "workbench": HELD, "git": HELD,
               "host": INDEPENDENT, "os": INDEPENDENT, "date": HELD, "command": INDEPENDENT}


def below(prefix, fields):
    return {f"{prefix}.{name}" if prefix else name: kind for name, kind in fields.items()}


def _line(path, key):
    with open(path, encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith(key)), None)


def audit_environment(ledger, e, arguments):
    """Of a report that this machine wrote when `arguments` were typed; None: nobody knows what was."""
    cpu, peaks = e["cpu"], e["peaks"]
    cores = len(os.sched_getaffinity(0))
    scaling = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor = open(scaling, encoding="utf-8").read().strip() if os.path.exists(scaling) else "unknown"
    threads = cores
    if arguments and "--threads" in arguments:
        threads = int(arguments[arguments.index("--threads") + 1])
    path = "environment."
    ledger.independent(path + "cpu.model", cpu["model"], _line("/proc/cpuinfo", "model name") or "unknown")
    ledger.independent(path + "cpu.cores", cpu["cores"], cores)
    ledger.independent(path + "cpu.governor", cpu["governor"], governor)
    for name in ("mhz", "max_mhz", "temperature_c"):
        ledger.held(path + "cpu." + name, cpu[name] is None or cpu[name] > 0)
    ledger.held(path + "cpu.throttles", cpu["throttles"] is None or cpu["throttles"] >= 0)
    ledger.held(path + "cpu.load", cpu["load"] >= 0)
    for name, value in (peaks["flops_per_s"] or {"": None}).items():
        ledger.held(f"{path}peaks.flops_per_s.{name}", value and value > 0, "no peak was measured")
    levels = peaks.get("bandwidth") or []
    for i, level in enumerate(levels):
        before = levels[i - 1]["working_set"] if i else 0
        ledger.held(f"{path}peaks.bandwidth[{i}].working_set", level["working_set"] > before, "does not ascend")
        ledger.held(f"{path}peaks.bandwidth[{i}].bytes_per_s", level["bytes_per_s"] > 0)
    ledger.recomputed(path + "peaks.bytes_per_s", peaks["bytes_per_s"], levels[-1]["bytes_per_s"] if levels else None)
    ledger.held(path + "peaks.step_ns", (peaks.get("step_ns") or 0) > 0)
    ledger.independent(path + "threads", e["threads"], threads)
    ledger.independent(path + "memory_bytes", e["memory_bytes"],
                       1024 * int(_line("/proc/meminfo", "MemTotal").split()[0]))
    ledger.independent(path + "gpu", e["gpu"], None)
    ledger.held(path + "gpu_note", e["gpu_note"] == "not run on a GPU")
    ledger.independent(path + "libtorch", e["libtorch"], torch.__version__.split("+")[0])
    ledger.held(path + "workbench", re.fullmatch(r"\d+\.\d+.*", e["workbench"]))
    ledger.held(path + "git", isinstance(e["git"], str))
    ledger.independent(path + "host", e["host"], socket.gethostname())
    ledger.independent(path + "os", e["os"], f"{platform.system()} {platform.release()}")
    ledger.held(path + "date", re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", e["date"]))
    audit_command(ledger, path + "command", e["command"], arguments)


def this_machine():
    """As cases name the machine that they were measured on."""
    cores = len(os.sched_getaffinity(0))
    return f"{socket.gethostname()}: {_line('/proc/cpuinfo', 'model name') or 'unknown'}, {cores} core{'s'[:cores != 1]}"


def audit_command(ledger, path, got, arguments):
    if arguments is None:
        ledger.independent(path, got, got)
        return
    words = got.split(" ")[1:]
    plain = [word for word in arguments if re.fullmatch(r"[\w./,:+@%=-]+", word)]
    ledger.independent(path, [word for word in words if word in plain], plain)


class Peaks:
    """What the environment says of the machine."""

    def __init__(self, environment):
        peaks = environment["peaks"]
        self.flops = peaks["flops_per_s"] or {}
        self.levels = peaks.get("bandwidth") or []
        self.step_ns = peaks.get("step_ns") or 0
        self.threads = environment["threads"]

    def bandwidth(self, nbytes):
        """Of the smallest measured working set that holds so many bytes."""
        fits = [level for level in self.levels if nbytes <= level["working_set"]]
        level = (fits or self.levels[-1:] or [{"bytes_per_s": 0}])[0]
        return level["bytes_per_s"]


def audit_timing(ledger, path, t, where):
    """`where`: what the auditor knows of the case (`Where`)."""
    taken = t["samples_ns"]
    ledger.held(path + ".samples_ns", all(math.isfinite(s) and s > 0 for s in taken), "no times")
    for name, value in samples.summary(taken).items():
        ledger.recomputed(f"{path}.{name}", t[name], value)
    ledger.held(path + ".name", bool(t["name"]))
    ledger.held(path + ".kind", t["kind"] in ("baseline", "candidate"))
    enough = not taken or (len(taken) >= where.min_samples and
                           min(taken) * t["calls_per_sample"] * LONGEST_SAMPLE >= SAMPLE_NS)
    ledger.held(path + ".calls_per_sample", enough and (not taken or t["calls_per_sample"] >= 1),
                f"{len(taken)} samples of {t['calls_per_sample']} calls are too few")
    ledger.held(path + ".first_call_ns", t["first_call_ns"] > 0 if taken else t["first_call_ns"] >= 0)
    ledger.held(path + ".cold_ns", t["cold_ns"] is None, "the CPU has no cold calls")
    packed = t["with_packing_ns"]
    ledger.held(path + ".with_packing_ns", packed is None or (packed > 0 and t["kind"] == "candidate"))
    ledger.held(path + ".peak_bytes", t["peak_bytes"] >= 0)
    if not taken:
        for name, value in (("flops", 0.0), ("bytes", 0.0), ):
            ledger.independent(f"{path}.{name}", float(t[name]), value)
        ledger.held(path + ".steps", t["steps"] == 0)
        for name in ("flops_share", "bytes_share", "bound"):
            ledger.recomputed(f"{path}.{name}", t[name], None)
        return
    where.audit_work(ledger, path, t)
    seconds = samples.summary(taken)["median_ns"] * 1e-9
    peak, bandwidth = where.peaks.flops.get(where.dtype, 0), where.peaks.bandwidth(t["bytes"])
    flops_share = t["flops"] / seconds / peak if peak else 0
    bytes_share = t["bytes"] / seconds / bandwidth if bandwidth else 0
    ledger.recomputed(path + ".flops_share", t["flops_share"], flops_share or None)
    ledger.recomputed(path + ".bytes_share", t["bytes_share"], bytes_share or None)
    if "computed_flops" in t:
        # Of Winograd's convolutions a quarter of the products is left at best; what is padded adds.
        ledger.held(path + ".computed_flops", t["kind"] == "candidate" and t["computed_flops"] > t["flops"] / 8)
        share = t["computed_flops"] / seconds / peak if peak else 0
        if "computed_share" in t:
            ledger.recomputed(path + ".computed_share", t["computed_share"], share)
    _audit_bound(ledger, path + ".bound", t, where, flops_share, bytes_share, seconds)


def _audit_bound(ledger, path, t, where, flops_share, bytes_share, seconds):
    """How many ranges of models run side by side is not in the report: of a candidate any number will do
    that is no more than there are threads."""
    most = min(where.peaks.threads, where.n)
    if t["kind"] == "candidate":
        aside = range(1, most + 1)
    else:
        aside = [most if t["name"] == "threads" else 1]
    possible = set()
    for parallel in aside:
        launches = t["steps"] / parallel * where.peaks.step_ns / (seconds * 1e9)
        share, word = max((flops_share, 2, "compute"), (bytes_share, 1, "memory"), (launches, 0, "launch"))[::2]
        possible.add(word if share >= NAMES_THE_BOUND else "unknown")
    ledger.recomputed(path, t["bound"], t["bound"] if t["bound"] in possible else sorted(possible)[0])


def audit_steps(ledger, path, baselines):
    """Operators of one model, once for vmap, N times for the others."""
    def one(t, n):
        return t["steps"] if t["name"] == "vmap" else t["steps"] / n
    return {one(t, n) for t, n in baselines}


def audit_correctness(ledger, path, c):
    allowed = max(c["tolerance"], 4 * c["eager_max_rel"]) if c["eager_max_rel"] is not None else c["tolerance"]
    right = c["max_rel"] is not None and c["max_rel"] <= allowed
    for name in ("max_rel", "eager_max_rel"):
        ledger.held(f"{path}.{name}", c[name] is None or c[name] >= 0)
    ledger.held(path + ".tolerance", 0 < c["tolerance"] < 1)
    failure = c.get("failure", "")
    if "failure" in c:
        ledger.held(path + ".failure", bool(failure) and not c["pass"], "a failure of what passes")
    if "note" in c:
        ledger.held(path + ".note", bool(c["note"]))
    for name, words in (("isolated", "not isolated"), ("ordered", "permuted")):
        ledger.held(f"{path}.{name}", c[name] or not c["pass"] or words in failure,
                    f"passes although it is not {name}")
    # A failure may lie in what no other field says, such as shapes or an answer after timing.
    ledger.recomputed(path + ".pass", c["pass"], right and c["isolated"] and c["ordered"] and not failure)


def speedups(baselines, candidate, seed):
    """{"vs_loop": interval or None, "vs_best": interval, "name": of the best baseline}."""
    loop = next((b for b in baselines if b["name"] == "loop"), None)
    best = samples.best(baselines, candidate)
    return {"vs_loop": loop and samples.interval(loop["samples_ns"], candidate["samples_ns"], seed),
            "vs_best": samples.interval(best["samples_ns"], candidate["samples_ns"], seed), "name": best["name"]}
