#include "engine/compile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/lower/executor.h"
#include "engine/lower/large_pages.h"
#include "engine/lower/quick_time.h"
#include "engine/lower/tune.h"
#include "engine/measure/clock.h"
#include "engine/passes/pass.h"
#include "engine/widen/derivative.h"

namespace wide {

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::eager:
      return "eager";
    case Mode::default_:
      return "default";
    case Mode::reduce_overhead:
      return "reduce-overhead";
    case Mode::max_autotune:
      return "max-autotune";
  }
  return "?";
}

Mode parse_mode(const std::string& name) {
  for (Mode m : {Mode::eager, Mode::default_, Mode::reduce_overhead, Mode::max_autotune})
    if (name == to_string(m)) return m;
  fail("[--mode] name: got {}, expected eager, default, reduce-overhead or max-autotune; try eager",
       name);
}

std::optional<std::string> unsupported(Mode mode, c10::Device device) {
  if (auto reason = unavailable(device)) return reason;
  if (mode == Mode::eager) return std::nullopt;
  if (mode == Mode::reduce_overhead)
    return device.is_cuda()
               ? std::nullopt
               : std::optional(reason("mode", "reduce-overhead", "the CPU",
                                      "a CUDA device, whose graphs it captures", "--mode eager"));
  return reason("mode", to_string(mode), "no generated kernels",
                "a lowering that compiles, which this version does not have", "--mode eager");
}

Program record_single(const Network& network, const Ensemble& ensemble) {
  at::NoGradGuard no_grad;
  const Tensors one = ensemble.model(0);
  std::vector<Binding> bindings;
  for (size_t i = 0; i < one.size(); ++i)
    bindings.push_back({network.tensors[i].name, network.tensors[i].role, one[i].contiguous()});
  return record(bindings, network.forward);
}

namespace {

/// Applies the passes that are switched on, with a record of each.
std::vector<PassRecord> apply_passes(Program& program, const CompileOptions& options) {
  std::vector<PassRecord> records;
  for (const Pass* pass : passes()) {
    if (options.passes_off.count(pass->name)) continue;
    PassRecord record;
    record.name = pass->name;
    record.nodes_before = static_cast<int64_t>(program.nodes.size());
    const double start = now_ns();
    record.summary = pass->run(program);
    record.milliseconds = (now_ns() - start) * 1e-6;
    record.nodes_after = static_cast<int64_t>(program.nodes.size());
    if (options.verify) program.verify();
    if (options.keep_text) record.text_after = program.text();
    records.push_back(std::move(record));
  }
  return records;
}

bool draws_random_numbers(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(),
                     [](const Node& node) { return node.is_random(); });
}

class Compiled final : public CompiledModel {
 public:
  Compiled(const Network& network, const Ensemble& ensemble, const CompileOptions& options)
      : network_(network), ensemble_(ensemble), options_(options) {
    threads_ = options.threads > 0 ? options.threads : at::get_num_threads();
    for (Tensor& t : ensemble_.tensors) t = t.contiguous();
    single_ = record_single(network_, ensemble_);
    const bool measure = options.tune && ensemble_.tensors[0].is_cpu();
    const bool gradients = network_.derivative != nullptr;
    TunerOptions tuner{false, threads_, ensemble_.n, measure, gradients};
    whole_ = Tuner(tuner);
    tuner.serial = true;
    serial_ = Tuner(tuner);
    choose_ranges();
    running_ = programs_.at(executor_->models_at_a_time());
    if (ranges_ == 1) full_ = running_;
    if (options_.keep_text) program();
  }

  Tensors run(const Tensors& inputs) override {
    if (options_.mode == Mode::reduce_overhead) return replay(inputs);
    bind_inputs(inputs);
    const Tensors& results = fresh_results();
    executor_->run(ensemble_.tensors, results);
    return results;
  }

  void set_weights(const Tensors& weights) override {
    const auto at = network_.indices(false);
    WIDE_ASSERT(weights.size() == at.size(), "{} weights for {}", weights.size(), at.size());
    for (size_t k = 0; k < at.size(); ++k) ensemble_.tensors[at[k]] = weights[k].contiguous();
    executor_->set_weights(ensemble_.tensors);
    graph_.reset();  // it reads the packed weights where they were
  }

  const Program& single() const override { return single_; }
  const Program& program() const override {
    // Nothing runs it where models run in ranges: it is made for those who want to see it.
    if (!full_) full_ = make_full_();
    return full_->wide.program;
  }
  const Coverage& coverage() const override { return running_->wide.coverage; }
  const std::vector<PassRecord>& passes() const override {
    return (options_.keep_text ? full_ : running_)->passes;
  }
  int shards() const override { return executor_->ranges(); }
  std::string plan_text() const override { return executor_->text(); }
  int64_t bytes() const override { return executor_->bytes(); }
  int64_t steps() const override { return executor_->steps(); }
  std::vector<TuningKey> tuning_keys(const std::string& primitive) const override {
    const std::vector<TuningKey> keys = whole_.keys(primitive);
    return keys.empty() ? serial_.keys(primitive) : keys;
  }

  std::vector<StepCost> explain(const Tensors& inputs) override {
    bind_inputs(inputs);
    return executor_->explain(ensemble_.tensors, fresh_results());
  }

 private:
  /// One launch of everything: inputs are copied to where the captured graph reads them, results
  /// out of where it leaves them.
  Tensors replay(const Tensors& inputs) {
    at::NoGradGuard no_grad;
    const auto at = network_.indices(true);
    if (!graph_) {
      bind_inputs(inputs);
      for (size_t i : at) ensemble_.tensors[i] = ensemble_.tensors[i].clone();
      captured_ = fresh_results();
      const c10::Device device = ensemble_.tensors[0].device();
      graph_ = device_runtime(device.type())->capture(device, [this] {
        executor_->run(ensemble_.tensors, captured_);
      });
    }
    for (size_t k = 0; k < at.size(); ++k) {
      check_input(k, inputs);
      ensemble_.tensors[at[k]].copy_(inputs[k]);
    }
    graph_->replay();
    Tensors results;
    for (const Tensor& t : captured_) results.push_back(t.clone());
    return results;
  }

  EvaluateWide evaluation() const {
    if (!network_.derivative) return evaluate_wide;
    return [derivative = network_.derivative](const Program&, int64_t n,
                                              const std::vector<WideValue>& bound,
                                              const WidenOptions& options, Coverage* coverage) {
      return derivative->evaluate(n, bound, options, coverage);
    };
  }

  /// Program(n) of models [begin, begin + n), strategies chosen on their tensors.
  std::shared_ptr<const RangeProgram> make_program(int64_t begin, int64_t n, bool display = false) {
    at::NoGradGuard no_grad;
    std::vector<WideValue> bound;
    for (size_t i = 0; i < ensemble_.tensors.size(); ++i)
      bound.push_back(
          {ensemble_.shared[i] ? ensemble_.tensors[i] : ensemble_.tensors[i].narrow(0, begin, n),
           !ensemble_.shared[i]});
    const EvaluateWide evaluate = evaluation();
    WidenOptions widen_options = options_.widen;
    widen_options.fold = widen_options.fold && !options_.passes_off.count("fold");
    const bool tune = !widen_options.choose;
    if (tune && !display) {
      // Chosen on plain tensors first, then recorded with what was chosen.
      std::vector<std::string>& chosen = chosen_[n];
      chosen.clear();
      Tuner& tuner = n == ensemble_.n ? whole_ : serial_;
      widen_options.choose = [&tuner, &chosen](const Rule& rule, const std::any& c,
                                               const WideCall& call,
                                               const std::vector<std::string>& applicable) {
        return chosen.emplace_back(tuner.choose(rule, c, call, applicable));
      };
      evaluate(single_, n, bound, widen_options, nullptr);
    }
    size_t next = 0;
    if (tune) {
      // The whole is shown with what its ranges chose.
      const std::vector<std::string>& chosen = chosen_[display ? executor_->models_at_a_time() : n];
      widen_options.choose = [&next, &chosen](const Rule&, const std::any&, const WideCall&,
                                              const std::vector<std::string>&) {
        return chosen.at(next++);
      };
    }
    auto made = std::make_shared<RangeProgram>();
    made->wide = widen(single_, n, bound, widen_options, evaluate);
    made->passes = apply_passes(made->wide.program, options_);
    return made;
  }

  std::shared_ptr<const RangeProgram> program_for(int64_t begin, int64_t n) {
    auto& known = programs_[n];
    if (!known) known = make_program(begin, n);
    return known;
  }

  std::unique_ptr<Executor> make_executor(int ranges) {
    ExecutorOptions options;
    options.threads = threads_;
    options.ranges = ranges;
    options.plan.arena = !options_.passes_off.count("memory-plan");
    options.plan.kernels = !options_.passes_off.count("kernels");
    return std::make_unique<Executor>(
        single_, ensemble_, [this](int64_t begin, int64_t n) { return program_for(begin, n); },
        options);
  }

  /// Ranges that may pay: one model each, then fewer and longer ones down to one for each thread,
  /// then all models at once. What the short calls teach spares trying it on the long ones.
  std::vector<int> candidates() const {
    const auto n = static_cast<int>(ensemble_.n);
    if (options_.shards > 0) return {std::min(options_.shards, n)};
    if (!ensemble_.tensors[0].is_cpu() || draws_random_numbers(single_) || n == 1 ||
        options_.passes_off.count("shards"))
      return {1};
    if (!options_.tune) return {std::min(n, threads_)};
    std::vector<int> out{1};
    for (int s = std::max(threads_, 2); s < n; s *= 2) out.push_back(s);
    out.push_back(n);
    std::reverse(out.begin(), out.end());
    return out;
  }

  void choose_ranges() {
    // Where one model takes longer, sharing the cost of starting operators wins nothing; all
    // models at once may still keep threads busy that would wait for the last model.
    constexpr double kLongModel_ns = 2e6;
    constexpr double kShortModel_ns = 3e5;  // may owe most of its time to starting operators
    constexpr double kIdle = 1.1;
    double best_ns = 0;
    int worse = 0;
    std::vector<Tried> tried;
    const std::vector<int> all = candidates();
    for (size_t k = 0; k < all.size(); ++k) {
      const int ranges = all[k];
      if (worse == 2 && k + 1 < all.size()) continue;
      Tried next{ranges, make_executor(ranges), 0};
      if (all.size() == 1) {
        take(std::move(next));
        return;
      }
      if (results_[0].empty())
        for (const Value& v : next.executor->results()) results_[0].push_back(empty(v));
      const double ns = next.ns = time(next, best_ns);
      // Long ones are not held side by side: their weights may be large.
      if (best_ns == 0 || ns < best_ns) {
        if (!tried.empty() && ns > kShortCall_ns) tried.clear();
        best_ns = ns;
        worse = 0;
        tried.push_back(std::move(next));
      } else {
        if (ns > 1.15 * best_ns) ++worse;  // ever longer ranges only lose from here
        if (best_ns < kShortCall_ns) tried.push_back(std::move(next));
      }
      if (k > 0) continue;
      const int rounds = (ranges + threads_ - 1) / threads_;
      const double one_ns = ns / rounds;
      if (one_ns > kLongModel_ns && rounds * threads_ < kIdle * ranges) break;
      // Far off with one model at a time: one more try with all at once, none in between.
      const bool far_off = options_.far_off_ns > 0 && ns > options_.far_off_ns;
      if (one_ns > kLongModel_ns || (far_off && one_ns > kShortModel_ns)) worse = 2;
    }
    take(std::move(tried[fastest(tried)]));
  }

  /// A way to cut the models into ranges.
  struct Tried {
    int ranges = 1;
    std::unique_ptr<Executor> executor;
    double ns = 0;
  };

  void take(Tried tried) {
    executor_ = std::move(tried.executor);
    ranges_ = tried.ranges;
  }

  /// Nanoseconds of a call, by the mean of several where one is too short for the clock.
  double call_ns(Tried& tried) const {
    constexpr double kClear_ns = 2e4;
    const int calls = tried.ns > 0 ? std::clamp(static_cast<int>(kClear_ns / tried.ns), 1, 64) : 1;
    const double start = now_ns();
    for (int i = 0; i < calls; ++i) tried.executor->run(ensemble_.tensors, results_[0]);
    return (now_ns() - start) / calls;
  }

  /// Median nanoseconds of a call; no closer look at one far above `best_ns`.
  double time(Tried& tried, double best_ns) const {
    const auto once = [&] { return call_ns(tried); };
    const double first = tried.ns = first_look_ns(once, 2 * best_ns);
    if ((best_ns > 0 && first > 2 * best_ns) || first > kSteadyCall_ns) return first;
    return median_ns(once, std::clamp(static_cast<int>(1e7 / (first + 1)), 3, 41));
  }

  /// Index of the fastest. A few milliseconds in which others had the cores must not decide about
  /// all calls to come: short ones are timed again in turns, and each counts by its best turn.
  size_t fastest(std::vector<Tried>& tried) const {
    constexpr int kTurns = 3;
    constexpr double kTurn_ns = 1e6;
    const auto by_ns = [](const Tried& a, const Tried& b) { return a.ns < b.ns; };
    const auto best = [&] { return std::min_element(tried.begin(), tried.end(), by_ns); };
    if (best()->ns < kShortCall_ns)
      for (int turn = 0; turn < kTurns; ++turn)
        for (Tried& t : tried) {
          if (turn > 0 && t.ns > 2 * best()->ns) continue;
          const auto once = [&] { return call_ns(t); };
          once();  // wakes the threads
          t.ns =
              std::min(t.ns, median_ns(once, std::clamp(static_cast<int>(kTurn_ns / t.ns), 3, 15)));
        }
    return static_cast<size_t>(best() - tried.begin());
  }

  static Tensor empty(const Value& v) {
    return in_large_pages(at::empty(v.sizes, at::TensorOptions().dtype(v.dtype).device(v.device)));
  }

  /// Throws Error unless input k is there with the sizes and type that were compiled for.
  void check_input(size_t k, const Tensors& inputs) const {
    const auto at = network_.indices(true);
    if (inputs.size() != at.size())
      fail("[{}] inputs: got {}, expected {}; try one tensor for each", network_.name,
           inputs.size(), at.size());
    const Tensor& bound = ensemble_.tensors[at[k]];
    if (inputs[k].sizes() != bound.sizes() || inputs[k].scalar_type() != bound.scalar_type())
      fail("[{}] input {}: got {}, expected {}; try compiling again for other sizes", network_.name,
           network_.tensors[at[k]].name, describe(inputs[k]).shape_text(),
           describe(bound).shape_text());
  }

  void bind_inputs(const Tensors& inputs) {
    const auto at = network_.indices(true);
    for (size_t k = 0; k < at.size(); ++k) {
      check_input(k, inputs);
      ensemble_.tensors[at[k]] = inputs[k].contiguous();
    }
  }

  /// Memory for the results: that of an earlier call when the caller has let go of all of it. Two
  /// of them, so that a caller who feeds results back as inputs does not ask for new memory.
  const Tensors& fresh_results() {
    const auto free = [](const Tensors& results) {
      return std::all_of(results.begin(), results.end(), [](const Tensor& t) {
        return t.use_count() == 1 && t.storage().use_count() == 1;
      });
    };
    for (Tensors& results : results_)
      if (!results.empty() && free(results)) return results;
    std::swap(results_[0], results_[1]);
    results_[0].clear();
    for (const Value& v : executor_->results()) results_[0].push_back(empty(v));
    return results_[0];
  }

  Network network_;
  Ensemble ensemble_;
  CompileOptions options_;
  int threads_ = 1;
  int ranges_ = 1;
  Program single_;
  std::map<int64_t, std::shared_ptr<const RangeProgram>> programs_;
  std::map<int64_t, std::vector<std::string>> chosen_;  // strategies in order, by models at a time
  Tuner whole_{{}}, serial_{{}};                        // of all models at once, and of a shard
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const RangeProgram> running_;  // of the ranges
  mutable std::shared_ptr<const RangeProgram> full_;
  std::function<std::shared_ptr<const RangeProgram>()> make_full_ = [this] {
    return make_program(0, ensemble_.n, true);
  };
  std::array<Tensors, 2> results_;
  std::unique_ptr<DeviceGraph> graph_;  // of mode reduce-overhead
  Tensors captured_;                    // results where the graph leaves them
};

}  // namespace

std::unique_ptr<CompiledModel> compile(const Network& network, const Ensemble& ensemble,
                                       const CompileOptions& options) {
  const c10::Device device = ensemble.tensors.at(0).device();
  if (auto reason = unsupported(options.mode, device)) throw Unsupported(*reason);
  return std::make_unique<Compiled>(network, ensemble, options);
}

}  // namespace wide
