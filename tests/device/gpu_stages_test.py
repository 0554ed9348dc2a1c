"""The stages of `workbench gpu-report` that compute, on the GPU of this machine."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from command_line import BINARY


class Stages(unittest.TestCase):
    device = "cuda:0"

    def setUp(self):
        info = subprocess.run([BINARY, "info", "--json"], capture_output=True, text=True, timeout=300, check=True)
        if why := json.loads(info.stdout)["cuda"]:
            self.skipTest(why)

    def run_stage(self, stage):
        run = subprocess.run([BINARY, "gpu-report", "--stage", stage, "--device", self.device], capture_output=True, text=True,
                             timeout=500)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        ended = [step for step in map(json.loads, run.stdout.splitlines()) if "ok" in step]
        self.assertGreater(len(ended), 0)
        self.assertEqual([step for step in ended if not step["ok"]], [])

    def test_numerics(self):
        self.run_stage("numerics")

    def test_graphs(self):
        self.run_stage("graphs")


if __name__ == "__main__":
    unittest.main()
