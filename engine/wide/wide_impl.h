#pragma once
#include <list>

#include "engine/lower/gradient_model.h"
#include "engine/record/cast_state.h"
#include "engine/wide.h"

namespace wide {

/// What is compiled for one signature of inputs.
struct Signature {
  std::string key;
  Network network;
  Program single;
  CastState casts = {};         // while `single` was recorded
  std::vector<size_t> changed;  // by update of the program: index of the network's tensor
  std::vector<bool> live;       // by tensor of the network: a weight passed with every call
  std::unique_ptr<CompiledModel> model;  // null until it is needed
  /// N models' inputs: of the last call with gradients, else those that it was compiled with. No
  /// copies: a training loop holds its batch anyway.
  Tensors inputs;
  /// Captured tensors of one element, which programs may hold as numbers, with their versions.
  std::vector<std::pair<Tensor, int64_t>> numbers = {};
  int64_t weights = 0;                   // version of the weights it has
  std::optional<Program> for_gradients;  // Program(1) recorded with `grad`
  std::optional<bool> branches;          // `branches_on_gradients`, once known
  /// The tensors that got gradients in the last call, and which outputs depend on them.
  std::pair<std::vector<bool>, std::vector<bool>> differentiable = {};
  /// By the tensors that get gradients and the outputs that have cotangents (empty: all).
  std::map<std::pair<std::vector<bool>, std::vector<bool>>, std::shared_ptr<GradientModel>>
      gradients;
};

/// Throws Error "[run] name: …" for tensors that kernels cannot read: sparse layouts, meta tensors,
/// freed memory.
void check_values(const Tensor& t, const std::function<std::string()>& name);

/// A WideModel's implementation. Weights that a call changes, and all if not frozen, are inputs of
/// the compiled model, so that they are not packed or folded before calls.
struct WideModel::Impl {
  Source source;
  std::vector<TensorSpec> specs;
  Tensors weights;  // by specs; changed by set_weights and by calls
  std::vector<bool> shared;
  int64_t n = 0;
  Options options;
  std::string primitive;          // of from_modules: the primitive of all operators
  std::list<Signature> compiled;  // the last used one first
  int64_t version = 0;            // of the weights; not raised by calls' own changes
  int64_t programs_compiled = 0;  // so far

  Tensors run(const Tensors& inputs, std::vector<std::pair<size_t, Tensor>>* changed);
  Differentiable run_for_gradients(const Tensors& inputs, std::vector<bool> of,
                                   const std::vector<bool>& outputs, bool at_once);
  std::shared_ptr<GradientModel> gradients(const Tensors& inputs, const std::vector<bool>& of,
                                           const std::vector<bool>& outputs);
  /// Whether forward reads this weight.
  bool reads(const Signature& s, size_t weight) const;
  /// Uses the caller's weights from here on; empty: those of the last call.
  void take_weights(const Tensors& given);
  /// The program for inputs of these sizes, compiled if needed, with the current weights.
  Signature& at(const Tensors& inputs);
  Signature& bring_up_to_date(Signature& s);
  /// Throws Error if this model, the last of N, computes something else than the first, which is
  /// compiled.
  void expect_alike(const Source& last_model);
  Correctness check_against_double(Signature& s, double rtol);
  /// The last used compiled one; throws Error if there is none.
  Signature& last();
  /// The network's tensors with these inputs, in its order.
  Ensemble ensemble(const Network& network, const Tensors& inputs) const;
  /// The inputs of a compiled model: the caller's and the weights among them.
  Tensors arguments(const Signature& s, const Tensors& inputs) const;
  size_t weight_at(const std::string& name) const;
  bool shares_input(size_t k, const std::string& name) const;
  std::string input_name(size_t k) const;
  CompileOptions compile_options(c10::Device device) const;

 private:
  /// The network and Program(1) as compiled: with live weights as inputs.
  static std::pair<Network, Program> with_live_inputs(const Signature& s);
  /// The signature of inputs of these sizes, compiled or not.
  Signature& known(const Tensors& inputs);
  Signature make(const std::string& key, const Tensors& inputs);
  void compile_model(Signature& s);
  /// Keeps these inputs, not copied, as the last ones.
  void hold(Signature& s, const Tensors& inputs);
  /// Records Program(1) in grad mode.
  void record_for_gradients(Signature& s, const Ensemble& e);
  /// Whether forward computes something else in grad mode, as a branch on torch.is_grad_enabled()
  /// makes it do: then a forward pass that needs gradients may not run the program recorded
  /// without. Throws Error if forward changes a tensor in grad mode alone.
  bool branches_on_gradients(Signature& s);
  /// By output: whether a gradient flows from it to any of these tensors; empty: not known.
  std::vector<bool> differentiable(Signature& s, const std::vector<bool>& of) const;
  /// Another size with the same calls, not far larger or smaller; nullptr: none.
  const Signature* like(const Signature& s, bool gradients) const;
  std::shared_ptr<GradientModel> gradients_of(Signature& s, const std::vector<bool>& of,
                                              const std::vector<bool>& outputs);
  /// Stores the new values that a call of `single` gave weights.
  void keep_updates(const Signature& s, const Program& single, const Tensors& updates,
                    std::vector<std::pair<size_t, Tensor>>* changed);
  /// Stores the ensemble's weights; shared ones that calls change now exist for each model.
  void take(const Signature& s, const Ensemble& e);
  Mode mode(c10::Device device) const;
  void check_now(Signature& s);
  void check_primitive(const Program& single) const;
  void report(const Signature& s) const;
  void say(const std::string& line) const;
};

}  // namespace wide
