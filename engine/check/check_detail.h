#pragma once
#include "engine/check/check.h"

// What the check of values and the check of random networks have in common.

namespace wide::detail {

/// The worst place of a comparison; `text` says it: "output 0 of model 3: relative error 0.12".
struct Deviation {
  double error = 0;
  std::string text;
};

/// "output 0", "update of running_mean": what the results of a program are called.
std::vector<std::string> result_names(const Program& single);

/// Of results `[N, ...]`. Where integers differ from `expected` they may equal those of `own`
/// (the separate models in their own dtype; empty: none): rounding decides an argmax.
/// `permutation`: model i of `got` is model permutation[i] of the others.
Deviation compare(const std::vector<std::string>& names, const Tensors& got,
                  const Tensors& expected, const Tensors& own = {}, const Tensor& permutation = {});

/// Nothing but the number, order, shape and dtype of the results; empty when they agree.
std::string compare_shapes(const std::vector<std::string>& names, const Tensors& got,
                           const Tensors& expected);

/// Same dtype, shape and bits.
bool same_bits(const Tensor& a, const Tensor& b);
/// Whether all models but `i` have the same bits.
bool same_bits_but(const Tensors& a, const Tensors& b, int64_t i);

/// The models that take a turn in being poisoned: all of a few, else first, middle and last.
std::vector<int64_t> models_to_poison(int64_t n);
/// An ensemble whose model i has NaN in all its own floating point tensors. They are overwritten
/// where they are, since copies of all would cost more than the run that they are for, and put back
/// bit for bit at the end of this object's life.
class Poisoned {
 public:
  Poisoned(const Ensemble& ensemble, int64_t i);
  ~Poisoned();
  Poisoned(const Poisoned&) = delete;
  Poisoned& operator=(const Poisoned&) = delete;
  const Ensemble& ensemble() const { return ensemble_; }

 private:
  Ensemble ensemble_;
  std::vector<std::pair<Tensor, Tensor>> rows_;  // in place, and what was there
};
/// A permutation that leaves no model where it was, and the ensemble in that order.
Tensor rotation(int64_t n);
Ensemble permute(const Ensemble& ensemble, const Tensor& permutation);

/// What the separate models draw with many seeds.
struct SeparateDraws {
  std::vector<Tensor> elements;  // by result: those that are looked at
  Tensors first;                 // whole results of the first seed
  Tensors drawn;                 // per result `[seeds, N, elements]`
};
/// Null when the network turns out to draw nothing that matters (dropout with p = 0), so that its
/// values can be checked.
std::shared_ptr<const SeparateDraws> draw_separate(const Program& single, const Ensemble& ensemble);

/// The check of a network that draws random numbers: `expected` has its draws.
Correctness check_random(const Program& single, const Ensemble& ensemble,
                         const WideFunction& candidate, double tolerance, bool masks_shared,
                         const Expected& expected);

}  // namespace wide::detail
