#include "app/sweep/case/prepare.h"

#include <fmt/format.h>

#include "app/fuse/subject.h"
#include "app/sweep/case/estimate.h"
#include "app/sweep/text.h"
#include "app/sweep/user_network.h"
#include "data/tensors.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/measure/roofline.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

constexpr double kLongestCall = 50;           // times the budget: slower calls are not tried
constexpr double kEagerBytesPerSecond = 5e9;  // estimate for eager ATen, results in new memory

class Preparation {
 public:
  Preparation(const SweepCase& planned, const SweepSettings& settings, Stages& stages,
              PreparedCase* prepared, Case* result)
      : planned_(planned),
        target_(*planned.target),
        settings_(settings),
        stages_(stages),
        made_(*prepared),
        result_(*result) {}

  void run() {
    if (const PresetNetwork* own = user_network(target_)) open(*own);
    std::tie(made_.network, made_.single) =
        of_phase(subject_ ? subject_->network() : target_.network(planned_.shape));
    if (target_.may_not_fit)
      leave_out_what_does_not_fit();
    else
      expect_to_fit();
    if (!made_.fits) return;
    made_.ensemble = ensemble_of(made_.network, planned_.n);
    if (target_.optimised) made_.own_baselines.push_back(optimised());
  }

 private:
  void open(const PresetNetwork& own) {
    SubjectOptions options;
    options.model = own.file;
    options.weights = own.weights;
    options.inputs = own.inputs;
    options.n = std::to_string(planned_.n);
    options.trusted = true;  // a preset is refused unless its networks are trusted
    options.dtype = short_name(planned_.dtype);
    options.device = planned_.device.str();
    options.seed = settings_.seed;
    subject_.emplace(options);
    result_.notes = subject_->notes();
  }

  /// Tensors of the N models: drawn by the seed, or a user's own weights and inputs.
  Ensemble ensemble_of(const Network& network, int64_t n) const {
    Ensemble all = generate(network, n, planned_.dtype, planned_.device, settings_.seed);
    if (!subject_) return all;
    const Ensemble own = subject_->ensemble(n);  // a phase adds further tensors behind these
    std::copy(own.tensors.begin(), own.tensors.end(), all.tensors.begin());
    std::copy(own.shared.begin(), own.shared.end(), all.shared.begin());
    return all;
  }

  Program record_one(const Network& network) const {
    const bool grad = planned_.phase != "forward";
    if (target_.may_not_fit) return record_dry(network, planned_.dtype, grad, planned_.device);
    return record_single(network, ensemble_of(network, 1), grad);
  }

  /// Makes the network of the case's phase from the forward network, and records it.
  std::pair<Network, Program> of_phase(const Network& forward) const {
    Program plain = record_one(forward);
    Network network =
        phase_network(forward, plain, planned_.phase, default_optimizer(target_.optimizer).name);
    if (network.derivative) plain = record_one(network);
    return {std::move(network), std::move(plain)};
  }

  /// Bytes available on the device of the case.
  int64_t available() const {
    const auto memory = device_memory(planned_.device);
    return memory ? memory->free : available_memory();
  }

  void note_memory(int64_t needed) {
    made_.memory = {needed, available()};
    stages_.memory(made_.memory.needed, made_.memory.available);
  }

  void expect_to_fit() {
    note_memory(estimate_bytes(made_.single, planned_.n));
    if (made_.memory.needed > made_.memory.available)
      throw Error(out_of_memory_text(target_.name, "no attempt", made_.memory), 5);
  }

  void leave_out_what_does_not_fit() {
    const double passes = planned_.phase == "forward" ? 1 : 3.5;
    if (const double call_s = passes * estimate_call_s(planned_); call_s > longest_call_s())
      return leave_out(Status::skipped, long_call_text(target_.name, call_s), {});
    Program one = made_.single;
    if (!target_.samples.empty())
      one = of_phase(target_.network(Shape(planned_.shape).set(target_.samples, 1))).second;
    const CaseBytes bytes = estimate_case(made_.network, made_.single, one, planned_);
    note_memory(bytes.without_loop());
    for (Trial& t : result_.trials) t.needed_bytes = bytes.compiled;
    const MemoryNeed& memory = made_.memory;
    if (memory.needed > memory.available)
      return leave_out(Status::oom, out_of_memory_text(target_.name, "no attempt", memory), bytes);
    const double loop_s =
        static_cast<double>(planned_.n) * count_traffic(made_.single).bytes / kEagerBytesPerSecond;
    if (const MemoryNeed all{bytes.with_loop(), memory.available}; all.needed > all.available)
      leave_out_loop(Status::oom, out_of_memory_text("loop", "no attempt", all), bytes.loop);
    else if (loop_s > longest_call_s())
      leave_out_loop(Status::skipped, long_call_text("loop", loop_s), bytes.loop);
    if (!target_.samples.empty()) made_.one_sample = std::move(one);
  }

  double longest_call_s() const { return kLongestCall * settings_.budget_s; }

  std::string long_call_text(const std::string& what, double call_s) const {
    return fmt::format(
        "[{}] time: got {} a call by estimate, expected at most {}; try --budget {:.2g}", what,
        duration_text(call_s), duration_text(longest_call_s()), call_s / kLongestCall);
  }

  void leave_out(Status status, const std::string& reason, const CaseBytes& bytes) {
    made_.fits = false;
    end_all({status, reason}, &result_);
    leave_out_loop(status, reason, bytes.loop);
  }

  void leave_out_loop(Status status, const std::string& reason, int64_t needed) {
    result_.missing.push_back({"loop", status, reason, needed});
    made_.has_loop = false;
  }

  /// Adds the hand-optimised form of the network as a baseline. Throws if its results differ.
  Baseline optimised() {
    const auto [network, program] = of_phase(target_.optimised(planned_.shape));
    made_.optimised = program;
    const Ensemble first = made_.ensemble.models(0, 1);
    const double error =
        max_relative_error(separate(program, first), separate(made_.single, first));
    if (!(error <= target_.tolerance_for(planned_.dtype)))
      throw Error(fmt::format("[{}] optimised form: got a relative error of {} from the naive one "
                              "with the same weights, expected at most {}; try --phase forward",
                              target_.name, error_text(error),
                              error_text(target_.tolerance_for(planned_.dtype))),
                  4);
    Baseline loop =
        baselines(network, made_.ensemble, settings_.threads, [](const std::string& name) {
          return name == "loop";
        }).front();
    loop.name = "optimised";
    return loop;
  }

  const SweepCase& planned_;
  const Target& target_;
  const SweepSettings& settings_;
  Stages& stages_;
  std::optional<Subject> subject_;  // the user's network, if the target is one
  PreparedCase& made_;
  Case& result_;
};

}  // namespace

void prepare_case(const SweepCase& planned, const SweepSettings& settings, Stages& stages,
                  PreparedCase* prepared, Case* result) {
  const Clocked clocked(&result->seconds.setup);
  Preparation(planned, settings, stages, prepared, result).run();
}

void end_all(const Outcome& outcome, Case* result) {
  for (Trial& t : result->trials) {
    t.status = outcome.status;
    t.reason = outcome.reason;
  }
}

}  // namespace wide
