"""A .cpp implements its own header; what registers itself has none, and offers nothing else.

Release builds compile the files of a folder together: what registers itself lies in a namespace of
its own, so that its names are not another file's."""

import os
import re
import unittest

import sources

REGISTERS = re.compile(r"^(\[\[maybe_unused\]\] )?const bool registered\b|^WIDE_[A-Z_]+\(|^TORCH_LIBRARY", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.M)
# All but the include lines: `namespace wide::own { namespace { ... } }`, comments around it aside.
UNNAMED = re.compile(r"\nnamespace (wide::[\w:]+) \{\s*namespace \{\n.*\n\}  // namespace\n\s*\}  // namespace \1\s*$",
                     re.S)
MAINS = {"app/main.cpp", "app/cluster/mpi.cpp", "app/python/bindings/module.cpp", "engine/cuda/plugin.cpp"}


def violations(top):
    found = []
    owners = {}  # of namespaces
    for path in sources.code_files(top, (".cpp",)):
        if path in MAINS or path.startswith("tests/"):
            continue
        with open(os.path.join(top, path), encoding="utf-8") as code:
            text = code.read()
        header = path[:-len("cpp")] + "h"
        first = INCLUDE.search(text)
        if os.path.exists(os.path.join(top, header)):
            if not first or first[1] != header:
                found.append(f"{path}: got {first[1] if first else 'nothing'} as its first include, expected {header}")
        elif not REGISTERS.search(text):
            found.append(f"{path}: got no {os.path.basename(header)} beside it, expected one, or a registration")
        elif not (own := UNNAMED.search(text)):
            found.append(f"{path}: registers itself without a header, expected all of it in an unnamed namespace, "
                         "in a namespace of its own inside wide")
        elif (other := owners.setdefault(own[1], path)) != path:
            found.append(f"{path}: got {own[1]}, which is the namespace of {other}, expected one of its own")
    return found


REGISTERED = ("#include <vector>\n\nnamespace wide::plot_panel {\nnamespace {\n\n"
              "const bool registered = add({});\n\n}  // namespace\n")
END = "}  // namespace wide::plot_panel\n"


class OwnHeader(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        planted = {
            "another's": {"data/rows.h": "", "data/cases.cpp": '#include "data/rows.h"\n'},
            "not first": {"data/rows.h": "", "data/rows.cpp": '#include <vector>\n#include "data/rows.h"\n'},
            "no include": {"data/rows.h": "", "data/rows.cpp": "int rows;\n"},
            "offers more": {"app/panel.cpp": REGISTERED + "\nint more() { return 1; }\n\n" + END},
            "offers more before": {"app/panel.cpp": REGISTERED.replace("namespace {", "int more();\nnamespace {")
                                                    + END},
            "no namespace of its own": {"app/panel.cpp": (REGISTERED + END).replace("::plot_panel", "")},
            "another's namespace": {"app/panel.cpp": REGISTERED + END, "app/plot.cpp": REGISTERED + END},
            "a main elsewhere": {"app/other/main.cpp": '#include "app/cli.h"\n'},
        }
        for name, files in planted.items():
            with self.subTest(name), sources.Tree(files) as top:
                self.assertEqual(len(violations(top)), 1)

    def test_leaves_the_allowed_alone(self):
        with sources.Tree({"data/rows.h": "", "data/rows.cpp": '// Rows.\n#include "data/rows.h"\n\n#include <vector>\n',
                           "app/main.cpp": '#include "app/cli.h"\n',
                           "app/panels/plot.cpp": REGISTERED + END,
                           "tests/data/rows_test.cpp": '#include "data/rows.h"\n'}) as top:
            self.assertEqual(violations(top), [])


if __name__ == "__main__":
    unittest.main()
