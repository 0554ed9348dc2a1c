"""The examples beside the package run, are short, and print what they say."""

import package

package.enter()

import os  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import unittest  # noqa: E402

FOLDER = os.path.join(os.environ["WORKBENCH_SOURCE"], "app", "python", "examples")
PRINTED = {
    "adapters.py": ["equal True", "base (256, 256) adapters (32, 256, 4)"],
    "critics.py": ["values torch.Size([10, 64]) equal True"],
    "deep_ensemble.py": ["equal True"],
    "monte_carlo_dropout.py": ["masks differ True"],
    "per_user.py": ["user 3 True", "others unchanged True"],
}


class Examples(unittest.TestCase):
    def test_all(self):
        self.assertEqual(sorted(name for name in os.listdir(FOLDER) if name != "README.md"), sorted(PRINTED))
        for name, lines in PRINTED.items():
            with self.subTest(name):
                path = os.path.join(FOLDER, name)
                with open(path, encoding="utf-8") as text:
                    self.assertLess(len(text.readlines()), 40)
                done = subprocess.run([sys.executable, path], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                for line in lines:
                    self.assertIn(line, done.stdout)

    def test_the_program_of_the_readme(self):
        with open(os.path.join(os.environ["WORKBENCH_SOURCE"], "README.md"), encoding="utf-8") as readme:
            programs = re.findall(r"```python\n(.*?)```", readme.read(), re.S)
        self.assertEqual(len(programs), 1)
        done = subprocess.run([sys.executable, "-c", programs[0]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.split("\n")
        self.assertEqual(lines[0], "True")
        self.assertIn("'per_model': 0", lines[1])
        names = [line.split()[0] for line in lines[2:] if line]
        self.assertEqual(names, ["name", "loop", "threads", "vmap", "wide"])


if __name__ == "__main__":
    unittest.main()
