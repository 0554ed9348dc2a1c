"""Names in unnamed namespaces are unique in a folder, since release builds compile its files together.

Which files share a batch changes as files grow, so a clash would appear in a change that has nothing
to do with it. Aliases of the same type (`using Json = ...`) and overloads may stand in several files."""

import collections
import os
import re
import unittest

import sources

# The folder of a batch, as workbench_batches in CMakeLists.txt takes it.
FOLDER = re.compile(r"^(tests/)?[^/]+/([^/]+/)?")
ALONE = re.compile(r"^primitives/kernels/|/fixtures/")
SPACE = re.compile(r"^namespace (wide[\w:]*) \{", re.M)
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.S | re.M)
# clang-format begins a definition of the namespace in the first column.
DEFINITION = re.compile(
    r"^(?=\S)(?:template [^\n]*\n)?(?:\[\[[^\n]*?\]\] )?"
    r"(?:(?:struct|class|enum class|enum) (\w+)\b(?! *;)|(?:[\w:<>,&* \[\]]+?)[ &*](\w+)(\(|\[| =|\{|;))", re.M)
NO_NAMES = {"return", "if", "for", "using", "namespace"}


def names(text):
    """Names that a file's unnamed namespaces define; functions with the types of their parameters."""
    for part in UNNAMED.finditer(text):
        code = part[1]
        for found in DEFINITION.finditer(code):
            name = found[1] or found[2]
            if found[0].startswith(("using ", "namespace ", "#", "//")) or name in NO_NAMES:
                continue
            if found[3] == "(":
                parameters = re.sub(r"\s+", " ", code[found.end():code.find(")", found.end())])
                name += "(" + re.sub(r" ?\b\w+(?= *(,|$))", "", parameters) + ")"
            yield name


def clashes(top):
    where = collections.defaultdict(set)
    for path in sources.code_files(top, (".cpp",)):
        with open(os.path.join(top, path), encoding="utf-8") as file:
            text = file.read()
        space = SPACE.search(text)
        if ALONE.search(path) or "HWY_TARGET_INCLUDE" in text or not space:
            continue
        for name in names(text):
            where[FOLDER.match(path)[0], space[1], name].add(path)
    return [f"{name}: got it in {', '.join(sorted(paths))}, expected it once in {folder}"
            for (folder, _, name), paths in sorted(where.items()) if len(paths) > 1]


class BatchNames(unittest.TestCase):
    def test_project(self):
        self.assertEqual(clashes(sources.root()), [])

    def test_finds_what_is_planted(self):
        def file(code, space="wide"):
            return f"namespace {space} {{\nnamespace {{\n\n{code}\n\n}}  // namespace\n}}  // namespace {space}\n"

        clashing = {
            "constants": ("constexpr int kMost = 4;", "constexpr double kMost = 3;"),
            "classes": ("struct Row {\n  int a;\n};", "class Row {\n};"),
            "functions": ("int sum(const Rows& a, int b) {\n  return b;\n}", "int sum(const Rows& rows, int n) { return n; }"),
            "arrays": ("constexpr Pair kAll[] = {{1, 2}};", "constexpr int kAll[] = {1};"),
        }
        for what, (one, other) in clashing.items():
            with self.subTest(what), sources.Tree({"data/x/a.cpp": file(one), "data/x/b.cpp": file(other)}) as top:
                self.assertEqual(len(clashes(top)), 1)
        fine = {
            "overloads": ("int sum(int a) { return a; }", "int sum(double a) { return 1; }"),
            "the same alias": ("using Json = nlohmann::json;", "using Json = nlohmann::json;"),
            "members": ("struct A {\n  int size = 0;\n};", "struct B {\n  int size = 0;\n};"),
        }
        for what, (one, other) in fine.items():
            with self.subTest(what), sources.Tree({"data/x/a.cpp": file(one), "data/x/b.cpp": file(other)}) as top:
                self.assertEqual(clashes(top), [])
        with sources.Tree({"data/x/a.cpp": file("int kA = 1;"), "data/y/a.cpp": file("int kA = 1;"),
                           "app/x/a.cpp": file("int kB = 1;"), "app/x/b.cpp": file("int kB = 1;", "wide::b")}) as top:
            self.assertEqual(clashes(top), [])


if __name__ == "__main__":
    unittest.main()
