#include "engine/check/exact_operators.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace wide {
namespace {

/// Arguments of the fused attentions, by the names in their schemas.
struct Attention {
  ValueId query = kNone, key = kNone, value = kNone, bias = kNone, grad = kNone;
  bool causal = false;
  double dropout = 0;
  IValue scale;
};

Attention read_attention(const Node& node) {
  Attention a;
  const auto& schema = node.op.schema().arguments();
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const std::string& name = schema[i].name();
    const Argument& argument = node.arguments[i];
    const bool value = argument.kind == Argument::Kind::value;
    const std::map<std::string, ValueId*> values = {{"query", &a.query},   {"key", &a.key},
                                                    {"value", &a.value},   {"attn_bias", &a.bias},
                                                    {"grad_out", &a.grad}, {"grad_out_", &a.grad}};
    if (const auto at = values.find(name); value && at != values.end())
      *at->second = argument.values[0];
    if (name == "is_causal") a.causal = argument.constant.toBool();
    if (name == "dropout_p") a.dropout = argument.constant.toDouble();
    if (name == "scale") a.scale = argument.constant;
  }
  return a;
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {
    program_.nodes.clear();
    program_.regions.clear();  // regions hold node indices
  }

  void keep(const Node& node) { program_.nodes.push_back(node); }

  /// Replaces a forward operator; its other results, for its own gradient, are not made.
  void forward(const Node& node, const Attention& a) {
    node_ = &node;
    const bool grouped = size(a.query, -3) != size(a.key, -3);
    Node made = like(node, "aten::_scaled_dot_product_attention_math", "");
    made.arguments = {value(a.query), value(a.key),      value(a.value),
                      value(a.bias),  constant(0.0),     constant(a.causal),
                      constant({}),   constant(a.scale), constant(grouped)};
    const ValueId output = program_.add_value(program_.value(node.results[0].values[0]));
    made.results = {Argument::of_value(output), Argument::of_value(kNone)};
    program_.nodes.push_back(std::move(made));
    give(0, output);
  }

  /// Replaces a gradient operator by the chain rule, recomputing the softmax.
  void backward(const Node& node, const Attention& a) {
    node_ = &node;
    const double scale =
        a.scale.isNone() ? 1 / std::sqrt(double(size(a.query, -1))) : a.scale.toDouble();
    ValueId scores = scaled(product(a.query, transposed(a.key)), scale);
    if (a.bias != kNone)
      scores = call("aten::add", "Tensor", {value(scores), value(a.bias), constant(1)});
    if (a.causal)
      scores = call("aten::masked_fill", "Scalar",
                    {value(scores), value(above_diagonal(size(a.query, -2), size(a.key, -2))),
                     constant(-std::numeric_limits<double>::infinity())});
    const ValueId share = call("aten::softmax", "int", {value(scores), constant(-1), constant({})});
    const ValueId of_share = product(a.grad, transposed(a.value));
    const ValueId of_scores = call(
        "aten::_softmax_backward_data", "",
        {value(of_share), value(share), constant(-1), constant(static_cast<int64_t>(dtype()))});
    give(0, scaled(product(of_scores, a.key), scale));
    give(1, scaled(product(transposed(of_scores), a.query), scale));
    give(2, product(transposed(share), a.grad));
    if (a.bias != kNone && node.results.size() > 3)
      give(3, call("aten::sum_to_size", "",
                   {value(of_scores), constant(program_.value(a.bias).sizes)}));
  }

  Program take() { return std::move(program_); }

 private:
  static Argument value(ValueId id) {
    return id == kNone ? Argument::of(IValue()) : Argument::of_value(id);
  }
  static Argument constant(IValue v) { return Argument::of(std::move(v)); }

  int64_t size(ValueId id, int64_t dim) const {
    const Sizes& sizes = program_.value(id).sizes;
    return sizes[static_cast<size_t>(dim + static_cast<int64_t>(sizes.size()))];
  }
  at::ScalarType dtype() const { return program_.value(node_->results[0].values[0]).dtype; }

  static Node like(const Node& node, const char* name, const char* overload) {
    Node made{c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), {}, {}, node.origin};
    made.phase = node.phase;
    made.grad = node.grad;
    return made;
  }
  ValueId call(const char* name, const char* overload, std::vector<Argument> arguments) {
    Node made = like(*node_, name, overload);
    made.arguments = std::move(arguments);
    Value v;
    v.dtype = dtype();
    const ValueId id = program_.add_value(v);
    made.results = {Argument::of_value(id)};
    program_.nodes.push_back(std::move(made));
    return id;
  }
  ValueId product(ValueId a, ValueId b) { return call("aten::matmul", "", {value(a), value(b)}); }
  ValueId scaled(ValueId a, double by) {
    return call("aten::mul", "Scalar", {value(a), constant(by)});
  }
  ValueId transposed(ValueId a) {
    return call("aten::transpose", "int", {value(a), constant(-2), constant(-1)});
  }
  ValueId above_diagonal(int64_t rows, int64_t columns) {
    Value v;
    v.role = Role::constant;
    v.dtype = at::kBool;
    v.device = program_.value(node_->results[0].values[0]).device;
    v.sizes = {rows, columns};
    v.constant = at::ones(v.sizes, at::device(v.device).dtype(at::kBool)).triu(1);
    return program_.add_value(v);
  }
  /// `made` becomes result `k`, under the id that readers use. They may view it, so it gets the
  /// fused operator's layout: heads side by side in each step.
  void give(size_t k, ValueId made) {
    if (k >= node_->results.size() || node_->results[k].kind != Argument::Kind::value ||
        node_->results[k].values[0] == kNone)
      return;
    const Sizes strides = program_.value(node_->results[k].values[0]).strides;
    std::vector<int64_t> outer_first(strides.size()), back(strides.size());
    std::iota(outer_first.begin(), outer_first.end(), 0);
    std::stable_sort(outer_first.begin(), outer_first.end(), [&](int64_t a, int64_t b) {
      return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)];
    });
    for (size_t i = 0; i < back.size(); ++i)
      back[static_cast<size_t>(outer_first[i])] = static_cast<int64_t>(i);
    made = call("aten::permute", "", {value(made), constant(outer_first)});
    made = call("aten::contiguous", "",
                {value(made), constant(static_cast<int64_t>(at::MemoryFormat::Contiguous))});
    call("aten::permute", "", {value(made), constant(back)});
    program_.nodes.back().results = {node_->results[k]};
  }

  Program program_;
  const Node* node_ = nullptr;
};

bool is_fused(const Node& node) {
  const std::string& name = node.op.schema().name();
  if (name.find("_for_cpu") != std::string::npos) return false;
  for (const char* kind : {"efficient", "flash", "cudnn"})
    if (name.rfind(fmt::format("aten::_scaled_dot_product_{}_attention", kind), 0) == 0)
      return true;
  return false;
}

}  // namespace

Program in_exact_operators(const Program& program) {
  if (std::none_of(program.nodes.begin(), program.nodes.end(), is_fused)) return program;
  Writer writer(program);
  for (const Node& node : program.nodes) {
    const bool fused = is_fused(node);
    const Attention a = fused ? read_attention(node) : Attention();
    if (!fused || a.dropout != 0)
      writer.keep(node);
    else if (a.grad == kNone)
      writer.forward(node, a);
    else
      writer.backward(node, a);
  }
  return writer.take();
}

}  // namespace wide
