"""`pip install` alone builds the package, or says what is missing."""

import package

package.built()

import os  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

USE = """
import torch, nwide as nw
models = [torch.nn.Linear(3, 2) for _ in range(4)]
x = torch.randn(4, 5, 3)
wide = nw.compile(models, x[0])
with torch.no_grad():
    torch.testing.assert_close(wide(x), torch.stack([m(one) for m, one in zip(models, x)]))
print("right", nw.__file__)
"""


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = folder.name

    def pip_install(self, python, **more):
        return subprocess.run([python, "-m", "pip", "install", "--no-deps", os.path.join(package.SOURCE, "app", "python")],
                              capture_output=True, text=True, env={**os.environ, **more})

    def test_pip_alone(self):
        python = package.environment(self.at)
        done = self.pip_install(python, CMAKE_ARGS="-DWORKBENCH_WERROR=ON")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        done = subprocess.run([python, "-c", USE], capture_output=True, text=True, cwd=self.at)
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, done, line):
        self.assertNotEqual(done.returncode, 0)
        found = [text for text in (done.stdout + done.stderr).split("\n") if "[build]" in text]
        self.assertTrue(found, done.stdout + done.stderr)
        self.assertEqual({text.strip() for text in found}, {line})

    def test_pip_without_torch(self):
        python = package.environment(self.at, with_torch=False)
        done = self.pip_install(python, WORKBENCH_BUILD=os.path.join(self.at, "build"))
        got = f"[build] torch: got none in {python}'s packages, expected 2.11; try pip install torch==2.11.0"
        self.refused(done, got)

    def test_pip_without_packages(self):
        python = package.environment(self.at)
        done = self.pip_install(python, WORKBENCH_BUILD=os.path.join(self.at, "build"),
                                CMAKE_ARGS="-DWORKBENCH_HAS_sqlite3_h=OFF -DWORKBENCH_HAS_fmt_format_h=OFF")
        self.refused(done, "[build] packages: got none of libfmt-dev libsqlite3-dev, expected all; "
                           "try apt-get install libfmt-dev libsqlite3-dev")


if __name__ == "__main__":
    unittest.main()
