"""Networks from files that mean harm, or come to it: what the sandbox holds back by itself.

The files are made here. Where there is a list of operators it is lifted (--trust), so that nothing but
the sandbox stands between the file and the machine.
"""
import glob
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
import zipfile

APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [APP, os.path.join(APP, "strangers")]
try:
    import torch
    from safetensors.torch import load_file
    from archive import add, node, tensor, write
    from command_line import BINARY, CommandLine
    from processes import alive, children, own_words
except ImportError as error:
    print(f"needs torch and safetensors: {error}")
    sys.exit(1)


FLOAT, BYTE, INT = 7, 1, 4
ADD = add("y", "x", "p_w")


def from_file(path, shared, size):
    return node("torch.ops.aten.from_file.default",
                [("filename", {"as_string": path}), ("shared", {"as_bool": shared}), ("size", {"as_int": size}),
                 ("dtype", {"as_scalar_type": BYTE})], tensor("f"))


def write_pt2(path, nodes, constants=None, size=4):
    """An archive of torch.export with input x and parameter w, both [size]; y comes out."""
    w = struct.pack(f"<{size}f", *(0.5 + i for i in range(size)))
    write(path, nodes, sizes=(size,), weights={"w": (FLOAT, [size], w)}, constants=constants)


def chain(length, size):
    """Products of large matrices: work for minutes, or for a moment."""
    ones = node("torch.ops.aten.full.default",
                [("size", {"as_ints": [size, size]}), ("fill_value", {"as_float": 1e-3})], tensor("m0"))
    steps = [node("torch.ops.aten.mm.default", [("self", tensor(f"m{i}")), ("mat2", tensor("m0"))],
                  tensor(f"m{i + 1}"))
             for i in range(length)]
    total = node("torch.ops.aten.sum.default", [("self", tensor(f"m{length}"))], tensor("s"))
    last = add("z", "x", "s")
    return [ones, *steps, total, last,
            add("y", "z", "p_w")]


class SavesWhenLoaded(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        self.path = path

    @torch.jit.export
    def __getstate__(self):
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state):
        # type: (Tuple[str, bool]) -> None
        self.path, self.training = state[0], state[1]
        torch.save(torch.ones(3), self.path)

    def forward(self, x):
        return x + 1


class HostileFiles(CommandLine):
    @classmethod
    def setUpClass(cls):
        info = subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True).stdout
        cls.lacks = " ".join(json.loads(info)["sandbox"])

    def needs(self, *offered):
        """Skips where the kernel does not offer what alone can hold this back."""
        for name in offered:
            if f"no {name}" in self.lacks:
                self.skipTest(self.lacks)

    def setUp(self):
        super().setUp()
        self.net, self.outputs = self.path("net.pt2"), self.path("y.safetensors")

    def fuse(self, *more):
        """The run; nothing but the outputs' file may be new in the folder."""
        before = set(os.listdir(self.folder))
        begun = time.monotonic()
        done = subprocess.run([BINARY, "fuse", self.net, "--trust", "-n", "2", "--budget", "0.01", "--quiet",
                               "--no-store", "--outputs", self.outputs, *more],
                              capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertLess(time.monotonic() - begun, 30)
        done.stderr = own_words(done.stderr)
        self.assertLessEqual(set(os.listdir(self.folder)) - before, {"y.safetensors"})
        self.assertEqual(done.stdout, "")
        return done

    def refused(self, codes, pattern, *more):
        done = self.fuse(*more)
        self.assertIn(done.returncode, codes, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertFalse(os.path.exists(self.outputs))

    def test_a_good_network(self):
        write_pt2(self.net, [ADD])
        self.assertEqual(self.fuse().returncode, 0)
        self.assertEqual(list(load_file(self.outputs)["output.0"].shape), [2, 4])

    def test_no_file_is_written(self):
        self.needs("seccomp")
        owned = self.path("owned.sh")
        nodes = [from_file(owned, True, 32),
                 node("torch.ops.aten.copy_.default", [("self", tensor("f")), ("src", tensor("c_text"))], tensor("g")), ADD]
        write_pt2(self.net, nodes, {"text": (BYTE, [32], b"echo owned".ljust(32, b"#"))})
        for existing in (False, True):
            if existing:
                with open(owned, "wb") as file:
                    file.write(b"\0" * 32)
            self.refused({2, 5}, r"^\[.*from_file")
            self.assertEqual(os.path.exists(owned), existing)
        with open(owned, "rb") as file:
            self.assertEqual(file.read(), b"\0" * 32)

    def test_no_file_is_read(self):
        self.needs("Landlock")
        secret = self.path("secret")
        with open(secret, "wb") as file:
            file.write(b"secret" * 100)
        for path in ("/etc/passwd", secret):
            zero = [node("torch.ops.aten.mul.Tensor", [("self", tensor("x")), ("other", tensor("p_w"))], tensor("a")),
                    node("torch.ops.aten.sum.default", [("self", tensor("a"))], tensor("b")),
                    node("torch.ops.aten.mul.Scalar", [("self", tensor("b")), ("other", {"as_float": 0.0})], tensor("c"))]
            write_pt2(self.net, [from_file(path, False, 64), *zero, add("y", "f", "c")])
            self.refused({2, 5}, r"^\[.*from_file")

    def test_code_that_runs_while_loading_writes_nothing(self):
        self.needs("seccomp")
        path, owned = self.path("net.ts"), self.path("owned.pt")
        torch.jit.script(SavesWhenLoaded(owned)).save(path)
        self.assertFalse(os.path.exists(owned))
        done = subprocess.run([BINARY, "trace", path, "--trust", "--input", "x=3"], capture_output=True, text=True,
                              timeout=60)
        self.assertIn(done.returncode, {0, 2, 5}, done.stdout)  # TorchScript does not look whether it was written
        self.assertFalse(os.path.exists(owned))

    def test_a_crash(self):
        # Its kernel takes the pivots for rows without a look.
        square = [node("torch.ops.aten.view.default", [("self", tensor(name)), ("size", {"as_ints": [2, 2]})],
                       tensor(to))
                  for name, to in (("p_w", "a"), ("x", "b"))]
        write_pt2(self.net, [*square, node("torch.ops.aten.linalg_ldl_solve.default", [
            ("LD", tensor("a")), ("pivots", tensor("c_rows")), ("B", tensor("b"))], tensor("y"))],
            {"rows": (INT, [2], struct.pack("<2i", 1 << 30, 1 << 30))})
        self.refused({5}, r"^\[.*net.pt2\] sandbox: got SIG")

    def test_a_hang(self):
        write_pt2(self.net, chain(200, 3000))
        self.refused({5}, r"sandbox: got no heartbeat for .* s, expected one in 1 s; try --timeout 4", "--timeout", "1")

    def test_memory(self):
        write_pt2(self.net, [node("torch.ops.aten.full.default", [("size", {"as_ints": [1 << 40]}),
                                                                  ("fill_value", {"as_float": 1.0})], tensor("y"))])
        self.refused({5}, r"^\[.*net.pt2\] operator aten::full: got can't allocate memory.*4398046511104")

    def begin(self, *more):
        return subprocess.Popen([BINARY, "fuse", self.net, "--trust", "-n", "2", "--no-store", "--outputs",
                                 self.outputs, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def sandbox_of(self, process):
        for _ in range(1000):
            found = children(process.pid)
            if found:
                return found[0]
            time.sleep(0.005)
        self.fail("no sandbox")

    def test_no_sandbox_outlives_its_command(self):
        write_pt2(self.net, chain(20, 1500))
        for how, code, after in ((signal.SIGKILL, -9, 0.3), (signal.SIGINT, 130, 1.5), (signal.SIGTERM, 130, 0)):
            process = self.begin()
            sandbox = self.sandbox_of(process)
            time.sleep(after)
            process.send_signal(how)
            out, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, code)
            self.assertEqual(out, "")
            self.assertRegex(err, r"^\[workbench\] cancelled\n$" if code == 130 else r"^$")
            for _ in range(400):
                if not alive(sandbox):
                    break
                time.sleep(0.005)
            self.assertFalse(alive(sandbox))
            self.assertEqual(os.listdir(self.folder), ["net.pt2"])

    def test_a_killed_sandbox(self):
        write_pt2(self.net, chain(20, 1500))
        process = self.begin()
        os.kill(self.sandbox_of(process), signal.SIGKILL)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out, err.count("\n")), (5, "", 1))
        self.assertRegex(err, r"\] sandbox: got SIGKILL \(Killed\), expected it to finish; try again$")
        self.assertEqual(os.listdir(self.folder), ["net.pt2"])

    def test_no_half_file_has_a_name(self):
        """Killed at any moment: every file that has its name is whole."""
        size, folder = 1 << 16, self.path("out")
        write_pt2(self.net, [ADD], size=size)
        os.mkdir(folder)
        arguments = ["--budget", "0.001", "--export", os.path.join(folder, "wide.pt2"), "--export",
                     os.path.join(folder, "wide.ts"), "--json", os.path.join(folder, "r.json"), "--unstack", folder,
                     "--outputs", os.path.join(folder, "y.safetensors")]
        command = [BINARY, "fuse", self.net, "--trust", "-n", "4", "--quiet", "--no-store", *arguments]
        def first_file(process):
            while process.poll() is None and not os.listdir(folder):
                time.sleep(0.001)
            return time.monotonic()

        process = subprocess.Popen(command)
        begun = first_file(process)
        self.assertEqual(process.wait(), 0)
        span = time.monotonic() - begun
        whole = {os.path.basename(path): os.path.getsize(path) for path in glob.glob(folder + "/*")}
        self.assertEqual(len(whole), 8)
        generator = random.Random(7)
        seen = []
        for _ in range(int(os.environ.get("WORKBENCH_TEST_KILLS", "8"))):
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            first_file(process)
            time.sleep(generator.uniform(0, span))
            process.kill()
            process.wait()
            names = [name for name in os.listdir(folder) if not name.startswith(".")]
            seen.append(len(names))
            for name in names:
                self.check_whole(os.path.join(folder, name), whole[name])
        self.assertLess(min(seen), 8)  # some were killed in time

    def check_whole(self, path, size):
        if path.endswith(".json"):
            with open(path, encoding="utf-8") as file:
                json.load(file)
            return
        self.assertEqual(os.path.getsize(path), size, path)
        if path.endswith(".safetensors"):
            load_file(path)
        else:
            with zipfile.ZipFile(path) as archive:
                self.assertIsNone(archive.testzip())

    def test_what_the_kernel_offers_is_said(self):
        info = subprocess.run([BINARY, "info"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(info, r"(?m)^sandbox +(complete|no )")
        write_pt2(self.net, [ADD])
        done = subprocess.run([BINARY, "fuse", self.net, "-n", "2", "--budget", "0.01", "--no-store"],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(len(re.findall(r"sandbox: no ", done)), self.lacks.count("no "))


if __name__ == "__main__":
    unittest.main()
