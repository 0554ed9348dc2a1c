"""What people write with the package, each script against its twin in PyTorch, and short: in the script itself, or in a test of
its name."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "app", "python"))

import package  # noqa: E402

package.enter()

import glob  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

SCRIPTS = sorted(glob.glob(os.path.join(HERE, "personas", "*.py")))
LONGEST = 40


class Personas(unittest.TestCase):
    def test_all(self):
        self.assertTrue(SCRIPTS)
        for script in SCRIPTS:
            with self.subTest(os.path.basename(script)), tempfile.TemporaryDirectory() as folder:
                with open(script, encoding="utf-8") as text:
                    self.assertLess(len(text.readlines()), LONGEST)
                if os.path.exists(os.path.join(HERE, os.path.basename(script).replace(".py", "_test.py"))):
                    continue
                done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout)


if __name__ == "__main__":
    unittest.main()
