#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>

#include "engine/program.h"
#include "primitives/kernels/pointwise/activations.h"
#include "primitives/kernels/pooling/pool.h"

namespace wide {

/// What a kernel does to its results while they are in cache: a sum, an activation, a pooling and
/// an activation behind that, or only some of them. What is pooled is never in memory as a whole.
class Finish {
 public:
  /// `residual` lies in memory as the results do, which are `out` itself or what is pooled to it.
  /// `pool`: "none" or what a plan puts there (operator_traits.h). A relu alone in front is the
  /// kernel's own affair.
  Finish(c10::string_view activation, const std::optional<at::Tensor>& residual,
         const at::Tensor& out, c10::string_view pool = "none");

  /// Whether the kernel itself is to do a relu.
  bool relu() const { return relu_; }
  /// Whether there is anything else to do.
  bool exists() const { return before_pool() || pool_; }
  /// Whether there is something else to do before a pooling.
  bool before_pool() const { return early_ != nullptr || residual_ != nullptr; }
  const std::optional<Pooling>& pool() const { return pool_; }
  /// How many there are of what the kernel makes.
  int64_t results() const { return results_; }

  /// Where results [first, first + count) are to be put: their place in `out`, or else memory of
  /// this thread, in whole planes.
  float* place(int64_t first, int64_t count) const;
  /// Does the rest, with what was put there.
  void run(int64_t first, int64_t count) const;

  /// The sum and the activation alone, of results from `first` on that lie at `data`.
  void run_before_pool(float* data, int64_t first, int64_t count) const;
  /// `count` of what was pooled and lies at `data`: what comes behind.
  void run_behind_pool(float* data, int64_t count) const;

 private:
  bool relu_ = false;
  const chains::Code *early_ = nullptr, *late_ = nullptr;  // before the pooling, behind it
  const float* residual_ = nullptr;
  std::optional<Pooling> pool_;
  float* out_ = nullptr;
  int64_t results_ = 0;
};

/// Whether a Finish can do a pooling of these words to a result `[N, B, O, ...]` whose last axes
/// are the planes.
bool pools_planes(const std::string& pool_text, const Value& result);

}  // namespace wide
