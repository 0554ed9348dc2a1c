#pragma once
#include <map>
#include <mutex>

#include "engine/lower/plan/cut.h"
#include "engine/widen/gradients.h"

namespace wide {

/// The forward pass of N models and its backward pass, as two programs. The caller owns what a
/// forward pass saves, so any number of passes may wait for their backward pass, in any order. It
/// is saved where gradients will be, as far as it is read before they are written. Nothing else is
/// held between calls. Several threads may call one; they take turns.
class GradientModel {
 public:
  /// `ensemble`: the network's tensors, then its cotangents, in the order of `what.form().bound`.
  /// `whole`: makes Program(n) of both passes for the models [begin, begin + n).
  GradientModel(const std::shared_ptr<WithGradients>& what, const Ensemble& ensemble,
                const ExecutorOptions& options, const MakeProgram& whole);

  struct Forward {
    Tensors outputs, updates;  // `[N, ...]`
    Tensors saved;             // for the backward pass: what is in no output
  };
  /// `bound`: the network's tensors, `[N, ...]` or shared.
  Forward forward(const Tensors& bound);
  /// Gradients of the tensors that `of()` lists, each with its tensor's sizes; undefined where no
  /// output with a defined cotangent depends on it. Only those of `bound` and `outputs` are needed
  /// that `reads` names. Writes gradients into the tensors of `saved`, or into copies if others
  /// hold them. An undefined cotangent stands for zeros.
  Tensors backward(const Tensors& bound, const Tensors& outputs, Tensors saved,
                   const Tensors& cotangents);

  const std::vector<size_t>& of() const { return what_->of(); }
  /// By output: whether its cotangent may be defined.
  bool takes(size_t output) const { return what_->cotangents()[output] >= 0; }
  const std::vector<bool>& differentiable() const { return differentiable_; }  // by output
  const std::vector<bool>& attached() const { return what_->attached(); }      // by update
  const std::vector<bool>& reads() const { return reads_; }                    // by bound tensor
  const std::vector<bool>& reads_output() const { return reads_output_; }      // by output
  int64_t saved_bytes() const { return saved_bytes_; }  // saved by a forward pass beside outputs
  int64_t bytes() const;                                // working memory
  /// About the bytes that a training step needs beside the network's tensors, on `threads` threads
  /// and with the ranges of `whole`, which runs both passes as one program. `allocated`:
  /// `whole.allocated_bytes()`.
  static int64_t step_bytes(const WithGradients& what, const Executor& whole, int threads,
                            int64_t allocated);
  std::shared_ptr<const SizeChoices> choices;  // CompiledModel::size_choices
  std::string plan_text() const;

 private:
  struct PerSize {
    Halves halves;
    std::vector<BufferPlace>
        places;        // by saved value: in a gradient's rows, or in a range's own block
    int64_t kept = 0;  // bytes of that block
  };
  /// Where a forward pass saves: gradients, by result of the backward pass, undefined where nothing
  /// is saved in them; then a block for the rest.
  using Saved = Tensors;

  ExecutorOptions with_arenas(ExecutorOptions options) const;
  Executor make_forward(const Ensemble& ensemble, const ExecutorOptions& options,
                        const MakeProgram& whole);
  Executor make_backward(const Ensemble& ensemble, const ExecutorOptions& options) const;
  void place_saved();
  Tensor new_gradient(size_t result) const;
  char* saved_at(const Saved& saved, const RangeAt& at, size_t k) const;
  Tensor saved_of_all(const Saved& saved, int64_t n, size_t k) const;
  Tensor sum_of_ranges(const Tensor& rows) const;

  const std::shared_ptr<WithGradients> what_;
  const int64_t n_;
  const std::vector<bool> shared_;
  const Arenas arenas_;
  std::vector<bool> differentiable_, reached_, reads_, reads_output_;
  std::map<int64_t, PerSize> sizes_;         // by models of a range
  std::map<int64_t, int64_t> range_offset_;  // by its first model: its part of the block
  int64_t saved_bytes_ = 0, block_bytes_ = 0;
  std::vector<size_t> results_of_;  // by result of the backward pass: which of `of()` it is
  std::vector<bool> saves_in_;      // by result of the backward pass
  std::vector<Value> results_;      // of all models: outputs, then updates
  std::mutex mutex_;                // both passes use the arenas
  Executor forward_, backward_;
};

}  // namespace wide
