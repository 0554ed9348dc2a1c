#pragma once
#include <map>
#include <set>

#include "engine/program.h"
#include "engine/widen/rule.h"

namespace wide {

/// A value while widening: `[N, ...]` when wide, else the same for all models.
struct WideValue {
  Tensor tensor;
  bool wide = false;
};

/// How a node or region of Program(1) was made wide: by a strategy of the primitive that claimed
/// it, by functorch's batching rule, computed once for all models, or one model after the other.
enum class Way { strategy, vmap, shared, per_model };
const char* to_string(Way way);

struct CoverageItem {
  int32_t node = 0;       // index in Program(1), of a region's first node
  int32_t nodes = 1;      // number of nodes (a region has several)
  std::string op;         // recorded operator
  std::string primitive;  // the one that claimed it
  std::string strategy;
  Way way = Way::vmap;
  std::string reason;  // why per_model, or why the asked strategy did not apply
  std::string module;
};

struct Coverage {
  std::vector<CoverageItem> items;
  /// Number of nodes for each way.
  std::map<Way, int64_t> counts() const;
};

/// A claimed call for which a strategy is chosen.
struct ClaimedCall {
  int32_t node;  // its first node in Program(1); with the rule it names the call
  const Rule& rule;
  const std::any& config;
  const WideCall& call;
  const std::vector<std::string>& applicable;  // strategies; at least one
};

/// Restricts the operators that strategies may use.
struct OperatorsAllowed {
  std::string which;  // "ATen operators alone"
  /// The name of a node's operator if it is not allowed, else "".
  std::function<std::string(const Program&, const Node&)> other;
};

/// What decides how a claimed call is computed.
struct WidenOptions {
  /// primitive name to strategy name; also "vmap" and "per_model". Key "*": all of them.
  std::map<std::string, std::string> force;
  /// Chooses one of the applicable strategies if none is forced; empty: the first.
  std::function<std::string(const ClaimedCall&)> choose;
  std::set<std::string> never;  // "conv2d/unfold": not chosen, e.g. as it crashed before
  bool strict = false;          // a forced strategy that does not apply throws Unsupported
  bool fold = true;             // use the registered folds (eval-mode batch norm into convolution)
  /// Under autograd: results require gradients as they would, but have no history, so that nothing
  /// is saved for a backward pass.
  bool no_history = false;
  /// While recording: strategies that use other operators are skipped.
  std::optional<OperatorsAllowed> only;
};

/// Evaluates Program(1) wide: by ordinary tensor code, which can be recorded, differentiated or
/// just run. `bound` in the order of `program.bound`. Returns outputs, then updates.
std::vector<WideValue> evaluate_wide(const Program& program, int64_t n,
                                     const std::vector<WideValue>& bound,
                                     const WidenOptions& options, Coverage* coverage);

struct WideProgram {
  Program program;
  Coverage coverage;
};

/// Another function than `evaluate_wide`, with its arguments and results.
using EvaluateWide = std::function<std::vector<WideValue>(
    const Program& program, int64_t n, const std::vector<WideValue>& bound,
    const WidenOptions& options, Coverage* coverage)>;

/// Program(N) of Program(1): `evaluate` recorded. Outputs and updates are wide (`[N, ...]`).
WideProgram widen(const Program& program, int64_t n, const std::vector<WideValue>& bound,
                  const WidenOptions& options = {}, const EvaluateWide& evaluate = evaluate_wide);

/// A lower bound of the memory for n models at once, from Program(1)'s sizes and lifetimes.
int64_t estimate_bytes(const Program& program, int64_t n);

}  // namespace wide
