#pragma once
#include <memory>
#include <optional>

#include "engine/lower/compile_options.h"
#include "engine/lower/compiled_model.h"
#include "engine/network.h"

namespace wide {

/// Records, widens, optimises and lowers `network` for `ensemble.n` models, choosing by measured
/// times. Correctness is checked by `check` (engine/check/check.h). `single`: the network's
/// Program(1) if it is recorded already; its bound values have the roles of `network.tensors`.
/// Throws Error: unsupported mode or device, unknown pass, data-dependent operators, or (if strict)
/// a forced strategy that does not apply.
std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options = {},
                                       std::optional<Program> single = std::nullopt);

/// How `compile` would compute a network's calls.
struct StrategyChoice {
  Coverage coverage;
  /// The tuning keys of `primitive`, one for each kind of call: callers that time whole networks
  /// store the winner under them.
  std::vector<TuningKey> keys;
};

/// Chooses strategies as `compile` does, with `options.ranges` ranges of models, but without a
/// runnable program: weights are not packed and ranges not compared. Mode max-autotune compiles, as
/// it compares whole programs. Mode, device and names of passes are not checked.
StrategyChoice choose_strategies(const Network& network, const Ensemble& ensemble,
                                 const CompileOptions& options, Program single,
                                 const std::string& primitive);

class GradientModel;

/// Compiles calls that are differentiated: the forward pass and the gradients for the tensors `of`,
/// by index, as two programs, chosen by measuring both together. Each call brings all tensors.
/// `single`: recorded for being differentiated. Throws Error for operators without a gradient,
/// other devices than the CPU, and unknown passes.
/// `outputs`: by output, whether it may have a cotangent; empty: all.
std::unique_ptr<GradientModel> compile_gradients(const Network& network, const Ensemble& ensemble,
                                                 const std::vector<size_t>& of, Program single,
                                                 const CompileOptions& options,
                                                 const std::vector<bool>& outputs = {});

/// Records Program(1) of `network` on model 0 of `ensemble`; with `grad` for differentiation: no
/// gradient flows through parts where the network turns grad mode off.
Program record_single(const Network& network, const Ensemble& ensemble, bool grad = false);

/// The mode's reason for being unsupported on `device`, or nullopt.
std::optional<std::string> unsupported(Mode mode, c10::Device device);
/// Its reason on the first of `devices`, or nullopt if one of them supports it.
std::optional<std::string> unsupported(Mode mode, const std::vector<c10::Device>& devices);

/// The mode that runs for `mode` on `device`: on the CPU, default instead of reduce-overhead, which
/// only saves launches of CUDA kernels. `note`: set if they differ.
Mode mode_on(c10::Device device, Mode mode, std::string* note = nullptr);

}  // namespace wide
