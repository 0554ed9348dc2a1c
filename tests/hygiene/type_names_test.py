"""A type's name is one type's: two of one name in one namespace share their weak symbols, and the linker keeps either."""

import collections
import os
import re
import unittest

import sources

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'')
SCOPE = re.compile(r"namespace\s*([\w:]*)\s*\{|\b(?:class|struct|union|enum)\s+(?:class\s+)?([\w:]+)\s*(?:final\s*)?"
                   r"(?::[^;{(]*)?\{|\{|\}")


def types(code):
    """Types defined at the scope of a namespace that has a name; "Outer::Inner" is Outer's affair."""
    found, scopes = [], []
    for match in SCOPE.finditer(TEXT.sub('""', COMMENT.sub("", code))):
        word = match.group()
        if word == "}":
            if scopes:
                scopes.pop()
            continue
        if match.group(2) and "::" not in match.group(2) and scopes and all(scopes):
            found.append("::".join([*scopes, match.group(2)]))
        scopes.append(match.group(1) if word.startswith("namespace") else "")
    return found


def violations(top):
    places = collections.defaultdict(list)
    for path in sources.code_files(top):
        if path.startswith("tests/"):
            continue  # of other executables, or of a test's own
        with open(os.path.join(top, path), encoding="utf-8") as code:
            for name in types(code.read()):
                places[name].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


class TypeNames(unittest.TestCase):
    def test_project(self):
        self.assertEqual(violations(sources.root()), [])

    def test_finds_what_is_planted(self):
        with sources.Tree({"engine/a.h": "namespace wide {\nstruct Item { int a; };\nclass Only;\n}\n",
                           "app/b.h": 'namespace wide {\n/// struct Text {\nclass Item final : public Base { };\n}\n',
                           "app/c.cpp": "namespace wide {\nnamespace {\nstruct Item { };\n}\nstruct Own::Item { };\n}\n",
                           "data/d.h": "namespace wide::data {\nstruct Item { struct Only { }; };\n}\n",
                           "data/e.h": "namespace wide {\nenum class Only { one };\nstruct More { struct Only { }; };\n}\n"}) as top:
            self.assertEqual(violations(top), ["wide::Item: app/b.h, engine/a.h"])


if __name__ == "__main__":
    unittest.main()
