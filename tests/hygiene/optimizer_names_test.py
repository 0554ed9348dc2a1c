"""Optimisers are named where they are registered; all other code finds them by name in the registry."""

import os
import re
import unittest

import sources

HOME = "primitives/optimizers/"
REGISTERED = re.compile(r'WIDE_OPTIMIZER\(\{\.name = "(\w+)"')
PYTHON = "app/python/nwide/optim.py"  # has a class for each, under its name in torch.optim


def read(top, path):
    with open(os.path.join(top, path), encoding="utf-8") as code:
        return code.read()


def violations(top):
    files = [path for path in sources.code_files(top, sources.CODE + (".py",))
             if not path.startswith("tests/") and path != PYTHON]
    names = {name for path in files if path.startswith(HOME) for name in REGISTERED.findall(read(top, path))}
    if not names:
        return [f"{HOME}: got no optimiser, expected one"]
    named = re.compile(rf"\b({'|'.join(sorted(names))})\b", re.I)
    return [f"{path}: names {match.group()}; what its file registers says what it is for"
            for path in files if not path.startswith(HOME) for match in named.finditer(read(top, path))]


class OptimizerNames(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        home = {HOME + "fast.cpp": 'WIDE_OPTIMIZER({.name = "fast",\n'}
        for path, text in {"engine/a.h": 'std::string optimizer = "fast";\n', "app/b.cpp": "// as Fast has it\n",
                           "app/python/nwide/c.py": 'name = "fast"\n'}.items():
            with self.subTest(path), sources.Tree(home | {path: text}) as top:
                self.assertEqual([line.split(":")[0] for line in violations(top)], [path])
        with sources.Tree(home | {"engine/a.h": "int fastest;\n", "tests/b.cpp": '"fast"\n'}) as top:
            self.assertEqual(violations(top), [])


if __name__ == "__main__":
    unittest.main()
