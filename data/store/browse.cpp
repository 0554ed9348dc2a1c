#include "data/store/browse.h"

#include <nlohmann/json.hpp>

#include "data/store/rows.h"
#include "data/store/sweeps.h"

namespace wide {
namespace {

std::string_view view(const SQLite::Column& column) { return column.getText(); }

double number(const SQLite::Column& column) {
  return column.isNull() ? TrialRow::kNone : column.getDouble();
}

/// What every row of a case has in common, by the case's number.
std::map<int64_t, TrialRow> rows_of_cases(Connection& connection, TrialTable* table) {
  std::map<int64_t, TrialRow> cases;
  Query query(connection,
              "SELECT id, target, shape, dtype, device, mode, phase, n, more ->> 'disturbed', "
              "more ->> 'other_load' FROM "
              "\"case\" WHERE sweep = ? AND state IN ('done', 'partial')",
              table->sweep);
  while (query.step()) {
    TrialRow row;
    row.case_id = query.integer(0);
    int column = 1;
    for (int32_t* word : {&row.target, &row.shape, &row.dtype, &row.device, &row.mode, &row.phase})
      *word = table->words.number(view(query.at(column++)));
    row.n = query.integer(7);
    row.disturbed = !query.at(8).isNull() && query.at(8).getInt() != 0;
    row.other_load = static_cast<float>(query.at(9).getDouble());
    cases.emplace(row.case_id, row);
  }
  return cases;
}

void add_trials(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                TrialTable* table) {
  Query query(
      connection,
      "SELECT t.\"case\", t.id, t.strategy, t.status, t.reason, t.verdict, t.best_baseline, "
      "t.chosen, t.vs_best, t.vs_best_low, t.vs_best_high, nullif(t.vs_loop, 0), t.vs_loop_low, "
      "t.vs_loop_high, m.median_ns, m.q1_ns, m.q3_ns, m.first_call_ns, m.peak_bytes, "
      "m.flops_share, m.bytes_share, c.max_rel, c.eager_max_rel, c.tolerance, c.isolated, "
      "c.ordered, m.more ->> 'needed_bytes' FROM \"case\" AS k JOIN trial AS t ON t.\"case\" = "
      "k.id LEFT JOIN timing AS m ON "
      "m.trial = t.id LEFT JOIN correctness AS c ON c.trial = t.id WHERE k.sweep = ? AND k.state "
      "IN ('done', 'partial') ORDER BY k.position, t.position",
      table->sweep);
  while (query.step()) {
    TrialRow row = cases.at(query.integer(0));
    row.trial = query.integer(1);
    int column = 2;
    for (int32_t* word :
         {&row.strategy, &row.status, &row.reason, &row.verdict, &row.best_baseline})
      *word = table->words.number(view(query.at(column++)));
    row.chosen = query.at(column++).getInt() != 0;
    for (double* value : {&row.vs_best, &row.vs_best_low, &row.vs_best_high, &row.vs_loop,
                          &row.vs_loop_low, &row.vs_loop_high, &row.median_ns, &row.q1_ns,
                          &row.q3_ns, &row.first_call_ns, &row.peak_bytes, &row.flops_share,
                          &row.bytes_share, &row.max_rel, &row.eager_max_rel, &row.tolerance})
      *value = number(query.at(column++));
    for (int8_t* flag : {&row.isolated, &row.ordered}) {
      if (!query.at(column).isNull()) *flag = query.at(column).getInt() != 0 ? 1 : 0;
      ++column;
    }
    row.needed_bytes = number(query.at(column));
    if (!(row.median_ns > 0))  // zeros stand where nothing was timed
      for (double* value : {&row.median_ns, &row.q1_ns, &row.q3_ns, &row.first_call_ns,
                            &row.peak_bytes, &row.flops_share, &row.bytes_share})
        *value = TrialRow::kNone;
    table->rows.push_back(row);
  }
}

void add_baselines(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                   TrialTable* table) {
  Query query(connection,
              "SELECT m.\"case\", m.name, m.median_ns, m.q1_ns, m.q3_ns, m.first_call_ns, "
              "m.peak_bytes, m.flops_share, m.bytes_share FROM \"case\" AS k JOIN timing AS m ON "
              "m.\"case\" = k.id WHERE k.sweep = ? AND m.trial IS NULL ORDER BY k.position, "
              "m.position",
              table->sweep);
  const int32_t ok = table->words.number("ok");
  while (query.step()) {
    const auto of = cases.find(query.integer(0));
    if (of == cases.end()) continue;
    TrialRow row = of->second;
    row.baseline = true;
    row.status = ok;
    row.strategy = table->words.number(view(query.at(1)));
    int column = 2;
    for (double* value : {&row.median_ns, &row.q1_ns, &row.q3_ns, &row.first_call_ns,
                          &row.peak_bytes, &row.flops_share, &row.bytes_share})
      *value = number(query.at(column++));
    table->rows.push_back(row);
  }
}

/// Baselines that were known not to run.
void add_missing(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                 TrialTable* table) {
  Query query(connection,
              "SELECT k.id, m.value ->> 'name', m.value ->> 'status', m.value ->> 'reason', "
              "nullif(m.value ->> 'needed_bytes', 0) FROM \"case\" AS k, json_each(k.more, "
              "'$.missing') AS m WHERE k.sweep = ? AND k.state IN ('done', 'partial') ORDER BY "
              "k.position, m.key",
              table->sweep);
  while (query.step()) {
    TrialRow row = cases.at(query.integer(0));
    row.baseline = true;
    int column = 1;
    for (int32_t* word : {&row.strategy, &row.status, &row.reason})
      *word = table->words.number(view(query.at(column++)));
    row.needed_bytes = number(query.at(column));
    table->rows.push_back(row);
  }
}

/// The trials of the case that ran when its process died.
void add_interrupted_rows(Connection& connection, TrialTable* table) {
  Query query(connection,
              "SELECT target, shape, dtype, device, mode, phase, n, strategies FROM \"case\" WHERE "
              "sweep = ? AND state = 'running' ORDER BY position",
              table->sweep);
  while (query.step()) {
    TrialRow row;
    int column = 0;
    for (int32_t* word : {&row.target, &row.shape, &row.dtype, &row.device, &row.mode, &row.phase})
      *word = table->words.number(view(query.at(column++)));
    row.n = query.integer(6);
    row.status = table->words.number("interrupted");
    row.reason = table->words.number("the process ended while this case ran");
    for (const Json& strategy : stored_json(query.text(7))) {
      row.strategy = table->words.number(strategy.get<std::string>());
      table->rows.push_back(row);
    }
  }
}

}  // namespace

int32_t Words::number(std::string_view word) {
  if (const auto it = numbers_.find(word); it != numbers_.end()) return it->second;
  const auto next = static_cast<int32_t>(words_.size());
  const auto it = numbers_.emplace(std::string(word), next).first;
  words_.push_back(&it->first);
  return next;
}

int32_t Words::find(std::string_view word) const {
  const auto it = numbers_.find(word);
  return it == numbers_.end() ? -1 : it->second;
}

TrialTable read_trial_table(Connection& connection, int64_t sweep) {
  TrialTable table;
  table.sweep = sweep;
  const std::map<int64_t, TrialRow> cases = rows_of_cases(connection, &table);
  add_trials(connection, cases, &table);
  add_baselines(connection, cases, &table);
  add_missing(connection, cases, &table);
  Query state(connection, "SELECT state, coalesce(owner, '') FROM sweep WHERE id = ?", sweep);
  if (state.step() && shown_state(state.text(0), state.text(1)) == "interrupted")
    add_interrupted_rows(connection, &table);
  return table;
}

}  // namespace wide
