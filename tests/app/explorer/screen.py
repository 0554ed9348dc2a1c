"""A display without a screen, and the explorer driven by a script on it."""

import ctypes
import json
import os
import shutil
import subprocess
import tempfile

BINARY = os.environ["WORKBENCH_BINARY"]


def explorer(*arguments, script=None, display=None, env=None, timeout=300, binary=BINARY):
    """Runs `workbench ARGUMENTS`, with a script of clicks and keys where one is given."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment.update({"LIBGL_ALWAYS_SOFTWARE": "1", "OMP_WAIT_POLICY": "passive", **(env or {})})
    if display:
        environment["DISPLAY"] = display
    with tempfile.TemporaryDirectory() as folder:
        if script is not None:
            path = os.path.join(folder, "script")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(line.strip() for line in script.strip().splitlines()))
            arguments = (*arguments, "--script", path)
        return subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=timeout,
                              env=environment, cwd=folder)


class Display:
    """Xvfb on a number of its own choice."""

    def __init__(self, depth=24, size="1280x800"):
        if not shutil.which("Xvfb"):
            raise RuntimeError("needs Xvfb: apt-get install xvfb")
        read, write = os.pipe()
        self.process = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{size}x{depth}", "-nolisten", "tcp",
             "-noreset"],  # keeps what `set_scale` says when a program ends
            pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as numbers:
            self.name = f":{int(numbers.readline())}"

    def set_scale(self, scale):
        """Gives the monitor so many times the usual 96 dots an inch, as a desktop's settings do."""
        x = ctypes.CDLL("libX11.so.6")
        x.XOpenDisplay.restype = ctypes.c_void_p
        x.XDefaultRootWindow.restype = ctypes.c_ulong
        x.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(x.XOpenDisplay(self.name.encode()))
        text = f"Xft.dpi:\t{96 * scale}\n".encode()
        string, replace = 31, 0
        x.XChangeProperty(display, ctypes.c_ulong(x.XDefaultRootWindow(display)),
                          ctypes.c_ulong(x.XInternAtom(display, b"RESOURCE_MANAGER", 0)), ctypes.c_ulong(string), 8,
                          replace, text, len(text))
        x.XCloseDisplay(display)

    def __enter__(self):
        return self.name

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
