#pragma once
#include "engine/lower/memory/arena.h"
#include "engine/lower/memory/out_variant.h"
#include "engine/lower/plan/epilogue.h"
#include "engine/lower/plan/operator_traits.h"
#include "engine/lower/plan/plan.h"

namespace wide {

/// Makes a Plan: decides for every node of main whether it is a view made once, an out-form into
/// the arena or an output, a packed call, or a call whose fresh result is held until its
/// last use.
class PlanBuilder {
 public:
  PlanBuilder(Plan& plan, const Program& program,
              const std::unordered_map<ValueId, Tensor>& prologue, const PlanOptions& options);
  void build();
  /// Instead of `build`: only places the results.
  Plan::Memory memory();

 private:
  static constexpr int32_t kNoBuffer = -1;

  void place_results();
  void find_outside();
  void choose_forms();
  void absorb_epilogues();
  void choose_outputs();
  void share_buffers();
  void find_lent();
  void make_arena();
  void make_steps();
  void make_copies();

  /// Values that a node's step makes: its results, or the pooled ones.
  std::vector<ValueId> made_by(size_t position) const;
  const Value& value(ValueId id) const { return program_.value(id); }
  Tensor& slot(ValueId id) { return slots_[static_cast<size_t>(id)]; }
  Tensor tensor(ValueId id);
  const Node& node(size_t position) const { return program_.nodes[main_[position]]; }
  std::shared_ptr<const PackedCall> packed(size_t position, const std::string& activation);
  size_t add_window(const Value& v);
  void add_step(size_t node);
  StepWork work_of(size_t position) const;
  std::string add_epilogue(size_t position, Stack& stack);

  Plan& plan_;
  const Program& program_;
  const std::unordered_map<ValueId, Tensor>& prologue_;
  PlanOptions options_;
  std::vector<size_t> main_;  // node indices
  Uses uses_;
  std::vector<int32_t> made_at_;                  // by value: position in main_, -1 outside
  std::vector<std::optional<OutVariant>> forms_;  // by position
  std::vector<ValueId> absorbed_;    // by position: for a node that is part of an earlier epilogue,
                                     // the value that holds its result; else kNone
  std::vector<Epilogue> epilogues_;  // by position
  std::unordered_map<size_t, std::shared_ptr<const PackedCall>> packed_;  // by position
  std::unordered_map<ValueId, size_t> outside_index_;
  std::vector<int32_t> buffer_;      // by root value: arena buffer
  std::vector<int32_t> output_of_;   // by root value: output whose memory it writes
  std::vector<Lifetime> lifetimes_;  // of `options_.placed`, then of buffers
  std::vector<Lent> lent_;           // by result; behind them what is kept for `options_.placed`
  std::vector<BufferPlace> placed_;  // `options_.placed`
  Tensors slots_;
};

}  // namespace wide
