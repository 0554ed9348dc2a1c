"""Kernels on another processor: those that need no LibTorch are compiled for ARM and run in an emulator."""

import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ.get("WORKBENCH_SOURCE") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
KERNELS = os.path.join(ROOT, "primitives/kernels")
MAIN = os.path.join(ROOT, "tests/primitives/kernels/fixtures/without_torch.cpp")
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
HEADERS = "/usr/include/hwy"
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)


def includes(path, seen):
    """All that a file includes, the project's headers followed."""
    with open(path, encoding="utf-8") as code:
        for name in INCLUDE.findall(code.read()):
            inner = os.path.join(ROOT, name)
            if name not in seen:
                seen.add(name)
                if os.path.exists(inner):
                    includes(inner, seen)
    return seen


def kernels():
    """Sources in Highway without LibTorch."""
    found = []
    for path in sorted(glob.glob(os.path.join(KERNELS, "**", "*.cpp"), recursive=True)):
        needs = includes(path, set())
        if "primitives/kernels/highway.h" in needs and not any(
                need.startswith(("ATen/", "c10/", "torch/")) for need in needs):
            found.append(path)
    return found


class Aarch64(unittest.TestCase):
    def setUp(self):
        for needed, package in ((COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
            if not shutil.which(needed):
                self.skipTest(f"no {needed} here; apt-get install {package}")
        if not os.path.isdir(HEADERS):
            self.skipTest(f"no {HEADERS} here; apt-get install libhwy-dev")

    def test_kernels_give_the_right_answers(self):
        sources = kernels()
        names = [os.path.basename(path) for path in sources]
        for expected in ("panel_gemm.cpp", "convolution_tile.cpp", "recurrent_cells.cpp", "winograd_products.cpp",
                         "winograd_transforms.cpp"):
            self.assertIn(expected, names)
        with tempfile.TemporaryDirectory() as build:
            # Of the host's headers only Highway's: the others are another processor's. Its library
            # is another's too, so that there is one instruction set, chosen by the compiler.
            os.symlink(HEADERS, os.path.join(build, "hwy"))

            def compile_one(path):
                made = os.path.join(build, os.path.basename(path) + ".o")
                subprocess.run([COMPILER, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-isystem", build,
                                "-I", ROOT, "-DHWY_COMPILE_ONLY_STATIC", "-c", path, "-o", made], check=True)
                return made

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                made = list(pool.map(compile_one, sources + [MAIN]))
            program = os.path.join(build, "kernels")
            subprocess.run([COMPILER, "-static", *made, "-o", program], check=True)
            done = subprocess.run([EMULATOR, program], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "NEON\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
