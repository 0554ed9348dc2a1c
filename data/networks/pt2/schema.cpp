#include "data/networks/pt2/schema.h"

#include <functional>

#include "data/bytes/refuse.h"
#include "data/networks/pt2/json.h"

namespace wide::pt2 {
namespace {

struct DtypeInfo {
  Dtype dtype;
  const char* name;
  uint64_t bytes;
  bool floating;
};
constexpr DtypeInfo kDtypeInfos[] = {{Dtype::u8, "u8", 1, false},
                                     {Dtype::i8, "i8", 1, false},
                                     {Dtype::i16, "i16", 2, false},
                                     {Dtype::i32, "i32", 4, false},
                                     {Dtype::i64, "i64", 8, false},
                                     {Dtype::f16, "f16", 2, true},
                                     {Dtype::f32, "f32", 4, true},
                                     {Dtype::f64, "f64", 8, true},
                                     {Dtype::c32, "c32", 4, false},
                                     {Dtype::c64, "c64", 8, false},
                                     {Dtype::c128, "c128", 16, false},
                                     {Dtype::boolean, "bool", 1, false},
                                     {Dtype::bf16, "bf16", 2, true},
                                     {Dtype::u16, "u16", 2, false},
                                     {Dtype::f8_e4m3fn, "f8_e4m3fn", 1, true},
                                     {Dtype::f8_e5m2, "f8_e5m2", 1, true},
                                     {Dtype::f8_e4m3fnuz, "f8_e4m3fnuz", 1, true},
                                     {Dtype::f8_e5m2fnuz, "f8_e5m2fnuz", 1, true}};

const DtypeInfo* find(int64_t number) {
  for (const DtypeInfo& info : kDtypeInfos)
    if (static_cast<int64_t>(info.dtype) == number) return &info;
  return nullptr;
}

/// Reads the schema's classes. Keys that are not known are skipped: minor versions add some.
class Parser {
  /// What reads an object of values of one kind into a map.
  template <class Map, class Value>
  auto each(Map& map, Value value) {
    return
        [this, &map, value] { json_.object([&](const std::string& key) { map[key] = value(); }); };
  }

  /// What reads an array of values of one kind into a list.
  template <class T>
  auto list(std::vector<T>& all, T (Parser::*value)()) {
    return [this, &all, value] { json_.array([&] { all.push_back((this->*value)()); }); };
  }

 public:
  Parser(std::string_view text, const std::string& file, const std::string& what)
      : json_(text, file, what), file_(file), what_(what) {}

  Program program() {
    Program program;
    int64_t major = 0, minor = 0;
    bool has_graph = false;
    json_.parts(part("graph_module",
                     [&] {
                       has_graph = true;
                       graph_module(program);
                     }),
                part("range_constraints", each(program.ranges, [this] { return range(); })),
                part("guards_code", list(program.guards, &Parser::string)),
                part("torch_version", &program.torch_version), part("schema_version", [&] {
                  json_.parts(part("major", &major), part("minor", &minor));
                }));
    json_.end();
    if (major != 7 && major != 8)
      wide::refuse(file_, "schema version", fmt::format("{}.{}", major, minor), "8 or 7",
                   "export it again with PyTorch 2.6 to 2.11");
    if (!has_graph) json_.refuse("no graph_module", "one");
    return program;
  }

  std::vector<Payload> payloads() {
    std::vector<Payload> payloads;
    json_.parts(part("config", [&] {
      json_.object([&](const std::string& name) {
        Payload& payload = payloads.emplace_back();
        payload.name = name;
        json_.parts(part("path_name", &payload.record), part("is_param", &payload.is_parameter),
                    part("use_pickle", &payload.pickled), part("tensor_meta", [&] {
                      json_.optional([&] { payload.meta = tensor_meta(); });
                    }));
      });
    }));
    json_.end();
    return payloads;
  }

 private:
  /// Reads a union: an object with one key, which names the alternative.
  template <class Value>
  void one_of(Value value) {
    int count = 0;
    json_.object([&](const std::string& key) {
      if (++count > 1) json_.refuse("key " + printable(key, 40), "one key only");
      value(key);
    });
    if (!count) json_.refuse("an empty object", "one key");
  }

  /// Reads one key of an object and skips the others.
  template <class Value>
  void one_key(const char* wanted, Value value) {
    bool found = false;
    json_.object([&](const std::string& key) {
      if (key != wanted) return json_.skip();
      found = true;
      value();
    });
    if (!found) json_.refuse(fmt::format("no {}", wanted), "one");
  }

  [[noreturn]] void unknown(const std::string& key, const char* of) {
    json_.refuse(fmt::format("{} as {}", printable(key, 40), of), "a form of schema 8");
  }

  Size size() {
    Size size;
    one_of([&](const std::string& key) {
      if (key == "as_int") {
        size.value = json_.integer();
      } else if (key == "as_expr") {
        size.known = false;
        json_.parts(part("expr_str", &size.expression), part("hint", [&] {
                      json_.optional([&] {
                        one_of([&](const std::string& hint) {
                          if (hint != "as_int") return json_.skip();
                          size.value = json_.integer();
                          size.known = true;
                        });
                      });
                    }));
      } else {
        unknown(key, "a size");
      }
    });
    return size;
  }

  std::string device() {
    std::string type;
    int64_t index = -1;
    json_.parts(part("type", &type),
                part("index", [&] { json_.optional([&] { index = json_.integer(); }); }));
    return index < 0 ? type : fmt::format("{}:{}", type, index);
  }

  TensorMeta tensor_meta() {
    TensorMeta meta;
    json_.parts(part("dtype",
                     [&] {
                       const int64_t number = json_.integer();
                       const DtypeInfo* info = find(number);
                       if (!info) json_.refuse(fmt::format("dtype {}", number), "one of schema 8");
                       meta.dtype = info->dtype;
                     }),
                part("sizes", list(meta.sizes, &Parser::size)),
                part("strides", list(meta.strides, &Parser::size)),
                part("storage_offset",
                     [&] {
                       // Older files have a plain number here.
                       if (json_.peek() == Json::Kind::number)
                         meta.offset.value = json_.integer();
                       else
                         meta.offset = size();
                     }),
                part("device", [&] { meta.device = device(); }));
    if (meta.dtype == Dtype::unknown) json_.refuse("a tensor without a dtype", "one");
    return meta;
  }

  Range range() {
    Range range;
    json_.parts(part("min_val", [&] { json_.optional([&] { range.least = json_.integer(); }); }),
                part("max_val", [&] { json_.optional([&] { range.most = json_.integer(); }); }));
    return range;
  }

  Item named() {
    Item item;
    one_key("name", [&] { item.name = json_.string(); });
    if (item.name.empty()) json_.refuse("an empty name", "one");
    return item;
  }

  Item optional_tensor() {
    Item item;
    one_of([&](const std::string& key) {
      if (key == "as_tensor")
        item = named();
      else if (key == "as_none")
        json_.skip();
      else
        unknown(key, "a tensor that may be none");
    });
    return item;
  }

  Item symbolic() {
    Item item;
    one_of([&](const std::string& key) {
      if (key == "as_name")
        item.name = json_.string();
      else if (key == "as_int")
        item.integer = json_.integer();
      else if (key == "as_float")
        item.real = json_.real();
      else if (key == "as_bool")
        item.integer = json_.boolean();
      else
        unknown(key, "a symbolic number");
    });
    return item;
  }

  Item number(Argument::Kind kind) {
    Item item;
    if (kind == Argument::Kind::real)
      item.real = json_.real();
    else if (kind == Argument::Kind::boolean)
      item.integer = json_.boolean();
    else if (kind == Argument::Kind::text)
      item.name = json_.string();
    else
      item.integer = json_.integer();
    return item;
  }

  using Read = std::function<Item()>;
  struct Form {
    Argument::Kind kind;
    bool list;
    Read read;
  };

  /// The forms whose value is one element, or a list of them.
  const std::map<std::string, Form>& forms() {
    using K = Argument::Kind;
    if (!forms_.empty()) return forms_;
    const Read tensor = [this] { return named(); }, symbol = [this] { return symbolic(); };
    const auto plain = [this](K kind) { return [this, kind] { return number(kind); }; };
    forms_ = {{"as_tensor", {K::tensor, false, tensor}},
              {"as_tensors", {K::tensor, true, tensor}},
              {"as_optional_tensor", {K::tensor, false, [this] { return optional_tensor(); }}},
              {"as_optional_tensors", {K::tensor, true, [this] { return optional_tensor(); }}},
              {"as_int", {K::integer, false, plain(K::integer)}},
              {"as_ints", {K::integer, true, plain(K::integer)}},
              {"as_float", {K::real, false, plain(K::real)}},
              {"as_floats", {K::real, true, plain(K::real)}},
              {"as_bool", {K::boolean, false, plain(K::boolean)}},
              {"as_bools", {K::boolean, true, plain(K::boolean)}},
              {"as_strings", {K::text, true, plain(K::text)}},
              {"as_sym_int", {K::integer, false, symbol}},
              {"as_sym_ints", {K::integer, true, symbol}},
              {"as_sym_float", {K::real, false, symbol}},
              {"as_sym_floats", {K::real, true, symbol}},
              {"as_sym_bool", {K::boolean, false, symbol}},
              {"as_sym_bools", {K::boolean, true, symbol}},
              {"as_scalar_type", {K::dtype, false, plain(K::integer)}},
              {"as_memory_format", {K::memory_format, false, plain(K::integer)}},
              {"as_layout", {K::layout, false, plain(K::integer)}}};
    return forms_;
  }

  Argument argument() {
    using K = Argument::Kind;
    Argument a;
    one_of([&](const std::string& key) {
      if (const auto it = forms().find(key); it != forms().end()) {
        a.kind = it->second.kind;
        a.list = it->second.list;
        if (a.list)
          json_.array([&] { a.items.push_back(it->second.read()); });
        else
          a.items.push_back(it->second.read());
      } else if (key == "as_none") {
        json_.skip();
      } else if (key == "as_string") {
        a.kind = K::text;
        a.text = json_.string();
      } else if (key == "as_device") {
        a.kind = K::device;
        a.text = device();
      } else if (key == "as_complex") {
        a.kind = K::complex;
        a.items.resize(2);
        json_.object(
            [&](const std::string& part) { a.items[part == "imag" ? 1 : 0].real = json_.real(); });
      } else if (key == "as_graph") {
        a.kind = K::graph;
        one_key("graph", [&] { a.graph = std::make_shared<const Graph>(graph()); });
      } else {
        a.kind = K::other;
        a.text = key;
        json_.skip();
      }
    });
    return a;
  }

  NamedArgument input() {
    NamedArgument made;
    json_.parts(part("name", &made.name), part("arg", [&] { made.value = argument(); }));
    return made;
  }

  Node node() {
    Node node;
    json_.parts(part("target", &node.target), part("inputs", list(node.inputs, &Parser::input)),
                part("outputs", list(node.outputs, &Parser::argument)));
    if (node.target.empty()) json_.refuse("a node without a target", "one");
    return node;
  }

  Graph graph() {
    Graph graph;
    json_.parts(part("inputs", list(graph.inputs, &Parser::argument)),
                part("outputs", list(graph.outputs, &Parser::argument)),
                part("nodes", list(graph.nodes, &Parser::node)),
                part("tensor_values", each(graph.tensors, [this] { return tensor_meta(); })),
                part("sym_int_values", each(graph.integers, [this] { return size(); })));
    return graph;
  }

  InputSpec input_spec() {
    using K = InputSpec::Kind;
    static const std::map<std::string, K> kinds = {{"user_input", K::user},
                                                   {"parameter", K::parameter},
                                                   {"buffer", K::buffer},
                                                   {"tensor_constant", K::constant},
                                                   {"constant_input", K::number},
                                                   {"custom_obj", K::object},
                                                   {"token", K::token}};
    InputSpec spec;
    one_of([&](const std::string& form) {
      const auto it = kinds.find(form);
      if (it == kinds.end()) unknown(form, "an input");
      spec.kind = it->second;
      json_.object([&](const std::string& key) {
        if (key == "arg" && spec.kind == K::user)
          spec.value = argument();
        else if (key == "arg" &&
                 (spec.kind == K::parameter || spec.kind == K::buffer || spec.kind == K::constant))
          spec.value = tensor_argument();
        else if (key == "parameter_name" || key == "buffer_name" || key == "tensor_constant_name" ||
                 key == "custom_obj_name" || key == "name")
          spec.target = json_.string();
        else if (key == "persistent")
          spec.persistent = json_.boolean();
        else
          json_.skip();
      });
    });
    return spec;
  }

  Argument tensor_argument() { return {.kind = Argument::Kind::tensor, .items = {named()}}; }

  OutputSpec output_spec() {
    using K = OutputSpec::Kind;
    static const std::map<std::string, K> kinds = {{"user_output", K::user},
                                                   {"loss_output", K::user},
                                                   {"buffer_mutation", K::mutation},
                                                   {"parameter_mutation", K::mutation},
                                                   {"user_input_mutation", K::input_mutation},
                                                   {"gradient_to_parameter", K::gradient},
                                                   {"gradient_to_user_input", K::gradient},
                                                   {"token", K::token}};
    OutputSpec spec;
    one_of([&](const std::string& form) {
      const auto it = kinds.find(form);
      if (it == kinds.end()) unknown(form, "an output");
      spec.kind = it->second;
      json_.object([&](const std::string& key) {
        if (key == "arg")
          spec.value = form == "user_output" ? argument() : tensor_argument();
        else if (key == "buffer_name" || key == "parameter_name" || key == "user_input_name")
          spec.target = json_.string();
        else
          json_.skip();
      });
    });
    return spec;
  }

  void graph_module(Program& program) {
    const auto signature = [&] {
      json_.parts(part("input_specs", list(program.inputs, &Parser::input_spec)),
                  part("output_specs", list(program.outputs, &Parser::output_spec)));
    };
    const auto named_tuple = [this] {
      std::vector<std::string> names;
      one_key("field_names", list(names, &Parser::string));
      return names;
    };
    json_.parts(part("graph", [&] { program.graph = graph(); }), part("signature", signature),
                part("module_call_graph", [&] { json_.array([&] { module_call(program); }); }),
                part("treespec_namedtuple_fields", each(program.named_tuples, named_tuple)));
  }

  std::string string() { return json_.string(); }

  /// Reads how forward is called from the entry of the outermost module; skips the others.
  void module_call(Program& program) {
    std::string fqn, in_spec, out_spec;
    std::vector<std::string> names;
    const auto signature = [&] {
      json_.parts(part("in_spec", &in_spec), part("out_spec", &out_spec),
                  part("forward_arg_names", [&] { json_.optional(list(names, &Parser::string)); }));
    };
    json_.parts(part("fqn", &fqn), part("signature", [&] { json_.optional(signature); }));
    if (!fqn.empty() || in_spec.empty()) return;
    program.in_spec = in_spec;
    program.out_spec = out_spec;
    program.argument_names = names;
  }

  Json json_;
  std::string file_, what_;
  std::map<std::string, Form> forms_;
};

}  // namespace

uint64_t bytes_of(Dtype dtype) {
  const DtypeInfo* info = find(static_cast<int64_t>(dtype));
  return info ? info->bytes : 0;
}

const char* to_string(Dtype dtype) {
  const DtypeInfo* info = find(static_cast<int64_t>(dtype));
  return info ? info->name : "unknown";
}

bool is_floating(Dtype dtype) {
  const DtypeInfo* info = find(static_cast<int64_t>(dtype));
  return info && info->floating;
}

Program parse_program(std::string_view text, const std::string& file, const std::string& what) {
  return Parser(text, file, what).program();
}

std::vector<Payload> parse_payloads(std::string_view text, const std::string& file,
                                    const std::string& what) {
  return Parser(text, file, what).payloads();
}

}  // namespace wide::pt2
