"""The library as others use it: installed, found by CMake, and running the READMEs' three programs."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)

SOURCE = os.environ["WORKBENCH_SOURCE"]
BUILD = os.path.dirname(os.environ["WORKBENCH_BINARY"])
PROGRAMS = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)

SHARED = """
#include <engine/wide.h>
#include <torch/nn/modules/linear.h>

extern "C" int wide_linear(int n) {
  std::vector<torch::nn::Linear> models;
  for (int i = 0; i < n; ++i) models.emplace_back(6, 5);
  wide::WideModel wide = wide::compile(models, {at::randn({2, 6})});
  return static_cast<int>(wide.run({at::randn({n, 2, 6})})[0].numel());
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES CXX)
find_package(workbench 0.1 REQUIRED)
foreach(name modules serve train)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE workbench::workbench)
endforeach()
add_library(shared SHARED shared.cpp)
target_link_libraries(shared PRIVATE workbench::workbench)
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
            if "WORKBENCH_SANITIZE:BOOL=ON" in cache.read():
                raise unittest.SkipTest("a sanitized library needs sanitized users")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.top = folder.name
        cls.prefix = os.path.join(cls.top, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def test_only_public_headers_and_all_of_them(self):
        top = os.path.join(self.prefix, "include", "workbench")
        installed = {os.path.relpath(os.path.join(at, name), top)
                     for at, _, names in os.walk(top) for name in names}
        needed, todo = set(), ["engine/wide.h", "engine/train/trainer.h", "data/wide_file.h"]
        while todo:
            header = todo.pop()
            if header in needed:
                continue
            needed.add(header)
            with open(os.path.join(SOURCE, header), encoding="utf-8") as text:
                todo += INCLUDE.findall(text.read())
        self.assertEqual(installed, needed)

    def test_the_programs_of_the_readmes(self):
        programs = []
        for page in ("engine/README.md", "README.md"):
            with open(os.path.join(SOURCE, page), encoding="utf-8") as text:
                programs += PROGRAMS.findall(text.read())
        self.assertEqual(len(programs), 3)
        user = os.path.join(self.top, "user")
        os.mkdir(user)
        for name, text in zip(("modules", "serve", "train"), programs):
            with open(os.path.join(user, name + ".cpp"), "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(user, "shared.cpp"), "w", encoding="utf-8") as file:
            file.write(SHARED)
        with open(os.path.join(user, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(CMAKE)
        more = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        # With the flags of a careful user: our headers are not among the system's.
        run("cmake", "-S", user, "-B", user + "/build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -g0", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            *more)
        run("cmake", "--build", user + "/build")

        out = run(user + "/build/modules", cwd=self.top)
        self.assertIn("[8, 16, 10]", out)
        module = torch.export.load(os.path.join(self.top, "wide.pt2")).module()
        self.assertEqual(module(torch.zeros(8, 16, 64)).shape, (8, 16, 10))

        self.assertIn("[8, 10, 64]", run(user + "/build/train", cwd=self.top))

        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4),
                                    torch.nn.Flatten(2)).eval()
        torch.jit.trace(model, torch.zeros(2, 3, 32, 32)).save(os.path.join(self.top, "net.ts"))
        for i in range(3):
            save_file({k: v + i if v.is_floating_point() else v
                       for k, v in model.state_dict().items()},
                      os.path.join(self.top, f"w{i}.safetensors"))
        out = run(user + "/build/serve", cwd=self.top)
        self.assertEqual(out.split("\n")[:3], ["[3, 2, 4, 900]", "[3, 2, 4, 900]", "[3, 5, 4, 900]"])

        # In a shared object, as Python loads it: a process of its own, whose LibTorch it uses.
        out = run(sys.executable, "-c", "import ctypes, sys, torch; "
                  "print(ctypes.CDLL(sys.argv[1]).wide_linear(3))", user + "/build/libshared.so")
        self.assertEqual(out.strip(), "30")

    def test_the_program_has_its_presets_wherever_it_lies(self):
        moved = os.path.join(self.top, "moved")
        os.makedirs(moved)
        program = shutil.copy(os.path.join(self.prefix, "bin", "workbench"), moved)
        alone = {k: v for k, v in os.environ.items() if not k.startswith("WORKBENCH_")}
        alone["XDG_DATA_HOME"] = moved
        listed = json.loads(run(program, "list", "presets", "--json", cwd=moved, env=alone))["presets"]
        files = glob.glob(os.path.join(SOURCE, "presets", "*.json"))
        self.assertEqual({p["name"] for p in listed}, {os.path.basename(f)[:-5] for f in files})
        planned = run(program, "--sweep", "ci", "--dry-run", cwd=moved, env=alone)
        self.assertIn("linear", planned)
        # The figures beside a preset too.
        with open(os.path.join(SOURCE, "presets", "published.csv"), encoding="utf-8") as csv:
            target = csv.read().strip().split("\n")[-1].split(",")[0]
        self.assertIn(target, run(program, "--sweep", "published", "--dry-run", cwd=moved, env=alone))

    def test_a_wrong_torch_is_said(self):
        user = os.path.join(self.top, "wrong")
        os.mkdir(user)
        with open(os.path.join(user, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.24)\nproject(user LANGUAGES NONE)\n"
                       "find_package(workbench REQUIRED)\n")
        done = subprocess.run(["cmake", "-S", user, "-B", user + "/build", "-G", "Ninja", "-DWORKBENCH_TORCH=/none",
                               f"-DCMAKE_PREFIX_PATH={self.prefix}"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("WORKBENCH_TORCH: got '/none', expected a folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
