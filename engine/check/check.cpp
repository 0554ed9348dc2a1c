#include "engine/check/check.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/check/check_detail.h"
#include "engine/check/check_random.h"
#include "engine/check/exact_operators.h"
#include "engine/error.h"
#include "engine/machine/large_pages.h"

namespace wide {
namespace {

/// Program(1) on one model after the other, the results stacked. `raise`: in float64, one model's
/// copy at a time, since all in double would take twice the ensemble's memory.
Tensors one_by_one(const Program& single, const Ensemble& ensemble, bool raise) {
  const at::NoGradGuard guard;
  Tensors exact;
  for (size_t k = 0; raise && k < ensemble.tensors.size(); ++k) {
    const Tensor& own = ensemble.shared[k] ? ensemble.tensors[k] : ensemble.tensors[k][0];
    exact.push_back(own.to(raised(own.scalar_type()), false, true, at::MemoryFormat::Contiguous));
  }
  Tensors stacked;
  for (int64_t i = 0; i < ensemble.n; ++i) {
    Tensors own = ensemble.model(i);
    for (size_t k = 0; raise && k < own.size(); ++k)
      own[k] = ensemble.shared[k] ? exact[k] : exact[k].copy_(own[k]);
    const Tensors results = interpret(single, own);
    for (size_t k = 0; k < results.size(); ++k) {
      const Tensor& result = results[k];
      if (i == 0)
        stacked.push_back(empty_to_keep(wide_sizes(ensemble.n, result.sizes()), result.options()));
      const Tensor row = stacked[k].select(0, i);
      WIDE_ASSERT(row.sizes() == result.sizes(), "models of several output sizes");
      row.copy_(result);
    }
  }
  return stacked;
}

/// Checks a candidate of a network that draws no random numbers.
class ValueCheck {
 public:
  ValueCheck(const Program& single, const Ensemble& ensemble, const WideFunction& candidate,
             double tolerance, const Expected& expected, bool run_again)
      : ensemble_(ensemble),
        candidate_(candidate),
        names_(detail::result_names(single)),
        permuted_(expected.permuted),
        expected_(expected.exact),
        own_(expected.separate),
        run_again_(run_again) {
    result_.tolerance = tolerance;
    result_.eager_max_rel = expected.eager_max_rel;
    allowed_ = allowed(result_);
  }

  Correctness run() {
    for (const Tensor& t : candidate_(ensemble_)) got_.push_back(t.clone());
    const detail::Deviation deviation = detail::compare(names_, got_, expected_, own_);
    result_.max_rel = deviation.error;
    expect(deviation, "");
    const std::string shapes = detail::compare_shapes(names_, got_, own_);
    if (!shapes.empty()) {
      fail_with(shapes);
      return result_;  // nothing else can be compared
    }
    check_isolation();
    check_order();
    // After runs with other weights and inputs, the first ones must give the first results again.
    if (run_again_)
      expect(detail::compare(names_, candidate_(ensemble_), expected_, own_), "run again, ");
    result_.pass = result_.failure.empty();
    return result_;
  }

 private:
  bool expect(const detail::Deviation& deviation, const std::string& when) {
    if (deviation.error <= allowed_) return true;
    fail_with(fmt::format("{}{}, tolerance {:.0e}", when, deviation.text, allowed_));
    return false;
  }
  // Only the first failure is reported.
  void fail_with(const std::string& text) {
    if (result_.failure.empty()) result_.failure = text;
  }

  void check_isolation() {
    result_.isolated = true;
    if (ensemble_.n < 2) return;
    for (int64_t i : detail::models_to_poison(ensemble_.n)) {
      const std::string when = fmt::format("not isolated, with NaN in model {}: ", i);
      Tensors poisoned;
      try {
        poisoned = candidate_(detail::Poisoned(ensemble_, i).ensemble());
      } catch (const std::exception& error) {
        result_.isolated = false;
        fail_with(when + error.what());
        return;
      }
      if (detail::same_bits_but(poisoned, got_, i)) continue;
      // Other models' values may make a library choose another kernel, which moves last bits only.
      for (size_t k = 0; k < poisoned.size() && k < got_.size(); ++k)
        if (poisoned[k].sizes() == got_[k].sizes()) poisoned[k] = with_row(poisoned[k], got_[k], i);
      const detail::Deviation deviation =
          detail::compare(names_, poisoned, value_ok() ? expected_ : got_, own_);
      if (deviation.error <= allowed_) {
        result_.note = "isolation to tolerance: a library picks its kernel by size";
        continue;
      }
      result_.isolated = false;
      fail_with(when + deviation.text);
      return;
    }
  }

  void check_order() {
    result_.ordered = true;
    if (ensemble_.n < 2) return;
    // Wrong values may still keep the order: then results are compared with each other.
    result_.ordered =
        expect(detail::compare(names_, candidate_(permuted_), value_ok() ? expected_ : got_, own_,
                               detail::rotation(ensemble_.n)),
               "models permuted, ");
  }

  bool value_ok() const { return result_.max_rel <= allowed_; }

  static Tensor with_row(const Tensor& tensor, const Tensor& from, int64_t i) {
    Tensor copy = tensor.clone();
    copy.select(0, i).copy_(from.select(0, i));
    return copy;
  }

  const Ensemble& ensemble_;
  const WideFunction& candidate_;
  std::vector<std::string> names_;
  const Ensemble& permuted_;
  const Tensors &expected_, &own_;
  const bool run_again_;
  Tensors got_;
  double allowed_ = 0;
  Correctness result_;
};

/// Remembers tensors and their versions; holds them, so that no other gets their address.
class Seen {
 public:
  bool same(const Tensors& tensors) const {
    if (tensors.size() != tensors_.size()) return false;
    for (size_t k = 0; k < tensors.size(); ++k) {
      // Inference tensors have no version counter.
      if (tensors[k].is_inference() || !tensors[k].is_same(tensors_[k]) ||
          tensors[k]._version() != versions_[k])
        return false;
    }
    return true;
  }
  void remember(const Tensors& tensors) {
    tensors_ = tensors;
    versions_.clear();
    for (const Tensor& tensor : tensors)
      versions_.push_back(tensor.is_inference() ? 0 : tensor._version());
  }

 private:
  Tensors tensors_;
  std::vector<int64_t> versions_;
};

}  // namespace

double allowed(const Correctness& c) {
  return std::isfinite(c.eager_max_rel) ? std::max(c.tolerance, 4 * c.eager_max_rel) : c.tolerance;
}

WideFunction as_function(CompiledModel& model, const Network& network) {
  return [&model, weight_at = network.indices(false), input_at = network.indices(true),
          seen = std::make_shared<Seen>()](const Ensemble& ensemble) {
    const at::NoGradGuard guard;
    Tensors weights, inputs, results;
    for (size_t k : weight_at) weights.push_back(ensemble.tensors[k]);
    for (size_t k : input_at) inputs.push_back(ensemble.tensors[k]);
    if (!seen->same(weights)) {
      model.set_weights(weights);
      seen->remember(weights);
    }
    return model.run(inputs);
  };
}

Tensors in_double(const Program& single, const Ensemble& ensemble) {
  return one_by_one(raise_to_double(in_exact_operators(single)), ensemble, true);
}

Tensors separate(const Program& single, const Ensemble& ensemble) {
  return one_by_one(single, ensemble, false);
}

double max_relative_error(const Tensors& got, const Tensors& expected) {
  return detail::compare({}, got, expected).error;
}

Expected expect(const Network& network, const Program& single, const Ensemble& ensemble) {
  Expected expected;
  expected.permuted = detail::permute(ensemble, detail::rotation(ensemble.n));
  if (network.random) expected.draws = detail::draw_separate(single, ensemble);
  if (expected.draws) return expected;
  expected.exact = in_double(single, ensemble);
  expected.separate = separate(single, ensemble);
  expected.eager_max_rel = max_relative_error(expected.separate, expected.exact);
  return expected;
}

Correctness check(const Network& network, const Program& single, const Ensemble& ensemble,
                  const WideFunction& candidate, double tolerance, bool masks_shared,
                  const Expected* expected, bool run_again) {
  const Expected known = expected ? *expected : expect(network, single, ensemble);
  if (known.draws)
    return detail::check_random(single, ensemble, candidate, tolerance, masks_shared, known);
  return ValueCheck(single, ensemble, candidate, tolerance, known, run_again).run();
}

}  // namespace wide
