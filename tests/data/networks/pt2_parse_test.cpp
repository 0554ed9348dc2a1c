#include <fmt/format.h>

#include "data/networks/pt2/archive.h"
#include "data/networks/pt2/json.h"
#include "data/networks/pt2/symbols.h"
#include "data/networks/pt2/tree.h"
#include "tests/data/bytes/zip_bytes.h"
#include "tests/data/python.h"

namespace wide::pt2::pt2_parse_test {
namespace {

/// model.json of a graph of these nodes over one input x, one weight w and the output y.
std::string model(const std::string& nodes, const std::string& more = "") {
  const std::string meta =
      R"({"dtype":7,"sizes":[{"as_int":2}],"strides":[{"as_int":1}],"storage_offset":{"as_int":0},)"
      R"("requires_grad":false,"device":{"type":"cpu","index":null},"layout":7})";
  return R"({"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}],)"
         R"("outputs":[{"as_tensor":{"name":"y"}}],"nodes":[)" +
         nodes + R"(],"tensor_values":{"x":)" + meta + R"(,"w":)" + meta +
         R"(}},"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"w"}},)"
         R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[{"user_output":{"arg":)"
         R"({"as_tensor":{"name":"y"}}}}]}},"schema_version":{"major":8,"minor":17})" +
         more + "}";
}

std::string config(const std::string& sizes, const std::string& strides,
                   const std::string& offset = "0", const std::string& dtype = "7") {
  return R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)"
         R"({"dtype":)" +
         dtype + R"(,"sizes":)" + sizes + R"(,"strides":)" + strides +
         R"(,"storage_offset":{"as_int":)" + offset + "}}}}}";
}

uint32_t crc_of(const std::string& bytes) {
  uint32_t crc = UINT32_MAX;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

ZipRecord record(const std::string& name, const std::string& bytes) {
  ZipRecord r{name, bytes};
  r.crc32 = crc_of(bytes);
  return r;
}

std::string archive(const std::string& json, const std::string& weights = "",
                    const std::string& data = std::string(8, '\0')) {
  const std::string one = R"([{"as_int":2}])", stride = R"([{"as_int":1}])";
  return zip_bytes({record("m/models/model.json", json),
                    record("m/data/weights/model_weights_config.json",
                           weights.empty() ? config(one, stride) : weights),
                    record("m/data/weights/weight_0", data), record("m/byteorder", "little")});
}

std::string refused(const std::string& bytes) {
  return error_of([&] { parse_archive(bytes, "n.pt2"); });
}

std::string refused_json(const std::string& text) {
  return error_of([&] {
    Json json(text, "n.pt2", "model.json");
    json.skip();
    json.end();
  });
}

constexpr const char* kTail = "; try to export it again with torch.export.save";

TEST(Pt2Parse, FindsNamesSizesAndBytes) {
  const std::string bytes = archive(model(""));
  const Archive a = parse_archive(bytes, "n.pt2");
  ASSERT_EQ(a.weights.size(), 1u);
  EXPECT_EQ(a.weights[0].name, "w");
  EXPECT_EQ(a.weights[0].end - a.weights[0].begin, 8u);
  EXPECT_EQ(a.program.inputs[0].target, "w");
  EXPECT_TRUE(probe(bytes, false));
  EXPECT_FALSE(probe(bytes.substr(0, bytes.size() - 1), false));
  EXPECT_TRUE(probe(bytes.substr(0, bytes.size() - 1), true));
}

TEST(Pt2Parse, RefusesWhatIsNotTheSchema) {
  EXPECT_EQ(refused(archive(model("", R"(,"schema_version":{"major":9,"minor":0})"))),
            std::string("[n.pt2] models/model.json: got key schema_version twice at byte 749, "
                        "expected every key once") +
                kTail);
  EXPECT_EQ(refused(archive(R"({"schema_version":{"major":9,"minor":1}})")),
            "[n.pt2] schema version: got 9.1, expected 8 or 7; try to export it again with PyTorch "
            "2.6 to 2.11");
  EXPECT_EQ(refused(archive("[]")), std::string("[n.pt2] models/model.json: got '[' at byte 0, "
                                                "expected an object") +
                                        kTail);
  EXPECT_EQ(refused(archive(model(R"({"inputs":[]})"))).find("a node without a target") !=
                std::string::npos,
            true);
  EXPECT_NE(refused(archive(model(R"({"target":"t","outputs":[{"as_tensor":{},"as_none":true}]})")))
                .find("got no name"),
            std::string::npos);
}

TEST(Pt2Parse, RefusesTensorsOutsideTheirBytes) {
  const auto with = [](const char* sizes, const char* strides, const char* offset = "0",
                       const char* dtype = "7") {
    return refused(archive(model(""), config(sizes, strides, offset, dtype)));
  };
  EXPECT_EQ(with(R"([{"as_int":3}])", R"([{"as_int":1}])"),
            "[n.pt2] tensor w: got 8 bytes of data, expected at least 12; try to fetch the file "
            "again");
  EXPECT_NE(with(R"([{"as_int":2}])", R"([{"as_int":1}])", "1").find("at least 12"),
            std::string::npos);
  for (const char* size : {"4611686018427387904", "9223372036854775807", "-1"})
    EXPECT_NE(with(fmt::format(R"([{{"as_int":{}}},{{"as_int":{}}}])", size, size).c_str(),
                   R"([{"as_int":9223372036854775807},{"as_int":1}])"),
              "")
        << size;
  EXPECT_NE(with(R"([{"as_int":2}])", "[]").find("1 sizes, 0 strides"), std::string::npos);
  EXPECT_NE(with(R"([{"as_int":2}])", R"([{"as_int":1}])", "0", "99").find("dtype 99"),
            std::string::npos);
  EXPECT_NE(with(R"([{"as_expr":{"expr_str":"s0"}}])", R"([{"as_int":1}])").find("symbolic"),
            std::string::npos);
  EXPECT_EQ(with(R"([{"as_int":0},{"as_int":9}])", R"([{"as_int":9},{"as_int":1}])"), "");
}

TEST(Pt2Parse, JsonIsReadStrictly) {
  EXPECT_EQ(refused_json(R"({"a":[1,-2.5e3,true,null,"\u00e9\ud83d\ude00"]})"), "");
  EXPECT_NE(refused_json(std::string(100000, '[')).find("got more levels"), std::string::npos);
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "[1 2]", "nul", "\"a", "[1]]", "{1:2}",
                           "'a'", "\"\\", "{\"a\":1,}", "tru"})
    EXPECT_NE(refused_json(text), "") << text;
  for (const char* text : {"\"\\ud800\"", "\"\\u12\"", "\"a\nb\"", "\"\\x\"", "\""})
    EXPECT_NE(error_of([&] { Json(text, "f", "w").string(); }), "") << text;
  EXPECT_EQ(Json(R"("\u00e9\ud83d\ude00\n")", "f", "w").string(), "\u00e9\U0001F600\n");
  for (const char* text : {"9223372036854775808", "1.5", "--1", "\"1\"", "+"})
    EXPECT_NE(error_of([&] { Json(text, "f", "w").integer(); }), "") << text;
  EXPECT_EQ(Json("\"-Infinity\"", "f", "w").real(), -std::numeric_limits<double>::infinity());
  EXPECT_NE(error_of([&] { Json(R"({"a":1,"a":2})", "f", "w").object([](auto&) {}); }), "");
}

TEST(Pt2Parse, EveryTruncationAndFlippedByteIsSafe) {
  const std::string whole = archive(model(
      R"({"target":"torch.ops.aten.add.Tensor","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1}],"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}})"));
  EXPECT_EQ(refused(whole), "");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refused(whole.substr(0, size)), "") << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    refused(changed);  // an Error or none; anything else ends the test
  }
}

TEST(Pt2Parse, SizesAreFormulas) {
  const Symbols symbols{{"s0", 6}, {"s1", 4}, {"x.size()[0]", 5}};
  EXPECT_EQ(evaluate("Symbol('s0', positive=True, integer=True)", symbols), 6);
  EXPECT_EQ(evaluate("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))", symbols), 11);
  EXPECT_EQ(evaluate("2*s0 + s1//3 - 1", symbols), 12);
  EXPECT_EQ(evaluate("-7 // 2", symbols), -4);
  EXPECT_EQ(evaluate("Max(1, FloorDiv(s0, 4), s1**2) % 5", symbols), 1);
  EXPECT_EQ(evaluate("(L['x'].size()[0] // 2) * 3 != 6", symbols), 0);
  EXPECT_EQ(evaluate("L['x'].size()[0] >= 5", symbols), 1);
  for (const char* bad : {"", "s9", "s0 +", "sin(s0)", "s0 // 0", "9223372036854775807 + 1", "((((",
                          "L['y'].size()[0]", "1 2", "2**99"})
    EXPECT_EQ(evaluate(bad, symbols), std::nullopt) << bad;
  EXPECT_EQ(evaluate(std::string(100000, '('), symbols), std::nullopt);
  EXPECT_EQ(readable("Mul(Integer(2), Symbol('s0', integer=True))"), "Mul(2, s0)");
}

TEST(Pt2Parse, SizesGivenMustBeThoseExported) {
  Program program;
  program.ranges["s0"] = {2, 8};
  TensorMeta meta;
  meta.sizes.resize(2);
  meta.sizes[0].expression = "Mul(Integer(2), Symbol('s0', integer=True))";
  meta.sizes[1].value = 3;
  const auto bound = [&](std::vector<int64_t> sizes, Symbols symbols = {}) {
    return error_of([&] { bind_sizes("x", sizes, meta, program, &symbols, "n.pt2"); });
  };
  const std::string tail = "; try to give inputs of these sizes, or to export with dynamic_shapes";
  EXPECT_EQ(bound({6, 3}), "");
  EXPECT_EQ(bound({6, 4}),
            "[n.pt2] input x: got [6, 4], expected [Mul(2, s0), 3] as exported" + tail);
  EXPECT_EQ(bound({7, 3}),
            "[n.pt2] input x: got [7, 3], expected [Mul(2, s0), 3] as exported of "
            "which Mul(2, s0) cannot be 7" +
                tail);
  EXPECT_EQ(bound({18, 3}),
            "[n.pt2] input x: got [18, 3], expected [Mul(2, s0), 3] as exported "
            "with s0 from 2 to 8" +
                tail);
  EXPECT_EQ(bound({6, 3}, {{"s0", 4}}),
            "[n.pt2] input x: got [6, 3], expected [Mul(2, s0), 3] as "
            "exported of which Mul(2, s0) is 8 already" +
                tail);
  program.guards = {"unknown(x)", "L['x'].size()[0] != 6"};
  EXPECT_EQ(error_of([&] {
              check_guards(program, {{"x.size()[0]", 6}}, "n.pt2");
            }),
            "[n.pt2] sizes of the inputs: got some that the export rules out, expected "
            "L['x'].size()[0] != 6; try to give other sizes, or to export with these");
}

TEST(Pt2Parse, InputsAreNamedByTheWayToThem) {
  Program program;
  program.in_spec =
      R"([1,{"type":"builtins.tuple","context":"null","children_spec":[)"
      R"({"type":"builtins.tuple","context":"null","children_spec":[)"
      R"({"type":"builtins.dict","context":"[\"image\",7]","children_spec":[)"
      R"({"type":null,"context":null,"children_spec":[]},{"type":null,"context":null,"children_spec":[]}]},)"
      R"({"type":"builtins.list","context":"null","children_spec":[{"type":null,"context":null,"children_spec":[]}]}]},)"
      R"({"type":"builtins.dict","context":"[\"k\"]","children_spec":[{"type":null,"context":null,"children_spec":[]}]}]}])";
  program.argument_names = {"batch", "rest", "k"};
  std::vector<std::string> names;
  for (const Leaf& leaf : input_leaves(program, {"a", "b", "c", "d"}, "n.pt2"))
    names.push_back(leaf.name);
  EXPECT_EQ(names, (std::vector<std::string>{"batch.image", "batch.7", "rest.0", "k"}));
  EXPECT_EQ(
      error_of([&] { input_leaves(program, {"a"}, "n.pt2"); }),
      std::string("[n.pt2] in_spec: got 4 leaves, expected 1 as the graph has inputs") + kTail);
}

}  // namespace
}  // namespace wide::pt2::pt2_parse_test
