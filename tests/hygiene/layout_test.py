"""What stands at the top of the project, and how long a file may be."""

import os
import unittest

import sources

TOP = {"workbench", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "presets", *sources.FOLDERS}
LONGEST = 600


def strangers(top):
    return [name for name in sources.entries(top) if name not in TOP and not name.startswith(".")]


def too_long(top):
    found = []
    for path in sources.code_files(top, sources.CODE + (".py",)):
        with open(os.path.join(top, path), encoding="utf-8") as code:
            lines = sum(1 for _ in code)
        if lines > LONGEST:
            found.append(f"{path}: got {lines} lines, expected at most {LONGEST}")
    return found


class Layout(unittest.TestCase):
    def test_project(self):
        self.assertEqual(strangers(sources.root()), [])
        self.assertEqual(too_long(sources.root()), [])

    def test_finds_what_is_planted(self):
        with sources.Tree({"scripts/run.sh": "", "engine/a.cpp": "\n"}) as top:
            self.assertEqual(strangers(top), ["scripts"])
        with sources.Tree({"app/a.cpp": "\n" * 601, "app/b.cpp": "\n" * 600}) as top:
            self.assertEqual(too_long(top), ["app/a.cpp: got 601 lines, expected at most 600"])


if __name__ == "__main__":
    unittest.main()
