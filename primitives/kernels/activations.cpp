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
  // Not what loses NaN, what ATen calls by the same name and gives other numbers, nor gradients.
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

Finish::Finish(c10::string_view activation, const std::optional<at::Tensor>& residual,
               const at::Tensor& out)
    : out_(out.mutable_data_ptr<float>()) {
  TORCH_CHECK(
      !residual || (residual->sizes() == out.sizes() && residual->strides() == out.strides()),
      "wide::activations: residual does not lie as out ", out.sizes());
  if (residual) residual_ = residual->const_data_ptr<float>();
  relu_ = residual_ == nullptr && activation == "relu";
  if (!relu_) activation_ = find(activation);
}

void Finish::run(int64_t first, int64_t count) const {
  static const chains::Code sum = chains::parse("add x0 x1", 2);
  constexpr int64_t kBlock = 2048;  // of both: half of a first-level cache
  for (const int64_t end = first + count; first < end; first += kBlock) {
    float* data = out_ + first;
    const int64_t some = std::min(kBlock, end - first);
    if (residual_ != nullptr) {
      float* const slots[] = {data, const_cast<float*>(residual_ + first), data};
      chains::run_block(sum, slots, static_cast<size_t>(some));
    }
    if (activation_ != nullptr) activations::run(*activation_, data, some);
  }
}

}  // namespace wide::activations
