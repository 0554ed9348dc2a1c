"""Setting up for a sweep installs what configuring asks for: a machine that never ran the tests builds too."""

import os
import re
import shutil
import subprocess
import unittest

SOURCE = os.environ["WORKBENCH_SOURCE"]
BUILD = os.path.dirname(os.environ["WORKBENCH_BINARY"])


def listed(name, launcher):
    """The packages of one of the launcher's lists."""
    return set(re.search(rf"^{name}=\(([^)]*)\)", launcher, re.MULTILINE).group(1).split())


def required(text):
    """Variables of finds that end the configuration where they fail: `find_path(egl_include … REQUIRED)`."""
    return re.findall(r"^\s*find_(?:path|library|file|program)\((\w+) [^)]*\bREQUIRED\b", text, re.MULTILINE)


@unittest.skipUnless(shutil.which("dpkg-query"), "needs Debian's dpkg-query")
class Packages(unittest.TestCase):
    def owner(self, path):
        found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False)
        return found.stdout.split(":")[0] if found.returncode == 0 else None

    def test_what_is_required_is_not_left_to_the_tests(self):
        with open(os.path.join(SOURCE, "workbench"), encoding="utf-8") as file:
            launcher = file.read()
        always, of_tests = listed("debian_packages", launcher), listed("test_debian_packages", launcher)
        self.assertEqual(always & of_tests, set())
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
            cache = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
        seen = {}
        for lists in ("CMakeLists.txt", "tests/CMakeLists.txt", "app/python/CMakeLists.txt"):
            with open(os.path.join(SOURCE, lists), encoding="utf-8") as file:
                text = file.read()
            for variable in required(text):
                # A path is the folder that holds the name after it.
                name = re.search(rf"find_\w+\({variable} (\S+)", text).group(1)
                path = cache.get(variable, "")
                seen[variable] = self.owner(path if os.path.isfile(path) else os.path.join(path, name))
        self.assertLessEqual({"egl_include", "glfw_include", "imgui_library"}, set(seen))
        self.assertIn("libegl-dev", seen.values())
        self.assertEqual({v: p for v, p in seen.items() if p and p not in always}, {})


if __name__ == "__main__":
    unittest.main()
