// Products of matrices in pairs become `wide::matmul`, which reads operands of any strides:
// transpositions and copies before or after a product are removed, and a bias becomes an argument.
#include <fmt/format.h>

#include <algorithm>

#include "engine/lower/plan/uses.h"
#include "engine/passes/pass.h"
#include "engine/widen/capabilities.h"

namespace wide::matmul_pass {
namespace {

bool plain(const Value& v) { return takes("wide::matmul", v); }

/// Whether the node only swaps the last two of three dimensions.
bool transposes(const Node& node, const Program& program) {
  const std::string name = node.name();
  if (name != "aten::transpose.int" && name != "aten::permute" && name != "aten::t" &&
      name != "aten::mT")
    return false;
  const Value &from = program.value(node.arguments[0].values[0]),
              &to = program.value(node.results[0].values[0]);
  return from.sizes.size() == 3 && to.sizes.size() == 3 && to.sizes[0] == from.sizes[0] &&
         to.sizes[1] == from.sizes[2] && to.sizes[2] == from.sizes[1] &&
         to.strides[0] == from.strides[0] && to.strides[1] == from.strides[2] &&
         to.strides[2] == from.strides[1];
}

struct Operand {
  ValueId id;
  bool transpose;
};

class Products {
 public:
  explicit Products(Program& program)
      : program_(program),
        producer_(program.producers()),
        readers_(program.values.size()),
        result_(program.values.size(), false),
        keep_(program.nodes.size(), true) {
    for (size_t i = 0; i < program.nodes.size(); ++i)
      for_each_value(program.nodes[i].arguments, [&](ValueId id) { readers_[id].push_back(i); });
    for (const ValueId id : program.results()) result_[id] = true;
  }

  std::string run() {
    int64_t count = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) count += replace(i);
    if (count == 0) return "replaced nothing";
    program_.keep_nodes(keep_);
    program_.remove_dead_nodes();
    return fmt::format("{} products", count);
  }

 private:
  const Node* maker(ValueId id) const {
    return producer_[id] < 0 ? nullptr : &program_.nodes[static_cast<size_t>(producer_[id])];
  }

  /// An operand before a transposition and before copies in this call.
  Operand operand(ValueId id) const {
    Operand at{id, false};
    for (const Node* node = maker(id); node != nullptr; node = maker(at.id)) {
      if (node->arguments.empty() || node->arguments[0].kind != Argument::Kind::value) break;
      const ValueId from = node->arguments[0].values[0];
      const bool copies = node->name() == "aten::clone" && node->phase == Phase::main;
      if (!plain(program_.value(from)) || (!copies && !transposes(*node, program_))) break;
      at = {from, at.transpose != !copies};
    }
    return at;
  }

  /// The only node that reads a value; nullopt if there are more or the program returns the value.
  std::optional<size_t> only_reader(ValueId id) const {
    if (result_[id] || readers_[id].size() != 1) return std::nullopt;
    return readers_[id][0];
  }

  /// A bias [n, 1, O] added to `id`: the node that adds it, and the bias.
  std::optional<std::pair<size_t, ValueId>> bias_of(ValueId id) const {
    const auto reader = only_reader(id);
    if (!reader) return std::nullopt;
    const Node& node = program_.nodes[*reader];
    if (node.name() != "aten::add.Tensor" || !node.arguments[2].constant.isScalar() ||
        node.arguments[2].constant.toScalar().toDouble() != 1)
      return std::nullopt;
    const Value &product = program_.value(id), &sum = program_.value(node.results[0].values[0]);
    for (const size_t other : {size_t{0}, size_t{1}}) {
      const Argument &a = node.arguments[other], &b = node.arguments[1 - other];
      if (a.kind != Argument::Kind::value || b.kind != Argument::Kind::value || b.values[0] != id)
        continue;
      const Value& bias = program_.value(a.values[0]);
      if (is_bias(bias, product) && sum.sizes == product.sizes && plain(sum) && sum.contiguous())
        return std::pair(*reader, a.values[0]);
    }
    return std::nullopt;
  }

  static bool is_bias(const Value& bias, const Value& product) {
    return plain(bias) && bias.sizes == Sizes{product.sizes[0], 1, product.sizes[2]};
  }

  bool replace(size_t i) {
    const std::string name = program_.nodes[i].name();
    const bool adds = name == "aten::baddbmm";
    if ((name != "aten::bmm" && !adds) || program_.nodes[i].phase != Phase::main) return false;
    const std::vector<Argument> given = program_.nodes[i].arguments;
    const auto one = [&](size_t k) { return given[k].constant.toScalar().toDouble() == 1; };
    const ValueId made = program_.nodes[i].results[0].values[0];
    const Value& product = program_.value(made);
    const size_t first = adds ? 1 : 0;
    if (!plain(product) || product.numel() == 0 || !product.contiguous() ||
        !plain(program_.value(given[first].values[0])) ||
        !plain(program_.value(given[first + 1].values[0])))
      return false;
    Operand a = operand(given[first].values[0]), b = operand(given[first + 1].values[0]);
    IValue none;
    Argument bias = Argument::of(none);
    size_t at = i;
    if (adds) {
      if (!is_bias(program_.value(given[0].values[0]), product) || !one(3) || !one(4)) return false;
      bias = given[0];
    } else if (const auto sum = bias_of(made)) {
      at = sum->first;
      bias = Argument::of_value(sum->second);
    } else if (const auto reader = only_reader(made);
               reader && transposes(program_.nodes[*reader], program_) &&
               !seen_through_views(program_.nodes[*reader].results[0].values[0])) {
      // (a b)ᵀ = bᵀ aᵀ, in the layout in which it is read.
      std::swap(a, b);
      a.transpose = !a.transpose;
      b.transpose = !b.transpose;
      at = *reader;
      Value& turned = program_.value(program_.nodes[at].results[0].values[0]);
      make_contiguous(turned);
    }
    Node& node = program_.nodes[at];
    if (at != i) {
      keep_[i] = false;
      node.origin = program_.nodes[i].origin;
      node.aliases = false;
    }
    node.op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::matmul", "");
    node.arguments = {Argument::of_value(a.id),
                      Argument::of_value(b.id),
                      Argument::of(a.transpose),
                      Argument::of(b.transpose),
                      bias,
                      Argument::of("none")};
    return true;
  }

  /// Whether views read the value: their strides would change with its strides.
  bool seen_through_views(ValueId id) const {
    return std::ranges::any_of(readers_[id], [&](size_t i) { return program_.nodes[i].is_view(); });
  }

  Program& program_;
  const ByValue<int32_t> producer_;
  ByValue<std::vector<size_t>> readers_;
  ByValue<bool> result_;
  std::vector<bool> keep_;
};

[[maybe_unused]] const bool registered =
    add_pass({"products", "products of matrices of any strides, without copies before or after",
              Stage::program, 105, [](Program& program) { return Products(program).run(); }});

}  // namespace
}  // namespace wide::matmul_pass
