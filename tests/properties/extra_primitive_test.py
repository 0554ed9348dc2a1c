"""A primitive is one file: fixtures/layerscale.cpp, linked into a second executable, is all that makes list, sweeps
and properties know one more. The executables differ by that file alone."""
import json
import os
import subprocess
import tempfile
import unittest

BINARY = os.environ["WORKBENCH_BINARY"]
TESTS = os.path.join(os.path.dirname(BINARY), "workbench_tests")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


class ExtraPrimitive(unittest.TestCase):
    def listed(self, program):
        result = run(program, "list", "primitives", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {p["name"]: p for p in json.loads(result.stdout)["primitives"]}

    def test_list_knows_it(self):
        plain, extra = self.listed(BINARY), self.listed(TESTS + "_extra")
        self.assertEqual(set(extra) - set(plain), {"layerscale"})
        self.assertEqual(len(plain), 24)
        self.assertIn("broadcast", json.dumps(extra["layerscale"]["strategies"]))

    def test_a_sweep_runs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            result = run(TESTS + "_extra", "sweep", "ci", "--targets", "layerscale", "--budget", "0.02", "--no-store",
                         "--json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, encoding="utf-8") as file:
                cases = json.load(file)["cases"]
        self.assertEqual([case["n"] for case in cases], [2, 5])
        for case in cases:
            self.assertEqual({t["strategy"]: t["status"] for t in case["trials"]},
                             {"broadcast": "ok", "vmap": "ok", "per_model": "ok"})
        result = run(BINARY, "sweep", "ci", "--targets", "layerscale", "--no-store")
        self.assertEqual(result.returncode, 2, result.stdout)

    def test_the_properties_hold_for_it(self):
        result = run(TESTS + "_extra", "--gtest_filter=Targets/*/layerscale")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, r"\[  PASSED  \] ([89]|1\d) tests")
        result = run(TESTS, "--gtest_filter=Targets/*/layerscale")
        self.assertNotIn("layerscale", result.stdout.replace("--gtest_filter=Targets/*/layerscale", "")
                         .replace("Targets/*/layerscale", ""))


if __name__ == "__main__":
    unittest.main()
