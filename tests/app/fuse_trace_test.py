"""`fuse --trace` in Chrome's trace format, read by code that shares nothing with the program: what an event must have,
that events of a lane lie inside each other or apart, that all models and steps are there, and that times are those measured."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn as nn
from command_line import CommandLine

N = 5
SLACK = 1e-3  # microseconds: numbers are rounded


class Convolutions(nn.Module):
    """Wide enough for Winograd's convolution and big enough for steps of microseconds."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 24, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 20, 3, padding=1))
        self.head = nn.Linear(20, 7)

    def forward(self, x):
        return self.head(self.body(torch.relu(self.first(x))).mean((2, 3)))


class Events:
    """A trace as a viewer takes it: processes, their threads, and complete events by thread."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.document = json.load(file)
        self.processes, self.threads, self.complete = {}, {}, {}
        for event in self.document["traceEvents"]:
            lane = (event["pid"], event["tid"])
            if event["ph"] == "M":
                names = {"process_name": self.processes, "thread_name": self.threads}[event["name"]]
                names[event["pid"] if event["name"] == "process_name" else lane] = event["args"]["name"]
            elif event["ph"] == "X":
                self.complete.setdefault(lane, []).append(event)
            else:
                raise ValueError(f"unknown phase {event['ph']}")

    def of(self, call, kind=None):
        pid = next(p for p, name in self.processes.items() if name.startswith(call + ":"))
        return [e for lane, events in self.complete.items() if lane[0] == pid for e in events
                if kind in (None, e["cat"])]

    def facts(self, call):
        return next(c for c in self.document["otherData"]["calls"] if c["name"] == call)


def nesting_faults(events):
    """Events of one lane that overlap without one holding the other."""
    faults, open_ones = [], []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while open_ones and open_ones[-1]["ts"] + open_ones[-1]["dur"] <= event["ts"] + SLACK:
            open_ones.pop()
        if open_ones and event["ts"] + event["dur"] > open_ones[-1]["ts"] + open_ones[-1]["dur"] + SLACK:
            faults.append((open_ones[-1]["name"], event["name"]))
        open_ones.append(event)
    return faults


class Trace(CommandLine):
    def fused(self, *arguments):
        torch.manual_seed(3)
        torch.export.save(torch.export.export(Convolutions().eval(), (torch.randn(3, 3, 17, 19),)), self.path("net.pt2"))
        self.workbench("fuse", self.path("net.pt2"), "-n", str(N), "--budget", "0.2", "--db", self.path("results.db"),
                       "--trace", self.path("trace.json"), "--json", self.path("report.json"), "--quiet", *arguments)
        with open(self.path("report.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        return Events(self.path("trace.json"))

    def held(self, trace):
        """What every trace must be."""
        self.assertEqual(sorted(name.split(":")[0] for name in trace.processes.values()), ["loop", "wide"])
        self.assertEqual(set(trace.complete) - set(trace.threads), set(), "an event in a lane without a name")
        for call in ("loop", "wide"):
            facts = trace.facts(call)
            for event in trace.of(call):
                self.assertGreaterEqual(event["dur"], 0, event)
                self.assertGreaterEqual(event["ts"], 0, event)
                self.assertLessEqual(event["ts"] + event["dur"], facts["call_ns"] / 1e3 + SLACK, event)
            # It is the very number that the report has of calls that nobody watched.
            timing = next(t for t in self.report["results"] if t["name"] == call)
            self.assertEqual(facts["median_ns_unwatched"], timing["median_ns"])
            outer = [e["dur"] for e in trace.of(call) if e["cat"] in ("model", "range", "shared")]
            lanes = len({e["tid"] for e in trace.of(call)})
            self.assertLessEqual(sum(outer), lanes * facts["call_ns"] / 1e3 + SLACK)
        for lane, events in trace.complete.items():
            self.assertEqual(nesting_faults(events), [], lane)

    def test_loop_and_wide_program_in_ranges(self):
        trace = self.fused("--threads", "2")
        self.held(trace)
        models = sorted(trace.of("loop", "model"), key=lambda e: e["ts"])
        self.assertEqual([m["name"] for m in models], [f"model {i}" for i in range(N)])
        self.assertEqual(len({m["tid"] for m in models}), 1)
        operators = trace.of("loop", "operator")
        # Each model calls the same operators, all inside of its own time.
        inside = [[o["name"] for o in sorted(operators, key=lambda e: e["ts"])
                   if m["ts"] - SLACK <= o["ts"] and o["ts"] + o["dur"] <= m["ts"] + m["dur"] + SLACK] for m in models]
        self.assertEqual(sum(map(len, inside)), len(operators))
        self.assertTrue(all(names == inside[0] for names in inside), inside)
        self.assertEqual(sum("conv" in name for name in inside[0]), 3, inside[0])
        self.assertGreater(sum(o["dur"] for o in operators), 0.3 * sum(m["dur"] for m in models))

        # Every model is in one range.
        counted = []
        for event in trace.of("wide", "range"):
            ends = [int(word) for word in event["name"].split(" ")[1].split("-")]
            counted += range(ends[0], ends[-1] + 1)
            steps = [s for s in trace.of("wide", "step") if s["tid"] == event["tid"]
                     and event["ts"] - SLACK <= s["ts"] <= event["ts"] + event["dur"] - SLACK]
            self.assertGreater(len(steps), 2)
            self.assertGreater(sum(s["dur"] for s in steps), 0.3 * event["dur"])
        self.assertEqual(sorted(counted), list(range(N)))
        self.assertLessEqual(len({e["tid"] for e in trace.of("wide")}), 2)
        self.shares(trace)

        # The same calls are in the report, so that the explorer shows them.
        calls = {c["name"]: c for c in self.report["timeline"]}
        for name in ("loop", "wide"):
            spans = calls[name]["spans"]
            kept = sorted(zip(spans["begin_ns"], spans["end_ns"]))
            drawn = sorted((e["ts"] * 1e3, (e["ts"] + e["dur"]) * 1e3) for e in trace.of(name))
            self.assertEqual(len(kept), len(drawn))
            for got, wanted in zip(drawn, kept):
                self.assertAlmostEqual(got[0], wanted[0], delta=1)
                self.assertAlmostEqual(got[1], wanted[1], delta=1)

    def shares(self, trace):
        """Shares of the peaks follow from the work, the time and the cores of a lane; convolutions count by hand."""
        environment, dtype = self.report["environment"], self.report["dtype"]
        cores = trace.facts("wide")["cores_a_lane"] / environment["threads"]
        peak = environment["peaks"]["flops_per_s"][dtype] * cores
        convolutions = 0
        for step in trace.of("wide", "step"):
            args = step["args"]
            seconds = step["dur"] * 1e-6
            for work, share in (("flops", "share_of_peak_flops"), ("computed_flops", "share_of_peak_computed")):
                self.assertEqual(work in args, share in args, args)
                if work in args:
                    self.assertAlmostEqual(args[share], args[work] / seconds / peak, delta=1e-6 + 1e-3 * args[share])
            if "conv" in step["name"]:
                convolutions += args["flops"]
                self.assertRegex(args["module"], "^(first|body.0|body.2)$")
                self.assertGreaterEqual(args["node"], 0)
                if "winograd" in step["name"]:
                    # The products of the best basis, F(4, 3), are a quarter of the definition's.
                    self.assertGreater(args["computed_flops"], args["flops"] / 4)
                    self.assertLess(args["computed_flops"], args["flops"])
        places = 3 * 17 * 19
        exact = N * 2 * 9 * places * (3 * 24 + 24 * 24 + 24 * 20)
        self.assertGreaterEqual(convolutions, exact)
        self.assertLess(convolutions, 1.02 * exact)  # and the activations behind them

    def test_a_watched_call_takes_about_as_long_as_others(self):
        trace = self.fused("--threads", "1")
        self.held(trace)
        self.assertEqual({e["tid"] for e in trace.of("wide")}, {1})
        self.assertEqual(trace.facts("loop")["notes"], [])  # one thread did all of it
        for call in ("loop", "wide"):
            # Three quarters at least of the time of a call lie in its models or ranges.
            outer = sum(e["dur"] for e in trace.of(call) if e["cat"] in ("model", "range", "shared"))
            self.assertGreater(outer, 0.75 * trace.facts(call)["call_ns"] / 1e3)
            if not self.report["disturbed"]:  # with others on the cores times say nothing
                ratio = trace.facts(call)["call_ns"] / trace.facts(call)["median_ns_unwatched"]
                self.assertTrue(0.1 < ratio < 10, f"{call}: {ratio}")

    def test_one_range_says_that_its_cores_are_not_told_apart(self):
        trace = self.fused("--threads", "2", "--mode", "eager")
        self.held(trace)
        wide = trace.facts("wide")
        if wide["cores_a_lane"] == 2:
            self.assertEqual({e["tid"] for e in trace.of("wide")}, {1})
            self.assertTrue(any("is not measured" in note for note in wide["notes"]), wide)
        self.assertTrue(any("is not measured" in note for note in trace.facts("loop")["notes"]))

    def test_refused_paths(self):
        said = self.workbench("fuse", "mlp", "-n", "2", "--trace", self.path("none/trace.json"), "--no-store", expect=2).stderr
        self.assertIn("[--trace] folder: got no", said)


class Reader(unittest.TestCase):
    def test_events_that_cross_are_found(self):
        event = lambda ts, dur: {"name": f"{ts}", "ts": ts, "dur": dur}
        self.assertEqual(nesting_faults([event(0, 10), event(0, 4), event(4, 6), event(12, 1)]), [])
        self.assertEqual(nesting_faults([event(0, 10), event(8, 4)]), [("0", "8")])


if __name__ == "__main__":
    unittest.main()
