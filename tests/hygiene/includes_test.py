"""Who may include whom, and the headers that cost ten seconds a file."""

import os
import re
import unittest

import sources

ALLOWED = {
    "engine": {"engine"},
    "primitives": {"primitives", "engine"},
    "blocks": {"blocks", "engine"},
    "data": {"data", "engine"},
    "app": {"app", "engine", "primitives", "blocks", "data"},
    "tests": {"tests", "app", "engine", "primitives", "blocks", "data"},
}
HEAVY = {"torch/torch.h", "torch/script.h", "torch/extension.h"}
GENERATED = {"workbench_version.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def violations(top):
    found = []
    for path in sources.code_files(top):
        folder = path.split("/")[0]
        with open(os.path.join(top, path), encoding="utf-8") as code:
            text = code.read()
        for match in INCLUDE.finditer(text):
            quote, header = match.groups()
            line = text.count("\n", 0, match.start()) + 1
            target = header.split("/")[0]
            if header in HEAVY:
                found.append(f"{path}:{line}: {header} takes ten seconds a file; include what is used")
            elif target in sources.FOLDERS:
                if target not in ALLOWED[folder]:
                    found.append(f"{path}:{line}: {folder}/ may not include {header}")
            elif quote == '"' and header not in GENERATED:
                found.append(f'{path}:{line}: "{header}" is not a path from the top of the project; '
                             "others' headers take <>")
    return found


class Includes(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        planted = {
            "engine/a.cpp": '#include "primitives/linear.h"\n',
            "engine/b.h": '  #  include <app/panel.h>\n',
            "primitives/c.cpp": '#include "blocks/mlp.h"\n',
            "blocks/d.cpp": '#include "primitives/linear.h"\n',
            "data/e.cpp": '#include "app/sweep.h"\n',
            "app/f.cpp": '#include "tests/helper.h"\n',
            "tests/g.cpp": "#include <torch/script.h>\n",
            "app/h.cpp": '#include "sibling.h"\n',
        }
        for path, text in planted.items():
            with self.subTest(path), sources.Tree({path: text}) as top:
                self.assertEqual(len(violations(top)), 1)

    def test_leaves_the_allowed_alone(self):
        with sources.Tree({"app/a.cpp": '#include <vector>\n#include "engine/a.h"\n#include "data/a.h"\n'
                                        '#include "workbench_version.h"\n',
                           "data/b.cpp": '#include <ATen/ATen.h>\n#include "engine/a.h"\n'}) as top:
            self.assertEqual(violations(top), [])


if __name__ == "__main__":
    unittest.main()
