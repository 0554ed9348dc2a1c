"""The wheel in another environment: package, program and command, without this build and wherever the environment lies."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "app", "python"), os.path.join(HERE, "..", "launcher")]
import package  # noqa: E402

package.built()

import linking_test  # noqa: E402
import torch  # noqa: E402

TORCH = os.path.realpath(os.path.dirname(torch.__file__))
# What every system with Python and torch has; all else comes with torch or lies in the wheel.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|X11|z)\.so\.\d+|ld-linux-.*")
FROM_TORCH = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1"}
ALSO_FROM_TORCH = {"_core": {"libtorch_python.so"},
                   "workbench_cuda": {"libtorch_cuda.so", "libc10_cuda.so", "libcudart.so.13"},
                   "workbench_mpi": {"libmpi.so.40"}}
MPI = "workbench_mpi.so"  # opened under mpirun alone, which brings its libraries
QUICK_START = """
import torch
import nwide.wide_compiler as wide_compiler

class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(64, 128)
        self.fc2 = torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.fc2(torch.nn.functional.relu(self.fc1(x)))

models = [MLP() for _ in range(100)]
wide = wide_compiler.compile(models, torch.randn(1, 64))
inputs = [torch.randn(32, 64) for _ in range(100)]
with torch.no_grad():
    outputs = wide_compiler.unpack(wide(wide_compiler.pack(inputs)), n=100)
    for model, x, y in zip(models, inputs, outputs):
        torch.testing.assert_close(y, model.double()(x.double()).float(), rtol=1e-4, atol=1e-5)
with open("/proc/self/maps") as maps:
    print("runtimes", len({line.split()[-1] for line in maps if "libgomp" in line or "libomp" in line or "libiomp" in line}))
import nwide
print("right", nwide.__file__)
"""
TRAIN = """
import numpy, torch
module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)).eval()
torch.jit.script(module).save("net.ts")
rows = numpy.random.default_rng(0).standard_normal((64, 5)).astype("float32")
numpy.savez("data.npz", input=rows, target=rows[:, :3].argmax(1))
"""


def is_elf(path):
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def dynamic(path):
    """What an ELF file needs, and where it looks."""
    said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return (re.findall(r"\(NEEDED\).*\[(.*)\]", said),
            [where for paths in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", said) for where in paths.split(":")])


class Wheel(linking_test.Linking):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.top = os.path.realpath(folder.name)
        made, cls.home = os.path.join(cls.top, "made"), os.path.join(cls.top, "moved")
        python = package.environment(made)
        # No compiler and no tools, and nothing that says where LibTorch or the build lies.
        cls.alone = {"PATH": "/nonexistent", "HOME": cls.top, "OMP_WAIT_POLICY": "passive",
                     "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "WORKBENCH_DB": os.path.join(cls.top, "results.db"), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([python, "-m", "pip", "install", "--no-deps", "--no-index", package.wheel()], check=True,
                       capture_output=True, env=cls.alone)
        os.rename(made, cls.home)
        cls.python = os.path.join(cls.home, "bin", "python")
        cls.packages, = glob.glob(os.path.join(cls.home, "lib", "python*", "site-packages"))
        cls.binary = os.path.join(cls.packages, "nwide", "workbench")
        cls.elf = [path for path in glob.glob(os.path.join(cls.packages, "nwide*", "**"), recursive=True) if is_elf(path)]

    def run_python(self, *arguments, expect=0, **more):
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, cwd=self.top,
                              env={**self.alone, **more})
        self.assertEqual(done.returncode, expect, done.stdout[-2000:] + done.stderr[-2000:])
        return done

    def workbench(self, *arguments, **more):
        return self.run_python(os.path.join(self.home, "bin", "workbench"), *arguments, **more)

    def test_the_name_says_where_it_runs(self):
        self.assertRegex(os.path.basename(package.wheel()),
                         r"^nwide-0\.1\.0-cp3(\d+)-cp3\1-manylinux_2_3[56]_(x86_64|aarch64)\.whl$")

    def test_nothing_names_the_machine_that_built_it(self):
        self.assertGreater(len(self.elf), 4)
        places = [os.path.realpath(package.SOURCE), package.SOURCE, TORCH, os.path.expanduser("~/.cache")]
        for path in self.elf:
            with open(path, "rb") as binary:
                text = binary.read()
            self.assertEqual([place for place in places if place.encode() in text], [], path)

    def test_what_is_needed_is_torch_s_or_lies_in_the_wheel(self):
        own = {os.path.basename(path) for path in self.elf}
        for path in self.elf:
            needs, where = dynamic(path)
            name = os.path.basename(path)
            allowed = own | FROM_TORCH | ALSO_FROM_TORCH.get(name.split(".")[0], set())
            self.assertEqual([need for need in needs if need not in allowed and not SYSTEM.fullmatch(need)], [], path)
            self.assertEqual([place for place in where if not place.startswith("$ORIGIN")], [], path)
            if os.path.dirname(path).endswith("nwide") and name != MPI:
                self.assertIn("$ORIGIN/../torch/lib", where)

    def test_the_command_imports_nothing_large(self):
        said = self.run_python("-X", "importtime", os.path.join(self.home, "bin", "workbench"), "--version")
        self.assertRegex(said.stdout, r"^workbench 0\.1\.0 ")
        imported = [line.split("|")[-1].strip() for line in said.stderr.splitlines() if "|" in line]
        self.assertIn("nwide_program", imported)
        self.assertEqual([name for name in imported if name.split(".")[0] in ("torch", "nwide", "numpy")], [])

    def test_torch_in_another_folder_of_packages_or_none(self):
        other = package.environment(os.path.join(self.top, "other"), with_torch=False)
        packages, = glob.glob(os.path.join(self.top, "other", "lib", "python*", "site-packages"))
        for path in glob.glob(os.path.join(self.packages, "nwide*")):
            (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(packages, os.path.basename(path)))
        command = [other, "-c", "import nwide_program; nwide_program.main(['--version'])"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.alone)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"[workbench] torch: got none for {other}, expected 2.11; "
                             f"try {other} -m pip install torch==2.11.0\n"))
        with open(os.path.join(packages, "more.pth"), "w", encoding="utf-8") as paths:
            paths.write(os.path.dirname(TORCH) + "\n")
        done = subprocess.run(command, capture_output=True, text=True, env=self.alone)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^workbench 0\.1\.0 ")

    def opened(self, name, **more):
        """What the program says of CUDA, and whether it loads LibTorch's CUDA library for that; of no GPU that is here."""
        log = os.path.join(self.top, name)
        said = self.workbench("sweep", "ci", "--targets", "linear", "--device", "cuda", expect=6, LD_DEBUG="files",
                              LD_DEBUG_OUTPUT=log, CUDA_VISIBLE_DEVICES="", **more).stderr
        text = ""
        for file in glob.glob(log + ".*"):
            with open(file, encoding="utf-8", errors="replace") as lines:
                text += lines.read()
        self.assertIn("libtorch_cpu.so", text)
        return said, re.search(r"calling init: .*libtorch_cuda\.so", text) is not None

    def driver_folder(self, name, opens):
        """A folder whose libcuda.so.1, the first that is found, is another library, or an empty file that cannot be opened."""
        folder = os.path.join(self.top, name)
        os.mkdir(folder)
        library = glob.glob(os.path.join(self.packages, "nwide.libs", "libhwy*"))[0] if opens else os.devnull
        shutil.copy(library, os.path.join(folder, "libcuda.so.1"))
        return folder

    def test_cuda_is_opened_where_driver_and_libraries_are(self):
        if not os.path.exists(os.path.join(os.path.dirname(self.binary), "workbench_cuda.so")):
            self.skipTest("built without CUDA's headers")
        no_device = r"^\[device\] cuda:0: got no cuda device with a working driver( \(.+\))?, expected one; try --device cpu\n$"
        said, opened = self.opened("without", LD_LIBRARY_PATH=self.driver_folder("no-driver", False))
        self.assertRegex(said, no_device)
        self.assertFalse(opened)
        driver = self.driver_folder("driver", True)
        said, opened = self.opened("with", LD_LIBRARY_PATH=driver)
        self.assertRegex(said, no_device)
        self.assertTrue(opened)
        # A LibTorch without CUDA.
        torch_folder = os.path.join(self.packages, "torch")
        os.rename(torch_folder, torch_folder + "-cuda")
        os.makedirs(os.path.join(torch_folder, "lib"))
        for path in [*glob.glob(os.path.join(TORCH, "*.py")), *glob.glob(os.path.join(TORCH, "lib", "*"))]:
            if "cuda" not in os.path.basename(path):
                os.symlink(path, os.path.join(torch_folder, os.path.relpath(path, TORCH)))
        try:
            said, opened = self.opened("cpu", LD_LIBRARY_PATH=driver)
            self.assertRegex(said, no_device)
            self.assertIn("(libtorch_cuda.so: ", said)
            self.assertFalse(opened)
            self.workbench("list", "primitives")
        finally:
            shutil.rmtree(torch_folder)
            os.rename(torch_folder + "-cuda", torch_folder)

    def test_the_module_opens_it_too(self):
        if not os.path.exists(os.path.join(os.path.dirname(self.binary), "workbench_cuda.so")):
            self.skipTest("built without CUDA's headers")
        ask = "import os, nwide; print(nwide._core.open_cuda(os.path.dirname(nwide._core.__file__)))"
        nothing, driver = self.driver_folder("no-driver-of-the-module", False), self.driver_folder("driver-of-the-module", True)
        self.assertRegex(self.run_python("-c", ask, LD_LIBRARY_PATH=nothing).stdout, r"^no driver: .*libcuda\.so\.1: ")
        self.assertEqual(self.run_python("-c", ask, LD_LIBRARY_PATH=driver).stdout, "the driver has none\n")

    def test_presets_and_fonts_lie_in_it(self):
        listed = json.loads(self.workbench("list", "presets", "--json").stdout)["presets"]
        files = glob.glob(os.path.join(package.SOURCE, "presets", "*.json"))
        self.assertEqual({preset["name"] for preset in listed}, {os.path.basename(file)[:-5] for file in files})
        with zipfile.ZipFile(package.wheel()) as wheel:
            fonts = [name for name in wheel.namelist() if name.endswith(".otf")]
        self.assertEqual([os.path.basename(font) for font in sorted(fonts)],
                         ["Inter-Regular.otf", "Inter-SemiBold.otf"])

    def test_terms_of_all_that_is_in_it_lie_beside_it(self):
        texts = {os.path.basename(path)[:-4] for path in glob.glob(os.path.join(self.packages, "nwide", "licenses", "*.txt"))}
        self.assertLessEqual({"nwide", "fonts-inter", "nlohmann-json3-dev", "libcli11-dev", "libimgui-dev", "libstb-dev"}, texts)
        bundled = [os.path.basename(path) for folder in ("nwide.libs", os.path.join("nwide", "lib"))
                   for path in glob.glob(os.path.join(self.packages, folder, "*.so*"))]
        self.assertGreater(len(bundled), 2)
        for library in bundled:
            name = re.match(r"lib[a-zA-Z_]+", library)[0].removesuffix("common").removesuffix("dec")
            self.assertTrue([text for text in texts if text.startswith(name) or (name == "libz" and text == "zlib1g")], library)

    def test_measures_fuses_and_trains(self):
        swept = self.workbench("sweep", "ci", "--targets", "linear", "--budget", "0.05")
        self.assertRegex(swept.stdout, r"linear · cpu · f32")
        self.run_python("-c", TRAIN)
        fused = self.workbench("fuse", "net.ts", "-n", "3", "--input", "input=4x5:f32")
        self.assertIn("coverage", fused.stdout)
        self.workbench("train", "net.ts", "--data", "data.npz", "-n", "3", "--steps", "4", "--save", "run")
        self.assertEqual(len(glob.glob(os.path.join(self.top, "run", "last", "*.safetensors"))), 3)

    def test_wide_compiler_s_quick_start(self):
        said = self.run_python("-c", QUICK_START).stdout
        self.assertIn("runtimes 1\n", said)
        self.assertIn(f"right {self.home}", said)

    def test_wide_compiler_s_command_line(self):
        self.assertIn("LibTorch", self.run_python("-m", "nwide.wide_compiler", "info").stdout)
        self.assertIn("relu", self.run_python("-m", "nwide.wide_compiler", "trace", "-m", "resblock").stdout)
        self.assertIn("groupnorm", self.run_python("-m", "nwide.wide_compiler", "benchmark").stdout)
        report = os.path.join(self.top, "report.json")
        shown = self.run_python("-m", "nwide.wide_compiler", "benchmark", "linear", "-p", "ci", "-t", "20", "-S",
                                "sequential", "-s", "-o", report).stdout
        self.assertIn("per_model", shown)
        with open(report, encoding="utf-8") as text:
            cases = json.load(text)["cases"]
        self.assertEqual({(case["target"], trial["strategy"]) for case in cases for trial in case["trials"]},
                         {("linear", "per_model")})
        wrong = self.run_python("-m", "nwide.wide_compiler", "benchmark", "linaer", expect=2)
        self.assertIn("linaer", wrong.stderr)

    def test_wide_compiler_s_arguments(self):
        typed = ["benchmark conv2d -p quick -c -t 20 -q -s -o F", "benchmark all", "benchmark all -s", "test"]
        said = self.run_python("-c", "from nwide.wide_compiler.__main__ import arguments\n"
                               f"for typed in {typed}: print(*arguments(typed.split()))").stdout.splitlines()
        self.assertEqual(said[0], "sweep quick --targets conv2d -c --quiet --top 20 --json F")
        self.assertEqual(said[1], "sweep full --targets primitives,blocks")
        self.assertRegex(said[2], r"^sweep full --targets primitives,blocks --json benchmark_all_\d{8}_\d{6}\.json$")
        self.assertEqual(said[3], "sweep ci")


if __name__ == "__main__":
    unittest.main()
