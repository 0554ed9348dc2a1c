#pragma once
#include "engine/check/check.h"

// What the checks of values and of random networks, a sweep's estimates and the GPU report share.

namespace wide::detail {

/// The largest deviation; `text` describes it: "output 0 of model 3: relative error 0.12".
struct Deviation {
  double error = 0;
  std::string text;
};

/// "output 0", "update of running_mean": names of a program's results.
std::vector<std::string> result_names(const Program& single);

/// The largest deviation of results `[N, ...]` from `expected`, the same results computed in
/// float64, infinite if they are not comparable. Integer results
/// may equal those of `own` instead, the separate models' in their dtype (empty: unknown), since
/// rounding can change an argmax. `permutation`: model i of `got` is model permutation[i] of
/// `expected` and `own`.
Deviation compare(const std::vector<std::string>& names, const Tensors& got,
                  const Tensors& expected, const Tensors& own = {}, const Tensor& permutation = {});

/// Compares only the number, shapes and dtypes of the results. Returns the first difference as
/// text, "" if they agree.
std::string compare_shapes(const std::vector<std::string>& names, const Tensors& got,
                           const Tensors& expected);

/// Whether both have the same dtype, shape and bits.
bool same_bits(const Tensor& a, const Tensor& b);
/// Whether all models but `i` have the same bits.
bool same_bits_but(const Tensors& a, const Tensors& b, int64_t i);

/// The models whose isolation is tested with NaN weights and inputs: all if there are few, else the
/// first, the middle and the last.
std::vector<int64_t> models_to_poison(int64_t n);
/// An ensemble whose model i has NaN in all its own floating point and complex tensors. They are
/// overwritten in place where possible, since copying all would take longer than running the
/// program, and restored bit for bit by the destructor.
class Poisoned {
 public:
  Poisoned(const Ensemble& ensemble, int64_t i);
  ~Poisoned();
  Poisoned(const Poisoned&) = delete;
  Poisoned& operator=(const Poisoned&) = delete;
  const Ensemble& ensemble() const { return ensemble_; }

 private:
  Ensemble ensemble_;
  std::vector<std::pair<Tensor, Tensor>> rows_;  // the row in place, and its old values
};
/// `rotation`: a permutation that moves every model (n >= 2). `permute`: the ensemble in that
/// order.
Tensor rotation(int64_t n);
Ensemble permute(const Ensemble& ensemble, const Tensor& permutation);

}  // namespace wide::detail
