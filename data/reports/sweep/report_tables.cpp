#include "data/reports/sweep/report_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/escape.h"
#include "data/reports/apart.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/summary_rows.h"
#include "data/text.h"

namespace wide {

using Json = nlohmann::ordered_json;

namespace {

TableCell number(int64_t value) { return {fmt::format("{}", value), static_cast<double>(value)}; }
TableCell count(int64_t value) { return {value ? fmt::format("{}", value) : "", double(value)}; }
TableCell time_cell(double ns) { return ns > 0 ? TableCell{time_text(ns), ns} : TableCell{}; }
TableCell error_cell(double error) { return {error_text(error), error}; }

TableCell speedup_cell(const std::optional<Interval>& i, const std::string& over = "") {
  if (!i) return {};
  return {speedup_text(i) + (over.empty() ? "" : " " + over), i->value};
}

std::string share_text(double share) { return fmt::format("{:.0f} % of cores", 100 * share); }

bool is_disturbed(const Case& c) { return c.disturbed; }

/// Whether a trial has no result, for other reasons than an error.
bool not_run(const Trial& t) {
  return t.status == Status::skipped || ending_of(t.status) == Ending::not_finished;
}

bool compared(const Trial& t) { return t.status == Status::ok && t.speedup.has_value(); }

/// A property of a case beside target, N and shape, which becomes a column if cases differ in it.
struct Trait {
  const char* name;
  std::string Case::*value;
};
constexpr Trait kTraits[] = {{"device", &Case::device},
                             {"dtype", &Case::dtype},
                             {"mode", &Case::mode},
                             {"phase", &Case::phase},
                             {"machine", &Case::machine}};

bool shared(const Trait& trait, const std::vector<Case>& cases) {
  return std::all_of(cases.begin(), cases.end(),
                     [&](const Case& c) { return c.*trait.value == cases.front().*trait.value; });
}

/// The values that cases have, each once, in the order in which they come.
std::vector<std::string> trait_values(const Trait& trait, const std::vector<Case>& cases) {
  std::vector<std::string> values;
  for (const Case& c : cases)
    if (std::ranges::find(values, c.*trait.value) == values.end()) values.push_back(c.*trait.value);
  return values;
}

/// "eager, default · backward": of each property that not all its values are in `some` cases.
std::string only_text(const std::vector<Case>& some, const std::vector<Case>& all) {
  std::string out;
  for (const Trait& trait : kTraits) {
    if (trait.value == &Case::machine) continue;
    const std::vector<std::string> values = trait_values(trait, some);
    if (values.size() < trait_values(trait, all).size())
      out += (out.empty() ? "" : " · ") + fmt::format("{}", fmt::join(values, ", "));
  }
  return out;
}

void flatten(const nlohmann::ordered_json& json, const std::string& name, ReportTable* table) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      flatten(value, name.empty() ? key : name + " " + key, table);
    return;
  }
  const std::string text = json.is_null()     ? "unknown"
                           : json.is_string() ? json.get<std::string>()
                                              : json.dump();
  table->rows.push_back({name, text});
}

}  // namespace

ReportTable::ReportTable(std::vector<std::string> names, const std::set<std::string>& of_numbers)
    : head(std::move(names)) {
  for (const std::string& name : head) right.push_back(of_numbers.count(name) > 0);
}

void ReportTable::leave_out(const std::string& name) {
  const auto place = std::find(head.begin(), head.end(), name) - head.begin();
  head.erase(head.begin() + place);
  right.erase(right.begin() + place);
  for (auto& row : rows) row.erase(row.begin() + place);
}

std::string ReportTable::csv() const {
  std::string out;
  const auto add = [&](size_t i, const std::string& cell) {
    out += (i ? "," : "") + csv_cell(cell);
  };
  for (size_t i = 0; i < head.size(); ++i) add(i, head[i]);
  for (const auto& row : rows) {
    out += "\n";
    for (size_t i = 0; i < row.size(); ++i) add(i, row[i].text);
  }
  return out + "\n";
}

std::string ReportTable::markdown() const {
  std::string out = "|", rule = "\n|";
  for (size_t i = 0; i < head.size(); ++i) {
    out += " " + markdown_escape(head[i]) + " |";
    rule += i < right.size() && right[i] ? "---:|" : "---|";
  }
  out += rule + "\n";
  for (const auto& row : rows) {
    out += "|";
    for (const TableCell& cell : row) out += " " + markdown_escape(cell.text) + " |";
    out += "\n";
  }
  return out + "\n";
}

std::vector<std::vector<Case>> target_groups(const std::vector<Case>& cases) {
  std::vector<std::vector<Case>> groups;
  for (const Case& c : cases) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.front().target == c.target; });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Case>{});
    group->push_back(c);
  }
  return groups;
}

std::string common_text(const std::vector<Case>& cases) {
  std::string out;
  for (const Trait& trait : kTraits)
    if (!cases.empty() && shared(trait, cases) && trait.value != &Case::machine)
      out += (out.empty() ? "" : " · ") + cases.front().*trait.value;
  return out;
}

ReportTable timing_table(const std::vector<Case>& cases) {
  ReportTable table({"N", "shape", "device", "dtype", "mode", "phase", "machine", "strategy",
                     "kind", "status", "median", "q1", "q3", "over loop", "over best baseline",
                     "verdict", "max error", "allowed", "disturbed"},
                    {"N", "median", "q1", "q3", "over loop", "over best baseline", "max error",
                     "allowed", "disturbed"});
  for (const Case& c : cases) {
    const auto add = [&](const Timing& t, const std::string& name, const Trial* trial) {
      std::vector<TableCell> row = {number(c.n), c.shape};
      for (const Trait& trait : kTraits) row.emplace_back(c.*trait.value);
      row.emplace_back(name + (trial && trial->chosen ? " *" : ""));
      row.emplace_back(trial ? "candidate" : "baseline");
      row.emplace_back(trial ? to_string(trial->status) : "");
      for (const double ns : {t.median_ns, t.q1_ns, t.q3_ns}) row.push_back(time_cell(ns));
      const bool speedup = trial && compared(*trial);
      row.push_back(speedup ? speedup_cell(trial->speedup->vs_loop) : TableCell{});
      row.push_back(speedup ? speedup_cell(trial->speedup->vs_best, trial->speedup->best_baseline)
                            : TableCell{});
      row.emplace_back(speedup ? trial->verdict : "");
      const bool checked = trial && trial->correctness;
      row.push_back(checked ? error_cell(trial->correctness->max_rel) : TableCell{});
      row.push_back(checked ? error_cell(allowed(*trial->correctness)) : TableCell{});
      row.push_back(c.disturbed ? TableCell{share_text(c.other_load), c.other_load} : TableCell{});
      table.rows.push_back(std::move(row));
    };
    for (const Timing& b : c.baselines) add(b, b.name, nullptr);
    for (const Trial& t : c.trials) add(t.timing, t.strategy, &t);
  }
  for (const Trait& trait : kTraits)
    if (shared(trait, cases)) table.leave_out(trait.name);
  if (std::none_of(cases.begin(), cases.end(), is_disturbed)) table.leave_out("disturbed");
  return table;
}

ReportTable summary_table(const SweepReport& report) {
  ReportTable table({"target", "device", "dtype", "mode", "phase", "machine", "largest N", "shape",
                     "best strategy", "over loop", "over best baseline", "verdict", "ok",
                     "incorrect", "failed", "unsupported", "not run", "disturbed"},
                    {"largest N", "over loop", "over best baseline", "ok", "incorrect", "failed",
                     "unsupported", "not run", "disturbed"});
  const Apart apart(report.cases);
  int64_t left_out = 0;
  for (const SummaryRow& row : summary_rows(report.cases)) {
    int64_t ok = 0, incorrect = 0, failed = 0, unsupported = 0, waiting = 0, disturbed = 0;
    for (const Case* c : row.cases) {
      disturbed += c->disturbed;
      for (const Trial& t : c->trials)
        ++(t.status == Status::ok            ? ok
           : t.status == Status::incorrect   ? incorrect
           : t.status == Status::unsupported ? unsupported
           : not_run(t)                      ? waiting
                                             : failed);
    }
    left_out += waiting;
    const Case& c = *row.shown;
    const Trial* best = row.best;
    table.rows.push_back(
        {c.target, c.device, c.dtype, c.mode, c.phase, apart.of(c), number(c.n), c.shape,
         best ? best->strategy : "none", best ? speedup_cell(best->speedup->vs_loop) : TableCell{},
         best ? speedup_cell(best->speedup->vs_best, best->speedup->best_baseline) : TableCell{},
         best ? best->verdict : "", count(ok), count(incorrect), count(failed), count(unsupported),
         count(waiting), count(disturbed)});
  }
  for (const Trait& trait : kTraits)
    if (trait.value == &Case::machine ? !apart.several() : shared(trait, report.cases))
      table.leave_out(trait.name);
  if (left_out == 0) table.leave_out("not run");
  if (std::none_of(report.cases.begin(), report.cases.end(), is_disturbed))
    table.leave_out("disturbed");
  return table;
}

ReportTable crossover_table(const std::vector<Case>& cases) {
  ReportTable table(
      {"strategy", "shape", "device", "dtype", "mode", "phase", "machine", "faster from N"},
      {"faster from N"});
  const std::vector<Crossover> found = crossovers(cases);
  for (const Crossover& c : found)
    table.rows.push_back({c.strategy, c.shape, c.device, c.dtype, c.mode, c.phase, c.machine,
                          c.n ? number(*c.n) : TableCell{"never"}});
  if (std::all_of(found.begin(), found.end(), [](const Crossover& c) { return c.machine.empty(); }))
    table.leave_out("machine");
  return table;
}

ReportTable reason_table(const std::vector<Case>& cases) {
  struct Row {
    std::string who, what, why;
    std::vector<Case> where = {};  // without their results
  };
  std::vector<Row> rows;
  std::vector<Case> all;
  for (const Case& c : cases) {
    Case& bare = all.emplace_back();
    for (const Trait& trait : kTraits) bare.*trait.value = c.*trait.value;
    bare.n = c.n;
    const auto add = [&](const std::string& who, const std::string& what, const std::string& why) {
      auto row = std::ranges::find_if(
          rows, [&](const Row& r) { return r.who == who && r.what == what && r.why == why; });
      if (row == rows.end()) row = rows.insert(row, {who, what, why});
      row->where.push_back(bare);
    };
    for (const Trial& t : c.trials)
      if (t.status != Status::ok) add(t.strategy, to_string(t.status), t.reason);
    for (const std::string& note : c.notes) add("baselines", "note", note);
  }
  ReportTable table({"strategy", "status", "N", "only", "reason"});
  bool some = false;
  for (const Row& row : rows) {
    std::set<int64_t> ns;
    for (const Case& c : row.where) ns.insert(c.n);
    const std::string only = only_text(row.where, all);
    some |= !only.empty();
    table.rows.push_back({row.who, row.what,
                          TableCell{fmt::format("{}", fmt::join(ns, ", ")), double(*ns.begin())},
                          only, row.why});
  }
  if (!some) table.leave_out("only");
  return table;
}

namespace {

std::string csv_text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_cell(value.get_ref<const std::string&>());
  if (!value.is_array()) return value.dump();
  std::string list;  // the samples are a list in one cell
  for (const Json& item : value) list += (list.empty() ? "" : " ") + item.dump();
  return list;
}

void add_columns(const Json& json, const std::string& name, CsvRow* row) {
  for (const auto& [key, value] : json.items()) {
    const bool outer = key == "speedup" || key == "correctness";
    const std::string path = outer || key == "value" ? name : name.empty() ? key : name + "_" + key;
    if (key == "ci95" && value.is_array() && value.size() == 2) {
      row->emplace_back(name + "_low", csv_text(value[0]));
      row->emplace_back(name + "_high", csv_text(value[1]));
    } else if (value.is_object()) {
      add_columns(value, path, row);
    } else if (!outer) {
      row->emplace_back(path, csv_text(value));
    }
  }
}

}  // namespace

CsvRow csv_row(const nlohmann::ordered_json& of_case, const nlohmann::ordered_json& timing) {
  CsvRow row;
  for (const auto& [key, value] : of_case.items())
    if (!value.is_structured()) row.emplace_back(key, csv_text(value));
  add_columns(timing, "", &row);
  return row;
}

std::vector<const Environment*> machines_of(const SweepReport& report) {
  std::vector<const Environment*> all{&report.environment};
  for (const Environment& machine : report.machines) all.push_back(&machine);
  return all;
}

std::string machines_text(const SweepReport& report) {
  const Environment& e = report.environment;
  if (report.machines.empty())
    return fmt::format("{}, {} threads · {}", e.cpu, e.threads,
                       e.gpu.empty() ? "not run on a GPU" : e.gpu);
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  for (const Environment* machine : machines_of(report)) names.push_back(machine_name(*machine));
  const size_t shown = std::min(names.size(), kNamed);
  std::string text = fmt::format("{} machines", names.size());
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? ": " : "; ") + names[i];
  return text + (names.size() > shown ? fmt::format("; {} more", names.size() - shown) : "");
}

std::string machine_heading(const SweepReport& report, const Environment& machine) {
  if (report.machines.empty()) return "";
  const auto cases = std::count_if(report.cases.begin(), report.cases.end(), [&](const Case& c) {
    return &environment_of(report, c) == &machine;
  });
  return fmt::format("{}: {} cases", machine_name(machine), cases);
}

ReportTable environment_table(const Environment& environment) {
  ReportTable table({"what", "value"});
  flatten(to_json(environment), "", &table);
  return table;
}

}  // namespace wide
