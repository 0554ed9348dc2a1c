"""Sweeps over two machines, made with a host name and a core of their own: reports show them apart, and no time of the
one is compared with one of the other."""
import csv
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command_line import BINARY, CommandLine

SWEEP = ["sweep", "ci", "--targets", "rmsnorm", "-n", "1,2,3", "--budget", "0.02", "--threads", "1"]
OTHER = ["unshare", "-Ur", "--uts", "sh", "-c", 'hostname other-machine && exec "$@"', "sh"]


def unshared():
    """Why there can be no second host name here, or None."""
    try:
        run = subprocess.run([*OTHER, "hostname"], capture_output=True, text=True, timeout=60)
    except OSError as error:
        return str(error)
    return None if run.stdout.strip() == "other-machine" else run.stderr.strip() or "no other host name"


WHY_NOT = unshared()
CORE = min(os.sched_getaffinity(0))


class Machines(CommandLine):
    def measure(self, db, *options, sweep=SWEEP, other=False, one_core=False):
        command = [*(OTHER if other else []), *(["taskset", "-c", str(CORE)] if one_core else []), BINARY, *sweep, "--db",
                   self.path(db), "--quiet", *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=400)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.path(db)

    def report(self, db, *options):
        path = self.path(os.path.basename(db) + ".json")
        self.workbench("report", "last", "--db", db, "--json", path, *options)
        with open(path, encoding="utf-8") as file:
            return json.load(file), path

    def text(self, db, kind):
        self.workbench("report", "last", "--db", db, f"--{kind}", self.path("text"))
        with open(self.path("text"), encoding="utf-8") as file:
            return file.read()

    def test_every_case_knows_its_machine(self):
        db = self.measure("here.db")
        report, _ = self.report(db)
        e = report["environment"]
        cores = e["cpu"]["cores"]
        name = f'{e["host"]}: {e["cpu"]["model"]}, {cores} core{"s" if cores > 1 else ""}'
        self.assertEqual({c["machine"] for c in report["cases"]}, {name + (f', {e["gpu"]}' if e["gpu"] else "")})
        self.assertEqual(e["host"], os.uname().nodename)
        self.assertNotIn("| machine |", self.text(db, "md"))

    @unittest.skipIf(WHY_NOT, f"no second host name: {WHY_NOT}")
    def test_two_are_shown_apart(self):
        parts = [self.measure("1.db", "--part", "1/2"), self.measure("2.db", "--part", "2/2", other=True)]
        merged = self.path("merged.db")
        self.workbench("store", "merge", merged, *parts)
        report, _ = self.report(merged)
        self.assertEqual([m["host"] for m in report["machines"]], ["other-machine"])
        hosts = [c["machine"].split(":")[0] for c in report["cases"]]
        self.assertEqual(set(hosts), {os.uname().nodename, "other-machine"})
        # Equal but for the name: one curve may go through both.
        self.assertEqual(len({(c["strategy"], c["shape"]) for c in report["crossover"]}), len(report["crossover"]))
        markdown = self.text(merged, "md")
        for host in set(hosts):
            self.assertRegex(markdown, rf"### {host}: .* core.*: {hosts.count(host)} cases\n")
            self.assertEqual(len(re.findall(rf"\| host +\| {host} ", markdown)), 1, host)
        head, *rows = [line for line in markdown.splitlines() if line.count("|") > 10 and "median" in line or
                       re.match(r"\| +\d+ \|", line)]
        self.assertIn("machine", head)
        self.assertEqual({h for h in set(hosts) if any(f" {h}: " in row for row in rows)}, set(hosts))
        page = self.text(merged, "html")
        for host in set(hosts):
            self.assertIn(f"<h3>{host}: ", page)
        self.assertIn("2 machines: ", page)
        # In the terminal too; as they are alike, one table holds both.
        said = self.workbench("report", "last", "--db", merged).stdout
        self.assertEqual(said.count("rmsnorm · cpu · f32"), 1, said)
        self.assertRegex(said, rf"\nsweep ci · 2 machines: {report['environment']['host']}: .*; other-machine: ")
        rows = list(csv.DictReader(self.text(merged, "csv").splitlines()))
        self.assertEqual({row["machine"].split(":")[0] for row in rows}, set(hosts))
        self.assertIn("2 machines: ", self.text(merged, "svg"))
        self.assertEqual(set(re.findall(r'<property name="machine" value="([^:]*): ', self.text(merged, "junit"))), set(hosts))
        # Exported and imported it is the same.
        self.workbench("store", "export", "last", self.path("one.db"), "--db", merged)
        again, _ = self.report(self.path("one.db"))
        self.assertEqual(again["machines"], report["machines"])
        self.assertEqual(again["cases"], report["cases"])

    def test_crossovers_of_other_hardware_are_not_compared(self):
        report, before = self.report(self.measure("here.db"))
        for case in report["cases"]:
            case["disturbed"] = False  # whatever else ran here: crossovers of disturbed cases are not compared
        with open(before, "w", encoding="utf-8") as file:
            json.dump(report, file)
        for case in report["cases"]:
            for trial in case["trials"]:
                trial["verdict"] = "FASTER" if trial["verdict"] != "FASTER" else "SLOWER"

        def crossovers(machine):
            for case in report["cases"]:
                case["machine"] = machine
            with open(self.path("after.json"), "w", encoding="utf-8") as file:
                json.dump(report, file)
            self.workbench("compare", before, self.path("after.json"), "--json", self.path("compared.json"))
            with open(self.path("compared.json"), encoding="utf-8") as file:
                return json.load(file)["crossovers"]

        self.assertNotEqual(crossovers(report["cases"][0]["machine"].replace(os.uname().nodename, "another-host")), [])
        self.assertEqual(crossovers("another-host: another processor, 96 cores"), [])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core: there can be no other hardware")
    def test_parts_of_other_cores_merge(self):
        """Where nobody asked for a number of threads, each machine has as many as it has cores."""
        parts = [self.measure("1.db", "--part", "1/2", sweep=SWEEP[:-2]),
                 self.measure("2.db", "--part", "2/2", sweep=SWEEP[:-2], one_core=True)]
        self.workbench("store", "merge", self.path("merged.db"), *parts)
        report, _ = self.report(self.path("merged.db"))
        self.assertEqual(len({c["machine"] for c in report["cases"]}), 2)

    @unittest.skipIf(WHY_NOT, f"no second host name: {WHY_NOT}")
    def test_what_each_machine_measured_is_merged(self):
        here, there = (self.measure(f"{other}.db", "--each-machine", other=other) for other in (False, True))
        merged = self.path("merged.db")
        self.workbench("store", "merge", merged, there, here)
        report, path = self.report(merged)
        name = os.uname().nodename
        hosts = [c["machine"].split(":")[0] for c in report["cases"]]
        self.assertEqual(hosts, sorted([name, "other-machine"] * 3))
        self.assertEqual([c["n"] for c in report["cases"]], [1, 2, 3] * 2)
        # All of it is what they had, to the last bit.
        parts = {host: self.report(db)[0]["cases"] for host, db in ((name, here), ("other-machine", there))}
        self.assertEqual(report["cases"], [c for host in sorted(parts) for c in parts[host]])
        said = self.workbench("report", "last", "--db", merged).stdout
        for host in set(hosts):
            self.assertRegex(said, rf"\nrmsnorm · cpu · f32 · default · forward · {host}: ")
            self.assertRegex(said, rf"\n  rmsnorm {host}: ")
        # They are equal but for the name: each has a line of its own, and is compared with itself.
        self.assertEqual({c["machine"].split(":")[0] for c in report["crossover"]}, {name, "other-machine"})
        self.workbench("compare", path, path, "--json", self.path("compared.json"))
        with open(self.path("compared.json"), encoding="utf-8") as file:
            compared = json.load(file)
        trials = [(t["strategy"], t["n"], t["machine"]) for t in compared["trials"]]
        self.assertEqual(len(set(trials)), len(trials))
        self.assertEqual({t[2].split(":")[0] for t in trials}, {name, "other-machine"})
        self.assertTrue(all(t["change"]["value"] == 1 for t in compared["trials"]))

        def refused(message, *options):
            run = self.workbench(*options, expect=2)
            self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
            self.assertIn(message, run.stderr.replace(self.folder + "/", ""))

        again = self.path("again.db")
        refused("[False.db] merge: got " + name + ": ", "store", "merge", again, merged, here)
        refused(", which merged.db has too, expected each machine once; try to leave one out", "store", "merge", again, merged,
                here)
        part = self.measure("part.db", "--part", "1/2")
        refused("[part.db] merge: got part 1/2 with --each-machine off, expected on as in False.db", "store", "merge", again,
                here, part)
        other = self.measure("seed.db", "--each-machine", "--seed", "1", other=True)
        refused("[seed.db] merge: got what was measured on other-machine: ", "store", "merge", again, here, other)
        refused("--part excludes --each-machine", *SWEEP, "--each-machine", "--part", "1/2", "--no-store")
        self.assertFalse(os.path.exists(again))
        # The merged sweep is one like others.
        self.workbench("store", "export", "last", self.path("one.db"), "--db", merged)
        self.assertEqual(self.report(self.path("one.db"))[0]["cases"], report["cases"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core: there can be no other hardware")
    def test_other_hardware_is_not_compared(self):
        whole = self.measure("whole.db")
        parts = [self.measure("1.db", "--part", "1/2"), self.measure("2.db", "--part", "2/2", one_core=True)]
        merged = self.path("merged.db")
        self.workbench("store", "merge", merged, *parts)
        _, before = self.report(whole)
        report, after = self.report(merged)
        small = {c["n"] for c in report["cases"] if ", 1 core" in c["machine"]}
        self.assertTrue(0 < len(small) < 3, small)
        # Curves never go from one kind of hardware to another.
        self.assertEqual(len(report["crossover"]), 2 * len({(c["strategy"], c["shape"]) for c in report["crossover"]}))
        self.workbench("compare", before, after, "--json", self.path("compared.json"))
        with open(self.path("compared.json"), encoding="utf-8") as file:
            compared = json.load(file)
        self.assertEqual({t["n"] for t in compared["trials"]}, {1, 2, 3})
        for trial in compared["trials"]:
            other = trial["n"] in small
            self.assertEqual((trial["reason"] or "").startswith("other hardware: cores: "), other, trial)
            if other:
                self.assertEqual(trial["verdict"], "UNCLEAR")
        self.assertEqual(compared["hardware"], [])


if __name__ == "__main__":
    unittest.main()
