"""What stands at the top of the project and of its folders, how long a file may be, and which folders need a README."""

import collections
import os
import unittest

import sources

TOP = {"workbench", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "presets", *sources.FOLDERS}
LONGEST = 600
DOZEN = 12  # files at the top of engine, data and app; a folder of tests with more has a README
MOST = 25  # files of a folder, without its README
ROOMS_ALONE = ("engine", "data", "app")  # what is in them lies in rooms


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


def crowded(top):
    """Folders whose files nobody takes in at a glance: without a README, or where rooms are called for."""
    def count(extensions):
        return sorted(collections.Counter(map(os.path.dirname, sources.code_files(top, extensions))).items())

    found = [f"{folder}/: got {files} files, expected at most {MOST}; try folders for those that belong together"
             for folder, files in count(sources.CODE + (".py",)) if files > MOST]
    for folder, files in count(sources.CODE):
        if files <= DOZEN:
            continue
        if folder in ROOMS_ALONE:
            found.append(f"{folder}/: got {files} files of code at its top, expected at most {DOZEN}")
        elif not os.path.exists(os.path.join(top, folder, "README.md")):
            found.append(f"{folder}/: got {files} files of code and no README.md, expected one")
    return found


def undescribed(top):
    """Folders of the product with code and without a README.md."""
    folders = {os.path.dirname(path) for path in sources.code_files(top, sources.CODE + (".py",))}
    return [f"{folder}/: got no README.md, expected one that says what is here, how data flows and how to add to it"
            for folder in sorted(folders)
            if not folder.startswith("tests") and not os.path.exists(os.path.join(top, folder, "README.md"))]


class Layout(unittest.TestCase):
    def test_project(self):
        self.assertEqual(strangers(sources.root()), [])
        self.assertEqual(too_long(sources.root()), [])
        self.assertEqual(crowded(sources.root()), [])
        self.assertEqual(undescribed(sources.root()), [])

    def test_finds_folders_without_a_page(self):
        with sources.Tree({"engine/room/a.cpp": "", "app/b.py": "", "app/README.md": "", "tests/engine/c.cpp": ""}) as top:
            self.assertEqual([line.split(":")[0] for line in undescribed(top)], ["engine/room/"])

    def test_finds_what_is_planted(self):
        with sources.Tree({"scripts/run.sh": "", "engine/a.cpp": "\n"}) as top:
            self.assertEqual(strangers(top), ["scripts"])
        with sources.Tree({"app/a.cpp": "\n" * 601, "app/b.cpp": "\n" * 600}) as top:
            self.assertEqual(too_long(top), ["app/a.cpp: got 601 lines, expected at most 600"])

    def test_finds_what_is_crowded(self):
        def files(folder, count):
            return {f"{folder}/file{i}.cpp": "" for i in range(count)}

        for folder in ("engine", "app", "data"):
            with sources.Tree(files(folder, 13) | {f"{folder}/README.md": ""}) as top:
                self.assertEqual(crowded(top),
                                 [f"{folder}/: got 13 files of code at its top, expected at most 12"])
            with sources.Tree(files(folder, 12) | files(folder + "/room", 12)) as top:
                self.assertEqual(crowded(top), [])
        with sources.Tree(files("engine/room", 13)) as top:
            self.assertEqual(crowded(top), ["engine/room/: got 13 files of code and no README.md, expected one"])
        with sources.Tree(files("engine/room", 13) | {"engine/room/README.md": "", "primitives/a.h": ""}) as top:
            self.assertEqual(crowded(top), [])
        with sources.Tree(files("blocks/room", 25) | {"blocks/room/README.md": ""}) as top:
            self.assertEqual(crowded(top), [])
        with sources.Tree(files("blocks/room", 25) | {"blocks/room/README.md": "", "blocks/room/more.py": ""}) as top:
            self.assertEqual(crowded(top), ["blocks/room/: got 26 files, expected at most 25; "
                                            "try folders for those that belong together"])


if __name__ == "__main__":
    unittest.main()
