"""What the built program loads: everything is found, and there is one OpenMP runtime."""

import os
import subprocess
import unittest


class Linking(unittest.TestCase):
    binary = os.environ["WORKBENCH_BINARY"]

    def setUp(self):
        said = subprocess.run(["ldd", self.binary], capture_output=True, text=True, check=True)
        self.lines = said.stdout.splitlines()

    def test_all_is_found(self):
        self.assertEqual([line for line in self.lines if "not found" in line], [])

    def test_one_openmp_runtime(self):
        names = ("libgomp", "libiomp", "libomp")
        runtimes = [line for line in self.lines if any(name in line for name in names)]
        self.assertEqual(len(runtimes), 1, runtimes)

    def test_no_driver_is_needed(self):
        self.assertEqual([line for line in self.lines if "libcuda.so" in line], [])

    def test_plugins_need_none_of_its_symbols(self):
        said = subprocess.run(["nm", "-DC", "--defined-only", self.binary], capture_output=True, text=True, check=True)
        self.assertEqual([line for line in said.stdout.splitlines() if "add_device_runtime" in line], [])


if __name__ == "__main__":
    unittest.main()
