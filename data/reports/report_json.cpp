#include "data/reports/report_json.h"

#include <nlohmann/json.hpp>

#include "data/reports/report_format.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

Json correctness_json(const Correctness& c) {
  Json j;
  j["max_rel"] = c.max_rel;
  j["eager_max_rel"] = c.eager_max_rel;
  j["tolerance"] = c.tolerance;
  j["isolated"] = c.isolated;
  j["ordered"] = c.ordered;
  j["pass"] = c.pass;
  if (!c.note.empty()) j["note"] = c.note;
  if (!c.failure.empty()) j["failure"] = c.failure;
  return j;
}

template <class Map>
Json ways_json(const Map& ways) {
  Json j = Json::object();
  for (const Way way : {Way::strategy, Way::vmap, Way::shared, Way::per_model}) {
    const auto it = ways.find(way);
    j[to_string(way)] = it == ways.end() ? typename Map::mapped_type{} : it->second;
  }
  return j;
}

Json ci(const Interval& i) { return Json::array({i.low, i.high}); }

void add_fuse_result(Json& j, const FuseResult& r) {
  j["n"] = r.n;
  j["coverage"] = ways_json(r.coverage);
  j["coverage_time"] = r.coverage_time.empty() ? Json(nullptr) : ways_json(r.coverage_time);
  j["fallbacks"] = Json::array();
  for (const Fallback& f : r.fallbacks)
    j["fallbacks"].push_back({{"node", f.node}, {"operator", f.op}, {"reason", f.reason}});
  j["results"] = Json::array();
  for (const Timing& t : r.results) j["results"].push_back(to_json(t));
  j["chosen"] = r.chosen.empty() ? Json(nullptr) : Json(r.chosen);
  if (r.speedup && r.correctness.pass) {
    j["speedup"] = Json::object();
    if (const auto& loop = r.speedup->vs_loop)
      j["speedup"] = {{"vs_loop", loop->value}, {"vs_loop_ci95", ci(*loop)}};
    j["speedup"]["vs_best_baseline"] = r.speedup->vs_best.value;
    j["speedup"]["vs_best_baseline_ci95"] = ci(r.speedup->vs_best);
    j["speedup"]["best_baseline"] = r.speedup->best_baseline;
  } else {
    j["speedup"] = nullptr;
  }
  j["correctness"] = correctness_json(r.correctness);
  j["first_call_ns"] = r.first_call_ns;
  j["memory"] = {{"wide_bytes", r.wide_bytes}, {"separate_bytes", r.separate_bytes}};
  j["passes"] = Json::array();
  for (const PassRecord& p : r.passes)
    j["passes"].push_back({{"name", p.name},
                           {"milliseconds", p.milliseconds},
                           {"nodes_before", p.nodes_before},
                           {"nodes_after", p.nodes_after},
                           {"summary", p.summary}});
  if (!r.steps.empty()) {
    j["steps"] = Json::array();
    for (const StepCost& s : r.steps)
      j["steps"].push_back({{"operator", s.op},
                            {"module", s.module},
                            {"primitive", s.primitive},
                            {"strategy", s.strategy},
                            {"shape", s.shape},
                            {"median_ns", s.median_ns},
                            {"share", s.share}});
  }
  j["other_load"] = r.other_load;
  j["disturbed"] = r.disturbed;
  j["notes"] = r.notes;
  j["plan"] = r.plan;
}

Json trial_json(const Trial& t) {
  Json j = to_json(t.timing);
  j["strategy"] = t.strategy;
  j["status"] = to_string(t.status);
  j["reason"] = t.reason.empty() ? Json(nullptr) : Json(t.reason);
  j["chosen"] = t.chosen;
  if (t.speedup && t.status == Status::ok) {
    j["speedup"] = Json::object();
    if (const auto& loop = t.speedup->vs_loop)
      j["speedup"]["vs_loop"] = {{"value", loop->value}, {"ci95", ci(*loop)}};
    j["speedup"]["vs_best_baseline"] = {{"value", t.speedup->vs_best.value},
                                        {"ci95", ci(t.speedup->vs_best)},
                                        {"name", t.speedup->best_baseline}};
    j["verdict"] = t.verdict;
  } else {
    j["speedup"] = nullptr;
    j["verdict"] = nullptr;
  }
  j["correctness"] = t.correctness ? correctness_json(*t.correctness) : Json(nullptr);
  if (t.needed_bytes > 0) j["needed_bytes"] = t.needed_bytes;
  return j;
}

}  // namespace

Json to_json(const Timing& t) {
  Json j;
  j["name"] = t.name;
  j["kind"] = t.kind;
  j["median_ns"] = t.median_ns;
  j["q1_ns"] = t.q1_ns;
  j["q3_ns"] = t.q3_ns;
  j["samples_ns"] = t.samples_ns;
  j["outliers"] = t.outliers;
  j["calls_per_sample"] = t.calls_per_sample;
  j["first_call_ns"] = t.first_call_ns;
  j["cold_ns"] = t.cold_ns > 0 ? Json(t.cold_ns) : Json(nullptr);
  j["with_packing_ns"] = t.with_packing_ns > 0 ? Json(t.with_packing_ns) : Json(nullptr);
  j["peak_bytes"] = t.peak_bytes;
  j["flops"] = t.flops;
  j["bytes"] = t.bytes;
  j["steps"] = t.steps;
  // A peak of the machine that was not measured leaves no share to report.
  j["flops_share"] = t.flops_share > 0 ? Json(t.flops_share) : Json(nullptr);
  j["bytes_share"] = t.bytes_share > 0 ? Json(t.bytes_share) : Json(nullptr);
  j["bound"] = t.bound.empty() ? Json(nullptr) : Json(t.bound);
  return j;
}

nlohmann::ordered_json to_json(const Environment& e) {
  Json j;
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  j["cpu"] = {{"model", e.cpu},
              {"cores", e.cores},
              {"governor", e.governor},
              {"mhz", known(e.mhz)},
              {"max_mhz", known(e.max_mhz)},
              {"temperature_c", known(e.temperature_c)},
              {"throttles", e.throttles >= 0 ? Json(e.throttles) : Json(nullptr)},
              {"load", e.load}};
  j["peaks"] = {{"flops_per_s", e.peak_flops_per_s}, {"bytes_per_s", known(e.peak_bytes_per_s)}};
  if (!e.bandwidth.empty()) {
    Json& levels = j["peaks"]["bandwidth"] = Json::array();
    for (const MemoryLevel& level : e.bandwidth)
      levels.push_back({{"working_set", level.working_set}, {"bytes_per_s", level.bytes_per_s}});
    j["peaks"]["step_ns"] = e.step_ns;
  }
  j["threads"] = e.threads;
  j["memory_bytes"] = e.memory_bytes;
  j["gpu"] = e.gpu.empty() ? Json(nullptr) : Json(e.gpu);
  if (e.gpu.empty()) j["gpu_note"] = "not run on a GPU";
  j["libtorch"] = e.libtorch;
  j["workbench"] = e.workbench;
  j["git"] = e.git;
  j["host"] = e.host;
  j["os"] = e.os;
  j["date"] = e.date;
  j["command"] = e.command;
  return j;
}

nlohmann::ordered_json to_json(const FuseReport& report) {
  Json j;
  j["schema"] = kReportSchema;
  j["model"] = report.model;
  j["device"] = report.device;
  j["dtype"] = report.dtype;
  j["mode"] = report.mode;
  if (!report.reduce.empty()) j["reduce"] = report.reduce;
  if (report.trusted) j["trusted"] = true;
  j["environment"] = to_json(report.environment);
  if (const auto& w = report.weights)
    j["weights"] = {{"checkpoints", w->checkpoints},
                    {"file_bytes", w->file_bytes},
                    {"packed_bytes", w->packed_bytes},
                    {"equal_bytes", w->equal_bytes},
                    {"load_ns", 1e9 * w->seconds}};
  if (report.largest_n) j["largest_n"] = report.largest_n;
  if (const auto& a = report.along_n)
    j["along_n"] = {{"crossover", a->crossover ? Json(*a->crossover) : Json(nullptr)},
                    {"best_n", a->best_n ? Json(a->best_n) : Json(nullptr)},
                    {"models_per_s", a->best_n ? Json(a->models_per_s) : Json(nullptr)}};
  // With several Ns the largest stands at the top, where scripts for one N look.
  if (!report.curve.empty()) add_fuse_result(j, report.curve.back());
  if (report.curve.size() > 1) {
    j["curve"] = Json::array();
    for (const FuseResult& r : report.curve) {
      Json point;
      add_fuse_result(point, r);
      j["curve"].push_back(std::move(point));
    }
  }
  return j;
}

nlohmann::ordered_json to_json(const Case& c) {
  Json j;
  j["target"] = c.target;
  j["n"] = c.n;
  j["shape"] = c.shape;
  j["dtype"] = c.dtype;
  j["device"] = c.device;
  j["mode"] = c.mode;
  j["phase"] = c.phase;
  j["other_load"] = c.other_load;
  j["disturbed"] = c.disturbed;
  if (c.window_frames >= 0) j["window_frames"] = c.window_frames;
  if (const CaseSeconds& s = c.seconds; s.total > 0)
    j["seconds"] = {{"setup", s.setup},         {"compile", s.compile}, {"check", s.check},
                    {"baselines", s.baselines}, {"timing", s.timing},   {"total", s.total}};
  j["notes"] = c.notes;
  j["baselines"] = Json::array();
  for (const Timing& t : c.baselines) j["baselines"].push_back(to_json(t));
  for (const MissingBaseline& m : c.missing)
    j["missing"].push_back({{"name", m.name},
                            {"status", to_string(m.status)},
                            {"reason", m.reason},
                            {"needed_bytes", m.needed_bytes}});
  for (const FormWork& w : c.work)
    j["work"].push_back({{"form", w.form},
                         {"operators", w.operators},
                         {"bytes", w.bytes},
                         {"passes", w.passes},
                         {"flops", w.flops}});
  if (!c.explanation.empty()) j["explanation"] = c.explanation;
  j["trials"] = Json::array();
  for (const Trial& t : c.trials) j["trials"].push_back(trial_json(t));
  return j;
}

nlohmann::ordered_json to_json(const SweepReport& report) {
  Json j;
  j["schema"] = kReportSchema;
  j["sweep"] = {{"id", report.id},
                {"name", report.name},
                {"command", report.command},
                {"state", report.state}};
  j["environment"] = to_json(report.environment);
  j["changes"] = report.changes;
  j["cases"] = Json::array();
  for (const Case& c : report.cases) j["cases"].push_back(to_json(c));
  j["crossover"] = Json::array();
  for (const Crossover& c : crossovers(report.cases))
    j["crossover"].push_back({{"target", c.target},
                              {"shape", c.shape},
                              {"dtype", c.dtype},
                              {"device", c.device},
                              {"mode", c.mode},
                              {"phase", c.phase},
                              {"strategy", c.strategy},
                              {"n", c.n ? Json(*c.n) : Json(nullptr)}});
  return j;
}

std::string report_text(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  write_report(path, report_text(json));
}

}  // namespace wide
