"""The wheel goes into another environment without a compiler; `pip install` alone builds it, or says what is missing."""

import package

package.built()

import glob  # noqa: E402
import os  # noqa: E402
import site  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402
import venv  # noqa: E402

import torch  # noqa: E402

USE = """
import torch, nwide as nw
models = [torch.nn.Linear(3, 2) for _ in range(4)]
x = torch.randn(4, 5, 3)
wide = nw.compile(models, x[0])
with torch.no_grad():
    torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))
print("right", nw.__file__)
"""


def environment(at, with_torch=True):
    """An environment with pip, and as its torch the one that this interpreter has."""
    venv.create(at, with_pip=True)
    python = os.path.join(at, "bin", "python")
    if with_torch:
        folder = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                                capture_output=True, text=True, check=True).stdout.strip()
        os.symlink(os.path.dirname(torch.__file__), os.path.join(folder, "torch"))
        with open(os.path.join(folder, "tests.pth"), "w", encoding="utf-8") as paths:  # what torch needs itself
            paths.write("\n".join(site.getsitepackages()) + "\n")
    return python


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = folder.name

    def test_the_wheel_in_another_environment(self):
        wheels = glob.glob(os.path.join(package.SOURCE, "build", "python", "wheels", "*.whl"))
        self.assertEqual(len(wheels), 1)
        python = environment(self.at)
        nothing = {"PATH": "/nonexistent", "HOME": self.at}  # no compiler, no cmake
        done = subprocess.run([python, "-m", "pip", "install", "--no-deps", "--no-index", wheels[0]],
                              capture_output=True, text=True, env=nothing)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([python, "-c", USE], capture_output=True, text=True, env=nothing, cwd=self.at)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"right {self.at}", done.stdout)

    def pip_install(self, python, **more):
        return subprocess.run([python, "-m", "pip", "install", "--no-deps", os.path.join(package.SOURCE, "app", "python")],
                              capture_output=True, text=True, env={**os.environ, **more})

    def test_pip_alone(self):
        python = environment(self.at)
        done = self.pip_install(python, SKBUILD_CMAKE_DEFINE="WORKBENCH_WERROR=ON", CXX="/usr/bin/c++")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        done = subprocess.run([python, "-c", USE], capture_output=True, text=True, cwd=self.at)
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, done, line):
        self.assertNotEqual(done.returncode, 0)
        found = [text for text in (done.stdout + done.stderr).split("\n") if "[build]" in text]
        self.assertTrue(found, done.stdout + done.stderr)
        self.assertEqual({text.strip() for text in found}, {line})

    def test_pip_without_torch(self):
        python = environment(self.at, with_torch=False)
        done = self.pip_install(python, SKBUILD_BUILD_DIR=os.path.join(self.at, "build"))
        got = f"[build] torch: got none in {python}'s packages, expected 2.11; try pip install torch==2.11.0"
        self.refused(done, got)

    def test_pip_without_packages(self):
        python = environment(self.at)
        done = self.pip_install(python, SKBUILD_BUILD_DIR=os.path.join(self.at, "build"),
                                SKBUILD_CMAKE_DEFINE="WORKBENCH_HAS_sqlite3_h=OFF;WORKBENCH_HAS_fmt_format_h=OFF")
        self.refused(done, "[build] packages: got none of libfmt-dev libsqlite3-dev, expected all; "
                           "try apt-get install libfmt-dev libsqlite3-dev")


if __name__ == "__main__":
    unittest.main()
