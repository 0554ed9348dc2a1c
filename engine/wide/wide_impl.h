#pragma once
#include <list>

#include "engine/lower/gradient_model.h"
#include "engine/wide.h"

namespace wide {

/// What belongs to one signature of inputs.
struct Signature {
  std::string key;
  Network network;
  Program single;
  std::vector<size_t> changed;  // by update of the program: the tensor of the network
  std::vector<bool> live;       // by tensor of the network: a weight that comes in with every call
  std::unique_ptr<CompiledModel> model;  // once it is needed
  Tensors inputs;                        // N models' inputs it was compiled with
  int64_t weights = 0;                   // the version it has
  std::optional<Program> for_gradients;  // Program(1) recorded for being differentiated
  std::map<std::vector<bool>, std::shared_ptr<GradientModel>> gradients;  // by what they are of
};

/// The place of a bound value.
size_t bound_at(const Program& program, ValueId id);

/// Refuses what no kernel can read, as "[run] name: …": other layouts, meta tensors, memory that
/// was freed.
void check_values(const Tensor& t, const std::function<std::string()>& name);

/// A WideModel's insides. Weights that a call changes, and all that are not frozen, come into the
/// compiled model as inputs, so that nothing is packed or folded of them ahead.
struct WideModel::Impl {
  Source source;
  std::vector<TensorSpec> specs;
  Tensors weights;  // by specs; changed by set_weights and by calls
  std::vector<bool> shared;
  int64_t n = 0;
  Options options;
  std::string primitive;          // of from_modules: what all operators must be
  std::list<Signature> compiled;  // the last used first
  int64_t version = 0;            // of the weights, calls' own changes left out
  int64_t programs_compiled = 0;  // so far

  Tensors run(const Tensors& inputs, std::vector<std::pair<size_t, Tensor>>* changed);
  Differentiable run_for_gradients(const Tensors& inputs, std::vector<bool> of, bool at_once);
  std::shared_ptr<GradientModel> gradients(const Tensors& inputs, const std::vector<bool>& of);
  /// Weights that live elsewhere, from here on; none: those of the last call.
  void take_weights(const Tensors& given);
  /// What is compiled for inputs of these sizes, with the weights as they are.
  Signature& at(const Tensors& inputs);
  Signature& bring_up_to_date(Signature& s);
  Correctness check_against_double(Signature& s, double rtol);
  /// The last used, compiled; throws Error where there is none.
  Signature& last();
  /// The network's tensors with these inputs, in its order.
  Ensemble ensemble(const Network& network, const Tensors& inputs) const;
  /// The inputs of a compiled model: the caller's, and the state among them.
  Tensors arguments(const Signature& s, const Tensors& inputs) const;
  size_t weight_at(const std::string& name) const;
  bool shares_input(size_t k, const std::string& name) const;
  std::string input_name(size_t k) const;
  CompileOptions compile_options(c10::Device device) const;

 private:
  /// The network and Program(1) as they are compiled: live weights among the inputs.
  static std::pair<Network, Program> with_live_inputs(const Signature& s);
  /// What is known of inputs of these sizes, compiled or not.
  Signature& known(const Tensors& inputs);
  Signature make(const std::string& key, const Tensors& inputs);
  void compile_model(Signature& s);
  /// Another size that is computed by the same calls and is not far larger or smaller; null: none.
  const Signature* like(const Signature& s, bool gradients) const;
  std::shared_ptr<GradientModel> gradients_of(Signature& s, const std::vector<bool>& of);
  /// Keeps what a call of `single` made of weights.
  void keep_updates(const Signature& s, const Program& single, const Tensors& updates,
                    std::vector<std::pair<size_t, Tensor>>* changed);
  /// Keeps the ensemble's weights: those that models shared and a call changes are their own now.
  void take(const Signature& s, const Ensemble& e);
  Mode mode(c10::Device device) const;
  void check_now(Signature& s);
  void check_primitive(const Program& single) const;
  void report(const Signature& s) const;
  void say(const std::string& line) const;
};

}  // namespace wide
