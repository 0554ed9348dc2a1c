#include "data/store/runs/runs.h"

#include "data/store/owner.h"
#include "data/store/results.h"
#include "data/store/rows.h"
#include "data/store/sweeps/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

bool exists(Connection& connection, int64_t run) {
  Query query(connection, "SELECT 1 FROM run WHERE id = ?", run);
  return query.step();
}

void put_models(Connection& connection, int64_t run, const Json& models) {
  Query(connection, "DELETE FROM run_model WHERE run = ?", run).run();
  for (Json model : models) insert_row(connection, kRunModel, {run}, model);
}

/// The document without the parts that have their own tables.
std::string more_of(Json document) {
  for (const char* key : {"models", "events", "history", "environment"}) document.erase(key);
  return json_text(document);
}

}  // namespace

std::string insert_run(Connection& connection, const Json& document, const std::string& run,
                       int64_t step) {
  const auto known = whole_number(run);
  if (known && exists(connection, *known)) {
    // A resumed run stores all rows of its file again: a kill may have hit between file and store.
    Query(connection, "DELETE FROM run_metric WHERE run = ? AND step > ?", *known, step).run();
    Query(connection, "DELETE FROM run_event WHERE run = ?", *known).run();
    Query(connection, "DELETE FROM run_time WHERE run = ? AND step > ?", *known, step).run();
    Query(connection, "DELETE FROM run_request WHERE run = ? AND (taken IS NULL OR step > ?)",
          *known, step)
        .run();
    Query(connection, "UPDATE run SET state = 'running', finished = NULL, owner = ? WHERE id = ?",
          this_process(), *known)
        .run();
    Query(connection,
          "UPDATE run_model SET status = 'running', at_step = 0, "
          "more = json_set(more, '$.status', 'running', '$.at_step', 0) "
          "WHERE run = ? AND status = 'interrupted'",
          *known)
        .run();
    return run;
  }
  const int64_t environment = insert_environment(connection, document.at("environment"));
  Query(connection,
        "INSERT INTO run(uuid, name, network, n, state, environment, started, owner, more) "
        "VALUES(lower(hex(randomblob(16))), ?, ?, ?, 'running', ?, ?, ?, ?)",
        document.at("run").at("name").get<std::string>(), document.at("network").get<std::string>(),
        document.at("n").get<int64_t>(), environment, utc_now(), this_process(), more_of(document))
      .run();
  const int64_t id = connection.db().getLastInsertRowid();
  put_models(connection, id, document.at("models"));
  return std::to_string(id);
}

void insert_run_rows(Connection& connection, const Json& rows) {
  const auto run = whole_number(rows.at("run").get_ref<const std::string&>());
  if (!run || !exists(connection, *run)) return;  // deleted meanwhile
  for (const Json& row : rows.at("rows"))
    if (row.at(3).is_number())
      Query(connection,
            "INSERT OR REPLACE INTO run_metric(run, model, metric, step, value) "
            "VALUES(?, ?, ?, ?, ?)",
            *run, row.at(0).get<int64_t>(), row.at(1).get<std::string>(), row.at(2).get<int64_t>(),
            row.at(3).get<double>())
          .run();
  if (rows.contains("times"))
    for (const Json& time : rows.at("times"))
      Query(connection, "INSERT OR REPLACE INTO run_time(run, step, seconds) VALUES(?, ?, ?)", *run,
            time.at(0).get<int64_t>(), time.at(1).get<double>())
          .run();
  if (rows.contains("refused"))
    for (const Json& one : rows.at("refused"))
      Query(connection, "UPDATE run_request SET refused = ? WHERE id = ? AND run = ?",
            one.at(1).get<std::string>(), one.at(0).get<int64_t>(), *run)
          .run();
  for (const Json& event : rows.at("events"))
    Query(connection, "INSERT INTO run_event(run, step, model, what) VALUES(?, ?, ?, ?)", *run,
          event.at(0).get<int64_t>(),
          event.at(1).is_null() ? std::nullopt : std::optional(event.at(1).get<int64_t>()),
          event.at(2).get<std::string>())
        .run();
}

void finish_run(Connection& connection, const std::string& run, const Json& document) {
  const auto id = whole_number(run);
  if (!id || !exists(connection, *id)) return;
  const std::string state = document.at("run").at("state");
  Query(connection, "UPDATE run SET state = ?, finished = ?, more = ? WHERE id = ?", state,
        utc_now(), more_of(document), *id)
      .run();
  put_models(connection, *id, document.at("models"));
}

void ask_to_stop(Connection& connection, int64_t run, int64_t model) {
  Query known(
      connection,
      "SELECT 1 FROM run_request WHERE run = ? AND model IS NULLIF(?, -1) AND what = 'stop' "
      "AND taken IS NULL",
      run, model);
  if (known.step()) return;
  Query(connection,
        "INSERT INTO run_request(run, model, what, asked) VALUES(?, NULLIF(?, -1), 'stop', ?)", run,
        model, utc_now())
      .run();
}

std::vector<RunRequest> take_requests(Connection& connection, const std::string& run,
                                      int64_t step) {
  std::vector<RunRequest> requests;
  const auto id = whole_number(run);
  if (!id) return requests;
  Query query(connection,
              "SELECT id, ifnull(model, -1), what, ifnull(key, ''), ifnull(value, 0.0), "
              "ifnull(source, -1) FROM run_request WHERE run = ? AND taken IS NULL ORDER BY id",
              *id);
  while (query.step())
    requests.push_back({query.integer(0), query.text(2), query.integer(1), query.text(3),
                        query.at(4).getDouble(), query.integer(5)});
  if (requests.empty()) return requests;
  Query(connection, "DELETE FROM run_request WHERE run = ? AND what = 'go'", *id).run();
  Query(connection, "UPDATE run_request SET taken = ?, step = ? WHERE run = ? AND taken IS NULL",
        utc_now(), step, *id)
      .run();
  return requests;
}

bool has_requests(Connection& connection, const std::string& run) {
  const auto id = whole_number(run);
  if (!id) return false;
  Query query(connection, "SELECT 1 FROM run_request WHERE run = ? AND taken IS NULL", *id);
  return query.step();
}

std::vector<RunRow> list_runs(Connection& connection, int64_t limit, int64_t offset) {
  std::vector<RunRow> rows;
  Query query(connection,
              "SELECT r.id, r.n, r.name, r.network, r.state, r.started, e.host, r.owner "
              "FROM run AS r JOIN environment AS e ON e.id = r.environment "
              "ORDER BY r.id DESC LIMIT ? OFFSET ?",
              limit, offset);
  while (query.step()) {
    RunRow row;
    std::string owner;
    query.take(row.id, row.n, row.name, row.network, row.state, row.started, row.host, owner);
    row.state = shown_state(row.state, owner);
    Query statuses(connection, "SELECT status, count(*) FROM run_model WHERE run = ? GROUP BY 1",
                   row.id);
    while (statuses.step()) row.statuses[statuses.text(0)] = statuses.integer(1);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<int64_t> find_run(Connection& connection, const std::string& which) {
  if (const auto number = whole_number(which))
    return exists(connection, *number) ? number : std::nullopt;
  const bool last = which == "last";
  Query query(connection, "SELECT id FROM run WHERE name = ? OR ? ORDER BY id DESC LIMIT 1", which,
              last);
  if (!query.step()) return std::nullopt;
  return query.integer(0);
}

void add_models_and_events(Connection& connection, int64_t run, Json* to) {
  Json& document = *to;
  document["models"] = Json::array();
  Query models(connection, "SELECT more FROM run_model WHERE run = ? ORDER BY model", run);
  while (models.step()) document["models"].push_back(stored_json(models.text(0)));
  document["events"] = Json::array();
  Query events(connection, "SELECT step, model, what FROM run_event WHERE run = ? ORDER BY id",
               run);
  while (events.step())
    document["events"].push_back(
        {{"step", events.integer(0)},
         {"model", events.at(1).isNull() ? Json(nullptr) : Json(events.integer(1))},
         {"what", events.text(2)}});
}

Json read_run(Connection& connection, int64_t run) {
  Query head(connection, "SELECT more, environment, state, owner FROM run WHERE id = ?", run);
  if (!head.step())
    fail("[run {}] store: got no such number, expected a stored run; try workbench list runs", run);
  Json document = stored_json(head.text(0));
  document["run"]["id"] = std::to_string(run);
  document["run"]["state"] = shown_state(head.text(2), head.text(3));
  document["environment"] = environment_object(connection, head.integer(1));
  add_models_and_events(connection, run, &document);
  document["history"] = Json::array();
  const size_t n = document.at("models").size();
  Query rows(connection,
             "SELECT step, model, metric, value FROM run_metric WHERE run = ? ORDER BY step", run);
  while (rows.step()) {
    const int64_t step = rows.integer(0);
    auto& history = document["history"];
    if (history.empty() || history.back().at("step") != step) history.push_back({{"step", step}});
    Json& values = history.back()[rows.text(2)];
    if (values.is_null()) values = Json(std::vector<Json>(n, nullptr));
    const auto model = static_cast<size_t>(rows.integer(1));
    if (model < n) values[model] = rows.at(3).getDouble();
  }
  return document;
}

}  // namespace wide
