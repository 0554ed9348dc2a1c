#include "engine/measure/roofline.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace wide {
namespace {

constexpr double kExplains = 0.4;  // least share of the median for a bound to be named

double product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                         [](double a, int64_t b) { return a * static_cast<double>(b); });
}

struct Counts {
  CountFlops flops, computed;
};

std::map<std::string, Counts>& registered_flops() {
  static std::map<std::string, Counts> all;
  return all;
}

class NodeWork {
 public:
  NodeWork(const Program& program, const Node& node)
      : program_(program), node_(node), name_(node.name().substr(0, node.name().find('.'))) {}

  double flops() const {
    if (node_.is_view()) return 0;
    if (name_ == "aten::mm" || name_ == "aten::bmm") return product_of(0, 1);
    if (name_ == "aten::addmm" || name_ == "aten::baddbmm") return product_of(1, 2);
    // Products with a vector: each element of the larger operand is multiplied and added once.
    if (name_ == "aten::mv" || name_ == "aten::dot") return 2 * product(argument(0));
    if (name_ == "aten::addmv") return 2 * product(argument(1));
    if (name_ == "aten::convolution") return convolution(result(0), argument(1), argument(0), 6);
    if (name_ == "aten::convolution_backward") return convolution_backward();
    if (name_.rfind("aten::_scaled_dot_product", 0) == 0) return attention();
    const auto own = registered_flops().find(name_);
    if (own != registered_flops().end()) return own->second.flops(program_, node_);
    return node_.op.hasTag(at::Tag::reduction) ? product(argument(0)) : elements();
  }

  /// FLOPs that the kernel executes; 0 where they are those of the definition.
  double computed() const {
    const auto own = registered_flops().find(name_);
    const bool known = own != registered_flops().end() && own->second.computed;
    return known ? own->second.computed(program_, node_) : 0;
  }

 private:
  Sizes argument(size_t i) const { return sizes(node_.arguments, i); }
  Sizes result(size_t i) const { return sizes(node_.results, i); }
  Sizes sizes(const std::vector<Argument>& from, size_t i) const {
    if (i >= from.size() || from[i].kind != Argument::Kind::value || from[i].values[0] == kNone)
      return {};
    return program_.value(from[i].values[0]).sizes;
  }

  // [.., M, K] x [.., K, N]
  double product_of(size_t left, size_t right) const {
    const Sizes a = argument(left), b = argument(right);
    return a.empty() || b.empty() ? 0 : 2 * product(a) * static_cast<double>(b.back());
  }

  // Each element of the output (of the input, if transposed) is multiplied with each weight of its
  // channel once. `transposed`: the position of that argument.
  double convolution(const Sizes& out, const Sizes& weight, const Sizes& in,
                     size_t transposed) const {
    if (out.empty() || weight.empty()) return 0;
    const IValue& is_transposed = node_.arguments[transposed].constant;
    const Sizes& side = is_transposed.isBool() && is_transposed.toBool() ? in : out;
    return side.empty() ? 0 : 2 * product(side) * product(weight) / static_cast<double>(weight[0]);
  }

  double convolution_backward() const {
    const double one = convolution(argument(0), argument(2), argument(1), 7);
    return (result(0).empty() ? 0 : one) + (result(1).empty() ? 0 : one);
  }

  // Forward: Q Kᵀ and P V; backward: five products of the same size.
  double attention() const {
    const bool backward = name_.find("backward") != std::string::npos;
    const Sizes query = argument(backward ? 1 : 0), key = argument(backward ? 2 : 1);
    if (query.size() < 2 || key.size() < 2) return elements();
    const double one = 2 * product(query) * static_cast<double>(key[key.size() - 2]);
    return one * (backward ? 5 : 2);
  }

  double elements() const {
    double sum = 0;
    for_each_value(node_.results,
                   [&](ValueId id) { sum += static_cast<double>(program_.value(id).numel()); });
    return sum;
  }

  const Program& program_;
  const Node& node_;
  std::string name_;
};

}  // namespace

WorkLoad count_work(const Program& single, int64_t n, const std::vector<bool>& shared) {
  WorkLoad load;
  const auto models = static_cast<double>(n);
  for (const Node& node : single.nodes) load.flops += models * NodeWork(single, node).flops();
  const auto bytes = [&](ValueId id) { return static_cast<double>(single.value(id).bytes()); };
  const ByValue<int32_t> uses = single.uses();
  for (size_t i = 0; i < single.bound.size(); ++i)
    if (uses[single.bound[i]] > 0)
      load.bytes += bytes(single.bound[i]) * (i < shared.size() && shared[i] ? 1 : models);
  for (const ValueId id : single.results()) load.bytes += models * bytes(id);
  return load;
}

Traffic count_traffic(const Program& program) {
  Traffic traffic;
  for (const Node& node : program.nodes) {
    if (node.phase == Phase::prologue || node.is_view()) continue;
    ++traffic.operators;
    const StepWork work = work_of(program, node);
    traffic.flops += work.flops;
    traffic.bytes += work.bytes;
  }
  double data = 0;
  for (const ValueId id : program.bound) data += static_cast<double>(program.value(id).bytes());
  for (const ValueId id : program.outputs) data += static_cast<double>(program.value(id).bytes());
  traffic.passes = data > 0 ? traffic.bytes / data : 0;
  return traffic;
}

double estimate_ns(const Program& program, const Peaks& peaks) {
  const double flops_per_s = peaks.flops_per_s.at(at::kFloat);
  double ns = 0;
  for (const Node& node : program.nodes) {
    if (node.phase == Phase::prologue || node.is_view()) continue;
    const StepWork work = work_of(program, node);
    const double flops = work.computed_flops > 0 ? work.computed_flops : work.flops;
    ns += peaks.step_ns +
          1e9 * std::max(flops / flops_per_s, work.bytes / peaks.bytes_per_s(work.bytes));
  }
  return ns;
}

void judge(Timing& timing, const WorkLoad& load, const Peaks& peaks, at::ScalarType dtype,
           double parallel_steps) {
  timing.flops = load.flops;
  timing.bytes = load.bytes;
  if (!(timing.median_ns > 0)) return;
  const double seconds = timing.median_ns * 1e-9;
  const auto peak = peaks.flops_per_s.find(dtype);
  if (peak != peaks.flops_per_s.end() && peak->second > 0)
    timing.flops_share = load.flops / seconds / peak->second;
  if (peak != peaks.flops_per_s.end() && peak->second > 0)
    timing.computed_share = timing.computed_flops / seconds / peak->second;
  const double bandwidth = peaks.bytes_per_s(load.bytes);
  if (bandwidth > 0) timing.bytes_share = load.bytes / seconds / bandwidth;
  const double launches = static_cast<double>(timing.steps) / std::max(1.0, parallel_steps);
  const std::array<std::pair<const char*, double>, 3> bounds{
      {{"compute", timing.flops_share},
       {"memory", timing.bytes_share},
       {"launch", launches * peaks.step_ns / timing.median_ns}}};
  const auto* largest =
      std::max_element(bounds.begin(), bounds.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  timing.bound = largest->second >= kExplains ? largest->first : "unknown";
}

bool add_flops(const std::string& op, CountFlops flops, CountFlops computed) {
  return registered_flops().emplace(op, Counts{std::move(flops), std::move(computed)}).second;
}

StepWork work_of(const Program& program, const Node& node) {
  const NodeWork counted(program, node);
  StepWork work{counted.flops(), counted.computed(), 0};
  const auto add = [&](ValueId id) {
    work.bytes += static_cast<double>(program.value(id).bytes());
  };
  for_each_value(node.arguments, add);
  for_each_value(node.results, add);
  return work;
}

}  // namespace wide
