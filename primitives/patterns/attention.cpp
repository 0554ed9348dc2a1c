#include "primitives/patterns/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace wide {

bool AttentionConfig::finite_fill() const { return fill && std::isfinite(*fill); }

std::string AttentionConfig::text() const {
  const auto number = [](const std::optional<double>& x) {
    return x ? fmt::format("{}", *x) : std::string("-");
  };
  return fmt::format("causal={} gqa={} dropout={} scale={} keys={} fill={}", causal ? 1 : 0,
                     grouped_queries ? 1 : 0, dropout, number(scale), keys_transposed ? "DS" : "SD",
                     number(fill));
}

Tensor aligned_mask(const WideCall& call) {
  const Tensor& mask = call.inputs[3];
  if (!mask.defined()) return {};
  const int64_t rank = call.inputs[0].dim();
  Sizes sizes(static_cast<size_t>(rank), 1);
  sizes[0] = call.n;
  for (int64_t k = 1; k < mask.dim(); ++k)
    sizes[static_cast<size_t>(rank - k)] = mask.size(mask.dim() - k);
  return mask.reshape(sizes);
}

Tensor folded_mask(const WideCall& call, const Tensor& aligned) {
  if (!aligned.defined()) return {};
  if (call.shared[3] && aligned.size(1) == 1) return aligned.select(0, 0);
  Sizes sizes = aligned.sizes().vec();
  sizes[1] = call.inputs[0].size(1);
  return aligned.expand(sizes).flatten(0, 1);
}

namespace {

constexpr double kNothing = -1e4;  // exp of smaller numbers is 0, also in float64

/// The node, one of `ops`, that made a value.
template <size_t count>
std::optional<size_t> maker(const PatternView& view, ValueId id,
                            const std::array<const char*, count>& ops) {
  for (const char* op : ops)
    if (const auto node = view.made_by(id, op)) return node;
  return std::nullopt;
}

/// Whether a permutation only moves axes of size 1.
bool moves_ones_alone(const CallView& call, bool transpose) {
  const Sizes& sizes = call.value(0).sizes;
  const auto rank = static_cast<int64_t>(sizes.size());
  Sizes order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const auto axis = [&](int64_t i) { return static_cast<size_t>(i < 0 ? i + rank : i); };
  if (transpose) {
    const auto number = [&](size_t i) { return axis(static_cast<int64_t>(call.number(i, 0))); };
    std::swap(order[number(1)], order[number(2)]);
  } else {
    order = call.ints(1);
  }
  int64_t last = -1;
  for (const int64_t i : order) {
    if (sizes[axis(i)] == 1) continue;
    const auto at = static_cast<int64_t>(axis(i));
    if (at < last) return false;
    last = at;
  }
  return true;
}

/// The node that made a value, if it keeps the elements of its first argument in their order.
std::optional<size_t> regroups(const PatternView& view, ValueId id) {
  static constexpr std::array ops{"aten::view",      "aten::_unsafe_view", "aten::clone",
                                  "aten::unsqueeze", "aten::squeeze",      "aten::alias",
                                  "aten::expand",    "aten::permute",      "aten::transpose"};
  const auto node = maker(view, id, ops);
  if (!node) return std::nullopt;
  const CallView call = view.call(*node);
  const std::string& op = view.node(*node).op.schema().operator_name().name;
  if (call.value(0).numel() != view.meta(id).numel()) return std::nullopt;
  if (op == "aten::permute" && !moves_ones_alone(call, false)) return std::nullopt;
  if (op == "aten::transpose" && !moves_ones_alone(call, true)) return std::nullopt;
  return node;
}

/// Whether a mask is causal by the operators that made it, such as triu of ones. `id` is true where
/// scores are replaced (`fills`), or is added to them.
bool is_causal(const PatternView& view, ValueId id, bool fills) {
  const auto filled = [&](ValueId matrix, double* with) {
    if (view.made_by(matrix, "aten::ones")) return *with = 1, true;
    const auto full = view.made_by(matrix, "aten::full");
    const auto number = full ? view.number(*full, 1) : std::nullopt;
    if (number) *with = *number;
    return number.has_value();
  };
  const auto triangle = [&](ValueId matrix, const char* op, int64_t diagonal, double* with) {
    const auto node = view.made_by(matrix, op);
    return node && view.call(*node).number(1, 0) == static_cast<double>(diagonal) &&
           view.meta(matrix).sizes.size() == 2 && filled(view.call(*node).id(0), with);
  };
  while (const auto node = regroups(view, id)) id = view.call(*node).id(0);
  double with = 0;
  if (!fills) return triangle(id, "aten::triu", 1, &with) && with <= kNothing;
  if (const auto cast = view.made_by(id, "aten::_to_copy"))
    if (view.meta(id).dtype == at::kBool) id = view.call(*cast).id(0);
  if (triangle(id, "aten::triu", 1, &with)) return with != 0;
  if (const auto zero = view.made_by(id, "aten::eq"))
    return view.number(*zero, 1) == 0.0 &&
           triangle(view.call(*zero).id(0), "aten::tril", 0, &with) && with != 0;
  static constexpr std::array nots{"aten::logical_not", "aten::bitwise_not"};
  const auto inverse = maker(view, id, nots);
  if (!inverse || view.meta(id).dtype != at::kBool) return false;
  return triangle(view.call(*inverse).id(0), "aten::tril", 0, &with) && with != 0;
}

class WrittenOut {
 public:
  explicit WrittenOut(const PatternView& view) : view_(view) { config_.scale = 1.0; }

  /// Matches backwards from the product of softmax and values; `heads`: the result's sizes, if
  /// split.
  std::optional<Matched> match(size_t product, const Sizes* heads) {
    const CallView call = view_.call(product);
    ValueId values = call.id(1);
    const auto softmax = view_.made_by(walk(call.id(0)), "aten::_softmax");
    if (!softmax) return std::nullopt;
    nodes_.push_back(*softmax);
    const CallView soft = view_.call(*softmax);
    const Sizes& sizes = soft.value(0).sizes;
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    const auto dim = static_cast<int64_t>(soft.number(1, 0));
    if ((dim != -1 && dim != last) || sizes.back() != view_.meta(values).sizes[1] ||
        soft.value(0).dtype != view_.meta(values).dtype || !scores(soft.id(0)))
      return std::nullopt;
    const CallView first = view_.call(scores_);
    ValueId q = first.id(0), k = first.id(1);
    const ValueId made = view_.node(scores_).results[0].values[0];
    if (view_.meta(made).sizes != call.value(0).sizes) return std::nullopt;
    if (heads != nullptr && !with_heads(*heads, &q, &k, &values)) return std::nullopt;
    if (const auto swap = swapped(k)) {
      nodes_.push_back(*swap);
      k = view_.call(*swap).id(0);
    } else {
      config_.keys_transposed = true;
    }
    if (mask_ != kNone) {
      Sizes expected = view_.meta(q).sizes;
      expected.back() = sizes.back();
      if (view_.meta(mask_).sizes.size() > 2 && mask_of_ != expected) return std::nullopt;
    }
    std::ranges::sort(nodes_);  // nodes shared by q and k are there twice
    nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
    return Matched{{config_, {q, k, values, mask_}, {0}}, nodes_};
  }

 private:
  /// Goes back through copies and views that keep the order.
  ValueId walk(ValueId id) {
    while (const auto node = regroups(view_, id)) {
      nodes_.push_back(*node);
      id = view_.call(*node).id(0);
    }
    return id;
  }

  /// Matches from the softmax's input back to the product of q and k.
  bool scores(ValueId id) {
    const size_t before = nodes_.size();
    id = walk(id);
    if (const auto product = view_.made_by(id, "aten::bmm")) {
      nodes_.push_back(*product);
      scores_ = *product;
      return true;
    }
    static constexpr std::array ops{"aten::mul", "aten::div", "aten::add", "aten::masked_fill",
                                    "aten::where"};
    const auto node = maker(view_, id, ops);
    if (node) nodes_.push_back(*node);
    const AttentionConfig config = config_;
    if (node && step(*node)) return true;
    config_ = config;
    nodes_.resize(before);
    return false;
  }

  bool step(size_t node) {
    const CallView call = view_.call(node);
    const std::string& op = view_.node(node).op.schema().operator_name().name;
    if (op == "aten::mul" || op == "aten::div") {
      const auto by = view_.number(node, 1);
      if (!by || (op == "aten::div" && call.size() > 2)) return false;  // div with rounding
      *config_.scale = op == "aten::mul" ? *config_.scale * *by : *config_.scale / *by;
      return scores(call.id(0));
    }
    if (mask_ != kNone || config_.causal) return false;
    if (op == "aten::masked_fill") return filled(node, call.id(1), call.id(0), 2);
    if (op == "aten::where") return filled(node, call.id(0), call.id(2), 1);
    // A mask added before the scale would be scaled too.
    if (*config_.scale != 1.0 || !call.is_tensor(1) || call.number(2, 1) != 1) return false;
    for (const size_t mask : {size_t{1}, size_t{0}}) {
      if (call.value(mask).dtype != view_.meta(call.id(1 - mask)).dtype) continue;
      mask_ = call.id(mask);
      mask_of_ = call.value(1 - mask).sizes;
      if (scores(call.id(1 - mask))) {
        if (is_causal(view_, mask_, false)) mask_ = kNone, config_.causal = true;
        return true;
      }
      mask_ = kNone;
    }
    return false;
  }

  /// Matches a fill: scores become argument `number` of the node where `mask` is true.
  bool filled(size_t node, ValueId mask, ValueId inner, size_t number) {
    auto fill = view_.number(node, number);
    if (!fill && view_.call(node).is_tensor(number)) fill = number_of(view_.call(node).id(number));
    if (!fill || view_.meta(mask).dtype != at::kBool || *config_.scale <= 0) return false;
    const double scaled = *fill * *config_.scale;
    config_.causal = scaled <= kNothing && is_causal(view_, mask, true);
    if (!config_.causal) {
      config_.fill = scaled;
      mask_ = mask;
      mask_of_ = view_.meta(inner).sizes;
    }
    return scores(inner);
  }

  /// The value of a one-element tensor made from a number.
  std::optional<double> number_of(ValueId id) const {
    if (view_.meta(id).numel() != 1) return std::nullopt;
    if (const auto copy = view_.made_by(id, "aten::clone")) return view_.number(*copy, 0);
    const auto full = view_.made_by(id, "aten::full");
    return full ? view_.number(*full, 1) : std::nullopt;
  }

  /// The node that transposed k: its last two axes and nothing else.
  std::optional<size_t> swapped(ValueId id) const {
    const auto node = view_.made_by(id, "aten::transpose");
    if (!node) return std::nullopt;
    const CallView call = view_.call(*node);
    const auto rank = static_cast<int64_t>(call.value(0).sizes.size());
    Sizes axes{static_cast<int64_t>(call.number(1, 0)), static_cast<int64_t>(call.number(2, 0))};
    for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    const bool last_two = axes[0] + axes[1] == 2 * rank - 3 && axes[0] != axes[1] &&
                          std::min(axes[0], axes[1]) == rank - 2;
    return last_two ? node : std::nullopt;
  }

  /// Replaces the operands by those before batch and heads were merged for bmm.
  bool with_heads(const Sizes& result, ValueId* q, ValueId* k, ValueId* v) {
    for (ValueId* id : {q, k, v}) {
      const Sizes flat = view_.meta(*id).sizes;
      const Sizes apart{result[0], result[1], flat[1], flat[2]};
      while (view_.meta(*id).sizes != apart) {
        const auto node = regroups(view_, *id);
        if (!node) return false;
        nodes_.push_back(*node);
        *id = view_.call(*node).id(0);
      }
      static constexpr std::array copies{"aten::clone", "aten::expand"};
      for (auto node = maker(view_, *id, copies); node && view_.call(*node).value(0).sizes == apart;
           node = maker(view_, *id, copies)) {
        nodes_.push_back(*node);
        *id = view_.call(*node).id(0);
      }
    }
    return true;
  }

  const PatternView& view_;
  AttentionConfig config_;
  std::vector<size_t> nodes_;
  size_t scores_ = 0;
  ValueId mask_ = kNone;
  Sizes mask_of_;  // sizes of the scores under the mask
};

std::optional<Matched> match_product(const PatternView& view, size_t node) {
  return WrittenOut(view).match(node, nullptr);
}

/// Matches a view of the product `[BH, T, E]` as the result with heads, `[B, H, T, E]`.
std::optional<Matched> match_heads(const PatternView& view, size_t node) {
  const Sizes& sizes = view.meta(view.node(node).results[0].values[0]).sizes;
  const auto product = view.made_by(view.call(node).id(0), "aten::bmm");
  if (!product || sizes.size() != 4) return std::nullopt;
  const Sizes& flat = view.call(node).value(0).sizes;
  if (sizes[0] * sizes[1] != flat[0] || sizes[2] != flat[1]) return std::nullopt;
  auto matched = WrittenOut(view).match(*product, &sizes);
  if (matched) matched->nodes.push_back(*product);
  return matched;
}

}  // namespace

std::vector<Pattern> attention_written_out() {
  return {{"aten::_unsafe_view", match_heads},
          {"aten::view", match_heads},
          {"aten::bmm", match_product}};
}

}  // namespace wide
