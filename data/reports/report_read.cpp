// Reads back what report_json.cpp writes; the two files change together.
#include "data/reports/report_read.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/bytes/json_depth.h"
#include "data/bytes/mapped_file.h"
#include "data/reports/report_json.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// A JSON object and where it stands, so that every complaint names file and field.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object())
      fail("[{}] JSON: got {}, expected an object; try a report that the workbench wrote", where_,
           json_.type_name());
  }

  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end())
      fail("[{}] {}: got nothing, expected a value; try a report that the workbench wrote", where_,
           key);
    return *it;
  }

  bool has(const char* key) const {
    const auto it = json_.find(key);
    return it != json_.end() && !it->is_null();
  }

  Object object(const char* key) const { return {at(key), inside(key)}; }

  const Json& array(const char* key) const {
    const Json& found = at(key);
    if (!found.is_array()) wrong(key, found, "a list");
    return found;
  }

  auto items() const { return json_.items(); }

  std::string inside(const std::string& key) const { return where_ + ": " + key; }

  /// Not-a-number is written as null.
  void read(const char* key, double* value) const {
    const Json& found = at(key);
    if (found.is_null())
      *value = std::numeric_limits<double>::quiet_NaN();
    else if (found.is_number())
      *value = found.get<double>();
    else
      wrong(key, found, "a number");
  }
  /// What was not measured is null, and keeps the value it has.
  template <class Number>
  void read_known(const char* key, Number* value) const {
    if (has(key)) read(key, value);
  }
  void read(const char* key, bool* value) const {
    const Json& found = at(key);
    if (!found.is_boolean()) wrong(key, found, "true or false");
    *value = found.get<bool>();
  }
  template <class Integer>
  std::enable_if_t<std::is_integral_v<Integer>> read(const char* key, Integer* value) const {
    const Json& found = at(key);
    if (!found.is_number_integer()) wrong(key, found, "an integer");
    *value = found.get<Integer>();
  }
  void read(const char* key, std::string* value) const {
    const Json& found = at(key);
    if (!found.is_string()) wrong(key, found, "a text");
    *value = found.get<std::string>();
  }
  /// Empty texts are written as null, or left out.
  void read_text(const char* key, std::string* value) const {
    if (has(key)) read(key, value);
  }
  void read(const char* key, std::vector<std::string>* value) const {
    for (const Json& item : array(key)) {
      if (!item.is_string()) wrong(key, item, "texts");
      value->push_back(item.get<std::string>());
    }
  }
  void read(const char* key, std::vector<double>* value) const {
    for (const Json& item : array(key)) {
      if (!item.is_number()) wrong(key, item, "numbers");
      value->push_back(item.get<double>());
    }
  }

 private:
  [[noreturn]] void wrong(const char* key, const Json& found, const char* expected) const {
    fail("[{}] {}: got {}, expected {}; try a report that the workbench wrote", where_, key,
         found.is_structured() ? found.type_name() : printable(found.dump(), 60), expected);
  }

  const Json& json_;
  std::string where_;
};

Timing timing_from(const Object& j) {
  Timing t;
  j.read("name", &t.name);
  j.read("kind", &t.kind);
  j.read("median_ns", &t.median_ns);
  j.read("q1_ns", &t.q1_ns);
  j.read("q3_ns", &t.q3_ns);
  j.read("samples_ns", &t.samples_ns);
  j.read("outliers", &t.outliers);
  j.read("calls_per_sample", &t.calls_per_sample);
  j.read("first_call_ns", &t.first_call_ns);
  j.read_known("cold_ns", &t.cold_ns);
  j.read_known("with_packing_ns", &t.with_packing_ns);
  j.read("peak_bytes", &t.peak_bytes);
  j.read("flops", &t.flops);
  j.read("bytes", &t.bytes);
  j.read("steps", &t.steps);
  j.read_known("flops_share", &t.flops_share);
  j.read_known("bytes_share", &t.bytes_share);
  j.read_text("bound", &t.bound);
  return t;
}

Correctness correctness_from(const Object& j) {
  Correctness c;
  j.read("max_rel", &c.max_rel);
  j.read("eager_max_rel", &c.eager_max_rel);
  j.read("tolerance", &c.tolerance);
  j.read("isolated", &c.isolated);
  j.read("ordered", &c.ordered);
  j.read("pass", &c.pass);
  j.read_text("note", &c.note);
  j.read_text("failure", &c.failure);
  return c;
}

Interval interval_from(const Object& j) {
  Interval i;
  j.read("value", &i.value);
  std::vector<double> ends;
  j.read("ci95", &ends);
  if (ends.size() != 2)
    fail("[{}] entries: got {}, expected 2; try a report that the workbench wrote",
         j.inside("ci95"), ends.size());
  i.low = ends[0];
  i.high = ends[1];
  return i;
}

Trial trial_from(const Object& j) {
  Trial t;
  t.timing = timing_from(j);
  j.read("strategy", &t.strategy);
  std::string status;
  j.read("status", &status);
  t.status = status_of(status);
  j.read_text("reason", &t.reason);
  j.read("chosen", &t.chosen);
  if (j.has("speedup")) {
    const Object both = j.object("speedup");
    t.speedup.emplace();
    if (both.has("vs_loop")) {
      const Interval loop = interval_from(both.object("vs_loop"));
      if (loop.value > 0) t.speedup->vs_loop = loop;  // else it was not among the baselines
    }
    const Object best = both.object("vs_best_baseline");
    t.speedup->vs_best = interval_from(best);
    best.read("name", &t.speedup->best_baseline);
  }
  j.read_text("verdict", &t.verdict);
  if (j.has("correctness")) t.correctness = correctness_from(j.object("correctness"));
  if (j.has("needed_bytes")) j.read("needed_bytes", &t.needed_bytes);
  return t;
}

Environment environment_from(const Object& j) {
  Environment e;
  const Object cpu = j.object("cpu");
  cpu.read("model", &e.cpu);
  cpu.read("cores", &e.cores);
  cpu.read("governor", &e.governor);
  cpu.read_known("mhz", &e.mhz);
  cpu.read_known("max_mhz", &e.max_mhz);
  cpu.read_known("temperature_c", &e.temperature_c);
  cpu.read_known("throttles", &e.throttles);
  cpu.read("load", &e.load);
  const Object peaks = j.object("peaks"), flops = peaks.object("flops_per_s");
  for (const auto& [dtype, value] : flops.items())
    flops.read(dtype.c_str(), &e.peak_flops_per_s[dtype]);
  peaks.read_known("bytes_per_s", &e.peak_bytes_per_s);
  if (peaks.has("bandwidth"))  // older reports have none
    for (const Json& level : peaks.array("bandwidth")) {
      const Object of_level(level, peaks.inside("bandwidth"));
      MemoryLevel& read = e.bandwidth.emplace_back();
      of_level.read("working_set", &read.working_set);
      of_level.read("bytes_per_s", &read.bytes_per_s);
    }
  peaks.read_known("step_ns", &e.step_ns);
  j.read("threads", &e.threads);
  j.read("memory_bytes", &e.memory_bytes);
  j.read_text("gpu", &e.gpu);
  j.read("libtorch", &e.libtorch);
  j.read("workbench", &e.workbench);
  j.read("git", &e.git);
  j.read("host", &e.host);
  j.read("os", &e.os);
  j.read("date", &e.date);
  j.read("command", &e.command);
  return e;
}

/// Schema 1 called mode default "eager", and said of mode default that it did not exist yet.
void rename_modes(std::vector<Case>* cases) {
  std::erase_if(*cases, [](const Case& c) { return c.mode == "default"; });
  for (Case& c : *cases)
    if (c.mode == "eager") c.mode = "default";
}

}  // namespace

Case case_from_json(const nlohmann::ordered_json& json, const std::string& where) {
  const Object j(json, where);
  Case c;
  j.read("target", &c.target);
  j.read("n", &c.n);
  j.read("shape", &c.shape);
  j.read("dtype", &c.dtype);
  j.read("device", &c.device);
  j.read("mode", &c.mode);
  j.read("phase", &c.phase);
  j.read("other_load", &c.other_load);
  j.read("disturbed", &c.disturbed);
  if (j.has("window_frames")) j.read("window_frames", &c.window_frames);
  if (j.has("seconds")) {
    const Object seconds = j.object("seconds");
    seconds.read("setup", &c.seconds.setup);
    seconds.read("compile", &c.seconds.compile);
    seconds.read("check", &c.seconds.check);
    seconds.read("baselines", &c.seconds.baselines);
    seconds.read("timing", &c.seconds.timing);
    seconds.read("total", &c.seconds.total);
  }
  if (j.has("notes")) j.read("notes", &c.notes);
  for (const Json& t : j.array("baselines"))
    c.baselines.push_back(timing_from({t, j.inside("baselines")}));
  if (j.has("missing"))
    for (const Json& m : j.array("missing")) {
      const Object object(m, j.inside("missing"));
      MissingBaseline& missing = c.missing.emplace_back();
      std::string status;
      object.read("name", &missing.name);
      object.read("status", &status);
      missing.status = status_of(status);
      object.read("reason", &missing.reason);
      object.read("needed_bytes", &missing.needed_bytes);
    }
  if (j.has("work"))
    for (const Json& w : j.array("work")) {
      const Object object(w, j.inside("work"));
      FormWork& work = c.work.emplace_back();
      object.read("form", &work.form);
      object.read("operators", &work.operators);
      object.read("bytes", &work.bytes);
      object.read("passes", &work.passes);
      object.read("flops", &work.flops);
    }
  if (j.has("explanation")) j.read("explanation", &c.explanation);
  for (const Json& t : j.array("trials")) c.trials.push_back(trial_from({t, j.inside("trials")}));
  return c;
}

SweepReport sweep_from_json(const nlohmann::ordered_json& json, const std::string& where) {
  const Object j(json, where);
  int schema = 0;
  j.read("schema", &schema);
  if (schema != kReportSchema && schema != 1)
    fail("[{}] schema: got {}, expected {}; try the workbench that wrote it", where, schema,
         kReportSchema);
  SweepReport report;
  const Object sweep = j.object("sweep");
  sweep.read("id", &report.id);
  sweep.read("name", &report.name);
  sweep.read("command", &report.command);
  sweep.read("state", &report.state);
  report.environment = environment_from(j.object("environment"));
  j.read("changes", &report.changes);
  for (const Json& c : j.array("cases"))
    report.cases.push_back(case_from_json(c, j.inside("cases")));
  if (schema == 1) rename_modes(&report.cases);
  return report;
}

SweepReport read_sweep_report(const std::string& path) {
  const std::string name = printable(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail(
        "[{}] reading: got no such file, expected a sweep's JSON report; try workbench list "
        "sweeps",
        name);
  try {
    const MappedFile file(path);
    check_json_depth(file.bytes(), name);
    return sweep_from_json(Json::parse(file.bytes()), name);
  } catch (const Json::exception& e) {
    fail("[{}] JSON: got {}, expected a sweep's report; try one that the workbench wrote", name,
         printable(e.what()));
  }
}

}  // namespace wide
