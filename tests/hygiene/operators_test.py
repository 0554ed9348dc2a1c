"""The engine knows no layer: operators of ours are named where their kernels are."""

import os
import re
import unittest

import sources

OURS = re.compile(r'^[^/\n]*"wide::', re.M)


def violations(top):
    found = []
    for path in sources.code_files(top):
        if not path.startswith("engine/"):
            continue
        with open(os.path.join(top, path), encoding="utf-8") as code:
            text = code.read()
        for match in OURS.finditer(text):
            found.append(f"{path}:{text.count(chr(10), 0, match.end()) + 1}: names an operator of ours; "
                         "its kernel's file says what it may (engine/lower/plan/operator_traits.h)")
    return found


class Operators(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        with sources.Tree({"engine/a.cpp": 'if (name == "wide::norm") f();\n',
                           "engine/b.h": '// "wide::norm" is one\n',
                           "primitives/c.cpp": 'call("wide::norm");\n'}) as top:
            self.assertEqual([line.split(":")[0] for line in violations(top)], ["engine/a.cpp"])


if __name__ == "__main__":
    unittest.main()
