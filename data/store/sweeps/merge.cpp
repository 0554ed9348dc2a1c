#include "data/store/sweeps/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "data/store/results.h"
#include "data/store/sweeps/cases.h"
#include "data/store/sweeps/copy.h"
#include "data/store/sweeps/part.h"
#include "data/store/sweeps/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A part of a sweep, or one machine's results of cases that each machine measures; and its store.
struct StoredPart {
  std::string file;
  Connection* store = nullptr;
  int64_t sweep = 0;
  Part part;
  StoredCases stored;
  std::string started, finished;
  std::set<std::string> machines = {};  // with --each-machine; none of a part

  std::string name() const {
    return machines.empty() ? "part " + part.text() : "what was measured on " + *machines.begin();
  }
};

std::vector<StoredPart> parts_in(Connection& store) {
  std::vector<StoredPart> found;
  Query query(store, "SELECT id, started, coalesce(finished, '') FROM sweep ORDER BY id");
  while (query.step()) {
    StoredPart p{printable(store.path()), &store,       query.integer(0), {}, {},
                 query.text(1),           query.text(2)};
    p.stored = read_stored_cases(store, p.sweep);
    const auto setting = p.stored.settings.find(kPartSetting);
    if (setting != p.stored.settings.end()) {
      p.part = parse_part(setting->second);
      p.stored.settings.erase(setting);
    } else if (p.stored.settings.count(kEachSetting)) {
      for (const CaseKey& c : p.stored.cases) p.machines.insert(c.machine);
    } else {
      continue;
    }
    found.push_back(std::move(p));
  }
  if (found.empty())
    fail(
        "[{}] merge: got no part of a sweep, expected one; try workbench sweep PRESET --part 1/4, "
        "or "
        "--each-machine",
        printable(store.path()));
  return found;
}

void expect_same_cases(const StoredPart& part, const StoredPart& first) {
  // A store may hold parts of several sweeps.
  const char* advice = part.file == first.file ? "workbench store export of those of one sweep"
                                               : "parts of one sweep";
  const auto refuse = [&](const std::string& what, const std::string& got,
                          const std::string& expected) {
    fail("[{}] merge: got {} with {} {}, expected {} as in {}; try {}", part.file,
         printable(part.name()), what, got.empty() ? "none" : printable(got),
         expected.empty() ? "none" : printable(expected), first.file, advice);
  };
  if (part.stored.name != first.stored.name)
    refuse("the name", part.stored.name, first.stored.name);
  if (part.machines.empty() != first.machines.empty())
    refuse(kEachSetting, part.machines.empty() ? "off" : "on",
           first.machines.empty() ? "off" : "on");
  if (part.part.count != first.part.count)
    refuse("a number of parts", std::to_string(part.part.count), std::to_string(first.part.count));
  for (const auto& [key, value] : first.stored.settings) {
    const auto other = part.stored.settings.find(key);
    const std::string got = other == part.stored.settings.end() ? "" : other->second;
    if (got == value) continue;
    if (key != kWholeSetting) refuse(key, got, value);
    fail("[{}] merge: got {} of other cases ({}), expected those of {} ({}); try {}", part.file,
         printable(part.name()), printable(part.stored.command), first.file,
         printable(first.stored.command), advice);
  }
}

/// Refuses parts of different programs, whose times do not belong into one sweep.
void expect_same_program(const StoredPart& part, const Environment& its, const StoredPart& first,
                         const Environment& one) {
  const auto expect = [&](const char* what, const std::string& got, const std::string& expected) {
    if (got != expected)
      fail(
          "[{}] merge: got {} measured with {} {}, expected {} as in {}; try to run it again "
          "with one program",
          part.file, printable(part.name()), what, printable(got), printable(expected), first.file);
  };
  expect("LibTorch", its.libtorch, one.libtorch);
  expect("workbench", its.workbench, one.workbench);
}

/// Refuses parts with cases that have no result.
void expect_complete(const std::vector<StoredPart>& parts) {
  for (const StoredPart& p : parts)
    if (const auto left = missing_cases(*p.store, p.sweep); !left.empty())
      fail(
          "[{}] merge: got {} with {} of its {} cases, expected all; try to run it again with "
          "--resume",
          p.file, printable(p.name()), p.stored.cases.size() - left.size(), p.stored.cases.size());
}

/// Refuses a machine that comes twice. Gives cases their positions in one sweep of all machines.
void place_machines(std::vector<StoredPart>* parts) {
  std::map<std::string, const StoredPart*> all;
  for (const StoredPart& p : *parts)
    for (const std::string& machine : p.machines)
      if (const auto [at, fresh] = all.emplace(machine, &p); !fresh)
        fail(
            "[{}] merge: got {}, which {} has too, expected each machine once; try to leave one "
            "out",
            p.file, printable(machine), at->second->file);
  for (StoredPart& p : *parts) {
    const size_t planned = p.stored.cases.size() / p.machines.size();
    for (size_t i = 0; i < p.stored.cases.size(); ++i) {
      const auto before = std::distance(all.begin(), all.find(p.stored.cases[i].machine));
      p.stored.positions.push_back(
          static_cast<int64_t>(static_cast<size_t>(before) * planned + i % planned));
    }
  }
}

/// Refuses a part that comes twice or is missing.
void expect_all(std::vector<StoredPart>* parts) {
  std::ranges::sort(*parts, {}, [](const StoredPart& p) { return p.part.number; });
  for (size_t i = 1; i < parts->size(); ++i) {
    const StoredPart &a = (*parts)[i - 1], &b = (*parts)[i];
    if (a.part.number != b.part.number) continue;
    if (a.file == b.file && a.sweep == b.sweep)
      fail("[{}] merge: got it twice, expected each part once; try to leave one out", b.file);
    if (a.file == b.file)
      fail(
          "[{}] merge: got part {} twice, as sweeps {} and {}, expected it once; try workbench "
          "store "
          "export of one",
          b.file, b.part.text(), a.sweep, b.sweep);
    fail("[{}] merge: got part {}, which {} has too, expected it once; try to leave one out",
         b.file, b.part.text(), a.file);
  }
  std::vector<std::string> missing;
  size_t next = 0;
  for (int64_t number = 1; number <= parts->front().part.count; ++number) {
    if (next < parts->size() && (*parts)[next].part.number == number)
      ++next;
    else
      missing.push_back(Part{number, parts->front().part.count}.text());
  }
  if (!missing.empty())
    fail("[{}] merge: got {} of {} parts, expected {} too; try to add what is missing",
         parts->front().stored.name, parts->size(), parts->front().part.count, listing(missing, 9));
}

/// The whole sweep, its cases in the order of their positions.
StoredCases whole_cases(const std::vector<StoredPart>& parts) {
  StoredCases whole = parts.front().stored;
  if (parts.front().machines.empty()) whole.settings.erase(kWholeSetting);
  std::map<int64_t, CaseKey> cases;
  for (const StoredPart& p : parts)
    for (size_t i = 0; i < p.stored.cases.size(); ++i)
      if (!cases.emplace(p.stored.position(i), p.stored.cases[i]).second)
        fail("[{}] merge: got case {} twice, expected it once; try parts of one sweep", p.file,
             p.stored.position(i) + 1);
  whole.cases.clear();
  whole.positions.clear();
  for (auto& [position, stored] : cases) {
    if (position != static_cast<int64_t>(whole.cases.size()))
      fail("[{}] merge: got no case {}, expected it; try parts of one sweep", parts.front().file,
           whole.cases.size() + 1);
    whole.cases.push_back(std::move(stored));
  }
  return whole;
}

/// A command's words as they were typed, in their quotes.
std::vector<std::string> quoted_words(const std::string& command) {
  std::vector<std::string> words(1);
  bool quoted = false, escapes = true;  // no backslash escapes between ' and ', but after $'
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == ' ' && !quoted) {
      words.emplace_back();
      continue;
    }
    if (c == '\'') {
      escapes = quoted || words.back().ends_with('$');
      quoted = !quoted;
    }
    words.back() += c;
    if (c == '\\' && escapes && i + 1 < command.size()) words.back() += command[++i];
  }
  return words;
}

/// The command that measures all parts: one part's without that part and its files.
std::string whole_command(const std::string& of_part) {
  static const std::map<std::string, bool> options = {
      {"--part", true},  {"--db", true},     {"--json", true},
      {"--again", true}, {"--quiet", false}, {"--resume", false}};  // with a value or without
  std::string whole;
  bool is_value = false;
  for (const std::string& word : quoted_words(of_part)) {
    const size_t equal = word.find('=');
    const auto left_out = options.find(word.substr(0, equal));
    if (!is_value && left_out == options.end()) whole += (whole.empty() ? "" : " ") + word;
    is_value =
        !is_value && left_out != options.end() && left_out->second && equal == std::string::npos;
  }
  return whole;
}

void write_whole(Connection& out, const std::vector<StoredPart>& parts) {
  StoredCases stored = whole_cases(parts);
  std::vector<SweepReport> reports;
  for (const StoredPart& p : parts) reports.push_back(read_sweep(*p.store, p.sweep));
  stored.environment = reports.front().environment;
  stored.command = stored.environment.command = whole_command(reports.front().command);
  const int64_t id = insert_sweep(out, stored, "complete", "");
  std::string started = parts.front().started, finished;
  std::vector<std::string> changes;
  for (size_t k = 0; k < parts.size(); ++k) {
    const StoredPart& p = parts[k];
    const SweepReport& report = reports[k];
    expect_same_program(p, report.environment, parts.front(), stored.environment);
    if (report.environment.git != stored.environment.git)
      changes.push_back(fmt::format("{}: git {}, {} has {}", p.name(), report.environment.git,
                                    parts.front().name(), stored.environment.git));
    started = std::min(started, p.started);
    finished = std::max(finished, p.finished);
    add_machine(out, id, report.environment);
    for (const Environment& machine : report.machines) add_machine(out, id, machine);
    changes.push_back(
        fmt::format("{}: {}, begun {}", p.name(), machine_name(report.environment), p.started));
    for (const std::string& change : report.changes)
      changes.push_back(fmt::format("{}: {}", p.name(), change));
    for (size_t i = 0; i < report.cases.size(); ++i)
      insert_case(out, id, p.stored.position(i), report.cases[i]);
  }
  append_changes(out, id, changes);
  Query(out, "UPDATE sweep SET started = ?, finished = ?, owner = NULL WHERE id = ?", started,
        finished, id)
      .run();
}

}  // namespace

int64_t merge_parts(const std::string& path, const std::vector<std::string>& files) {
  expect_new_store(path, "merge");
  std::vector<std::unique_ptr<Connection>> stores;
  std::vector<StoredPart> parts;
  for (const std::string& file : files) {
    const StoreOptions options{.advice = "the stores of workbench sweep PRESET --part K/N"};
    stores.push_back(std::make_unique<Connection>(file, options, Access::read));
    Connection& store = *stores.back();
    for (StoredPart& p : store.read([&] { return parts_in(store); })) parts.push_back(std::move(p));
  }
  for (const StoredPart& p : parts) expect_same_cases(p, parts.front());
  if (parts.front().machines.empty())
    expect_all(&parts);
  else
    place_machines(&parts);
  expect_complete(parts);
  make_store(path, "another OUT.db",
             [&](Connection& out) { out.write([&] { write_whole(out, parts); }); });
  return std::accumulate(parts.begin(), parts.end(), int64_t{0}, [](int64_t sum, const auto& p) {
    return sum + static_cast<int64_t>(p.stored.cases.size());
  });
}

}  // namespace wide
