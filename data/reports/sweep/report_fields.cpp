#include "data/reports/sweep/report_fields.h"

#include <algorithm>

namespace wide {
namespace {

constexpr FieldRule kPlain = FieldRule();
constexpr FieldRule kColumn{.column = ""};
constexpr FieldRule kCount{.minimum = 0};
constexpr FieldRule kPositive{.above = 0, .finite = true};
constexpr FieldRule kSeconds{.minimum = 0, .finite = true};
constexpr FieldRule kFinite{.finite = true};
constexpr FieldRule kOmitted{.presence = Presence::omitted};
constexpr FieldRule kNull{.presence = Presence::null};

constexpr FieldRule kTimingList{.definition = "common.json#/$defs/timing"};

/// The same rule, for a field with a column of its own.
constexpr FieldRule in_column(FieldRule rule, const char* column = "") {
  rule.column = column;
  return rule;
}

constexpr Way kWays[] = {Way::strategy, Way::vmap, Way::shared, Way::per_model};

/// Visits one number for each way of widening, 0 if the way was not used.
template <class Map>
void describe_ways(Fields& fields, Map& ways, const FieldRule& rule) {
  for (const Way way : kWays) {
    const auto known = ways.find(way);
    auto value = known == ways.end() ? typename Map::mapped_type() : known->second;
    fields.add(to_string(way), value, rule);
    if (fields.fills()) ways[way] = value;
  }
}

/// Visits the fields that identify a case, except N.
template <class Identity>
void describe_case(Fields& fields, Identity& of, bool columns) {
  const auto rule = [&](FieldRule other) { return columns ? in_column(other) : other; };
  fields.add("shape", of.shape, rule(kPlain));
  fields.add("dtype", of.dtype, rule({.words = "f32 f64 f16 bf16"}));
  fields.add("device", of.device, rule({.pattern = "^(cpu|cuda(:[0-9]+)?)$"}));
  fields.add("mode", of.mode, rule({.words = "eager default reduce-overhead max-autotune"}));
  fields.add("phase", of.phase, rule({.words = "forward backward step"}));
}

void describe_status(Fields& fields, Status& status, const FieldRule& rule) {
  fields.add_word(
      "status", status, [](Status s) { return std::string(to_string(s)); }, status_of, rule);
}

/// Visits a ratio and its interval, with columns COLUMN, COLUMN_low and COLUMN_high.
void describe_interval(Fields& fields, Interval& interval, const char* column) {
  fields.add("value", interval.value, in_column(kPlain, column));
  fields.add("ci95", interval, in_column(kPlain, column));
}

/// Older reports say 0 if the loop was not among the baselines.
void forget_missing_loop(Fields& fields, Speedup& speedup) {
  if (fields.fills() && speedup.vs_loop && !(speedup.vs_loop->value > 0)) speedup.vs_loop.reset();
}

/// A fusion's speedup, whose fields are not nested.
void describe_flat(Fields& fields, Speedup& speedup) {
  Interval loop = speedup.vs_loop.value_or(Interval{});
  FieldRule rule = in_column(kOmitted, "vs_loop");
  rule.shown = speedup.vs_loop.has_value();
  fields.add("vs_loop", loop.value, rule);
  fields.add("vs_loop_ci95", loop, rule);
  if (fields.fills()) speedup.vs_loop = loop;
  forget_missing_loop(fields, speedup);
  fields.add("vs_best_baseline", speedup.vs_best.value, in_column(kPlain, "vs_best"));
  fields.add("vs_best_baseline_ci95", speedup.vs_best, in_column(kPlain, "vs_best"));
  fields.add("best_baseline", speedup.best_baseline, kColumn);
}

}  // namespace

void describe(Fields& fields, Speedup& speedup) {
  if (fields.begin("vs_loop", speedup.vs_loop.has_value(),
                   {.presence = Presence::omitted, .definition = "common.json#/$defs/interval"})) {
    if (!speedup.vs_loop) speedup.vs_loop.emplace();
    describe_interval(fields, *speedup.vs_loop, "vs_loop");
    fields.end();
    forget_missing_loop(fields, speedup);
  }
  fields.begin("vs_best_baseline", true, kPlain);
  describe_interval(fields, speedup.vs_best, "vs_best");
  fields.add("name", speedup.best_baseline, in_column(kPlain, "best_baseline"));
  fields.end();
}

void describe(Fields& fields, CaseSeconds& seconds) {
  fields.add("setup", seconds.setup, kSeconds);
  fields.add("compile", seconds.compile, kSeconds);
  fields.add("check", seconds.check, kSeconds);
  fields.add("baselines", seconds.baselines, kSeconds);
  fields.add("timing", seconds.timing, kSeconds);
  fields.add("total", seconds.total, kSeconds);
}

void describe(Fields& fields, MissingBaseline& missing) {
  fields.add("name", missing.name);
  describe_status(fields, missing.status, {.words = "oom skipped unsupported"});
  fields.add("reason", missing.reason);
  fields.add("needed_bytes", missing.needed_bytes, kCount);
}

void describe(Fields& fields, FormWork& work) {
  fields.add("form", work.form, {.words = "naive optimised compiled"});
  fields.add("operators", work.operators, kCount);
  fields.add("bytes", work.bytes, kSeconds);
  fields.add("passes", work.passes, kSeconds);
  fields.add("flops", work.flops, kSeconds);
}

void describe(Fields& fields, Fallback& fallback) {
  fields.add("node", fallback.node);
  fields.add("operator", fallback.op);
  fields.add("reason", fallback.reason);
}

void describe(Fields& fields, PassRecord& pass) {
  fields.add("name", pass.name);
  fields.add("milliseconds", pass.milliseconds, kFinite);
  fields.add("nodes_before", pass.nodes_before, kCount);
  fields.add("nodes_after", pass.nodes_after, kCount);
  fields.add("summary", pass.summary);
}

void describe(Fields& fields, StepCost& step) {
  fields.add("operator", step.op);
  fields.add("module", step.module);
  fields.add("primitive", step.primitive);
  fields.add("strategy", step.strategy);
  fields.add("shape", step.shape);
  fields.add("median_ns", step.median_ns, kFinite);
  fields.add("share", step.share, kFinite);
  fields.add("node", step.node, {.presence = Presence::omitted, .none = -1});
  fields.add("flops", step.flops, kOmitted);
  fields.add("computed_flops", step.computed_flops, kOmitted);
  fields.add("bytes", step.bytes, kOmitted);
}

void describe(Fields& fields, TimelineItem& item) {
  fields.add("kind", item.kind, {.words = "model operator shared range step"});
  fields.add("name", item.name);
  fields.add("module", item.module, kOmitted);
  fields.add("primitive", item.primitive, kOmitted);
  fields.add("strategy", item.strategy, kOmitted);
  fields.add("shape", item.shape, kOmitted);
  fields.add("node", item.node, {.presence = Presence::omitted, .none = -1});
  fields.add("flops", item.flops, kOmitted);
  fields.add("computed_flops", item.computed_flops, kOmitted);
  fields.add("bytes", item.bytes, kOmitted);
}

/// Spans are written as arrays by field: there may be tens of thousands.
void describe(Fields& fields, TimelineCall& call) {
  fields.add("name", call.name, {.words = "loop wide"});
  fields.add("calls", call.calls, {.minimum = 1});
  fields.add("call_ns", call.call_ns, kSeconds);
  fields.add("cores_a_lane", call.cores_a_lane, {.minimum = 1});
  fields.add("lanes", call.lanes);
  fields.add("items", call.items);
  fields.add("notes", call.notes);
  std::vector<double> item, lane, core, begin, end;
  for (const TimelineSpan& span : call.spans) {
    item.push_back(span.item);
    lane.push_back(span.lane);
    core.push_back(span.core);
    begin.push_back(span.begin_ns);
    end.push_back(span.end_ns);
  }
  fields.begin("spans", true, kPlain);
  fields.add("item", item);
  fields.add("lane", lane);
  fields.add("core", core);
  fields.add("begin_ns", begin);
  fields.add("end_ns", end);
  fields.end();
  if (!fields.fills()) return;
  // Spans of a file may have any indices: those out of range are dropped.
  const auto below = [](double index, size_t size) {
    return index >= 0 && index < static_cast<double>(size);
  };
  call.spans.clear();
  const size_t count = std::min({item.size(), lane.size(), core.size(), begin.size(), end.size()});
  for (size_t i = 0; i < count; ++i)
    if (below(item[i], call.items.size()) && below(lane[i], call.lanes.size()))
      call.spans.push_back({static_cast<int32_t>(item[i]), static_cast<int32_t>(lane[i]),
                            below(core[i], 1 << 20) ? static_cast<int32_t>(core[i]) : -1, begin[i],
                            end[i]});
}

void describe(Fields& fields, WeightsLoaded& weights) {
  fields.add("checkpoints", weights.checkpoints, {.minimum = 1});
  fields.add("file_bytes", weights.file_bytes, kCount);
  fields.add("packed_bytes", weights.packed_bytes, kCount);
  fields.add("equal_bytes", weights.equal_bytes, kCount);
  fields.add("load_ns", weights.load_ns, kSeconds);
}

void describe(Fields& fields, AlongN& along) {
  fields.add("crossover", along.crossover, kNull);
  fields.add("best_n", along.best_n, kNull);
  FieldRule rule = kNull;
  rule.shown = along.best_n > 0;
  fields.add("models_per_s", along.models_per_s, rule);
}

void describe(Fields& fields, MemoryLevel& level) {
  fields.add("working_set", level.working_set, kPositive);
  fields.add("bytes_per_s", level.bytes_per_s, kPositive);
}

void describe(Fields& fields, Timing& timing) {
  constexpr FieldRule kTime = in_column(kCount), kKnown = in_column(kNull);
  fields.add("name", timing.name, kColumn);
  fields.add("kind", timing.kind, in_column({.words = "baseline candidate"}));
  fields.add("median_ns", timing.median_ns, kTime);
  fields.add("q1_ns", timing.q1_ns, kTime);
  fields.add("q3_ns", timing.q3_ns, kTime);
  fields.add("samples_ns", timing.samples_ns, kSeconds);
  fields.add("outliers", timing.outliers, in_column(kCount));
  fields.add("calls_per_sample", timing.calls_per_sample, in_column(kCount));
  fields.add("first_call_ns", timing.first_call_ns, kColumn);
  fields.add("cold_ns", timing.cold_ns, kNull);
  fields.add("with_packing_ns", timing.with_packing_ns, kNull);
  fields.add("peak_bytes", timing.peak_bytes, kColumn);
  fields.add("flops", timing.flops);
  fields.add("bytes", timing.bytes);
  fields.add("steps", timing.steps, kCount);
  // A share is unknown if the machine's peak was not measured.
  fields.add("flops_share", timing.flops_share, kKnown);
  fields.add("bytes_share", timing.bytes_share, kKnown);
  fields.add("computed_flops", timing.computed_flops, kOmitted);
  fields.add("computed_share", timing.computed_share, kOmitted);
  fields.add("bound", timing.bound,
             {.presence = Presence::null, .words = "compute memory launch unknown"});
}

void describe(Fields& fields, Correctness& correctness) {
  fields.add("max_rel", correctness.max_rel, kColumn);
  fields.add("eager_max_rel", correctness.eager_max_rel, kColumn);
  fields.add("tolerance", correctness.tolerance, in_column(kFinite));
  fields.add("isolated", correctness.isolated, kColumn);
  fields.add("ordered", correctness.ordered, kColumn);
  fields.add("pass", correctness.pass, kColumn);
  fields.add("note", correctness.note, kOmitted);
  fields.add("failure", correctness.failure, kOmitted);
}

void describe(Fields& fields, GpuState& g) {
  fields.add("driver", g.driver, kNull);
  fields.add("capability", g.capability, kNull);
  fields.add("compute_mode", g.compute_mode, kNull);
  fields.add("tf32", g.tf32, {.presence = Presence::null, .words = "on off"});
  fields.add("mhz", g.mhz, kNull);
  fields.add("max_mhz", g.max_mhz, kNull);
  fields.add("memory_mhz", g.memory_mhz, kNull);
  fields.add("power_limit_w", g.power_limit_w, kNull);
  fields.add("temperature_c", g.temperature_c, kNull);
  fields.add("throttled", g.throttled, kNull);
  fields.add("processes", g.processes, {.presence = Presence::null, .none = -1});
}

void describe(Fields& fields, Environment& e) {
  fields.begin("cpu", true, kPlain);
  fields.add("model", e.cpu, in_column(kPlain, "cpu"));
  fields.add("cores", e.cores, in_column(kCount));
  fields.add("governor", e.governor);
  fields.add("mhz", e.mhz, kNull);
  fields.add("max_mhz", e.max_mhz, kNull);
  fields.add("temperature_c", e.temperature_c, kNull);
  fields.add("throttles", e.throttles, {.presence = Presence::null, .none = -1});
  fields.add("load", e.load, kFinite);
  fields.end();
  fields.begin("peaks", true, kPlain);
  fields.add("flops_per_s", e.peak_flops_per_s, kFinite);
  fields.add("bytes_per_s", e.peak_bytes_per_s, kNull);
  fields.add("bandwidth", e.bandwidth, kOmitted);
  fields.add("step_ns", e.step_ns,
             {.presence = Presence::omitted, .shown = !e.bandwidth.empty(), .above = 0});
  fields.end();
  fields.add("threads", e.threads, in_column(kCount));
  fields.add("memory_bytes", e.memory_bytes, in_column(kCount));
  fields.add("gpu", e.gpu, in_column(kNull));
  std::string note = e.gpu.empty() ? "not run on a GPU" : "";
  fields.add("gpu_note", note, kOmitted);
  fields.add("gpu_state", e.gpu_state, kOmitted);
  fields.add("libtorch", e.libtorch, kColumn);
  fields.add("workbench", e.workbench, kColumn);
  fields.add("git", e.git, kColumn);
  fields.add("host", e.host, kColumn);
  fields.add("os", e.os, kColumn);
  fields.add("date", e.date, kColumn);
  fields.add("command", e.command, kColumn);
}

void describe_own(Fields& fields, Trial& t) {
  const bool right = t.speedup && t.status == Status::ok;
  fields.add("strategy", t.strategy, kColumn);
  describe_status(fields, t.status,
                  in_column({.words = "ok incorrect unsupported oom timeout crashed cancelled "
                                      "interrupted skipped"}));
  fields.add("reason", t.reason, in_column(kNull));
  fields.add("chosen", t.chosen, kColumn);
  fields.add("speedup", t.speedup, {.presence = Presence::null, .shown = right});
  fields.add("verdict", t.verdict,
             {.presence = Presence::null,
              .column = "",
              .shown = right,
              .words = "FASTER SLOWER SAME UNCLEAR"});
  fields.add("correctness", t.correctness,
             {.presence = Presence::null,
              .own_table = true,
              .definition = "common.json#/$defs/correctness"});
  fields.add("needed_bytes", t.needed_bytes, {.presence = Presence::omitted, .minimum = 1});
}

void describe(Fields& fields, Trial& trial) {
  describe(fields, trial.timing);
  describe_own(fields, trial);
}

void describe(Fields& fields, Case& c) {
  fields.add("target", c.target, kColumn);
  fields.add("n", c.n, in_column({.minimum = 1}));
  describe_case(fields, c, true);
  fields.add("machine", c.machine, in_column(kOmitted));
  fields.add("other_load", c.other_load, kFinite);
  fields.add("disturbed", c.disturbed);
  fields.add("window_frames", c.window_frames,
             {.presence = Presence::omitted, .none = -1, .minimum = 0});
  fields.add("seconds", c.seconds, {.presence = Presence::omitted, .shown = c.seconds.total > 0});
  fields.add("notes", c.notes, {.presence = Presence::later});
  fields.add("baselines", c.baselines, kTimingList);
  fields.add("missing", c.missing, kOmitted);
  fields.add("work", c.work, kOmitted);
  fields.add("explanation", c.explanation, {.presence = Presence::omitted, .in_csv = false});
  fields.add("trials", c.trials, {.definition = "#/$defs/trial"});
}

void describe(Fields& fields, Crossover& c) {
  fields.add("target", c.target);
  describe_case(fields, c, false);
  fields.add("strategy", c.strategy);
  fields.add("machine", c.machine, kOmitted);
  fields.add("n", c.n, {.presence = Presence::null, .minimum = 1});
}

void describe(Fields& fields, SweepReport& report) {
  fields.begin("sweep", true, kPlain);
  fields.add("id", report.id);
  fields.add("name", report.name);
  fields.add("command", report.command);
  fields.add("state", report.state, {.words = "running complete cancelled interrupted"});
  fields.end();
  fields.add("environment", report.environment,
             {.own_table = true, .definition = "common.json#/$defs/environment"});
  fields.add("machines", report.machines,
             {.presence = Presence::omitted,
              .own_table = true,
              .definition = "common.json#/$defs/environment"});
  fields.add("changes", report.changes);
  fields.add("cases", report.cases, {.definition = "#/$defs/case"});
  std::vector<Crossover> found = crossovers(report.cases);  // derived from the cases, for readers
  fields.add("crossover", found, {.presence = Presence::later});
}

void describe(Fields& fields, FuseResult& r) {
  fields.add("n", r.n, in_column({.minimum = 1}));
  fields.begin("coverage", true, kPlain);
  describe_ways(fields, r.coverage, kCount);
  fields.end();
  if (fields.begin("coverage_time", !r.coverage_time.empty(), kNull)) {
    describe_ways(fields, r.coverage_time, kFinite);
    fields.end();
  }
  fields.add("fallbacks", r.fallbacks);
  fields.add("results", r.results, kTimingList);
  fields.add("chosen", r.chosen, in_column(kNull));
  if (fields.begin("speedup", r.speedup && r.correctness.pass, kNull)) {
    if (!r.speedup) r.speedup.emplace();
    describe_flat(fields, *r.speedup);
    fields.end();
  }
  fields.add("correctness", r.correctness,
             {.own_table = true, .definition = "common.json#/$defs/correctness"});
  fields.add("first_call_ns", r.first_call_ns, in_column(kFinite));
  fields.begin("memory", true, kPlain);
  fields.add("wide_bytes", r.wide_bytes, kColumn);
  fields.add("separate_bytes", r.separate_bytes, kColumn);
  fields.end();
  fields.add("passes", r.passes);
  fields.add("steps", r.steps, kOmitted);
  fields.add("timeline", r.timeline, kOmitted);
  fields.add("other_load", r.other_load, {.presence = Presence::later, .finite = true});
  fields.add("disturbed", r.disturbed, {.presence = Presence::later});
  fields.add("notes", r.notes);
  fields.add("plan", r.plan);
}

void describe_own(Fields& fields, FuseReport& report) {
  fields.add("model", report.model, kColumn);
  fields.add("device", report.device, kColumn);
  fields.add("dtype", report.dtype, kColumn);
  fields.add("mode", report.mode, kColumn);
  fields.add("reduce", report.reduce, {.presence = Presence::omitted, .words = "mean std vote"});
  fields.add("trusted", report.trusted,
             {.presence = Presence::omitted, .description = "files could call every operator"});
  fields.add("environment", report.environment,
             {.own_table = true, .definition = "common.json#/$defs/environment"});
  fields.add("weights", report.weights, kOmitted);
  fields.add("largest_n", report.largest_n, {.presence = Presence::omitted, .minimum = 1});
  fields.add("along_n", report.along_n, kOmitted);
}

void describe(Fields& fields, FuseReport& report) {
  describe_own(fields, report);
  // With several Ns, the largest one's results come first too, where scripts for one N look.
  FuseResult top;
  if (fields.fills() || !report.curve.empty())
    describe(fields, fields.fills() ? top : report.curve.back());
  fields.add("curve", report.curve,
             {.presence = Presence::omitted,
              .shown = report.curve.size() > 1,
              .definition = "#/$defs/point"});
  if (report.curve.empty() && fields.fills()) report.curve.push_back(std::move(top));
}

}  // namespace wide
