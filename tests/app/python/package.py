"""The package as its users have it: built by `./workbench python` into an environment of its own, where tests go on."""

import fcntl
import glob
import os
import site
import subprocess
import sys
import venv

SOURCE = os.environ["WORKBENCH_SOURCE"]
BUILD = os.path.dirname(os.environ["WORKBENCH_BINARY"])
HOME = os.path.join(BUILD, "tests", "python")


def newest(folders):
    return max(os.path.getmtime(os.path.join(at, name))
               for folder in folders for at, _, names in os.walk(os.path.join(SOURCE, folder)) for name in names)


def built():
    """The interpreter that has the package; builds it where a source is newer."""
    os.makedirs(HOME, exist_ok=True)
    python, mark = os.path.join(HOME, "env", "bin", "python"), os.path.join(HOME, "built")
    with open(os.path.join(HOME, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = newest(["engine", "primitives", "blocks", "data", "app", "presets"])
        if not os.path.exists(python):
            venv.create(os.path.join(HOME, "env"), with_pip=True)
            folder = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                                    capture_output=True, text=True, check=True).stdout.strip()
            with open(os.path.join(folder, "tests.pth"), "w", encoding="utf-8") as paths:
                paths.write("\n".join(site.getsitepackages()) + "\n")
        if not os.path.exists(mark) or os.path.getmtime(mark) < sources:
            # From the objects of this build, unless only a sanitized interpreter could load them.
            preset = os.path.basename(BUILD)
            done = subprocess.run([os.path.join(SOURCE, "workbench"), "python", python], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "WORKBENCH_PRESET": "release" if preset == "asan" else preset})
            if done.returncode:
                sys.exit(done.stderr)
            with open(mark, "w", encoding="utf-8") as said:
                said.write(done.stderr.strip().rpartition("installed ")[2])
            os.utime(mark, (sources, sources))
    return python


def wheel():
    """The wheel that is installed there."""
    built()
    with open(os.path.join(HOME, "built"), encoding="utf-8") as mark:
        return mark.read()


def environment(at, with_torch=True):
    """The interpreter of a new environment with pip, and as its torch the one that this interpreter has."""
    venv.create(at, with_pip=True)
    python = os.path.join(at, "bin", "python")
    if with_torch:
        import torch

        packages, = glob.glob(os.path.join(at, "lib", "python*", "site-packages"))
        for name in ("torch", "nvidia"):
            os.symlink(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), name), os.path.join(packages, name))
        with open(os.path.join(packages, "tests.pth"), "w", encoding="utf-8") as paths:  # what torch needs itself
            paths.write("\n".join(site.getsitepackages()) + "\n")
    return python


def enter():
    """Goes on in that interpreter."""
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(HOME, "env")):
        python = built()
        os.execv(python, [python, *sys.argv])
