"""Instruction sets are Highway's affair: one source for all of them, no intrinsics of one."""

import os
import re
import unittest

import sources

INTRINSICS = re.compile(r"<(?:\w*intrin|arm_neon|arm_sve)\.h>|\b_mm(?:256|512)?_\w+|\b__m(?:128|256|512)\w?\b"
                        r"|\b__builtin_(?:ia32_\w+|cpu_supports)|target\(\"avx")


def violations(top):
    found = []
    for path in sources.code_files(top):
        with open(os.path.join(top, path), encoding="utf-8") as code:
            text = code.read()
        for match in INTRINSICS.finditer(text):
            found.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}; "
                         "kernels go through primitives/kernels/highway.h")
    return found


class Intrinsics(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        with sources.Tree({"engine/a.cpp": "#include <immintrin.h>\n",
                           "primitives/b.h": "inline void f() { _mm_sfence(); }\n",
                           "primitives/c.cpp": "__m512 sum;\n",
                           "data/d.cpp": 'if (__builtin_cpu_supports("avx2")) f();\n',
                           "app/e.cpp": '__attribute__((target("avx512f"))) void f();\n',
                           "app/fine.cpp": "#include <hwy/highway.h>\nhn::Add(a, b);\n"}) as top:
            self.assertEqual(sorted(line.split(":")[0] for line in violations(top)),
                             ["app/e.cpp", "data/d.cpp", "engine/a.cpp", "primitives/b.h", "primitives/c.cpp"])


if __name__ == "__main__":
    unittest.main()
