#include "data/store/sweeps/cases.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "data/store/results.h"
#include "data/store/sweeps/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Which cases are read, as conditions with one parameter: on the rows that belong to cases, and on
/// the cases themselves.
struct Chosen {
  const char *of_case, *cases;
};
constexpr Chosen kOfSweep{"\"case\" IN (SELECT id FROM \"case\" WHERE sweep = ?)", "sweep = ?"};
constexpr Chosen kOneCase{"\"case\" = ?", "id = ?"};

/// A case as in the report, but without samples, which would become text.
Json case_object(Case result) {
  for (Timing& t : result.baselines) t.samples_ns.clear();
  for (Trial& t : result.trials) t.timing.samples_ns.clear();
  return to_json(result);
}

/// Adds defaults for fields that older versions did not store.
template <class Struct>
Json with_defaults(const Json& object) {
  static const Json defaults = fields_json(Struct{});
  Json all = defaults;
  all.update(object);
  return all;
}

Json taken_or_null(Json& object, const char* key) {
  Json value;
  if (const auto it = object.find(key); it != object.end()) {
    value = std::move(*it);
    object.erase(it);
  }
  return value;
}

void insert_trial(Connection& connection, int64_t case_id, int64_t position, Json& json,
                  const std::vector<double>& samples) {
  Json correctness = taken_or_null(json, "correctness");
  json.erase("samples_ns");
  const int64_t id = insert_row(connection, kTrial, {case_id, position}, json);
  insert_timing(connection, {case_id, std::nullopt, id, position}, json, samples);
  if (correctness.is_object())
    insert_row(connection, kCorrectness, {id, std::nullopt}, correctness);
}

/// Where the rows of a sweep's cases and trials belong in its report.
struct RowPlaces {
  std::map<int64_t, size_t> of_case;
  std::map<int64_t, std::pair<size_t, size_t>> of_trial;
};

void read_trials(Connection& connection, const Chosen& chosen, int64_t key, Json& cases,
                 RowPlaces& places) {
  Query query(
      connection,
      select_rows(kTrial, std::string("WHERE ") + chosen.of_case + " ORDER BY \"case\", position"),
      key);
  while (query.step()) {
    const size_t where = places.of_case.at(row_key(query, 0).value());
    Json& trials = cases[where]["trials"];
    places.of_trial[row_id(query)] = {where, trials.size()};
    trials.push_back(row_object(query, kTrial));
    trials.back()["correctness"] = nullptr;
  }
  Query correctness(
      connection,
      select_rows(kCorrectness, std::string("WHERE trial IN (SELECT id FROM trial WHERE ") +
                                    chosen.of_case + ")"),
      key);
  while (correctness.step()) {
    const auto [c, t] = places.of_trial.at(row_key(correctness, 0).value());
    cases[c]["trials"][t]["correctness"] =
        with_defaults<Correctness>(row_object(correctness, kCorrectness));
  }
}

/// Adds the case that was running when its process died.
void add_interrupted(Connection& connection, int64_t sweep, SweepReport* report) {
  Query running(connection,
                "SELECT target, shape, dtype, device, mode, phase, n, strategies FROM \"case\" "
                "WHERE sweep = ? AND state = 'running' ORDER BY position",
                sweep);
  while (running.step()) {
    Case c;
    std::string strategies;
    running.take(c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n, strategies);
    for (const Json& strategy : stored_json(strategies)) {
      Trial t;
      t.strategy = t.timing.name = strategy.get<std::string>();
      t.timing.kind = "candidate";
      t.status = Status::interrupted;
      t.reason = "the process ended while this case ran";
      c.trials.push_back(std::move(t));
    }
    report->cases.push_back(std::move(c));
  }
}

/// Adds the cases that `chosen` selects by `key` to the report `json`, which is complete otherwise.
SweepReport read_cases(Connection& connection, const Chosen& chosen, int64_t key, Json json) {
  Json& cases = json["cases"] = Json::array();
  RowPlaces places;
  Query query(connection,
              select_rows(kCase, std::string("WHERE ") + chosen.cases +
                                     " AND state IN ('done', 'partial') ORDER BY position"),
              key);
  while (query.step()) {
    places.of_case[row_id(query)] = cases.size();
    cases.push_back(with_defaults<Case>(row_object(query, kCase)));
  }
  read_trials(connection, chosen, key, cases, places);

  struct Filled {
    size_t of_case, index;
    bool baseline;
  };
  std::map<int64_t, Filled> timings;
  Query timing(
      connection,
      select_rows(kTiming, std::string("WHERE ") + chosen.of_case + " ORDER BY \"case\", position"),
      key);
  while (timing.step()) {
    const size_t where = places.of_case.at(row_key(timing, 0).value());
    Json object = with_defaults<Timing>(row_object(timing, kTiming));
    if (const Key trial = row_key(timing, 2)) {
      const size_t index = places.of_trial.at(*trial).second;
      cases[where]["trials"][index].update(object);
      timings[row_id(timing)] = {where, index, false};
    } else {
      timings[row_id(timing)] = {where, cases[where]["baselines"].size(), true};
      cases[where]["baselines"].push_back(std::move(object));
    }
  }
  SweepReport report = sweep_from_json(json, printable(connection.path()), UnknownFields::ignored);
  for (auto& [id, samples] : samples_of(connection, chosen.of_case, key)) {
    const Filled& place = timings.at(id);
    Case& c = report.cases.at(place.of_case);
    (place.baseline ? c.baselines.at(place.index) : c.trials.at(place.index).timing).samples_ns =
        std::move(samples);
  }
  return report;
}

/// A sweep's report without its cases.
Json head_object(Connection& connection, int64_t sweep) {
  Json json = {{"schema", kReportSchema}};
  Query head(connection,
             "SELECT name, command, state, owner, environment, changes FROM sweep WHERE id = ?",
             sweep);
  if (!head.step())
    fail("[sweep {}] store: got no such number, expected a stored sweep; try workbench list sweeps",
         sweep);
  const std::string state = shown_state(head.text(2), head.text(3));
  json["sweep"] = {{"id", std::to_string(sweep)},
                   {"name", head.text(0)},
                   {"command", head.text(1)},
                   {"state", state}};
  json["environment"] = to_json(Environment{});
  json["environment"].update(environment_object(connection, head.integer(4)), true);
  Query machines(connection, "SELECT environment FROM machine WHERE sweep = ? ORDER BY name",
                 sweep);
  for (json["machines"] = Json::array(); machines.step();) {
    json["machines"].push_back(to_json(Environment{}));
    json["machines"].back().update(environment_object(connection, machines.integer(0)), true);
  }
  json["changes"] = stored_json(head.text(5));
  json["cases"] = Json::array();
  return json;
}

}  // namespace

bool insert_case(Connection& connection, int64_t sweep, int64_t position, const Case& result) {
  Query planned(connection,
                "SELECT id FROM \"case\" WHERE sweep = ? AND position = ? AND state <> 'done'",
                sweep, position);
  if (!planned.step()) return false;
  const int64_t id = planned.integer(0);
  Query(connection, "DELETE FROM timing WHERE \"case\" = ?", id).run();  // a partial result's
  Query(connection, "DELETE FROM trial WHERE \"case\" = ?", id).run();
  Json json = case_object(result);
  Json baselines = taken_or_null(json, "baselines"), trials = taken_or_null(json, "trials");
  WIDE_ASSERT(baselines.size() == result.baselines.size() && trials.size() == result.trials.size());
  for (size_t i = 0; i < baselines.size(); ++i) {
    baselines[i].erase("samples_ns");
    insert_timing(connection, {id, std::nullopt, std::nullopt, static_cast<int64_t>(i)},
                  baselines[i], result.baselines[i].samples_ns);
  }
  for (size_t i = 0; i < trials.size(); ++i)
    insert_trial(connection, id, static_cast<int64_t>(i), trials[i],
                 result.trials[i].timing.samples_ns);
  take_fields(kCase, json);
  const bool partial = std::any_of(result.trials.begin(), result.trials.end(), [](const Trial& t) {
    return t.status == Status::cancelled || t.status == Status::interrupted;
  });
  Query(connection, "UPDATE \"case\" SET state = ?, machine = ?, more = ? WHERE id = ?",
        partial ? "partial" : "done",
        result.machine.empty() ? std::nullopt : std::optional(result.machine), json_text(json), id)
      .run();
  return true;
}

SweepReport read_sweep(Connection& connection, int64_t sweep) {
  Json json = head_object(connection, sweep);
  const std::string state = json["sweep"]["state"];
  SweepReport report = read_cases(connection, kOfSweep, sweep, std::move(json));
  if (state == "interrupted") add_interrupted(connection, sweep, &report);
  return report;
}

SweepReport read_sweep_head(Connection& connection, int64_t sweep) {
  return sweep_from_json(head_object(connection, sweep), printable(connection.path()),
                         UnknownFields::ignored);
}

std::optional<Case> read_case(Connection& connection, int64_t case_id) {
  Json json = to_json(SweepReport{});
  SweepReport report = read_cases(connection, kOneCase, case_id, std::move(json));
  if (report.cases.empty()) return std::nullopt;
  return std::move(report.cases.front());
}

}  // namespace wide
