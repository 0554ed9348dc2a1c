#pragma once
#include <map>
#include <mutex>

#include "engine/lower/plan/cut.h"
#include "engine/widen/gradients.h"

namespace wide {

/// Memory that is reused once its earlier users have released it.
class KeptMemory {
 public:
  Tensor next(c10::IntArrayRef sizes, const at::TensorOptions& options);

 private:
  static constexpr size_t kMost = 4;  // pieces kept for later calls
  Tensors pieces_;
};

/// The forward pass of N models and its backward pass, as two programs. The caller owns what a
/// forward pass saves, so any number of passes may wait for their backward pass, in any order.
/// Several threads may call one; they take turns.
class GradientModel {
 public:
  /// `ensemble`: the network's tensors, then its cotangents, in the order of `what.form().bound`.
  /// `whole`: makes Program(n) of both passes for the models [begin, begin + n).
  GradientModel(const std::shared_ptr<WithGradients>& what, const Ensemble& ensemble,
                const ExecutorOptions& options, const MakeProgram& whole);

  struct Forward {
    Tensors outputs, updates;  // `[N, ...]`
    Tensor saved;              // for the backward pass: saved values that are no output
  };
  /// `bound`: the network's tensors, `[N, ...]` or shared.
  Forward forward(const Tensors& bound);
  /// Gradients of the tensors that `of()` lists, each with its tensor's sizes; undefined if no
  /// output depends on the tensor. Only tensors of `bound` and `outputs` for which `reads` and
  /// `reads_output` are true are needed. An undefined cotangent stands for zeros.
  Tensors backward(const Tensors& bound, const Tensors& outputs, const Tensor& saved,
                   const Tensors& cotangents);

  const std::vector<size_t>& of() const { return what_->of(); }
  /// By output: whether its cotangent may be defined.
  bool takes(size_t output) const { return what_->cotangents()[output] >= 0; }
  const std::vector<bool>& differentiable() const { return differentiable_; }  // by output
  const std::vector<bool>& reads() const { return reads_; }                    // by bound tensor
  const std::vector<bool>& reads_output() const { return reads_output_; }      // by output
  int64_t saved_bytes() const { return saved_bytes_; }  // saved by a forward pass beside outputs
  int64_t bytes() const;                                // working memory
  std::shared_ptr<const SizeChoices> choices;           // CompiledModel::size_choices
  std::string plan_text() const;

 private:
  struct PerSize {
    Halves halves;
    std::vector<int64_t> offsets;  // of saved values, in a range or the whole
    int64_t bytes = 0;             // saved by a range
  };

  ExecutorOptions with_arenas(ExecutorOptions options) const;
  Executor make_forward(const Ensemble& ensemble, const ExecutorOptions& options,
                        const MakeProgram& whole);
  Executor make_backward(const Ensemble& ensemble, const ExecutorOptions& options) const;
  char* saved_at(const Tensor& saved, const RangeAt& at, size_t k) const;
  Tensor saved_of_all(const Tensor& saved, int64_t n, size_t k) const;
  Tensor sum_of_ranges(const Tensor& rows) const;

  const std::shared_ptr<WithGradients> what_;
  const int64_t n_;
  const std::vector<bool> shared_;
  const Arenas arenas_;
  std::vector<bool> differentiable_, reached_, reads_, reads_output_;
  std::map<int64_t, PerSize> sizes_;         // by models of a range
  std::map<int64_t, int64_t> range_offset_;  // by the range's first model
  int64_t saved_bytes_ = 0;
  std::vector<Value> results_;  // of all models: outputs, then updates
  std::mutex mutex_;            // both passes use the arenas
  KeptMemory saved_memory_;
  std::vector<KeptMemory> result_memory_, gradient_memory_;
  Executor forward_, backward_;
};

}  // namespace wide
