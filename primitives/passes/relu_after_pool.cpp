// Moves a relu before a max pool behind it, if gradients are computed. max(relu(x)) is
// relu(max(x)), and a window's gradient goes to the same element wherever relu passes it. So relu
// and its gradient work on the pool's results instead of the larger x, and relu(x) is not kept from
// the forward pass for the backward pass.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/lower/plan/uses.h"
#include "engine/passes/pass.h"

namespace wide::relu_after_pool_pass {
namespace {

/// Positions of nodes: relu, the pool that reads it, and the gradients of both.
struct Found {
  size_t relu = 0, pool = 0, of_pool = 0, of_relu = 0;
};

class Moves {
 public:
  explicit Moves(Program& program) : program_(program) {}

  std::string run() {
    int64_t moved = 0;
    while (const std::optional<Found> found = next()) {
      move(*found);
      ++moved;
    }
    if (moved == 0) return "moved nothing";
    program_.regions.clear();  // regions hold node indices
    return fmt::format("moved {} relus behind max pools", moved);
  }

 private:
  const Node& node(size_t i) const { return program_.nodes[i]; }
  const Value& value(ValueId id) const { return program_.value(id); }
  bool is(size_t i, const char* name) const { return node(i).name() == name; }
  ValueId result(size_t i) const { return node(i).results[0].values[0]; }
  /// The value of argument k, or kNone.
  ValueId operand(size_t i, size_t k = 0) const {
    const Argument& a = node(i).arguments[k];
    return a.kind == Argument::Kind::value ? a.values[0] : kNone;
  }
  /// Whether the node only moves its first argument's elements.
  bool rearranges(size_t i) const { return node(i).is_view() || is(i, "aten::clone"); }

  std::optional<Found> next() {
    uses_ = program_.uses();
    producers_ = program_.producers();
    for (size_t i = 0; i < program_.nodes.size(); ++i)
      if (is(i, "aten::relu"))
        if (auto found = found_at(i)) return found;
    return std::nullopt;
  }

  /// Nodes that read a value; empty if it is also a result or read in a list.
  std::vector<size_t> readers(ValueId id) const {
    std::vector<size_t> all;
    for (size_t i = 0; i < program_.nodes.size(); ++i)
      for (size_t k = 0; k < node(i).arguments.size(); ++k)
        if (operand(i, k) == id) all.push_back(i);
    return static_cast<int32_t>(all.size()) == uses_[id] ? all : std::vector<size_t>();
  }

  std::optional<Found> found_at(size_t relu) const {
    Found found;
    found.relu = relu;
    const ValueId r = result(relu);
    if (!same_layout(value(operand(relu)), value(r))) return std::nullopt;
    for (ValueId at = r; found.pool == 0;) {
      ValueId onward = kNone;
      for (const size_t i : readers(at)) {
        const bool alone = operand(i) == at && onward == kNone && found.pool == 0;
        if (at == r && is(i, "aten::threshold_backward") && operand(i, 1) == r && !found.of_relu)
          found.of_relu = i;
        else if (is(i, "aten::max_pool2d_with_indices_backward") && operand(i, 1) == at &&
                 !found.of_pool)
          found.of_pool = i;
        else if (is(i, "aten::max_pool2d_with_indices") && alone)
          found.pool = i;
        else if (rearranges(i) && alone)
          onward = result(i);
        else
          return std::nullopt;
      }
      if (onward == kNone && found.pool == 0) return std::nullopt;
      at = onward;
    }
    return gradients_fit(found) ? std::optional(found) : std::nullopt;
  }

  /// Whether only relu's gradient reads the pool's gradient, and only the pool's gradient reads the
  /// pool's indices, which change for windows below 0 when relu moves.
  bool gradients_fit(const Found& found) const {
    const ValueId indices = node(found.pool).results[1].values[0];
    if (found.of_pool == 0 || found.of_relu == 0 || operand(found.of_pool, 7) != indices ||
        uses_[indices] != 1 || node(found.of_relu).arguments[2].constant.toScalar().toDouble() != 0)
      return false;
    ValueId g = operand(found.of_relu);
    if (g == kNone || !same_layout(value(g), value(result(found.of_relu)))) return false;
    while (uses_[g] == 1 && producers_[g] >= 0 && rearranges(made_by(g))) g = operand(made_by(g));
    return uses_[g] == 1 && made_by(g) == found.of_pool;
  }

  size_t made_by(ValueId id) const { return static_cast<size_t>(producers_[id]); }

  void move(const Found& found) {
    Node &relu = program_.nodes[found.relu], &pool = program_.nodes[found.pool],
         &of_pool = program_.nodes[found.of_pool], &of_relu = program_.nodes[found.of_relu];
    const ValueId pooled = pool.results[0].values[0];
    const ValueId greatest = program_.add_value(value(pooled)),
                  masked = program_.add_value(value(pooled));
    program_.replace_uses(of_relu.results[0].values[0], of_relu.arguments[0].values[0]);
    program_.replace_uses(relu.results[0].values[0], relu.arguments[0].values[0]);
    of_relu.arguments[0] = of_pool.arguments[0];
    of_relu.arguments[1] = Argument::of_value(pooled);
    of_relu.results[0] = of_pool.arguments[0] = Argument::of_value(masked);
    pool.results[0] = relu.arguments[0] = Argument::of_value(greatest);
    relu.results[0] = Argument::of_value(pooled);
    const auto at = [&](size_t i) {
      return program_.nodes.begin() + static_cast<std::ptrdiff_t>(i);
    };
    std::rotate(at(found.of_pool), at(found.of_relu), at(found.of_relu + 1));
    std::rotate(at(found.relu), at(found.relu + 1), at(found.pool + 1));
  }

  Program& program_;
  ByValue<int32_t> uses_, producers_;
};

[[maybe_unused]] const bool registered =
    add_pass({"relu-after-pool", "relu behind max pools whose gradient is asked for",
              Stage::program, 92, [](Program& program) { return Moves(program).run(); }});

}  // namespace
}  // namespace wide::relu_after_pool_pass
