"""What `compare` says of two sweeps, from their samples alone.

As documented: d is the logarithm of a trial's speed over that of the baselines of its case, after over
before. Its error: a bootstrap within the runs, the scatter that all trials show together between the
runs, and how far the baselines of a case changed apart. 99 % of comparisons hold all their intervals.
"""
import math

import numpy as np
import scipy.stats

from .ledger import near, short
from .samples import SAME, mersenne_twister, summary
from .sweep import KEY, crossovers

RESAMPLES, DRAWS, FEWEST = 200, 4096, 3
GUESS, GUESS_WEIGHT = 0.025, 5  # of the scatter between runs, before any was seen
MISS = 0.01                     # probability that any interval of a comparison misses
VOLATILE = ("date", "command", "cpu mhz", "cpu temperature_c", "cpu throttles", "cpu load")
FIELDS = {"schema", "before", "after", "hardware", "noise", "environment", "trials", "statuses", "crossovers"}


def usable(values):
    return len(values) >= FEWEST and all(math.isfinite(v) and v > 0 for v in values)


def _log_medians(values, draws):
    """log of the median, and of those of resamples by blocks of the cube root of their number."""
    values, count = np.asarray(values, dtype=float), len(values)
    block = max(1, int(count ** (1 / 3) + 1e-9))
    starts = -(-count // block)
    used = draws[np.arange(RESAMPLES * starts) % len(draws)].reshape(RESAMPLES, starts, 1)
    picks = ((used * count).astype(int) + np.arange(block)) % count
    picks = picks.reshape(RESAMPLES, -1)[:, :count]
    return math.log(np.median(values)), np.log(np.median(values[picks], axis=1))


def _changes(before, after, names, seed, apart):
    """By strategy: (d, its standard error within, that of the machine), or None where unknown."""
    draws = (mersenne_twister(seed, 2 * DRAWS) >> np.uint64(40)).astype(float) / 2**24
    both = draws[:DRAWS], draws[DRAWS:]

    def drawn(a, b):
        return [_log_medians(t["samples_ns"], d) for t, d in zip((a, b), both)]

    slower, resampled = [], []
    for a in before["baselines"]:
        b = next((t for t in after["baselines"] if t["name"] == a["name"]), None)
        if b and usable(a["samples_ns"]) and usable(b["samples_ns"]):
            (x, xs), (y, ys) = drawn(a, b)
            slower.append(y - x)
            resampled.append(ys - xs)
    apart += [s - slower[0] for s in slower[1:]]
    changes = {}
    for name in names:
        a, b = (next(t for t in c["trials"] if t["strategy"] == name) for c in (before, after))
        if not slower or not usable(a["samples_ns"]) or not usable(b["samples_ns"]):
            changes[name] = None
            continue
        (x, xs), (y, ys) = drawn(a, b)
        logs = xs - ys + np.median(resampled, axis=0)
        changes[name] = (x - y + float(np.median(slower)), float(np.std(logs, ddof=1)),
                         float(np.std(slower, ddof=1)) if len(slower) > 1 else 0.0)
    return changes


def _noise(groups, apart):
    """Scatter between runs, and its degrees of freedom."""
    scatter = list(map(abs, apart))
    for logs in groups.values():
        if len(logs) > 1:
            middle = float(np.median(logs))
            scatter += [abs(v - middle) * math.sqrt(len(logs) / (len(logs) - 1)) for v in logs]
    count = len(scatter)
    seen = max(float(np.quantile(scatter, 0.5)) / 0.6745, float(np.quantile(scatter, 0.8)) / 1.2816) if count else 0
    scale = math.sqrt((GUESS_WEIGHT * GUESS**2 + count * seen**2) / (GUESS_WEIGHT + count))
    return scale, min(max(count, 10), 30)


def _verdict(low, high):
    if low >= 1 - SAME and high <= 1 + SAME:
        return "SAME"
    return "FASTER" if low > 1 else "SLOWER" if high < 1 else "UNCLEAR"


def _sides(report):
    found = {}
    for case in report["cases"]:
        for t in case["trials"]:
            found.setdefault((*(case[k] for k in KEY), t["strategy"], case["n"]), (case, t))
    return found


def _hardware(a, b):
    pairs = (("CPU", lambda e: e["cpu"]["model"]), ("GPU", lambda e: e["gpu"] or ""),
             ("cores", lambda e: str(e["cpu"]["cores"])), ("threads", lambda e: str(e["threads"])))
    return [f"{name}: {of(a) or 'none'} before, {of(b) or 'none'} after" for name, of in pairs if of(a) != of(b)]


def expected(before, after):
    """What the JSON of `compare BEFORE AFTER` must say of trials, by (target, ..., strategy, n)."""
    then, now = _sides(before), _sides(after)
    pairs = {}
    for key in sorted(now.keys() & then.keys()):
        (a, x), (b, y) = then[key], now[key]
        if x["status"] == y["status"] == "ok" and (x["samples_ns"] or y["samples_ns"]):
            pairs.setdefault((id(a), id(b)), (a, b, []))[2].append(key)
    apart, changes, groups = [], {}, {}
    for seed, (a, b, keys) in enumerate(pairs.values()):
        for key, change in zip(keys, _changes(a, b, [k[-2] for k in keys], seed, apart).values()):
            changes[key] = change
            if change:
                groups.setdefault((key[0], key[-2], *key[2:6]), []).append(change[0])
    scale, freedom = _noise(groups, apart)
    t = float(scipy.stats.t.isf(MISS / max(1, len(changes)) / 2, freedom))
    hardware, trials = _hardware(before["environment"], after["environment"]), {}
    for key, change in changes.items():
        d, within, machine = change or (0.0, 0.0, 0.0)
        disturbed = then[key][0]["disturbed"] or now[key][0]["disturbed"]
        error = t * math.sqrt(within**2 + (scale * (2 if disturbed else 1))**2 + machine**2)
        low, high = math.exp(d - error), math.exp(d + error)
        reason = f"other hardware: {hardware[0]}" if hardware else "other programs disturbed it" if disturbed \
            else None if change else "no baseline or too few samples in common"
        trials[key] = {"before_ns": summary(then[key][1]["samples_ns"])["median_ns"],
                       "after_ns": summary(now[key][1]["samples_ns"])["median_ns"],
                       "change": {"value": math.exp(d), "interval": [low, high]},
                       "verdict": "UNCLEAR" if reason else _verdict(low, high), "reason": reason}
    return trials, scale, hardware


def _statuses(before, after):
    then, now = _sides(before), _sides(after)
    status = lambda side, key: side[key][1]["status"] if key in side else None
    return {key: (status(then, key), status(now, key)) for key in then.keys() | now.keys()
            if status(then, key) != status(now, key)}


def _crossovers(before, after):
    """Those that differ, over what other programs disturbed in neither sweep: the rest counts as not tried."""
    key_of = lambda c, t: (*(c[k] for k in KEY), t["strategy"], c["n"])
    noisy = {key_of(c, t) for report in (before, after) for c in report["cases"] if c["disturbed"]
             for t in c["trials"] if t["status"] == "ok"}
    quiet = lambda c: {**c, "trials": [{**t, "status": "unsupported"} if key_of(c, t) in noisy else t for t in c["trials"]]}
    faster = lambda _, t: t["verdict"] == "FASTER"
    of = lambda report: {tuple(c[k] for k in (*KEY, "strategy")): c["n"] for c in crossovers(map(quiet, report["cases"]), faster)}
    then, now = of(before), of(after)
    return {key: (then[key], now[key]) for key in then.keys() & now.keys() if then[key] != now[key]}


def _flat_environment(e, prefix=""):
    flat = {}
    for name, value in e.items():
        flat |= _flat_environment(value, f"{prefix}{name} ") if isinstance(value, dict) else {prefix + name: value}
    return flat


def audit(got, before, after):
    """What is wrong in the JSON that `compare BEFORE AFTER --json` wrote."""
    errors = [f"compare: nobody audits {name}" for name in got.keys() - FIELDS]

    def same(where, a, b, relative=1e-6):
        if not near(a, b, relative):
            errors.append(f"compare {where}: got {short(a)}, expected {short(b)}")

    trials, scale, hardware = expected(before, after)
    same("schema", got["schema"], 1)
    for name, report in (("before", before), ("after", after)):
        same(name, got[name], f"{report['sweep']['name']} of {report['environment']['date']}")
    same("hardware", got["hardware"], hardware)
    same("noise", got["noise"], scale)
    key_of = lambda t: (*(t[k] for k in KEY), t["strategy"], t["n"])
    same("trials", sorted(map(key_of, got["trials"])) == sorted(trials), True)
    values = [t["change"]["value"] for t in got["trials"]]
    same("order", values, sorted(values))
    for t in got["trials"]:
        wanted = trials.get(key_of(t), {})
        for name in t.keys() - {*KEY, "strategy", "n"}:
            if name == "change" and wanted:
                for part in ("value", "interval"):
                    same(f"{key_of(t)} {part}", t[name][part], wanted[name][part])
            else:
                same(f"{key_of(t)} {name}", t[name], wanted.get(name))
    same("statuses", {key_of(s): (s["before"], s["after"]) for s in got["statuses"]} == _statuses(before, after), True)
    crossed = {tuple(c[k] for k in (*KEY, "strategy")): (c["before"], c["after"]) for c in got["crossovers"]}
    same("crossovers", crossed == _crossovers(before, after), True)
    a, b = _flat_environment(before["environment"]), _flat_environment(after["environment"])
    differ = sorted(n for n in b if a.get(n) != b[n] and n not in VOLATILE and not n.startswith("peaks"))
    same("environment", sorted(d["what"] for d in got["environment"]), differ)
    return errors
