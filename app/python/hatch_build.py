"""Adds CMake's results to the wheel: the module _core, the program `workbench` and the libraries that it loads.

`$WORKBENCH_BUILT` names a folder where `./workbench python` has built them for `$WORKBENCH_PYTHON`. Otherwise they are
built here, in build/python or `$WORKBENCH_BUILD`, with the CMake arguments in `$CMAKE_ARGS`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Build(BuildHookInterface):
    def initialize(self, version, build_data):
        python = os.environ.get("WORKBENCH_PYTHON") or sys.executable
        build = os.environ.get("WORKBENCH_BUILT") or self._built(python)
        self._files = os.path.join(build, "wheel")
        shutil.rmtree(self._files, ignore_errors=True)
        _run("cmake", "--install", build, "--component", "nwide", "--strip", "--prefix", self._files)
        for at, _, names in os.walk(self._files):
            for name in names:
                path = os.path.join(at, name)
                build_data["force_include"][path] = os.path.relpath(path, self._files)
        tag = subprocess.run([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], check=True,
                             capture_output=True, text=True).stdout.strip()
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{tag}-{tag}-{platform}"

    def _built(self, python):
        source = os.path.dirname(os.path.dirname(self.root))
        build = os.environ.get("WORKBENCH_BUILD") or os.path.join(source, "build", "python")
        for tool, package in (("c++", "g++"), ("cmake", "cmake"), ("ninja", "ninja-build")):
            if not shutil.which(tool):
                sys.exit(f" [build] {tool}: got none, expected one on the path; try apt-get install {package}")
        _run("cmake", "-S", source, "--preset", "release", "-B", build, f"-DWORKBENCH_PYTHON={python}",
             "-DWORKBENCH_CUDA=off", "-DWORKBENCH_WERROR=OFF", "-DBUILD_TESTING=OFF",
             *shlex.split(os.environ.get("CMAKE_ARGS", "")))
        _run("cmake", "--build", build, "--target", "nwide")
        return build


def _run(*command):
    done = subprocess.run(command, stdout=sys.stderr)
    if done.returncode:
        sys.exit(done.returncode)
