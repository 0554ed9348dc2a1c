#pragma once
#include <random>

#include "data/store/store.h"

// Results that no measurement gave, for the store's tests.
namespace wide {

/// Every field has a value of its own.
inline Timing stored_timing(const std::string& name, const std::string& kind,
                            std::mt19937_64& random, size_t samples = 25) {
  std::lognormal_distribution<double> time(10, 3);
  Timing t;
  t.name = name;
  t.kind = kind;
  for (size_t i = 0; i < samples; ++i) t.samples_ns.push_back(time(random));
  if (samples > 0) summarise(t);
  t.calls_per_sample = static_cast<int64_t>(random() % 1000);
  t.outliers = static_cast<int>(random() % 5);
  t.first_call_ns = time(random);
  t.cold_ns = time(random);
  t.with_packing_ns = time(random);
  t.peak_bytes = static_cast<int64_t>(random() >> 20);
  t.flops = time(random);
  t.bytes = time(random);
  t.steps = static_cast<int64_t>(random() % 100);
  t.flops_share = 0.125;
  t.bytes_share = 0.25;
  t.bound = "memory";
  return t;
}

inline Correctness stored_correctness(std::mt19937_64& random) {
  Correctness c;
  c.max_rel = static_cast<double>(random() % 1000) * 1e-9;
  c.eager_max_rel = static_cast<double>(random() % 1000) * 1e-9;
  c.tolerance = 1e-5;
  c.isolated = random() % 2;
  c.ordered = random() % 2;
  c.pass = true;
  c.note = "isolation to tolerance: \"blocked\" kernels";
  return c;
}

inline Case stored_case(int64_t n, uint64_t seed, size_t trials = 3) {
  std::mt19937_64 random(seed);
  Case c;
  c.target = "linear";
  c.shape = "B16 D256";
  c.dtype = "f32";
  c.device = "cpu";
  c.mode = "default";
  c.n = n;
  c.other_load = 0.25;
  c.disturbed = random() % 2;
  for (const char* name : {"loop", "threads"})
    c.baselines.push_back(stored_timing(name, "baseline", random));
  for (size_t i = 0; i < trials; ++i) {
    Trial t;
    t.strategy = i == 0 ? "einsum" : "s" + std::to_string(i);
    t.timing = stored_timing(t.strategy, "candidate", random);
    t.status = i % 7 == 1 ? Status::incorrect : i % 7 == 2 ? Status::unsupported : Status::ok;
    t.chosen = i == 0;
    t.reason = i == 0 ? "" : "why: it's \"so\"\nsaid \xE2\x89\xA4 3";
    if (t.status != Status::unsupported) t.correctness = stored_correctness(random);
    if (t.status == Status::ok) {
      t.speedup = speedup_of(c.baselines, t.timing, 0);
      t.verdict = verdict(t.speedup->vs_best);
    }
    c.trials.push_back(std::move(t));
  }
  return c;
}

inline StoredCases stored_plan(const std::string& name, const std::vector<int64_t>& ns) {
  StoredCases plan;
  plan.name = name;
  plan.command = "workbench sweep '" + name + "'";
  plan.environment = capture_environment(plan.command, "0.1", "abc");
  plan.environment.peak_flops_per_s = {{"f32", 1e11}};
  plan.settings = {{"--seed", "0"}, {"--budget", "0.02"}};
  for (const int64_t n : ns)
    plan.cases.push_back({"linear", "B16 D256", "f32", "cpu", "default", "forward", n, {"einsum"}});
  return plan;
}

}  // namespace wide
