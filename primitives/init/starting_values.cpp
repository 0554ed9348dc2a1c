// How torch.nn's layers fill their parameters: Linear, Conv, Bilinear U(±1/√fan_in); Embedding N(0,
// 1); norms 1 and 0; LSTM, GRU, RNN U(±1/√hidden); PReLU 1/4;
// MultiheadAttention's in_proj U(±√(6 / (3E + E))), its biases 0
#include "primitives/init/starting_values.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <fmt/format.h>

#include <cmath>

namespace wide {
namespace {

using Drawn = StartingValues::Kind;

constexpr const char* kAttention = "MultiheadAttention";

/// The torch.nn layer that calls a norm operator.
std::string norm_layer(const std::string& op) {
  for (const auto& [part, layer] : {std::pair{"layer_norm", "LayerNorm"},
                                    {"group_norm", "GroupNorm"},
                                    {"instance_norm", "InstanceNorm"},
                                    {"rms_norm", "RMSNorm"}})
    if (op.find(part) != std::string::npos) return layer;
  return "BatchNorm";
}

bool ends_with(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

class Finder {
 public:
  explicit Finder(const Program& single) : p_(single), parameter_(single.values.size(), kNone) {
    for (const ValueId id : p_.bound)
      if (p_.value(id).role == Role::parameter) parameter_[id] = id;
    // A view of a whole parameter counts as the parameter.
    for (const Node& node : p_.nodes)
      if ((node.is_view() || node.name() == "aten::detach") && !node.arguments.empty() &&
          node.arguments[0].kind == Argument::Kind::value && node.results.size() == 1 &&
          node.results[0].values.size() == 1 && !is_slice(node))
        parameter_[node.results[0].values[0]] = parameter_[node.arguments[0].values[0]];
  }

  std::map<std::string, std::vector<StartingValues>> find() {
    // The outermost first: a recurrent layer's parameters are those of linear calls in it too.
    std::vector<const Region*> regions;
    for (const Region& region : p_.regions) regions.push_back(&region);
    std::ranges::stable_sort(regions,
                             [](const Region* a, const Region* b) { return a->depth < b->depth; });
    for (const Region* region : regions) look(region->name(), region->arguments, region->op);
    for (const Node& node : p_.nodes) look(node.name(), node.arguments, node.op);
    return std::move(found_);
  }

 private:
  /// Whether a node takes a part of a tensor, which does not count as the parameter.
  static bool is_slice(const Node& node) {
    const std::string name = node.name();
    return name.find("slice") != std::string::npos || name.find("select") != std::string::npos ||
           name.find("split") != std::string::npos || name.find("narrow") != std::string::npos;
  }

  void add(ValueId id, StartingValues start) {
    if (id == kNone || parameter_[id] == kNone) return;
    const std::string& name = p_.value(parameter_[id]).name;
    if (ends_with(name, "out_proj.bias")) start = {Drawn::constant, 0, kAttention};
    found_[name].push_back(std::move(start));
  }

  void look(const std::string& op, const std::vector<Argument>& arguments,
            const c10::OperatorHandle& handle) {
    const auto at = [&](const char* name) -> ValueId {
      const auto place = handle.schema().argumentIndexWithName(name);
      if (!place || static_cast<size_t>(*place) >= arguments.size()) return kNone;
      const Argument& a = arguments[static_cast<size_t>(*place)];
      return a.kind == Argument::Kind::value && !a.values.empty() ? a.values[0] : kNone;
    };
    const auto is = [&](std::string_view start) { return op.rfind(start, 0) == 0; };
    const auto sizes = [&](ValueId id) -> Sizes {
      return id == kNone || parameter_[id] == kNone ? Sizes{} : p_.value(parameter_[id]).sizes;
    };
    if (is("aten::linear") || is("aten::conv") || is("aten::bilinear")) {
      const Sizes w = sizes(at("weight"));
      if (w.size() < 2) return;
      int64_t fan_in = w[1];
      for (size_t d = 2; d < w.size() && !is("aten::bilinear"); ++d) fan_in *= w[d];
      const char* kind = is("aten::bilinear")        ? "Bilinear"
                         : is("aten::linear")        ? "Linear"
                         : transposes(op, arguments) ? "ConvTranspose"
                                                     : "Conv";
      fans(at("weight"), at("bias"), fan_in,
           is("aten::conv") ? fmt::format("{}{}d", kind, w.size() - 2) : kind);
    } else if (is("aten::addmm")) {
      const Sizes w = sizes(at("mat2"));
      if (w.size() == 2) fans(at("mat2"), at("self"), w[1], "Linear");
    } else if (is("aten::mm")) {
      const Sizes w = sizes(at("mat2"));
      if (w.size() == 2) fans(at("mat2"), kNone, w[1], "Linear");
    } else if (is("aten::embedding")) {
      StartingValues start{Drawn::normal, 1, "Embedding"};
      if (const auto place = handle.schema().argumentIndexWithName("padding_idx");
          place && arguments[static_cast<size_t>(*place)].constant.isInt())
        start.zero_row = arguments[static_cast<size_t>(*place)].constant.toInt();
      add(at("weight"), start);
    } else if (op.find("_norm") != std::string::npos) {
      add(at("weight"), {Drawn::constant, 1, norm_layer(op)});
      add(at("bias"), {Drawn::constant, 0, norm_layer(op)});
    } else if (is("aten::_prelu_kernel") || is("aten::prelu")) {
      add(at("weight"), {Drawn::constant, 0.25, "PReLU"});
    } else if (is("aten::lstm") || is("aten::gru") || is("aten::rnn_")) {
      if (op.find("_cell") == std::string::npos) return recurrent(arguments, handle);
      const Sizes w = sizes(at("w_hh"));
      if (w.size() != 2) return;
      for (const char* name : {"w_ih", "w_hh", "b_ih", "b_hh"})
        add(at(name), {Drawn::uniform, 1 / std::sqrt(double(w[1])), recurrent_layer(op) + "Cell"});
    }
  }

  static std::string recurrent_layer(const std::string& op) {
    return op.rfind("aten::lstm", 0) == 0 ? "LSTM" : op.rfind("aten::gru", 0) == 0 ? "GRU" : "RNN";
  }

  /// Whether a convolution, called by any operator, is a transposed one.
  static bool transposes(const std::string& op, const std::vector<Argument>& arguments) {
    constexpr size_t kTransposed = 6;  // of aten::convolution's arguments
    return op.find("transpose") != std::string::npos ||
           (op.rfind("aten::convolution", 0) == 0 && arguments.size() > kTransposed &&
            arguments[kTransposed].constant.isBool() && arguments[kTransposed].constant.toBool());
  }

  void fans(ValueId weight, ValueId bias, int64_t fan_in, const std::string& layer) {
    const double bound = fan_in > 0 ? 1 / std::sqrt(double(fan_in)) : 0;
    const ValueId own = weight == kNone ? kNone : parameter_[weight];
    if (own != kNone && ends_with(p_.value(own).name, "in_proj_weight")) {
      const Sizes& w = p_.value(own).sizes;
      add(weight, {Drawn::uniform, std::sqrt(6.0 / double(w[0] + w[1])), kAttention});
      add(bias, {Drawn::constant, 0, kAttention});
      return;
    }
    add(weight, {Drawn::uniform, bound, layer});
    add(bias, {Drawn::uniform, bound, layer});
  }

  void recurrent(const std::vector<Argument>& arguments, const c10::OperatorHandle& handle) {
    const auto place = handle.schema().argumentIndexWithName("params");
    if (!place) return;
    const std::vector<ValueId>& all = arguments[static_cast<size_t>(*place)].values;
    if (all.size() < 2 || parameter_[all[1]] == kNone) return;
    const Sizes& w_hh = p_.value(parameter_[all[1]]).sizes;
    const bool lstm = handle.schema().name() == "aten::lstm";
    const int64_t gates = lstm ? 4 : handle.schema().name() == "aten::gru" ? 3 : 1;
    const double bound = 1 / std::sqrt(double(w_hh.at(0)) / double(gates));
    for (const ValueId id : all)
      add(id, {Drawn::uniform, bound, recurrent_layer(handle.schema().name())});
  }

  const Program& p_;
  ByValue<ValueId> parameter_;
  std::map<std::string, std::vector<StartingValues>> found_;
};

}  // namespace

std::map<std::string, std::vector<StartingValues>> starting_values(const Program& single) {
  return Finder(single).find();
}

bool looks_like(const StartingValues& start, const Tensor& values) {
  Tensor x = values.to(at::kDouble);
  if (start.zero_row >= 0 && x.dim() == 2 && start.zero_row < x.size(0)) {
    if (!x[start.zero_row].eq(0).all().item<bool>()) return false;
    x = at::cat({x.narrow(0, 0, start.zero_row),
                 x.narrow(0, start.zero_row + 1, x.size(0) - start.zero_row - 1)});
  }
  if (x.numel() == 0) return true;
  if (start.kind == Drawn::constant) return x.eq(start.number).all().item<bool>();
  const double count = double(x.numel()), largest = x.abs().max().item<double>();
  const bool uniform = start.kind == Drawn::uniform;
  const double rounding =
      values.scalar_type() == at::kDouble || values.scalar_type() == at::kFloat ? 1e-6 : 1e-2;
  if (uniform && largest > start.number * (1 + rounding)) return false;
  if (!uniform && largest > 7 * start.number) return false;
  const double spread = uniform ? start.number / std::sqrt(3.0) : start.number;
  // The mean and the root mean square must lie within six standard errors.
  if (std::abs(x.mean().item<double>()) > 6 * spread / std::sqrt(count)) return false;
  if (count < 2) return true;
  const double got = std::sqrt((x * x).mean().item<double>());
  const double error = std::sqrt((uniform ? 0.2 : 0.5) / count);
  return std::abs(got / spread - 1) < 6 * error + rounding;
}

Tensor draw(const StartingValues& start, const Tensor& like, uint64_t seed) {
  if (start.kind == Drawn::constant) return at::full_like(like, start.number);
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto options = like.options().dtype(at::kDouble);
  Tensor x = start.kind == Drawn::uniform
                 ? (at::rand(like.sizes(), generator, options) * 2 - 1) * start.number
                 : at::randn(like.sizes(), generator, options) * start.number;
  if (start.zero_row >= 0 && x.dim() == 2 && start.zero_row < x.size(0)) x[start.zero_row].zero_();
  return x.to(like.scalar_type());
}

}  // namespace wide
