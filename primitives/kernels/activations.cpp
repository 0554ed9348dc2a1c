#include "primitives/kernels/activations.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>

#include "primitives/kernels/chain_block.h"

namespace wide::activations {

namespace {

constexpr const char* kClamp = "hardtanh";  // ATen's other name of a clamp

/// The chain of an activation: its numbers stand behind the operand.
std::string chain_of(const std::string& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string name = text.substr(0, end);
  return (name == kClamp ? "clamp" : name) + " x0" + text.substr(end);
}

}  // namespace

std::vector<std::string> names() {
  // Not what loses NaN, nor what ATen calls by the same name and gives other numbers.
  static const std::set<std::string> others{"copy", "round", "sign"};
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

void add(float* data, const float* more, int64_t count) {
  static const chains::Code sum = chains::parse("add x0 x1", 2);
  float* const slots[] = {data, const_cast<float*>(more), data};
  chains::run_block(sum, slots, static_cast<size_t>(count));
}

}  // namespace wide::activations
