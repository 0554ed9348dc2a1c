"""The launcher, with stand-ins for the tools it calls: what it calls, says and returns."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
import unittest

SOURCE = os.environ.get("WORKBENCH_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Each stand-in notes its call in $CALLS. ninja makes the program, which prints its arguments.
CMAKE = """
mkdir -p build/release && touch build/release/build.ninja
echo "-- workbench 0.1.0 Release"
"""
NINJA = """
[ ! -e "$PLAN/ninja-fails" ] || { echo "[1/2] Building CXX object engine.dir/a.cpp.o"; echo "a.cpp:1: error: planted"; exit 1; }
[ -z "${SLOW:-}" ] || sleep 0.3
echo "ninja end" >>"$CALLS"
cat >"$2/workbench" <<'PROGRAM'
#!/bin/sh
for word; do echo "argument <$word>"; done
[ "${1:-}" != three ] || exit 3
PROGRAM
chmod +x "$2/workbench"
echo "[1/1] git state"
"""
CTEST = """
echo "100% tests passed"
[ ! -e "$PLAN/ctest-fails" ] || exit 8
"""


class Launcher(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.top = os.path.realpath(holder.name)
        self.root = os.path.join(self.top, "check out")  # a path with a space
        self.bin = os.path.join(self.top, "bin")
        self.calls = os.path.join(self.top, "calls")
        for folder in (self.root, self.bin, self.path("home"), self.path("torch/lib")):
            os.makedirs(folder)
        for file in ("workbench", "CMakePresets.json"):
            shutil.copy(os.path.join(SOURCE, file), self.root)
        shutil.copy("/bin/true", self.path("torch/lib/libtorch_cpu.so"))
        self.tool("cmake", CMAKE)
        self.tool("ninja", NINJA)
        self.tool("ctest", CTEST)
        self.tool("apt-get", 'case "$*" in *assume-no*) echo "Need to get 9 MB of archives.";; esac')
        self.tool("sudo", "exit 1")
        self.tool("id", "echo 1000")
        self.installed(True)

    def path(self, name):
        return os.path.join(self.top, name)

    def tool(self, name, body):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\n{body}\n')
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def installed(self, everything):
        lines = 'for p in "${@:3}"; do echo "installed $p"; done' if everything else 'echo "installed g++"; exit 1'
        self.tool("dpkg-query", lines)

    def environment(self, **more):
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": self.path("home"), "CALLS": self.calls,
               "PLAN": self.top, "WORKBENCH_TORCH": self.path("torch"), "WORKBENCH_TEST_PYTHON": "python3"}
        env.update(more)
        return {name: value for name, value in env.items() if value is not None}

    def run_it(self, *arguments, program=None, cwd="/", **more):
        return subprocess.run([program or os.path.join(self.root, "workbench"), *arguments], cwd=cwd,
                              env=self.environment(**more), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)

    def called(self):
        with open(self.calls, encoding="utf-8") as lines:
            return [line.split()[0] for line in lines if not line.startswith("ninja end")]

    def test_arguments_and_exit_code_pass_through(self):
        done = self.run_it("three", "a b", "", "--n=4")
        self.assertEqual(done.stdout, "argument <three>\nargument <a b>\nargument <>\nargument <--n=4>\n")
        self.assertEqual(done.returncode, 3)

    def test_works_from_anywhere_and_through_a_link(self):
        link = self.path("link")
        os.symlink(os.path.join(self.root, "workbench"), link)
        done = self.run_it("x", program=link, cwd=self.path("home"))
        self.assertEqual((done.returncode, done.stdout), (0, "argument <x>\n"))
        self.assertTrue(os.path.exists(os.path.join(self.root, "build/release/workbench")))

    def test_second_start_only_asks_ninja_and_says_nothing(self):
        self.run_it()
        os.remove(self.calls)
        started = time.monotonic()
        done = self.run_it("again")
        self.assertLess(time.monotonic() - started, 0.9)
        self.assertEqual(self.called(), ["ninja"])
        self.assertEqual(done.stderr, "")

    def test_another_setting_is_set_up_again(self):
        self.run_it()
        os.remove(self.calls)
        self.run_it(WORKBENCH_CUDA="off")
        self.assertEqual(self.called(), ["dpkg-query", "cmake", "ninja"])

    def test_changed_presets_are_configured_again(self):
        self.run_it()
        os.remove(self.calls)
        with open(os.path.join(self.root, "CMakePresets.json"), "a", encoding="utf-8") as presets:
            presets.write("\n")
        self.run_it()
        self.assertEqual(self.called(), ["dpkg-query", "cmake", "ninja"])

    def test_python_asks_for_an_interpreter_with_torch(self):
        done = self.run_it("python", "/none")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "workbench: python: got '/none', expected a Python interpreter with torch 2.11\n"))
        self.tool("snake", "exit 1")
        done = self.run_it("python", "snake")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"snake: got no torch 2\.11, expected one; try .* -m pip install torch==2\.11\.0\n$")

    def test_python_s_wheel_comes_from_the_program_s_build(self):
        tools = self.path("home/.cache/workbench/wheel-env/bin")
        os.makedirs(tools)
        os.makedirs(os.path.join(self.root, "app/python"))
        for name, body in (("python", 'for folder; do :; done; case "$*" in *hatchling*) mkdir -p "$folder" && touch "$folder/a-linux.whl";; esac'),
                           ("auditwheel", 'touch "$4/a-manylinux.whl"')):
            self.tool(name, body)
            os.rename(os.path.join(self.bin, name), os.path.join(tools, name))
        self.tool("snake", 'case "$1" in -) echo "$PLAN/$SNAKE_TORCH";; esac')
        for folder, version in (("torch", "2.11.0+cu130"), ("same", "2.11.0+cu130"), ("other", "2.11.0+cpu")):
            os.makedirs(self.path(f"{folder}/lib"), exist_ok=True)
            for library in ("libtorch_cpu.so", "libtorch_python.so"):
                shutil.copy("/bin/true", self.path(f"{folder}/lib/{library}"))
            with open(self.path(f"{folder}/version.py"), "w", encoding="utf-8") as text:
                text.write(f"__version__ = '{version}'\n")
        self.run_it()
        for folder, build in (("same", "build/release"), ("other", "build/release-python")):
            os.remove(self.calls)
            done = self.run_it("python", "snake", SNAKE_TORCH=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            wheel = os.path.join(self.root, build, "wheels", "a-manylinux.whl")
            self.assertEqual(done.stderr.splitlines()[-1], f"workbench: installed {wheel}")
            self.assertEqual(os.listdir(os.path.dirname(wheel)), ["a-manylinux.whl"])
            with open(self.calls, encoding="utf-8") as lines:
                calls = lines.read()
            snake = os.path.join(self.bin, "snake")
            self.assertIn(f"-DWORKBENCH_PYTHON={snake}\n", calls)
            self.assertRegex(calls, rf"ninja -C {re.escape(os.path.join(self.root, build))} -j \d+ nwide\n")
            self.assertIn(f"-DWORKBENCH_TORCH={self.path('torch' if folder == 'same' else 'other')} ", calls)
            self.assertTrue(calls.endswith(f"snake -m pip install --disable-pip-version-check --no-deps --force-reinstall {wheel}\n"))

    def test_test_ends_with_ctest(self):
        done = self.run_it("test", "-R", "recorder")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "100% tests passed\n")
        with open(self.calls, encoding="utf-8") as lines:
            last = lines.read().splitlines()[-1]
        self.assertTrue(last.startswith("ctest ") and last.endswith(" -R recorder"), last)
        open(self.path("ctest-fails"), "w", encoding="utf-8").close()
        self.assertEqual(self.run_it("test").returncode, 8)

    def test_failed_build_shows_why(self):
        open(self.path("ninja-fails"), "w", encoding="utf-8").close()
        done = self.run_it()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("workbench: the build failed", done.stderr)
        self.assertIn("a.cpp:1: error: planted", done.stderr)

    def test_missing_packages_without_root_print_one_command(self):
        self.installed(False)
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertRegex(done.stderr, r"as root run: apt-get update && apt-get install -y .*cmake.*libgtest-dev")
        self.assertNotIn("apt-get", self.called())

    def test_missing_packages_as_root_are_installed(self):
        self.installed(False)
        self.tool("id", "echo 0")
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Need to get 9 MB", done.stderr)
        with open(self.calls, encoding="utf-8") as lines:
            asked = [line for line in lines if line.startswith("apt-get install -y")]
        self.assertEqual(len(asked), 1)
        self.assertNotIn(" g++ ", asked[0])
        self.assertNotIn("sudo", self.called())

    def test_sudo_is_used_where_it_works(self):
        self.installed(False)
        self.tool("sudo", 'if [ "$1" = -n ]; then shift; fi; exec "$@"')
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.called().count("sudo"), 4)  # asked once; update, sizes, install

    def test_wrong_settings_are_one_line(self):
        for more in ({"WORKBENCH_TORCH": "/nowhere"}, {"WORKBENCH_CUDA": "yes"}):
            with self.subTest(more):
                done = self.run_it(**more)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, r"\Aworkbench: WORKBENCH_(TORCH|CUDA): got '.*', expected .*\n\Z")

    def test_two_at_once_build_one_after_the_other(self):
        both = [subprocess.Popen([os.path.join(self.root, "workbench"), "x"], env=self.environment(SLOW="1"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for one in both:
            out, err = one.communicate(timeout=60)
            self.assertEqual((one.returncode, out), (0, "argument <x>\n"), err)
        with open(self.calls, encoding="utf-8") as lines:
            order = [line.split()[:2][-1] if line.startswith("ninja end") else "start"
                     for line in lines if line.startswith("ninja")]
        self.assertEqual(order, ["start", "end", "start", "end"])
        self.assertEqual(self.called().count("cmake"), 1)

    def test_a_moved_checkout_is_configured_afresh(self):
        self.run_it()
        with open(os.path.join(self.root, "build/release/CMakeCache.txt"), "w", encoding="utf-8") as cache:
            cache.write("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        moved = self.path("moved")
        os.rename(self.root, moved)
        self.root = moved
        self.assertEqual(self.run_it().returncode, 0)
        with open(self.calls, encoding="utf-8") as lines:
            self.assertIn("cmake --fresh ", lines.read())


if __name__ == "__main__":
    unittest.main()
