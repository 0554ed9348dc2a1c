#pragma once
#include <memory>
#include <optional>

#include "engine/lower/compile_options.h"
#include "engine/lower/compiled_model.h"
#include "engine/network.h"

namespace wide {

/// Records, widens, optimises and lowers `network` for `ensemble.n` models, by what measures
/// fastest; whether it is right, `check` says (engine/check/check.h). `single`: the network's
/// Program(1) where it was recorded before; its bound values have the roles of `network.tensors`.
/// Throws Error: unsupported mode or device, unknown pass, does not fit, data-dependent operators.
std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options = {},
                                       std::optional<Program> single = std::nullopt);

/// What `compile` would make of a network's calls.
struct StrategyChoice {
  Coverage coverage;
  /// What the strategies of `primitive` were looked up by, one for each kind of call of it: where
  /// somebody who has timed whole networks stores what won.
  std::vector<TuningKey> keys;
};

/// Chooses strategies as `compile` does, with `options.ranges` ranges of models, and makes no
/// program that could run: weights are not packed and ranges are not compared. In mode
/// max-autotune, which compares whole programs, they are made. Throws Error as `compile` does.
StrategyChoice choose_strategies(const Network& network, const Ensemble& ensemble,
                                 const CompileOptions& options, Program single,
                                 const std::string& primitive);

class GradientModel;

/// The same for calls that are differentiated: the forward pass and the gradients of `of`, by
/// index, as two programs that one measuring has chosen. Every tensor comes in with a call.
/// `single`: recorded for being differentiated. Throws Error for operators without a gradient.
std::unique_ptr<GradientModel> compile_gradients(const Network& network, const Ensemble& ensemble,
                                                 const std::vector<size_t>& of, Program single,
                                                 const CompileOptions& options);

/// Records Program(1) of `network` on model 0 of `ensemble`; with `grad` for being differentiated:
/// where the network turns grad mode off no gradient will flow back.
Program record_single(const Network& network, const Ensemble& ensemble, bool grad = false);

/// The mode's reason for being unsupported on `device`, or nullopt.
std::optional<std::string> unsupported(Mode mode, c10::Device device);

/// What runs where `mode` is asked for on `device`: on the CPU, default in place of
/// reduce-overhead, which only saves launches of CUDA kernels. `note`: filled where they differ.
Mode mode_on(c10::Device device, Mode mode, std::string* note = nullptr);

}  // namespace wide
