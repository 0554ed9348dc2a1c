"""Two sweeps beside each other: what only disturbed cases or other targets differ in is no change."""
import copy
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command_line import CommandLine


class Compared(CommandLine):
    def setUp(self):
        super().setUp()
        self.workbench("sweep", "ci", "--targets", "linear,embedding", "-n", "2,3,5", "--budget", "0.01", "--quiet", "--no-store",
                       "--json", self.path("measured.json"))
        with open(self.path("measured.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        for case in self.report["cases"]:
            self.call_each(case, "FASTER", False)

    @staticmethod
    def call_each(case, verdict, disturbed):
        case.update(disturbed=disturbed, other_load=0.48 if disturbed else 0.0)
        for trial in case["trials"]:
            if trial["status"] == "ok":
                trial["verdict"] = verdict

    def write(self, name, report):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(report, file)
        return self.path(name)

    def test_disturbed_cases_change_no_crossover(self):
        quiet, after = self.write("quiet.json", self.report), copy.deepcopy(self.report)
        for case in after["cases"]:
            self.call_each(case, "UNCLEAR", True)
        all_disturbed = self.write("disturbed.json", after)
        for sides in ((quiet, all_disturbed), (all_disturbed, quiet)):
            said = self.workbench("compare", *sides).stdout
            self.assertIn("UNCLEAR", said)
            self.assertNotIn("crossovers that changed", said)
        # What changed where nothing was disturbed is still said.
        after = copy.deepcopy(self.report)
        for case in after["cases"]:
            if case["target"] == "linear" and case["n"] > 2:
                self.call_each(case, "UNCLEAR" if case["n"] == 5 else "SLOWER", case["n"] == 5)
        self.workbench("compare", quiet, self.write("slower.json", after), "--json", self.path("c.json"))
        with open(self.path("c.json"), encoding="utf-8") as file:
            crossovers = json.load(file)["crossovers"]
        strategies = {t["strategy"] for c in after["cases"] if c["target"] == "linear" for t in c["trials"] if t["status"] == "ok"}
        self.assertEqual({(c["target"], c["strategy"], c["before"], c["after"]) for c in crossovers},
                         {("linear", strategy, 2, None) for strategy in strategies})

    def test_targets_that_are_not_asked_for_did_not_change(self):
        before = self.write("before.json", self.report)
        said = self.workbench("report", before, "--targets", "linear", "--against", before).stdout
        self.assertIn(" trials in both: ", said)
        self.assertNotIn("statuses that changed", said)
        self.assertNotIn("embedding", said)
        # A case that is gone from the target asked for is a change.
        after = copy.deepcopy(self.report)
        after["cases"] = [c for c in after["cases"] if (c["target"], c["n"]) not in (("linear", 5), ("embedding", 3))]
        said = self.workbench("report", self.write("after.json", after), "--targets", "linear", "--against", before).stdout
        changed = said.partition("statuses that changed\n")[2]
        self.assertRegex(changed, r"linear/\S+ n=5 .*: ok to none")
        self.assertNotIn("embedding", changed)

    def test_cases_that_a_sweep_is_not_asked_for_did_not_change(self):
        before = copy.deepcopy(self.report)
        gone = copy.deepcopy(next(c for c in before["cases"] if (c["target"], c["n"]) == ("linear", 3)))
        for trial in gone["trials"]:
            trial["strategy"] += "_of_old"
        before["cases"].append({**gone, "phase": "backward"})
        before["cases"].append({**gone, "n": 3})
        against = self.write("before.json", before)

        def changed(*choices):
            said = self.workbench("sweep", "ci", *choices, "--budget", "0.01", "--no-store", "--against", against).stdout
            return sorted(set(re.findall(r"^ +(\w+)/(\S+) n=(\d+)(?: .*)?: (\w+ to \w+)", said.partition("statuses that changed\n")[2], re.M)))

        old = [("linear", trial["strategy"], "3", f"{trial['status']} to none") for trial in gone["trials"]]
        self.assertEqual(changed("--targets", "linear", "-n", "2"), [])
        self.assertEqual(changed("--targets", "linear", "-n", "3", "--phase", "forward"), sorted(old))
        strategy = gone["trials"][0]["strategy"].removesuffix("_of_old")
        self.assertEqual(changed("--targets", "linear", "-n", "3", "--strategy", f"linear={strategy}"), [])


if __name__ == "__main__":
    unittest.main()
