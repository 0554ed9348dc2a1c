#include "data/store/sweeps/sweeps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "data/machine/environment.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/owner.h"
#include "data/store/results.h"
#include "data/store/rows.h"
#include "data/store/sweeps/cases.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Machines that each measure all cases; none if any machine may measure them.
std::set<std::string> machines_of(const std::vector<CaseKey>& cases) {
  std::set<std::string> machines;
  for (const CaseKey& c : cases)
    if (!c.machine.empty()) machines.insert(c.machine);
  return machines;
}

/// The first difference between the options of an interrupted sweep and `stored`, or "".
std::string difference(const Json& settings, const std::vector<CaseKey>& cases,
                       const StoredCases& stored) {
  std::map<std::string, std::string> before = settings.get<std::map<std::string, std::string>>();
  const auto text = [](const std::map<std::string, std::string>& all, const std::string& key) {
    const auto it = all.find(key);
    return it == all.end() || it->second.empty() ? std::string("unset") : printable(it->second);
  };
  std::map<std::string, std::string> keys = before;
  keys.insert(stored.settings.begin(), stored.settings.end());
  for (const auto& [key, unused] : keys)
    if (text(before, key) != text(stored.settings, key))
      return fmt::format("got {} {}, expected {}", key, text(stored.settings, key),
                         text(before, key));
  const std::set<std::string> had = machines_of(cases), has = machines_of(stored.cases);
  for (const std::string& machine : had)
    if (!has.count(machine))
      return fmt::format("got nobody on {}, expected a rank there", printable(machine));
  for (const std::string& machine : has)
    if (!had.count(machine))
      return fmt::format("got a rank on {}, expected nobody there", printable(machine));
  if (cases.size() != stored.cases.size())
    return fmt::format("got {} cases, expected {}", stored.cases.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i)
    if (cases[i] != stored.cases[i])
      return fmt::format("got {} {} n={} as case {}, expected {} {} n={}", stored.cases[i].target,
                         stored.cases[i].shape, stored.cases[i].n, i + 1, cases[i].target,
                         cases[i].shape, cases[i].n);
  return "";
}

std::string plain(const Json& value) {
  return printable(value.is_string() ? value.get<std::string>() : json_text(value));
}

/// Refuses another machine, as times of two machines do not belong into one sweep.
void refuse_other_machine(int64_t sweep, const Json& before, const Json& now) {
  for (const char* at : {"/cpu/model", "/cpu/cores", "/gpu", "/libtorch"}) {
    const Json::json_pointer pointer(at);
    const Json was = before.value(pointer, Json()), is = now.value(pointer, Json());
    if (was != is)
      fail(
          "[sweep {}] resume: got {} {}, expected {} as where it was started; try without "
          "--resume",
          sweep, pointer.back(), plain(is), plain(was));
  }
}

/// Throws unless this process may write results of `sweep`.
void expect_mine(Connection& connection, int64_t sweep) {
  Query owner(connection, "SELECT coalesce(owner, ''), state FROM sweep WHERE id = ?", sweep);
  if (!owner.step())
    throw Error(fmt::format("[sweep {}] store: got a sweep that was deleted meanwhile, expected "
                            "this process's; try to run it again",
                            sweep),
                1);
  if (owner.text(1) != "running" || owner.text(0) != this_process())
    throw Error(fmt::format("[sweep {}] store: got a sweep that another process took over, "
                            "expected this process's; try workbench list sweeps",
                            sweep),
                1);
}

std::vector<CaseKey> planned_cases(Connection& connection, int64_t sweep) {
  std::vector<CaseKey> cases;
  Query query(connection,
              fmt::format("SELECT target, shape, dtype, device, mode, phase, n, strategies, "
                          "iif(settings ->> '$.\"{}\"' = 'on', machine, '') FROM \"case\" JOIN "
                          "sweep ON sweep.id = sweep WHERE sweep = ? ORDER BY position",
                          kEachSetting),
              sweep);
  while (query.step())
    cases.push_back({query.text(0), query.text(1), query.text(2), query.text(3), query.text(4),
                     query.text(5), query.integer(6),
                     stored_json(query.text(7)).get<std::vector<std::string>>(), query.text(8)});
  return cases;
}

std::map<std::string, int64_t> count_trials(Connection& connection, int64_t sweep) {
  std::map<std::string, int64_t> counts;
  Query query(connection,
              "SELECT trial.status, count(*) FROM \"case\" JOIN trial ON trial.\"case\" = "
              "\"case\".id WHERE \"case\".sweep = ? GROUP BY 1",
              sweep);
  while (query.step()) counts[query.text(0)] = query.integer(1);
  return counts;
}

}  // namespace

void check_name(const std::string& what, const std::string& name) {
  const bool number = name.find_first_not_of("0123456789") == std::string::npos;
  if (number || name.starts_with("run:") || name == "last" || name.find('/') != std::string::npos ||
      name.ends_with(".json"))
    fail(
        "[{}] name: got {}, expected neither a number nor last nor a training run's (run:3) nor a "
        "file's; try {}-1",
        what, name.empty() ? "nothing" : printable(name), what);
}

void append_changes(Connection& connection, int64_t sweep,
                    const std::vector<std::string>& changes) {
  if (changes.empty()) return;
  Query read(connection, "SELECT changes FROM sweep WHERE id = ?", sweep);
  if (!read.step()) return;
  Json all = stored_json(read.text(0));
  for (const std::string& change : changes) all.push_back(change);
  Query(connection, "UPDATE sweep SET changes = ? WHERE id = ?", json_text(all), sweep).run();
}

std::string shown_state(const std::string& state, const std::string& owner) {
  return state == "running" && !runs(owner) ? "interrupted" : state;
}

StoredCases read_stored_cases(Connection& connection, int64_t sweep) {
  StoredCases stored;
  Query head(connection, "SELECT name, command, settings FROM sweep WHERE id = ?", sweep);
  if (!head.step()) return stored;
  stored.name = head.text(0);
  stored.command = head.text(1);
  stored_json(head.text(2)).get_to(stored.settings);
  stored.cases = planned_cases(connection, sweep);
  if (stored.settings.count(kPartSetting)) {
    Query places(connection, "SELECT position FROM \"case\" WHERE sweep = ? ORDER BY 1", sweep);
    while (places.step()) stored.positions.push_back(places.integer(0));
  }
  return stored;
}

int64_t insert_sweep(Connection& connection, const StoredCases& stored, const std::string& state,
                     const std::string& uuid) {
  if (uuid.empty()) check_name("sweep", stored.name);  // a copy keeps the name that it has
  const int64_t environment = insert_environment(connection, to_json(stored.environment));
  Query(connection,
        "INSERT INTO sweep(name, command, state, environment, started, owner, settings, uuid) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, coalesce(?, lower(hex(randomblob(16)))))",
        stored.name, stored.command, state, environment, utc_now(), this_process(),
        json_text(Json(stored.settings)),
        uuid.empty() ? std::nullopt : std::optional<std::string>(uuid))
      .run();
  const int64_t sweep = connection.db().getLastInsertRowid();
  size_t index = 0;
  for (const CaseKey& c : stored.cases)
    Query(connection,
          "INSERT INTO \"case\"(sweep, position, state, target, shape, dtype, device, mode, phase, "
          "n, strategies, machine) VALUES(?, ?, 'planned', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          sweep, stored.position(index++), c.target, c.shape, c.dtype, c.device, c.mode, c.phase,
          c.n, json_text(Json(c.strategies)),
          c.machine.empty() ? std::nullopt : std::optional<std::string>(c.machine))
        .run();
  return sweep;
}

int64_t resume_sweep(Connection& connection, const StoredCases& stored, bool again_disturbed) {
  std::string why;
  Query unfinished(connection,
                   "SELECT id, state, owner, settings, environment FROM sweep WHERE name = ? AND "
                   "(state <> 'complete' OR ?) ORDER BY id DESC",
                   stored.name, int64_t{again_disturbed});
  while (unfinished.step()) {
    const int64_t sweep = unfinished.integer(0);
    const std::string differs =
        difference(stored_json(unfinished.text(3)), planned_cases(connection, sweep), stored);
    if (!differs.empty()) {
      if (why.empty())
        why = fmt::format(
            "[sweep {}] resume: {} as it was started; try the same choices, or "
            "without --resume",
            sweep, differs);
      continue;
    }
    if (shown_state(unfinished.text(1), unfinished.text(2)) == "running")
      fail(
          "[sweep {}] resume: got one that another process still runs, expected an interrupted "
          "one; try when that has ended",
          sweep);
    const Json before = environment_object(connection, unfinished.integer(4));
    const Json now = to_json(stored.environment);
    if (!stored.any_machine) refuse_other_machine(sweep, before, now);
    std::vector<std::string> changes = {"resumed " + utc_now()};
    if (before["git"] != now["git"])
      changes.back() += fmt::format(", git {} now {}", before["git"].get<std::string>(),
                                    now["git"].get<std::string>());
    if (again_disturbed) changes.back() += ", disturbed cases again";
    append_changes(connection, sweep, changes);
    // A partial case is shown with its results and run again.
    if (again_disturbed)
      Query(connection,
            "UPDATE \"case\" SET state = 'partial' WHERE sweep = ? AND state = 'done' AND "
            "more ->> 'disturbed'",
            sweep)
          .run();
    Query(connection, "UPDATE sweep SET state = 'running', owner = ?, finished = NULL WHERE id = ?",
          this_process(), sweep)
        .run();
    return sweep;
  }
  if (why.empty())
    why =
        fmt::format("[{}] resume: got no {}sweep of this name, expected one; try without --resume",
                    printable(stored.name), again_disturbed ? "" : "unfinished ");
  throw Error(why);
}

std::vector<int64_t> missing_cases(Connection& connection, int64_t sweep) {
  std::vector<int64_t> positions;
  Query query(connection,
              "SELECT position FROM \"case\" WHERE sweep = ? AND state <> 'done' ORDER BY 1",
              sweep);
  while (query.step()) positions.push_back(query.integer(0));
  return positions;
}

std::map<int64_t, Case> done_cases(Connection& connection, int64_t sweep) {
  SweepReport report = read_sweep(connection, sweep);
  std::map<int64_t, Case> cases;
  size_t next = 0;
  Query query(connection,
              "SELECT position, state FROM \"case\" WHERE sweep = ? AND state IN ('done', "
              "'partial') ORDER BY position",
              sweep);
  for (; query.step(); ++next)
    if (query.text(1) == "done") cases[query.integer(0)] = std::move(report.cases.at(next));
  return cases;
}

void begin_case(Connection& connection, int64_t sweep, int64_t position) {
  expect_mine(connection, sweep);
  Query(connection,
        "UPDATE \"case\" SET state = 'running' WHERE sweep = ? AND position = ? AND state = "
        "'planned'",
        sweep, position)
      .run();
}

void add_case(Connection& connection, int64_t sweep, int64_t position, const Case& result) {
  expect_mine(connection, sweep);
  if (!insert_case(connection, sweep, position, result))
    throw Error(fmt::format("[sweep {}] store: got case {} again, expected one that is missing; "
                            "try workbench list sweeps",
                            sweep, position + 1),
                1);
}

void add_machine(Connection& connection, int64_t sweep, const Environment& machine) {
  const std::string name = machine_name(machine);
  if (machine_name(read_sweep_head(connection, sweep).environment) == name) return;
  Query again(connection, "SELECT 1 FROM machine WHERE sweep = ? AND name = ?", sweep, name);
  if (again.step()) return;
  Query(connection, "INSERT INTO machine(sweep, name, environment) VALUES(?, ?, ?)", sweep, name,
        insert_environment(connection, to_json(machine)))
      .run();
}

void finish_sweep(Connection& connection, int64_t sweep, const std::string& state,
                  const std::vector<std::string>& changes) {
  expect_mine(connection, sweep);
  append_changes(connection, sweep, changes);
  Query(connection, "UPDATE sweep SET state = ?, finished = ?, owner = NULL WHERE id = ?", state,
        utc_now(), sweep)
      .run();
}

std::vector<SweepRow> list_sweeps(Connection& connection, int64_t limit, int64_t offset) {
  std::vector<SweepRow> rows;
  Query query(connection,
              "SELECT s.id, s.name, s.state, coalesce(s.owner, ''), s.started, "
              "coalesce(s.finished, ''), s.command, e.host, e.cpu, coalesce(e.gpu, ''), "
              "(SELECT count(*) FROM \"case\" WHERE sweep = s.id), "
              "(SELECT count(*) FROM \"case\" WHERE sweep = s.id AND state = 'done') "
              "FROM sweep AS s JOIN environment AS e ON e.id = s.environment "
              "ORDER BY s.id DESC LIMIT ? OFFSET ?",
              limit, offset);
  while (query.step()) {
    SweepRow row;
    std::string owner;
    query.take(row.id, row.name, row.state, owner, row.started, row.finished, row.command, row.host,
               row.cpu, row.gpu, row.cases, row.done);
    row.state = shown_state(row.state, owner);
    row.trials = count_trials(connection, row.id);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<int64_t> find_sweep(Connection& connection, const std::string& which) {
  const auto first = [](Query&& query) -> std::optional<int64_t> {
    if (!query.step() || query.at(0).isNull()) return std::nullopt;
    return query.integer(0);
  };
  if (which == "last") return first(Query(connection, "SELECT max(id) FROM sweep"));
  if (const auto number = whole_number(which))
    return first(Query(connection, "SELECT id FROM sweep WHERE id = ?", *number));
  if (const auto id = first(Query(connection, "SELECT sweep FROM reference WHERE name = ?", which)))
    return id;
  return first(Query(connection, "SELECT max(id) FROM sweep WHERE name = ?", which));
}

void delete_sweep(Connection& connection, int64_t sweep) {
  Query query(connection, "SELECT environment, state, coalesce(owner, '') FROM sweep WHERE id = ?",
              sweep);
  if (!query.step()) return;
  if (shown_state(query.text(1), query.text(2)) == "running")
    fail(
        "[sweep {}] delete: got one that another process still runs, expected one that has ended; "
        "try when that has ended",
        sweep);
  std::vector<int64_t> environments{query.integer(0)};
  Query machines(connection, "SELECT environment FROM machine WHERE sweep = ?", sweep);
  while (machines.step()) environments.push_back(machines.integer(0));
  Query(connection, "DELETE FROM sweep WHERE id = ?", sweep).run();
  for (const int64_t environment : environments) drop_environment(connection, environment);
}

}  // namespace wide
