#pragma once
#include <any>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// The arguments of a strategy. Inputs are those of the claim (`Claimed::inputs`), in its order,
/// all of them `[N, ...]` (shared ones expanded), undefined where absent.
struct WideCall {
  int64_t n = 0;
  Tensors inputs;
  std::vector<bool> shared;  // which inputs were the same for all models
};

/// A tensor as an optional argument: none if it is undefined.
inline std::optional<Tensor> if_defined(const Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}

/// Yes, or the reason why not: `[conv2d/grouped] groups: got 3, expected ...; try ...`.
using Applies = std::optional<std::string>;

/// One way to compute a wide primitive: dispatcher calls only, no threads, no `.item()`.
struct Strategy {
  std::string name;
  std::string summary;
  /// nullopt if it applies, else the reason. `config` is the primitive's typed configuration.
  std::function<Applies(const std::any& config, const WideCall& call)> applies;
  std::function<Tensors(const std::any& config, const WideCall& call)> run;
  std::function<std::string(const std::any& config)> config_text;  // canonical: the tuning key
  bool only_when_asked = false;  // computes something else (one mask for all): chosen by users only
  /// Operators of this project that it calls, "wide::prelu": the strategy applies only if all of
  /// them support the call's device, dtypes and gradients (engine/widen/capabilities.h).
  std::vector<std::string> operators{};
  std::vector<at::ScalarType> converts{};  // dtypes that it converts to one of theirs
};

/// A Strategy of functions that take the primitive's own configuration. `applies` checks what the
/// operators' capabilities do not.
template <class Config>
Strategy strategy(std::string name, std::string summary,
                  std::function<Tensors(const Config&, const WideCall&)> run,
                  std::function<Applies(const Config&, const WideCall&)> applies = {},
                  std::vector<std::string> operators = {}) {
  Strategy s;
  s.name = std::move(name);
  s.summary = std::move(summary);
  s.operators = std::move(operators);
  s.run = [run](const std::any& c, const WideCall& call) {
    return run(std::any_cast<const Config&>(c), call);
  };
  s.config_text = [](const std::any& c) { return std::any_cast<const Config&>(c).text(); };
  s.applies = [applies](const std::any& c, const WideCall& call) {
    return applies ? applies(std::any_cast<const Config&>(c), call) : Applies{};
  };
  return s;
}

/// The reason a strategy gives: `[conv2d/grouped] groups: got 3, expected 1; try unfold`.
std::string reason(const std::string& thing, const std::string& what, const std::string& got,
                   const std::string& expected, const std::string& advice);

}  // namespace wide
