#include "app/python/bindings/benchmark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/trial/contest.h"
#include "data/reports/sweep/report_json.h"
#include "data/tensors.h"
#include "engine/device.h"
#include "engine/machine/clock.h"
#include "engine/record/process_switch.h"
#include "engine/widen/target.h"

namespace nwide {
namespace {

/// Reports the contest's progress. Ctrl-C in Python ends the contest between two calls.
class Told : public wide::Stages {
 public:
  explicit Told(std::shared_ptr<py::object> progress) : progress_(std::move(progress)) {}
  void begin(const std::string& what, const std::string& name) override {
    say(what + " " + plain(name));
  }
  void time(const std::vector<std::string>& names) override {
    std::vector<std::string> all;
    for (const std::string& name : names) all.push_back(plain(name));
    say(fmt::format("timing {}", fmt::join(all, ", ")));
  }
  void call(size_t) override {
    if (++calls_ % 64 == 0) look();
  }

 private:
  void say(const std::string& text) {
    const py::gil_scoped_acquire gil;
    (*progress_)(text);
    look();
  }
  static std::string plain(const std::string& name) {
    const std::string prefix = wide::kBaselinePrefix;
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  }
  static void look() {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  std::shared_ptr<py::object> progress_;
  int64_t calls_ = 0;
};

/// The dtype of the first floating-point tensor, or else of the first tensor.
at::ScalarType dtype_of(const wide::Ensemble& ensemble) {
  for (const wide::Tensor& t : ensemble.tensors)
    if (at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type()))
      return t.scalar_type();
  return ensemble.tensors.empty() ? at::kFloat : ensemble.tensors.front().scalar_type();
}

double tolerance_of(const wide::Ensemble& ensemble) {
  double tolerance = 0;
  for (const wide::Tensor& t : ensemble.tensors)
    if (at::isFloatingType(t.scalar_type()))
      tolerance = std::max(tolerance, wide::Target{}.tolerance_for(t.scalar_type()));
  return tolerance;
}

/// A baseline that calls a Python function of all models.
class Batched {
 public:
  Batched(const py::object& make, const wide::Ensemble& ensemble) {
    wide::Tensors own;
    for (const wide::Tensor& t : ensemble.tensors) own.push_back(t.clone());
    const py::gil_scoped_acquire gil;
    call_ = held(make(own, ensemble.shared));
  }
  wide::Tensors operator()() const {
    const wide::VmapFallbackOff no_fallback;
    const py::gil_scoped_acquire gil;
    return (*call_)(/*stacked=*/true).cast<wide::Tensors>();
  }
  /// The timed call: returns the models' outputs without stacking them.
  void call() const {
    const wide::VmapFallbackOff no_fallback;
    const py::gil_scoped_acquire gil;
    (*call_)(/*stacked=*/false);
  }

 private:
  std::shared_ptr<py::object> call_;
};

using Made = std::pair<std::string, std::shared_ptr<py::object>>;

/// The first call compiles, if anything is to be compiled; `notes` get its time.
wide::Baseline python_baseline(const Made& named, const wide::Ensemble& ensemble,
                               std::vector<std::string>* notes) {
  const auto& [name, make] = named;
  wide::Baseline baseline;
  baseline.name = name;
  try {
    const double begun = wide::now_ns();
    Batched(*make, ensemble)();
    if (name != "vmap")
      notes->push_back(
          fmt::format("{}: its first call took {:.1f} s", name, (wide::now_ns() - begun) * 1e-9));
  } catch (py::error_already_set& error) {
    const py::gil_scoped_acquire gil;
    const std::string text = py::str(error.value());
    baseline.unavailable = text.substr(0, text.find('\n'));
    return baseline;
  }
  baseline.run = [make = make, ensemble] { return Batched(*make, ensemble)(); };
  baseline.call = [make = make, ensemble, made = std::make_shared<std::unique_ptr<Batched>>()] {
    if (!*made) *made = std::make_unique<Batched>(*make, ensemble);
    (*made)->call();
  };
  return baseline;
}

std::string run(wide::WideModel::Parts parts, double budget_s, uint64_t seed,
                const std::vector<Made>& baselines, wide::Stages& stages) {
  const wide::KeptRandomState random(parts.ensemble.device());  // the contest seeds
  // Copies the unshared tensors: the check writes to them, and they are the user's.
  for (size_t k = 0; k < parts.ensemble.tensors.size(); ++k)
    if (!parts.ensemble.shared[k]) parts.ensemble.tensors[k] = parts.ensemble.tensors[k].clone();
  wide::Contest contest{parts.network, parts.single, parts.ensemble};
  contest.candidates = {{"wide", [&](double) {
                           return wide::compile(parts.network, parts.ensemble, parts.options,
                                                parts.single);
                         }}};
  contest.device = parts.ensemble.device();
  contest.dtype = dtype_of(parts.ensemble);
  contest.tolerance = tolerance_of(parts.ensemble);
  contest.budget_s = budget_s;
  contest.seed = seed;
  contest.threads = parts.options.threads;
  std::vector<std::string> notes;
  for (const Made& made : baselines) {
    stages.begin("baseline", made.first);
    contest.own_baselines.push_back(python_baseline(made, parts.ensemble, &notes));
  }
  wide::ContestResult held = wide::run_contest(contest, stages);
  if (held.trials.front().thrown) std::rethrow_exception(held.trials.front().thrown);
  wide::Case result;
  result.target = parts.network.name;
  result.n = parts.ensemble.n;
  result.dtype = wide::short_name(contest.dtype);
  result.device = contest.device.str();
  result.mode = to_string(parts.options.mode);
  result.notes = std::move(notes);
  result.notes.insert(result.notes.end(), held.notes.begin(), held.notes.end());
  result.baselines = std::move(held.baselines);
  result.trials = {std::move(held.trials.front().trial)};
  result.other_load = held.other_load;
  result.disturbed = held.disturbed;
  return wide::to_json(result).dump();
}

}  // namespace

std::string benchmark(Core& core, double budget_s, uint64_t seed,
                      const std::vector<std::pair<std::string, py::object>>& baselines,
                      const py::object& progress) {
  std::vector<Made> made;
  for (const auto& [name, make] : baselines) made.emplace_back(name, held(make));
  Told stages(held(progress));
  return core.with(
      [&](wide::WideModel& m) { return run(m.parts(), budget_s, seed, made, stages); });
}

}  // namespace nwide
