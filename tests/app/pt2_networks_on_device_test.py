"""Exported networks of many kinds fused on the simulated device of the C++ tests, against PyTorch in double precision.

What a GPU would refuse by rule (host reads, mixed devices, stale graphs) ends the process there with its name.
"""
import os
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from pt2_networks_test import BINARY, export_networks, fused, prepare

SIMULATED = os.path.join(os.path.dirname(BINARY), "workbench_tests_simulated")


class OnADevice(unittest.TestCase):
    maxDiff = None

    def test_every_network_is_right(self):
        chosen = os.environ.get("WORKBENCH_NETWORKS", "").split(",")
        names = [n for n in export_networks.ALL if chosen == [""] or n in chosen]
        results = {}
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            for name in names:
                results[name] = pool.submit(fused, *prepare(name, folder)["training"], binary=SIMULATED, device="simulated")
            results = {name: result.result() for name, result in results.items()}
        self.assertEqual({name: result for name, result in results.items() if not isinstance(result, int)}, {})


if __name__ == "__main__":
    unittest.main()
