#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "primitives/kernels/chain_code.h"

/// What a kernel does to its results while they are in cache: a sum, then an activation. Accurate
/// as chains are (vector_math.h); NaN stays NaN.
namespace wide::activations {

/// The instruction of an activation by the text that `activation_text`
/// (engine/lower/operator_traits.h) gives it, such as "gelu" or "elu 1 1 1"; null for "none",
/// throws c10::Error for any other. Lives as long as the thread.
const chains::Code* find(c10::string_view text);
/// First words of the texts that there are.
std::vector<std::string> names();

/// A sum, or none, and an activation behind it, for blocks of a result while they are in cache.
class Finish {
 public:
  /// `residual` lies in memory as the result `out` does. A relu alone is the kernel's own affair.
  Finish(c10::string_view activation, const std::optional<at::Tensor>& residual,
         const at::Tensor& out);
  /// Whether the kernel itself is to do a relu.
  bool relu() const { return relu_; }
  bool exists() const { return activation_ != nullptr || residual_ != nullptr; }
  /// Results [first, first + count) of the tensor.
  void run(int64_t first, int64_t count) const;

 private:
  bool relu_ = false;
  const chains::Code* activation_ = nullptr;
  const float* residual_ = nullptr;
  float* out_ = nullptr;
};

/// In place.
void run(const chains::Code& activation, float* data, int64_t count);
/// In place, `rows` of `columns` floats each, `stride` floats apart.
void run(const chains::Code& activation, float* data, int64_t rows, int64_t columns,
         int64_t stride);

}  // namespace wide::activations
