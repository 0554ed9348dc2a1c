#include "primitives/kernels/pointwise/activations.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>

#include "primitives/kernels/pointwise/chain_block.h"

namespace wide::activations {

namespace {

constexpr const char* kClamp = "hardtanh";  // ATen's other name for clamp

/// An activation as a chain's text: its numbers come after the operand.
std::string chain_of(const std::string& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string name = text.substr(0, end);
  return (name == kClamp ? "clamp" : name) + " x0" + text.substr(end);
}

}  // namespace

std::vector<std::string> names() {
  // Not usable: loses NaN (sign), differs from ATen's of that name (round), or is a gradient.
  static const std::set<std::string> others{
      "copy", "round", "sign", "gelu_slope", "silu_slope", "gelu_tanh_slope", "elu_slope"};
  std::vector<std::string> all{kClamp};
  for (const chains::OpRow& row : chains::rows())
    if (row.operands == 1 && !row.boolean && others.count(row.name) == 0)
      all.emplace_back(row.name);
  return all;
}

const chains::Code* find(c10::string_view text) {
  if (text == "none") return nullptr;
  return &chains::parsed(chain_of(std::string(text)), 1);
}

void run(const chains::Code& activation, float* data, int64_t count) {
  float* const slots[] = {data, data};
  chains::run_block(activation, slots, static_cast<size_t>(count));
}

void run(const chains::Code& activation, float* data, int64_t rows, int64_t columns,
         int64_t stride) {
  if (columns == stride) return run(activation, data, rows * columns);
  for (int64_t r = 0; r < rows; ++r) run(activation, data + r * stride, columns);
}

bool rises(const chains::Code& activation) {
  using chains::Op;
  static const std::set<Op> always{Op::relu,        Op::tanh, Op::sigmoid, Op::erf,
                                   Op::hardsigmoid, Op::exp,  Op::expm1,   Op::clamp};
  const chains::Instruction& only = activation.instructions.front();
  const auto& [a, b, c] = only.numbers;
  if (activation.instructions.size() != 1) return false;
  // A slope of zero would turn infinity into NaN. Beyond its threshold softplus drops to its
  // argument; from 20 on by less than rounding.
  return always.count(only.op) > 0 || (only.op == Op::leaky_relu && a > 0) ||
         (only.op == Op::elu && a >= 0 && b > 0 && c > 0) ||
         (only.op == Op::softplus && a > 0 && b >= 20);
}

}  // namespace wide::activations
