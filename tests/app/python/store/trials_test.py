"""`nw.open(...).trials()` against the JSON report of the same sweep."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import json  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

import pandas  # noqa: E402

import nwide as nw  # noqa: E402


class Trials(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store, self.report = os.path.join(folder.name, "results.db"), os.path.join(folder.name, "sweep.json")
        # Packed weights are unsupported in eager mode.
        subprocess.run([os.environ["WORKBENCH_BINARY"], "sweep", "quick", "--targets", "linear", "-n", "2", "--mode", "eager", "default",
                        "--budget", "0.01", "--quiet", "--db", self.store, "--json", self.report], check=True)
        with open(self.report, encoding="utf-8") as file:
            self.cases = json.load(file)["cases"]

    def test_a_trial_that_was_not_timed_has_no_numbers(self):
        frame = nw.open(self.store).trials()
        wanted = [(case, trial) for case in self.cases for trial in case["trials"]]
        self.assertEqual(list(frame["strategy"]), [trial["strategy"] for _, trial in wanted])
        self.assertIn("unsupported", [trial["status"] for _, trial in wanted])
        names = ["median_ns", "q1_ns", "q3_ns", "first_call_ns", "peak_bytes"]
        for (_, row), (case, trial) in zip(frame.iterrows(), wanted):
            if trial["samples_ns"]:
                self.assertEqual([row[name] for name in names], [trial[name] for name in names])
            else:
                self.assertTrue(all(pandas.isna(row[name]) for name in names), row)
            self.assertEqual(row["disturbed"], case["disturbed"])
        self.assertEqual(frame["disturbed"].dtype, bool)
        timed = [trial["median_ns"] for _, trial in wanted if trial["samples_ns"]]
        self.assertAlmostEqual(frame["median_ns"].mean(), sum(timed) / len(timed), delta=1e-6 * max(timed))


if __name__ == "__main__":
    unittest.main()
