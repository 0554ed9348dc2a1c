#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>

#include "engine/program.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/pooling/pool.h"

namespace wide {

/// A kernel's epilogue, on results that are still in cache: add a residual, activate, pool, and
/// activate again, each optional. The results before pooling are never stored as a whole.
class KernelEpilogue {
 public:
  /// `residual` has the layout of the results, which are `out` or, with a pooling, larger. `pool`:
  /// "none" or the text that the plan sets (operator_traits.h). The kernel itself computes a relu
  /// that comes first.
  KernelEpilogue(c10::string_view activation, const std::optional<at::Tensor>& residual,
                 const at::Tensor& out, c10::string_view pool = "none");

  /// Whether the kernel itself must compute a relu.
  bool relu() const { return relu_; }
  /// Whether the epilogue does anything beside that relu.
  bool exists() const { return before_pool() || pool_; }
  /// Whether the epilogue does anything before a pooling.
  bool before_pool() const { return early_ != nullptr || residual_ != nullptr; }
  const std::optional<Pooling>& pool() const { return pool_; }
  /// The number of results that the kernel computes.
  int64_t results() const { return results_; }

  /// Where the kernel must store results [first, first + count): in `out`, or, with a pooling, in
  /// the thread's memory, in whole planes.
  float* place(int64_t first, int64_t count) const;
  /// Runs the epilogue on results stored at `place`.
  void run(int64_t first, int64_t count) const;

  /// Runs only the residual's sum and the first activation, on results from `first` on at `data`.
  void run_before_pool(float* data, int64_t first, int64_t count) const;
  /// Runs the activation after the pooling on `count` pooled values at `data`.
  void run_behind_pool(float* data, int64_t count) const;

 private:
  bool relu_ = false;
  const chains::Code *early_ = nullptr, *late_ = nullptr;  // before the pooling, after it
  const float* residual_ = nullptr;
  std::optional<Pooling> pool_;
  float* out_ = nullptr;
  int64_t results_ = 0;
};

/// Whether a KernelEpilogue can pool, by this text, a result `[N, B, O, ...]` whose last axes are
/// planes.
bool pools_planes(const std::string& pool_text, const Value& result);

}  // namespace wide
