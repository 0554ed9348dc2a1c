#include "data/store/sweeps/browse.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "data/store/rows.h"
#include "data/store/sweeps/sweeps.h"

namespace wide {
namespace {

/// A column of a query and the field of TrialRow that it fills. A field of type int32_t is always a
/// text: it gets the number of the word. Use int64_t for a number.
struct RowColumn {
  const char* sql;
  std::variant<int32_t TrialRow::*, int64_t TrialRow::*, double TrialRow::*, float TrialRow::*,
               bool TrialRow::*, int8_t TrialRow::*>
      to;
};
using RowColumns = std::vector<RowColumn>;

const RowColumns kCaseColumns{
    {"k.id", &TrialRow::case_id}, {"k.n", &TrialRow::n},       {"target", &TrialRow::target},
    {"shape", &TrialRow::shape},  {"dtype", &TrialRow::dtype}, {"device", &TrialRow::device},
    {"mode", &TrialRow::mode},    {"phase", &TrialRow::phase}, {"machine", &TrialRow::machine}};
const RowColumns kLoadColumns{{"more ->> 'disturbed'", &TrialRow::disturbed},
                              {"more ->> 'other_load'", &TrialRow::other_load}};
const RowColumns kCaseId{{"k.id", &TrialRow::case_id}};
const RowColumns kTrialColumns{{"t.id", &TrialRow::trial},
                               {"t.strategy", &TrialRow::strategy},
                               {"t.status", &TrialRow::status},
                               {"t.reason", &TrialRow::reason},
                               {"t.verdict", &TrialRow::verdict},
                               {"t.best_baseline", &TrialRow::best_baseline},
                               {"t.chosen", &TrialRow::chosen},
                               {"t.vs_best", &TrialRow::vs_best},
                               {"t.vs_best_low", &TrialRow::vs_best_low},
                               {"t.vs_best_high", &TrialRow::vs_best_high},
                               {"nullif(t.vs_loop, 0)", &TrialRow::vs_loop},  // 0: not timed
                               {"t.vs_loop_low", &TrialRow::vs_loop_low},
                               {"t.vs_loop_high", &TrialRow::vs_loop_high},
                               {"c.max_rel", &TrialRow::max_rel},
                               {"c.eager_max_rel", &TrialRow::eager_max_rel},
                               {"c.tolerance", &TrialRow::tolerance},
                               {"c.isolated", &TrialRow::isolated},
                               {"c.ordered", &TrialRow::ordered},
                               {"m.more ->> 'needed_bytes'", &TrialRow::needed_bytes}};
const RowColumns kTimeColumns{{"m.median_ns", &TrialRow::median_ns},
                              {"m.q1_ns", &TrialRow::q1_ns},
                              {"m.q3_ns", &TrialRow::q3_ns},
                              {"m.first_call_ns", &TrialRow::first_call_ns},
                              {"m.peak_bytes", &TrialRow::peak_bytes},
                              {"m.flops_share", &TrialRow::flops_share},
                              {"m.bytes_share", &TrialRow::bytes_share}};
const RowColumns kBaselineColumns{{"m.name", &TrialRow::strategy}};
const RowColumns kMissingColumns{
    {"m.value ->> 'name'", &TrialRow::strategy},
    {"m.value ->> 'status'", &TrialRow::status},
    {"m.value ->> 'reason'", &TrialRow::reason},
    {"nullif(m.value ->> 'needed_bytes', 0)", &TrialRow::needed_bytes}};

/// SELECT of the columns in `lists`, then `rest`; its rows fill rows of the table.
class RowQuery : public Query {
 public:
  RowQuery(Connection& connection, std::vector<const RowColumns*> lists, const std::string& rest,
           int64_t sweep)
      : Query(connection, select(lists) + rest, sweep), lists_(std::move(lists)) {}

  /// Fills a row. Returns the index of the next column, the first that `rest` selects.
  int fill(TrialRow* row, Words* words) {
    int column = 0;
    for (const RowColumns* list : lists_)
      for (const RowColumn& c : *list)
        std::visit([&](auto to) { take(at(column++), words, row->*to); }, c.to);
    return column;
  }

 private:
  static std::string select(const std::vector<const RowColumns*>& lists) {
    std::string text;
    for (const RowColumns* list : lists)
      for (const RowColumn& c : *list)
        text += (text.empty() ? "SELECT " : ", ") + std::string(c.sql);
    return text + " ";
  }
  static void take(const SQLite::Column& from, Words* words, int32_t& word) {
    word = words->number(from.getText());
  }
  /// NULL leaves the default, which means unknown.
  template <class T>
  static void take(const SQLite::Column& from, Words* /*words*/, T& to) {
    if (from.isNull()) return;
    to = std::is_integral_v<T> ? static_cast<T>(from.getInt64()) : static_cast<T>(from.getDouble());
  }

  std::vector<const RowColumns*> lists_;
};

/// The fields that all rows of a case share, by the case's number.
std::map<int64_t, TrialRow> rows_of_cases(Connection& connection, TrialTable* table) {
  std::map<int64_t, TrialRow> cases;
  RowQuery query(connection, {&kCaseColumns, &kLoadColumns},
                 "FROM \"case\" AS k WHERE sweep = ? AND state IN ('done', 'partial')",
                 table->sweep);
  while (query.step()) {
    TrialRow row;
    query.fill(&row, &table->words);
    cases.emplace(row.case_id, row);
  }
  return cases;
}

/// Adds one row for each result of the query, as a copy of its case's row; `finish` sets the
/// remaining fields. The first column is the case's number.
template <class Finish>
void add_rows(RowQuery&& query, const std::map<int64_t, TrialRow>& cases, TrialTable* table,
              const Finish& finish) {
  while (query.step()) {
    const auto of = cases.find(query.integer(0));
    if (of == cases.end()) continue;
    TrialRow row = of->second;
    query.fill(&row, &table->words);
    finish(&row);
    table->rows.push_back(row);
  }
}

void add_trials(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                TrialTable* table) {
  add_rows(RowQuery(connection, {&kCaseId, &kTrialColumns, &kTimeColumns},
                    "FROM \"case\" AS k JOIN trial AS t ON t.\"case\" = k.id LEFT JOIN timing AS m "
                    "ON m.trial = t.id LEFT JOIN correctness AS c ON c.trial = t.id WHERE k.sweep "
                    "= ? AND k.state IN ('done', 'partial') ORDER BY k.position, t.position",
                    table->sweep),
           cases, table, [](TrialRow* row) {
             if (row->median_ns > 0) return;
             for (const RowColumn& time : kTimeColumns)  // 0 means not timed
               row->*std::get<double TrialRow::*>(time.to) = TrialRow::kNone;
           });
}

void add_baselines(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                   TrialTable* table) {
  add_rows(
      RowQuery(connection, {&kCaseId, &kBaselineColumns, &kTimeColumns},
               "FROM \"case\" AS k JOIN timing AS m ON m.\"case\" = k.id WHERE k.sweep = ? AND "
               "m.trial IS NULL ORDER BY k.position, m.position",
               table->sweep),
      cases, table, [ok = table->words.number("ok")](TrialRow* row) {
        row->baseline = true;
        row->status = ok;
      });
}

/// Adds the baselines that were not timed, with the reason.
void add_missing(Connection& connection, const std::map<int64_t, TrialRow>& cases,
                 TrialTable* table) {
  add_rows(RowQuery(connection, {&kCaseId, &kMissingColumns},
                    "FROM \"case\" AS k, json_each(k.more, '$.missing') AS m WHERE k.sweep = ? AND "
                    "k.state IN ('done', 'partial') ORDER BY k.position, m.key",
                    table->sweep),
           cases, table, [](TrialRow* row) { row->baseline = true; });
}

/// Adds the trials of the cases that were running when the sweep's process died. Their case_id is
/// 0, since the store has no result of theirs to load.
void add_interrupted_rows(Connection& connection, TrialTable* table) {
  RowQuery query(connection, {&kCaseColumns},
                 ", strategies FROM \"case\" AS k WHERE sweep = ? AND state = 'running' ORDER BY "
                 "position",
                 table->sweep);
  while (query.step()) {
    TrialRow row;
    const int strategies = query.fill(&row, &table->words);
    row.case_id = 0;
    row.status = table->words.number("interrupted");
    row.reason = table->words.number("the process ended while this case ran");
    for (const Json& strategy : stored_json(query.text(strategies))) {
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
