#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A torch.export archive as plain data: torch.export's serialized schema 8, reduced to what running
// a graph needs. Knows no LibTorch. Enumerations are the schema's own, not c10's.
namespace wide::pt2 {

/// A number that is known, or an expression over symbols such as "Symbol('s0')".
struct Size {
  int64_t value = 0;            // of an expression: its value on the exporter's sample
  std::string expression = {};  // "" for a plain number
  bool known = true;            // false: an expression without such a value
};

/// The schema's ScalarType.
enum class Dtype : uint8_t {
  unknown = 0,
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  c32 = 9,
  c64 = 10,
  c128 = 11,
  boolean = 12,
  bf16 = 13,
  u16 = 28,
  f8_e4m3fn = 29,
  f8_e5m2 = 30,
  f8_e4m3fnuz = 31,
  f8_e5m2fnuz = 32
};
/// Bytes of one element.
uint64_t bytes_of(Dtype dtype);
/// "f32", "bool".
const char* to_string(Dtype dtype);
bool is_floating(Dtype dtype);

struct TensorMeta {
  Dtype dtype = Dtype::unknown;
  std::vector<Size> sizes, strides;
  Size offset;
  std::string device;
};

struct Graph;

/// One element of an argument: a value's name, or a number. A missing tensor has neither.
struct Item {
  std::string name;
  int64_t integer = 0;
  double real = 0;
};

struct Argument {
  enum class Kind {
    none,
    tensor,
    integer,  // a number or a symbolic one's name; the next two as well
    real,
    boolean,
    text,
    dtype,
    memory_format,
    layout,
    device,
    complex,  // `real` of two items: real and imaginary part
    graph,
    other  // what cannot be run here; `text` names it
  };
  Kind kind = Kind::none;
  bool list = false;
  std::vector<Item> items = {};
  std::string text = {};  // of text, device and other
  std::shared_ptr<const Graph> graph = {};
};

struct NamedArgument {
  std::string name;  // "" for the positional ones of higher-order operators
  Argument value;
};

struct Node {
  std::string target;  // "torch.ops.aten.add.Tensor", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, Size> integers;  // symbolic ones
};

/// What an input of the graph stands for.
struct InputSpec {
  enum class Kind { user, parameter, buffer, constant, number, object, token };
  Kind kind = Kind::user;
  Argument value;
  std::string target;      // name of the parameter, buffer or constant
  bool persistent = true;  // of buffers
};

struct OutputSpec {
  enum class Kind { user, mutation, input_mutation, gradient, token };
  Kind kind = Kind::user;
  Argument value;
  std::string target;  // name of what is mutated
};

struct Range {
  std::optional<int64_t> least, most;
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::string in_spec, out_spec;            // JSON of pytrees; "" if missing
  std::vector<std::string> argument_names;  // of forward; may be empty
  std::map<std::string, std::vector<std::string>> named_tuples;
  std::map<std::string, Range> ranges;  // of symbols
  std::vector<std::string> guards;      // Python: "L['x'].size()[0] >= 2"
  std::string torch_version;
};

/// A tensor in the archive, by its place in a record.
struct Payload {
  std::string name;
  std::string record;
  bool is_parameter = false;
  bool pickled = false;
  std::optional<TensorMeta> meta;
};

/// Both throw Error, naming `file` and `what`, for invalid JSON or an unknown version of the
/// schema.
Program parse_program(std::string_view text, const std::string& file, const std::string& what);
std::vector<Payload> parse_payloads(std::string_view text, const std::string& file,
                                    const std::string& what);

}  // namespace wide::pt2
