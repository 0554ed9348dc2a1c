"""All C++ is formatted as clang-format 14.0.6 does it: another version decides otherwise."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import sources

VERSION = "14.0.6"


def formatter():
    beside = os.path.join(os.path.dirname(sys.executable), "clang-format")
    for program in (beside, shutil.which("clang-format")):
        if program and os.path.exists(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
            if f"version {VERSION}" in said.stdout:
                return program
    raise RuntimeError(f"clang-format {VERSION} is neither beside {sys.executable} nor on the path")


def badly_formatted(top, style):
    """The places, as FILE:LINE."""
    files = [os.path.join(top, path) for path in sources.code_files(top)]
    if not files:
        return []
    done = subprocess.run([formatter(), f"--style=file:{style}", "--dry-run", "-Werror", *files],
                          capture_output=True, text=True, check=False)
    places = re.findall(r"^(.+?:\d+):\d+: error: ", done.stderr, re.M)
    return sorted({os.path.relpath(place, top) for place in places}) or ([done.stderr] if done.returncode else [])


class Format(unittest.TestCase):
    style = os.path.join(sources.root(), ".clang-format")

    def test_project(self):
        self.assertEqual(badly_formatted(sources.root(), self.style), [])

    def test_finds_what_is_planted(self):
        with sources.Tree({"engine/a.cpp": "int  f( ){return 1;}\n"}) as top:
            self.assertEqual(badly_formatted(top, self.style), ["engine/a.cpp:1"])
        with sources.Tree({"engine/a.cpp": "int f() { return 1; }\n"}) as top:
            self.assertEqual(badly_formatted(top, self.style), [])


if __name__ == "__main__":
    unittest.main()
