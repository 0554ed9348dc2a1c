"""The tables that Markdown and HTML show, as they must be by the JSON: cells of (text, number or None)."""
from .sweep import crossovers

FAILED = ("oom", "timeout", "crashed")
NOT_RUN = ("cancelled", "interrupted", "skipped")
TRAITS = ("device", "dtype", "mode", "phase")


def time_text(ns):
    units = ["ns", "us", "ms", "s"]
    while ns >= 999.5 and len(units) > 1:
        ns, units = ns / 1000, units[1:]
    return f"{ns:.{2 if ns < 9.995 else 1 if ns < 99.95 else 0}f} {units[0]}"


def speedup_text(s):
    digits = 2 if s["value"] < 10 else 1
    low, high = s["ci95"]
    return f"{s['value']:.{digits}f}x [{low:.{digits}f}, {high:.{digits}f}]"


def error_text(error):
    return "0" if error == 0 else f"{error:.1e}"


def _number(value):
    return (str(value), float(value))


def _text(value):
    return (value, None)


def _time(ns):
    return (time_text(ns), ns) if ns > 0 else _text("")


def _count(value):
    return (str(value) if value else "", float(value))


def _over(trial, name):
    speedup = (trial.get("speedup") or {}).get(name)
    if not speedup:
        return _text("")
    return (speedup_text(speedup) + (" " + speedup["name"] if "name" in speedup else ""), speedup["value"])


def by_target(cases):
    groups = {}
    for case in cases:
        groups.setdefault(case["target"], []).append(case)
    return groups


def common(cases):
    return " · ".join(cases[0][t] for t in TRAITS if len({c[t] for c in cases}) == 1)


def timings(cases):
    traits = [t for t in TRAITS if len({c[t] for c in cases}) > 1]
    disturbed = any(c["disturbed"] for c in cases)
    head = ["N", "shape", *traits, "strategy", "kind", "status", "median", "q1", "q3", "over loop",
            "over best baseline", "verdict", "max error", "allowed", *(["disturbed"] if disturbed else [])]
    rows = []
    for c in cases:
        for t in c["baselines"] + c["trials"]:
            trial = "status" in t
            row = [_number(c["n"]), _text(c["shape"]), *(_text(c[name]) for name in traits)]
            row += [_text(t["name"] + (" *" if t.get("chosen") else "")),
                    _text("candidate" if trial else "baseline"), _text(t.get("status", ""))]
            row += [_time(t[name]) for name in ("median_ns", "q1_ns", "q3_ns")]
            row += [_over(t, "vs_loop"), _over(t, "vs_best_baseline"), _text(t.get("verdict") or "")]
            checked = t.get("correctness")
            allowed = checked and max(checked["tolerance"], 4 * (checked["eager_max_rel"] or 0))
            row += [(error_text(e), e) if checked else _text("")
                    for e in (checked and checked["max_rel"], allowed)]
            if disturbed:
                row.append((f"{100 * c['other_load']:.0f} % of cores", c["other_load"])
                           if c["disturbed"] else _text(""))
            rows.append(row)
    return head, rows


def summary(report):
    cases = report["cases"]
    disturbed = any(c["disturbed"] for c in cases)
    not_run = any(t["status"] in NOT_RUN for c in cases for t in c["trials"])
    traits = [t for t in TRAITS if len({c[t] for c in cases}) > 1]
    head = ["target", *traits, "largest N", "shape", "best strategy", "over loop", "over best baseline", "verdict", "ok",
            "incorrect", "failed", "unsupported", *(["not run"] if not_run else []),
            *(["disturbed"] if disturbed else [])]
    rows, groups = [], {}
    for c in cases:
        groups.setdefault((c["target"], *(c[t] for t in TRAITS)), []).append(c)
    gain = lambda t: t["speedup"]["vs_best_baseline"]["value"]
    for group in groups.values():
        trials = [t for c in group for t in c["trials"]]
        count = lambda *words: _count(sum(t["status"] in words for t in trials))
        largest = [c for c in group if c["n"] == max(c["n"] for c in group)]
        bests = [(c, max((t for t in c["trials"] if t["speedup"]), key=gain, default=None)) for c in largest]
        shown, best = min((pair for pair in bests if pair[1]), key=lambda pair: gain(pair[1]), default=bests[-1])
        row = [_text(shown["target"]), *(_text(shown[t]) for t in traits), _number(shown["n"]), _text(shown["shape"]),
               _text(best["strategy"] if best else "none"),
               _over(best, "vs_loop") if best else _text(""), _over(best, "vs_best_baseline") if best else _text(""),
               _text(best["verdict"] if best else ""), count("ok"), count("incorrect"), count(*FAILED),
               count("unsupported")]
        if not_run:
            row.append(count(*NOT_RUN))
        if disturbed:
            row.append(_count(sum(c["disturbed"] for c in group)))
        rows.append(row)
    return head, rows


def crossover(cases):
    head = ["strategy", "shape", "device", "dtype", "mode", "phase", "faster from N"]
    rows = []
    for c in crossovers(cases, lambda _, t: t["verdict"] == "FASTER"):
        rows.append([_text(c[name]) for name in head[:-1]] +
                    [_number(c["n"]) if c["n"] is not None else _text("never")])
    return head, rows


def reasons(cases):
    places = {}
    for c in cases:
        said = [(t["strategy"], t["status"], t["reason"] or "") for t in c["trials"] if t["status"] != "ok"]
        for who in said + [("baselines", "note", note) for note in c["notes"]]:
            places.setdefault(who, []).append(c)
    rows = []
    for (who, what, why), where in places.items():
        ns = sorted({c["n"] for c in where})
        only = []  # of what differs within the table, where it does not hold for all values
        for name in ("device", "dtype", "mode", "phase"):
            values = list(dict.fromkeys(c[name] for c in where))
            if len(values) < len({c[name] for c in cases}):
                only.append(", ".join(values))
        rows.append([_text(who), _text(what), (", ".join(map(str, ns)), float(ns[0])), _text(" · ".join(only)),
                     _text(why)])
    head = ["strategy", "status", "N", "only", "reason"]
    if not any(row[3][0] for row in rows):
        head.remove("only")
        for row in rows:
            del row[3]
    return head, rows


def disturbed_line(cases):
    """None where nothing is disturbed."""
    found = [c["other_load"] for c in cases if c["disturbed"]]
    if not found:
        return None
    return (f"{len(found)} of {len(cases)} cases {'is' if len(found) == 1 else 'are'} disturbed, UNCLEAR: other "
            f"programs took up to {100 * max(found):.0f} % of the cores")
