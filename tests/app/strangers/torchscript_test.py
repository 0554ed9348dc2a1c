"""TorchScript runs nothing that is not on the list: not while it loads, not after, trusted files aside."""
import os
import struct
import unittest
import zipfile

import torch

from bounded import Strangers


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x)


def repacked(source, target, change, compressed=()):
    """The archive with each record's bytes as `change(name, bytes)` gives them; None leaves it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info))
            if data is not None:
                small = any(info.filename.endswith(c) for c in compressed)
                new.writestr(zipfile.ZipInfo(info.filename), data,
                             zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED)


class TorchScript(Strangers):
    def setUp(self):
        super().setUp()
        self.plain = self.path("plain.ts")
        torch.jit.script(Plain().eval()).save(self.plain)

    def trace(self, name, **expected):
        return self.refused("trace", self.path(name), "--input", "x=4x3", **expected)

    def save(self, module, name="net.ts"):
        torch.jit.script(module.eval()).save(self.path(name))

    def with_code(self, body, name="net.ts"):
        """`plain.ts` whose forward is `body`."""
        def change(record, data):
            if not record.endswith(".py") or b"class Plain" not in data:
                return data
            text = data.decode()
            begin = text.index(":\n", text.index("-> Tensor", text.index("def forward"))) + 2
            lines = ("    " + line + "\n" for line in body.splitlines())
            return (text[:begin] + "".join(lines)).encode()
        repacked(self.plain, self.path(name), change)

    def test_what_only_computes_is_taken(self):
        self.taken("trace", self.plain, "--input", "x=4x3")

    def test_setstate_writes_no_file(self):
        path = self.path("owned.pt")

        class Writer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.ones(3))
                self.path = path

            def forward(self, x):
                return x + self.w

            @torch.jit.export
            def __getstate__(self):
                return (self.w, self.path, self.training)

            @torch.jit.export
            def __setstate__(self, state: tuple[torch.Tensor, str, bool]):
                self.w, self.path, self.training = state[0], state[1], state[2]
                torch.save(self.w, self.path)

        self.save(Writer())
        self.trace("net.ts", says="aten::save")
        self.assertFalse(os.path.exists(path))

    def test_builtins_beyond_the_list(self):
        for says, code in (("prim::Print", "print(x)\n"),
                           ("aten::save", "torch.save(x, \"o.pt\")\n"),
                           ("aten::from_file", "y = torch.from_file(\"/etc/passwd\", False, 9)\n"),
                           ("aten::set_", "y = torch.set_(x, x)\n"),
                           ("aten::resize_", "y = torch.resize_(x, [99])\n"),
                           ("aten::_reshape_alias", "y = torch._reshape_alias(x, [99], [1])\n"),
                           ("aten::manual_seed", "torch.manual_seed(3)\n"),
                           ("aten::add", "y = torch.add(x, x, out=x)\n")):
            with self.subTest(says):
                self.with_code(code + ("return y\n" if "y = " in code else "return x\n"))
                self.trace("net.ts", says=says)

    def test_warnings_reach_no_terminal(self):
        self.with_code("torch.warn(\"a\\033]0;owned\\007\")\nreturn x\n")
        _, out, err = self.run_bounded("trace", self.path("net.ts"), "--input", "x=4x3")
        self.assertNotIn("\x1b", out + err)
        self.assertNotIn("\x07", out + err)

    def test_forks(self):
        class Forks(torch.nn.Module):
            def forward(self, x):
                return torch.jit.wait(torch.jit.fork(torch.relu, x))

        self.save(Forks())
        self.trace("net.ts", says="prim::fork")

    def test_classes_of_c(self):
        model = torch.ao.nn.quantized.Linear(3, 2)
        torch.jit.script(model).save(self.path("net.ts"))
        self.trace("net.ts", says="class of C++")

    def test_old_archives(self):
        repacked(self.plain, self.path("net.ts"), lambda n, d: d)
        with zipfile.ZipFile(self.path("net.ts"), "a") as archive:
            archive.writestr("plain/model.json", "{}")
        self.trace("net.ts", says="model.json")

    def test_code_that_nests(self):
        n = 100000
        for says, code in (("brackets", "(" * n + "x" + ")" * n), ("expression", "-" * n + "1"),
                           ("expression", "x" + " + x" * n), ("expression", "x" + ".T" * n),
                           ("expression", "not " * n + "x"),
                           ("brackets", "\"(\" + " + "(\n" * n + "x" + ")" * n)):
            with self.subTest(says + code[:9]):
                self.with_code("y = " + code + "\nreturn x\n")
                self.trace("net.ts", says=says)
        deep = "".join("  " * i + "if True:\n" for i in range(3000))
        self.with_code(deep + "  " * 3000 + "y = 1\nreturn x\n")
        self.trace("net.ts", says="blocks")
        branches = "if True:\n  y = 1\n" + "elif True:\n  y = 1\n" * 5000
        self.with_code(branches + "return x\n")
        self.trace("net.ts", says="branches")

    def with_state(self, state):
        """`plain.ts` whose pickle is this one."""
        repacked(self.plain, self.path("net.ts"),
                 lambda n, d: state if n.endswith("/data.pkl") else d)

    def test_values_that_nest(self):
        self.with_state(b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b".")
        self.trace("net.ts", says="deeper in one another")
        self.with_state(b"\x80\x02" + b")" + b"\x85" * 200000 + b".")
        self.trace("net.ts", says="deeper in one another")

    def test_values_that_contain_themselves(self):
        self.with_state(b"\x80\x02]q\x00h\x00a.")
        self.trace("net.ts", says="contains itself")

    def test_types_that_nest(self):
        kind = ("List[" * 50000 + "int" + "]" * 50000).encode()
        self.with_state(b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\n(]X" +
                        struct.pack("<I", len(kind)) + kind + b"tR.")
        self.trace("net.ts", says="brackets deeper")

    def test_records_that_inflate(self):
        path = self.path("bomb.pt")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.writestr("m/data.pkl", b"x")
            archive.writestr("m/constants.pkl", b"x")
            with archive.open("m/version", "w", force_zip64=True) as record:
                for _ in range(600):
                    record.write(bytes(1 << 20))
        self.fuse("bomb.pt", says="compressed")
        self.refused("fuse", self.plain, "--input", "x=4x3", "--weights", path, "--no-store",
                     says="bomb.pt")

    def test_code_that_inflates(self):
        def change(name, data):
            return b"#" * (200 << 20) if name.endswith(".py") else data
        repacked(self.plain, self.path("net.ts"), change, compressed=(".py",))
        self.trace("net.ts", says="bytes")

    def test_trusted_files_do_what_they_like(self):
        self.with_code("print(\"hello\")\nreturn x\n")
        self.trace("net.ts", says="--trust")
        self.assertIn("hello", self.taken("trace", self.path("net.ts"), "--input", "x=4x3",
                                          "--trust"))


if __name__ == "__main__":
    unittest.main()
