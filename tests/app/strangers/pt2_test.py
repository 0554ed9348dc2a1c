"""Archives of torch.export that want more than to compute are refused by name, before anything runs."""
import contextlib
import json
import os
import sqlite3
import struct
import unittest

from archive import add, meta, node, symbol, tensor, write
from bounded import Strangers

WEIGHT = {"w": (7, [4], struct.pack("<4f", 1, 2, 3, 4))}
LARGEST = 1 << 62


def integer(value):
    return {"as_int": value}


class Pt2(Strangers):
    def network(self, nodes, **more):
        more.setdefault("weights", WEIGHT)
        write(self.path("net.pt2"), nodes, **more)

    def refuses(self, nodes, says, code=2, **more):
        self.network(nodes, **more)
        self.fuse("net.pt2", code=code, says=says)

    def with_number(self, target, *numbers):
        return [node(target, [(f"a{i}", n) for i, n in enumerate(numbers)], symbol("q")),
                add("y", "x", "p_w")]

    def file_of(self, name, shared):
        return node("torch.ops.aten.from_file.default",
                    [("filename", {"as_string": name}), ("shared", {"as_bool": shared}),
                     ("size", integer(32)), ("dtype", {"as_scalar_type": 1})], tensor("f"))

    def test_what_only_computes_is_taken(self):
        self.network([add("y", "x", "p_w")])
        self.taken("fuse", self.path("net.pt2"), "-n", "2", "--no-store", "--quiet")

    def test_trust_is_said(self):
        self.network([add("y", "x", "p_w")])
        for trust in ([], ["--trust"]):
            self.taken("fuse", self.path("net.pt2"), "-n", "2", "--quiet", "--budget", "0.01",
                       "--json", self.path("r.json"), "--db", self.path("s.db"), *trust)
            with open(self.path("r.json"), encoding="utf-8") as file:
                report = json.load(file)
            with contextlib.closing(sqlite3.connect(self.path("s.db"))) as store:
                more = store.execute("SELECT more FROM fuse ORDER BY id DESC").fetchone()[0]
            self.assertEqual(report.get("trusted"), True if trust else None)
            self.assertEqual(json.loads(more or "{}").get("trusted"), True if trust else None)
            self.assertEqual(any("trusted" in note for note in report["notes"]), bool(trust))

    def test_no_file_is_written(self):
        payload = b"echo pwned\n".ljust(32, b"#")
        self.refuses([self.file_of(self.path("OWNED.sh"), True),
                      node("torch.ops.aten.copy_.default",
                           [("self", tensor("f")), ("src", tensor("c_pay"))], tensor("g")),
                      add("y", "x", "p_w")], "aten.from_file", constants={"pay": (1, [32], payload)})
        self.assertFalse(os.path.exists(self.path("OWNED.sh")))

    def test_no_file_is_read(self):
        self.refuses([self.file_of("/etc/passwd", False), add("y", "f", "p_w")], "aten.from_file")

    def test_operators_beyond_the_list(self):
        for target in ("aten.set_.source_Tensor", "aten.resize_.default", "aten._print.default",
                       "aten.lu_unpack.default", "aten.segment_reduce.default",
                       "aten._index_put_impl_.default", "aten.add.out", "c10d.barrier.default",
                       "quantized.linear.default", "mkldnn._linear_pointwise.default",
                       "inductor.accumulate_grad_.default", "profiler._record_function_enter.default"):
            with self.subTest(target):
                self.network([node("torch.ops." + target, [("self", tensor("x"))], tensor("z")),
                              add("y", "x", "p_w")])
                said = self.fuse("net.pt2", says="torch.ops." + target)
                self.assertRegex(said, "files may not call|LibTorch does not have")

    def strided(self, target, size, *more):
        return [node(target, [("self", tensor("x")), ("size", {"as_ints": [size]}),
                              ("stride", {"as_ints": [1]}), *more], tensor("a")),
                node("torch.ops.aten.sum.default", [("self", tensor("a"))], tensor("s")),
                add("y", "s", "p_w")]

    def test_views_stay_in_their_memory(self):
        offset = ("offset_increment", integer(0))
        for target, more in (("torch.ops.aten._reshape_alias.default", ()),
                             ("torch.ops.inductor._reinterpret_tensor.default", (offset,)),
                             ("torch.ops.aten.as_strided.default", ())):
            for size in (64, 1 << 28):
                with self.subTest(target, size=size):
                    self.refuses(self.strided(target, size, *more), "as_strided")
            with self.subTest(target, size=4):
                self.network(self.strided(target, 4, *more))
                self.taken("fuse", self.path("net.pt2"), "-n", "2", "--no-store", "--quiet")

    def test_kernels_that_trust_sizes(self):
        wide = ("self", tensor("x"))
        norm = [("input", tensor("x")), ("weight", tensor("p_w")), ("bias", tensor("p_w")),
                ("running_mean", tensor("p_w")), ("running_var", tensor("p_w")),
                ("momentum", {"as_float": .1}), ("eps", {"as_float": 1e-5})]
        outs = [tensor("y"), tensor("b"), tensor("c")]
        self.refuses([node("torch.ops.aten._native_batch_norm_legit_no_training.default", norm,
                           *outs)], "[4] for 4000 channels", sizes=(1, 4000, 2))
        self.refuses([node("torch.ops.aten.native_batch_norm.default",
                           norm[:5] + [("training", {"as_bool": False})] + norm[5:], *outs)],
                     "[4] for 4000 channels", sizes=(1, 4000, 2))
        self.refuses([node("torch.ops.aten._weight_norm_interface.default",
                           [("v", tensor("x")), ("g", tensor("p_w")), ("dim", integer(0))],
                           tensor("y"), tensor("n"))], "_weight_norm_interface", sizes=(4000, 2))
        self.refuses([node("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
                           [("query", tensor("x")), ("key", tensor("p_w")), ("value", tensor("p_w"))],
                           tensor("y"), tensor("l"))], "queries", sizes=(9, 9, 40, 4),
                     weights={"w": (7, [1, 1, 1, 4], WEIGHT["w"][2])})
        self.refuses([node("torch.ops.aten._upsample_bilinear2d_aa.default",
                           [wide, ("output_size", {"as_ints": [200, 200]}),
                            ("align_corners", {"as_bool": False}),
                            ("scales_h", {"as_float": 1e-12}), ("scales_w", {"as_float": "NaN"})],
                           tensor("y"))], "scale", sizes=(1, 1, 4, 4))

    def test_numbers_beyond_64_bits(self):
        least = integer(-(1 << 63))
        self.refuses(self.with_number("_operator.floordiv", least, integer(-1)), "64 bits")
        self.refuses(self.with_number("_operator.pow", integer(3), integer(LARGEST)), "64 bits")
        self.refuses(self.with_number("_operator.mul", integer(LARGEST), integer(4)), "64 bits")
        self.refuses(self.with_number("_operator.neg", least), "64 bits")
        self.refuses(self.with_number("_operator.mod", integer(1), integer(0)), "zero")

    def test_numbers_at_the_edge(self):
        for target, *numbers in (("_operator.mod", -(1 << 63), -1), ("_operator.pow", -1, LARGEST),
                                 ("_operator.floordiv", -(1 << 63), 1)):
            with self.subTest(target):
                self.network(self.with_number(target, *map(integer, numbers)))
                self.taken("fuse", self.path("net.pt2"), "-n", "2", "--no-store", "--quiet")

    def test_numbers_that_are_missing(self):
        self.refuses(self.with_number("torch.sym_max", integer(1)), "1 arguments")
        self.refuses([node("torch.ops.aten.sym_size.int",
                           [("self", tensor("x")), ("dim", {"as_ints": []})], symbol("q")),
                      add("y", "x", "p_w")], "dim")
        graph = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}}
        self.refuses([node("torch.ops.higher_order.wrap_with_set_grad_enabled",
                           [("a", {"as_bools": []}),
                            ("b", {"as_graph": {"name": "g", "graph": graph}})], tensor("q")),
                      add("y", "x", "p_w")], "no true or false")

    def test_sizes_of_inputs(self):
        self.refuses([add("y", "x", "p_w")], "size -5", values={"x": meta(7, [-5])})
        self.refuses([add("y", "x", "p_w")], "[workbench] memory: got can't allocate", code=5,
                     values={"x": meta(7, [1 << 42])})

    def test_sizes_that_are_drawn(self):
        draw = node("torch.ops.aten.randint.default",
                    [("high", integer(9)), ("size", {"as_ints": [20]})], tensor("r"))
        unique = node("torch.ops.aten._unique2.default", [("self", tensor("r"))],
                      tensor("u"), tensor("i"), tensor("c"))
        nonzero = node("torch.ops.aten.nonzero.default", [("self", tensor("r"))], tensor("u"))
        for selects in (unique, nonzero):
            self.refuses([draw, selects,
                          node("torch.ops.aten.sum.default", [("self", tensor("u"))], tensor("s")),
                          add("y", "s", "p_w")], "depends on a random draw")

    def test_lengths_that_are_inputs(self):
        lengths = node("torch.ops.aten._to_copy.default",
                       [("self", tensor("x")), ("dtype", {"as_scalar_type": 5})], tensor("l"))
        pack = node("torch.ops.aten._pack_padded_sequence.default",
                    [("input", tensor("p_w")), ("lengths", tensor("l")),
                     ("batch_first", {"as_bool": True})], tensor("d"), tensor("b"))
        self.refuses([lengths, pack, add("y", "x", "d")], "depends on an input", sizes=(1,),
                     weights={"w": (7, [1, 4], WEIGHT["w"][2])})

    def test_names_of_many_inputs(self):
        leaf = '{"type":null,"context":null,"children_spec":[]}'
        key = json.dumps(json.dumps(["K" * 100000]))
        node_of = '{"type":"builtins.%s","context":%s,"children_spec":[%s]}'
        inner = node_of % ("list", '"null"', ",".join([leaf] * 20000))
        inner = node_of % ("dict", key, inner)
        inner = node_of % ("tuple", '"null"', inner)
        spec = "[1," + node_of % ("tuple", '"null"',
                                  inner + "," + node_of % ("dict", '"[]"', "")) + "]"
        self.refuses([add("y", "x", "p_w")], "20000 leaves", in_spec=spec)


if __name__ == "__main__":
    unittest.main()
