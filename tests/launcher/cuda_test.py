"""CUDA is never left out silently: where a GPU is is known, missing headers are fetched, and the code compiles."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import launcher_test
from launcher_test import SOURCE


def site_of_torch():
    asked = subprocess.run([os.environ.get("WORKBENCH_TEST_PYTHON") or sys.executable, "-c",
                            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                           capture_output=True, text=True, check=False)
    return os.path.dirname(asked.stdout.strip()) if asked.returncode == 0 else ""


class Gpu(unittest.TestCase):
    def seen(self, *nodes, **environment):
        with tempfile.TemporaryDirectory() as root:
            for node in nodes:
                os.makedirs(os.path.dirname(os.path.join(root, node)), exist_ok=True)
                with open(os.path.join(root, node), "w", encoding="utf-8"):
                    pass
            code = f"set -u; {self.function}\ngpu_in '{root}'"
            env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
            return subprocess.run(["bash", "-c", code], env={**env, **environment}, check=False).returncode == 0

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(SOURCE, "workbench"), encoding="utf-8") as text:
            lines = text.read().split("\n")
        begin = lines.index("gpu_in() {")
        cls.function = "\n".join(lines[begin:lines.index("}", begin) + 1])

    def test_nodes_of_whole_and_divided_ones_and_of_windows(self):
        self.assertFalse(self.seen())
        self.assertFalse(self.seen("dev/nvidiactl", "dev/nvidia-uvm"), "a driver without a GPU")
        self.assertTrue(self.seen("dev/nvidia0"))
        self.assertTrue(self.seen("dev/nvidia3"), "a container's only one")
        self.assertTrue(self.seen("dev/nvidia0", "dev/nvidia-caps/nvidia-cap21", CUDA_VISIBLE_DEVICES="MIG-1f"))
        self.assertFalse(self.seen("dev/dxg"), "Windows' graphics without CUDA")
        self.assertTrue(self.seen("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"))

    def test_hidden_ones_are_not_there(self):
        for hidden in ("", "-1", "-1,0", "NoDevFiles"):
            self.assertFalse(self.seen("dev/nvidia0", CUDA_VISIBLE_DEVICES=hidden), hidden)
        for shown in ("0", "1,-1", "GPU-8932f937"):
            self.assertTrue(self.seen("dev/nvidia0", CUDA_VISIBLE_DEVICES=shown), shown)


class Headers(launcher_test.Launcher):
    """The launcher with a LibTorch whose wheels lack headers."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("site/torch/lib"))
        for library in ("libtorch_cpu.so", "libtorch_cuda.so"):
            shutil.copy("/bin/true", self.path(f"site/torch/lib/{library}"))
        os.makedirs(self.path("site/nvidia/cu13/include"))
        tools = self.path("home/.cache/workbench/cuda-headers/bin")
        os.makedirs(tools)
        os.makedirs(self.path("home/.cache/workbench/cuda-headers/lib/python3.11/site-packages"))
        self.tool("python", "")
        os.rename(os.path.join(self.bin, "python"), os.path.join(tools, "python"))

    def calls_with(self, version, cuda="wheel"):
        with open(self.path("site/torch/version.py"), "w", encoding="utf-8") as out:
            out.write(f"__version__ = '2.11.0'\ncuda: Optional[str] = '{version}'\n")
        done = self.run_it(WORKBENCH_TORCH=self.path("site/torch"), WORKBENCH_CUDA=cuda)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.calls, encoding="utf-8") as calls:
            return calls.read()

    def test_the_missing_ones_are_fetched_and_named_to_cmake(self):
        calls = self.calls_with("13.0")
        self.assertIn("--no-deps nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85", calls)
        self.assertIn(f"-DWORKBENCH_CUDA_HEADERS={self.path('home/.cache/workbench/cuda-headers/lib/python3.11')}", calls)

    def test_of_the_version_that_torch_was_built_for(self):
        self.assertIn("nvidia-cuda-nvcc-cu12==12.8.*", self.calls_with("12.8"))

    def test_nothing_is_fetched_where_all_are_there_or_none_is_wanted(self):
        self.assertNotIn("pip", self.calls_with("13.0", cuda="off"))
        for header in ("crt/host_defines.h", "cccl/nv/target"):
            path = self.path(f"site/nvidia/cu13/include/{header}")
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8"):
                pass
        self.assertNotIn("pip", self.calls_with("13.0"))


for inherited in dir(launcher_test.Launcher):
    if inherited.startswith("test_"):
        setattr(Headers, inherited, None)  # they run where they stand


class Code(unittest.TestCase):
    def test_compiles_against_the_headers_of_the_wheels(self):
        site = site_of_torch()
        if not site or not os.path.exists(os.path.join(site, "torch/lib/libtorch_cuda.so")):
            self.skipTest("this Python's torch is the CPU's")
        nvidia = os.path.join(site, "nvidia")
        folders = [os.path.join(nvidia, name, "include") for name in os.listdir(nvidia) if name.startswith("cu")]
        folders += os.environ.get("WORKBENCH_CUDA_INCLUDE", "").split(":")
        folders += [os.path.join(folder, "cccl") for folder in folders]
        missing = [header for header in ("crt/host_defines.h", "nv/target")
                   if not any(os.path.exists(os.path.join(folder, header)) for folder in folders)]
        if missing:
            self.skipTest(f"the packages nvidia-cuda-crt and nvidia-cuda-cccl are not there: no {', '.join(missing)}")
        includes = [SOURCE, "/usr/include", os.path.join(site, "torch/include"),
                    os.path.join(site, "torch/include/torch/csrc/api/include"), *filter(os.path.isdir, folders)]
        command = ["c++", "-std=c++20", "-fsyntax-only", "-w", "-idirafter", "/usr/include", f"-I{SOURCE}"]
        with tempfile.TemporaryDirectory() as own:  # fmt of the system, not the one that torch carries
            os.symlink("/usr/include/fmt", os.path.join(own, "fmt"))
            command += [f"-I{own}"] + [f"-isystem{folder}" for folder in includes[2:]]
            done = subprocess.run([*command, os.path.join(SOURCE, "engine/cuda/device.cpp")], capture_output=True,
                                  text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])


if __name__ == "__main__":
    unittest.main()
