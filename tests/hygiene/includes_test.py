"""Who may include whom: folders, the rooms in them, files; and the headers that cost ten seconds a file."""

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
# Which parts ("rooms") of a folder each room may include. A room is a folder, a header with its .cpp at the top of
# a folder, or both where they have one name. Listing a single header allows that header and no other of its room.
# The rooms have an order: none includes another that includes it, by whatever way. All that is not listed is refused.
ROOMS = {
    "engine/error": set(),
    "engine/program": {"engine/error"},
    "engine/machine": {"engine/error"},
    "engine/device": {"engine/error", "engine/program"},
    "engine/record": {"engine/error", "engine/program"},
    "engine/network": {"engine/error", "engine/record"},
    "engine/passes": {"engine/error", "engine/program", "engine/machine"},
    "engine/train/optimizer": {"engine/error", "engine/program"},
    "engine/widen": {"engine/error", "engine/program", "engine/device", "engine/record", "engine/network",
                     "engine/passes", "engine/train/optimizer"},
    "engine/measure": {"engine/error", "engine/program", "engine/device", "engine/network", "engine/record",
                       "engine/widen", "engine/machine"},
    "engine/lower": {"engine/error", "engine/program", "engine/device", "engine/network", "engine/record",
                     "engine/widen", "engine/passes", "engine/measure", "engine/machine"},
    "engine/compile": {"engine/error", "engine/device", "engine/network", "engine/widen", "engine/lower"},
    "engine/check": {"engine/error", "engine/program", "engine/device", "engine/compile", "engine/measure", "engine/machine"},
    "engine/model": {"engine/error", "engine/program", "engine/network", "engine/record", "engine/widen",
                     "engine/passes", "engine/measure", "engine/compile", "engine/check", "engine/machine"},
    "engine/wide": {"engine/error", "engine/device", "engine/widen", "engine/check", "engine/model",
                    "engine/lower/gradient_model.h", "engine/record/cast_state.h"},
    "engine/train": {"engine/error", "engine/program", "engine/device", "engine/network", "engine/record",
                     "engine/widen", "engine/measure", "engine/lower", "engine/compile", "engine/machine",
                     "engine/train/optimizer", "engine/model/module_source.h"},
    "engine/cuda": {"engine/error", "engine/device"},
    "primitives/kernels": set(),
    "primitives/passes": {"primitives/kernels"},
    "primitives/rules": {"primitives", "primitives/kernels"},
    "primitives": {"primitives/kernels"},
    "primitives/init": set(),
    "primitives/optimizers": set(),
    "blocks": set(),
    "blocks/models": {"blocks"},
    "data/text": set(),
    "data/escape": set(),
    "data/one_line": {"data/text"},
    "data/preset": {"data/text", "data/bytes"},
    "data/bytes": {"data/text"},
    "data/tensors": {"data/text", "data/bytes"},
    "data/machine": {"data/text", "data/escape", "data/tensors", "data/bytes"},
    "data/checkpoints": {"data/text", "data/tensors", "data/bytes"},
    "data/networks": {"data/text", "data/one_line", "data/tensors", "data/bytes",
                      "data/checkpoints/checkpoint_format.h"},
    "data/exports": {"data/text", "data/bytes", "data/networks/pt2/enumerations.h"},
    "data/datasets": {"data/text", "data/tensors", "data/bytes"},
    "data/wide_file": {"data/text", "data/checkpoints", "data/networks"},
    "data/plot": {"data/escape"},
    "data/reports": {"data/text", "data/escape", "data/preset", "data/bytes", "data/machine", "data/plot"},
    "data/store": {"data/text", "data/bytes", "data/machine", "data/reports"},
    "app/explorer/ui": set(),
    "app/explorer/window": {"app/explorer/ui"},
    "app/explorer/models": set(),
    "app/explorer": {"app/explorer/ui", "app/explorer/window", "app/explorer/models"},
    "app/explorer/panels": {"app/explorer", "app/explorer/ui", "app/explorer/models"},
    "app/commands": {"app/explorer", "app/explorer/window"},
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def includes(top, path):
    """(line, quote, header) of each."""
    with open(os.path.join(top, path), encoding="utf-8") as code:
        text = code.read()
    return [(text.count("\n", 0, match.start()) + 1, *match.groups()) for match in INCLUDE.finditer(text)]


def room_of(path):
    """The narrowest room a file lies in; None where it lies in none."""
    place = os.path.splitext(path)[0]
    while place and place not in ROOMS:
        place = os.path.dirname(place)
    return place or None


def room_violations(top):
    found = []
    for path in sources.code_files(top):
        room = room_of(path)
        if path.startswith(("engine/", "data/")) and not room:
            found.append(f"{path}: got a file in no room, expected one that ROOMS lists")
        for line, _, header in includes(top, path):
            other = room_of(header)
            if path.startswith("app/") and (other or "").startswith("app/explorer") and not room:
                found.append(f"{path}:{line}: the explorer is for its command alone, not for {header}")
            if not room or not other or room == other or header in ROOMS[room] or other in ROOMS[room]:
                continue
            if room.split("/")[0] != other.split("/")[0]:
                continue  # another folder of the project: ALLOWED says
            found.append(f"{path}:{line}: {room} may not include {header}")
    return found


def circles(knows):
    """Circles of a graph, each as a path that ends where it begins."""
    found, done = [], set()

    def visit(place, path):
        if place in path:
            found.append(" -> ".join(path[path.index(place):] + [place]))
            return
        if place in done:
            return
        for other in sorted(knows.get(place, ())):
            visit(other, path + [place])
        done.add(place)

    for place in sorted(knows):
        visit(place, [])
    return found


def order(rooms):
    """By room: the rooms that it may include something of."""
    return {room: {room_of(place) for place in places} - {room} for room, places in rooms.items()}


def circles_of_files(top):
    """A header that includes itself, through others."""
    return circles({path: {header for _, _, header in includes(top, path)} for path in sources.code_files(top)})


def violations(top):
    found = []
    for path in sources.code_files(top):
        folder = path.split("/")[0]
        for line, quote, header in includes(top, path):
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
        self.assertEqual(room_violations(sources.root()), [])
        self.assertEqual(circles_of_files(sources.root()), [])

    def test_rooms_have_an_order(self):
        self.assertEqual(circles(order(ROOMS)), [])

    def test_finds_rooms_without_an_order(self):
        back = ROOMS | {"engine/program": {"engine/error", "engine/record/record.h"}}
        self.assertEqual(circles(order(back)), ["engine/program -> engine/record -> engine/program"])

    def test_finds_what_is_planted_in_rooms(self):
        planted = {
            "engine/record/a.cpp": '#include "engine/widen/registry.h"\n',
            "engine/passes/b.h": '#include "engine/lower/plan/plan.h"\n',
            "engine/widen/c.cpp": '#include "engine/model/packing.h"\n',
            "engine/check/d.cpp": '#include "engine/lower/plan/plan.h"\n',
            "engine/strange.cpp": '#include "engine/error.h"\n',
            "engine/program.h": '#include "engine/compile.h"\n',
            "primitives/kernels/e.cpp": '#include "primitives/layout.h"\n',
            "data/plot/f.cpp": '#include "data/reports/sweep/report.h"\n',
            "data/bytes/g.cpp": '#include "data/checkpoints/checkpoint.h"\n',
            "app/explorer/models/h.cpp": '#include "app/explorer/ui/ui.h"\n',
            "app/explorer/ui/i.cpp": '#include "app/explorer/explorer.h"\n',
            "app/sweep/j.cpp": '#include "app/explorer/explorer.h"\n',
            "engine/widen/derivative.cpp": '#include "engine/compile.h"\n',
            "engine/lower/executor.h": '#include "engine/compile.h"\n',
            "engine/measure/k.cpp": '#include "engine/lower/executor.h"\n',
        }
        for path, text in planted.items():
            with self.subTest(path), sources.Tree({path: text}) as top:
                self.assertEqual(len(room_violations(top)), 1)

    def test_finds_circles_of_files(self):
        files = {"data/a.h": '#include "data/b.h"\n', "data/b.h": '#include "data/c.h"\n',
                 "data/c.h": '#include "data/a.h"\n', "data/d.cpp": '#include "data/a.h"\n'}
        with sources.Tree(files) as top:
            self.assertEqual(circles_of_files(top), ["data/a.h -> data/b.h -> data/c.h -> data/a.h"])
        with sources.Tree(files | {"data/c.h": ""}) as top:
            self.assertEqual(circles_of_files(top), [])

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
