#include "data/store/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/bytes/new_file.h"
#include "data/store/cases.h"
#include "data/store/part.h"
#include "data/store/results.h"
#include "data/store/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A sweep that is a part, and the store that it lies in.
struct StoredPart {
  std::string file;
  Connection* store = nullptr;
  int64_t sweep = 0;
  Part part;
  SweepPlan plan;
  std::string started, finished;
};

std::vector<StoredPart> parts_in(Connection& store) {
  std::vector<StoredPart> found;
  Query query(store, "SELECT id, started, coalesce(finished, '') FROM sweep ORDER BY id");
  while (query.step()) {
    StoredPart p{printable(store.path()), &store,       query.integer(0), {}, {},
                 query.text(1),           query.text(2)};
    p.plan = read_plan(store, p.sweep);
    const auto setting = p.plan.settings.find(kPartSetting);
    if (setting == p.plan.settings.end()) continue;
    p.part = parse_part(setting->second);
    p.plan.settings.erase(setting);
    found.push_back(std::move(p));
  }
  if (found.empty())
    fail("[{}] merge: got no part of a sweep, expected one; try workbench sweep PRESET --part 1/4",
         printable(store.path()));
  return found;
}

void expect_same_plan(const StoredPart& part, const StoredPart& first) {
  const auto refuse = [&](const std::string& what, const std::string& got,
                          const std::string& expected) {
    fail(
        "[{}] merge: got part {} with {} {}, expected {} as in {}; try parts of one plan, or "
        "workbench store export of each",
        part.file, part.part.text(), what, got.empty() ? "none" : printable(got),
        expected.empty() ? "none" : printable(expected), first.file);
  };
  if (part.plan.name != first.plan.name) refuse("the name", part.plan.name, first.plan.name);
  if (part.part.count != first.part.count)
    refuse("a number of parts", std::to_string(part.part.count), std::to_string(first.part.count));
  for (const auto& [key, value] : first.plan.settings) {
    const auto other = part.plan.settings.find(key);
    const std::string got = other == part.plan.settings.end() ? "" : other->second;
    if (got != value) refuse(key, got, value);
  }
}

/// Each part once, and nothing of it missing.
void expect_all(std::vector<StoredPart>* parts) {
  std::sort(parts->begin(), parts->end(),
            [](const StoredPart& a, const StoredPart& b) { return a.part.number < b.part.number; });
  for (size_t i = 1; i < parts->size(); ++i) {
    const StoredPart &a = (*parts)[i - 1], &b = (*parts)[i];
    if (a.part.number == b.part.number)
      fail("[{}] merge: got part {} twice, in {} too, expected it once; try to leave one out",
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
         parts->front().plan.name, parts->size(), parts->front().part.count, listing(missing, 9));
  for (const StoredPart& p : *parts)
    if (const auto left = missing_cases(*p.store, p.sweep); !left.empty())
      fail(
          "[{}] merge: got part {} with {} of its {} cases, expected all; try to run it again with "
          "--resume",
          p.file, p.part.text(), p.plan.cases.size() - left.size(), p.plan.cases.size());
}

/// The plan that they are parts of, cases by their positions in it.
SweepPlan whole_plan(const std::vector<StoredPart>& parts) {
  SweepPlan whole = parts.front().plan;
  whole.settings.erase(kWholeSetting);
  std::map<int64_t, CasePlan> cases;
  for (const StoredPart& p : parts)
    for (size_t i = 0; i < p.plan.cases.size(); ++i)
      if (!cases.emplace(p.plan.position(i), p.plan.cases[i]).second)
        fail("[{}] merge: got case {} twice, expected it once; try parts of one plan", p.file,
             p.plan.position(i) + 1);
  whole.cases.clear();
  whole.positions.clear();
  for (auto& [position, plan] : cases) {
    if (position != static_cast<int64_t>(whole.cases.size()))
      fail("[{}] merge: got no case {}, expected it; try parts of one plan", parts.front().file,
           whole.cases.size() + 1);
    whole.cases.push_back(std::move(plan));
  }
  return whole;
}

void write_whole(Connection& out, const std::vector<StoredPart>& parts) {
  SweepPlan plan = whole_plan(parts);
  std::vector<SweepReport> reports;
  for (const StoredPart& p : parts) reports.push_back(read_sweep(*p.store, p.sweep));
  plan.environment = reports.front().environment;
  plan.command = reports.front().command;
  const int64_t id = insert_sweep(out, plan, "complete", "");
  std::string started = parts.front().started, finished;
  std::vector<std::string> changes;
  for (size_t k = 0; k < parts.size(); ++k) {
    const StoredPart& p = parts[k];
    const SweepReport& report = reports[k];
    started = std::min(started, p.started);
    finished = std::max(finished, p.finished);
    add_machine(out, id, report.environment);
    for (const Environment& machine : report.machines) add_machine(out, id, machine);
    changes.push_back(fmt::format("part {}: {}, begun {}", p.part.text(),
                                  machine_name(report.environment), p.started));
    for (const std::string& change : report.changes)
      changes.push_back(fmt::format("part {}: {}", p.part.text(), change));
    for (size_t i = 0; i < report.cases.size(); ++i)
      insert_case(out, id, p.plan.position(i), report.cases[i]);
  }
  append_changes(out, id, changes);
  Query(out, "UPDATE sweep SET started = ?, finished = ?, owner = NULL WHERE id = ?", started,
        finished, id)
      .run();
}

}  // namespace

int64_t merge_parts(const std::string& path, const std::vector<std::string>& files) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    fail("[{}] merge: got a file that exists, expected a new one; try another name",
         printable(path));
  std::vector<std::unique_ptr<Connection>> stores;
  std::vector<StoredPart> parts;
  for (const std::string& file : files) {
    Connection& store =
        *stores.emplace_back(std::make_unique<Connection>(file, StoreOptions{}, Access::read));
    for (StoredPart& p : store.read([&] { return parts_in(store); })) parts.push_back(std::move(p));
  }
  for (const StoredPart& p : parts) expect_same_plan(p, parts.front());
  expect_all(&parts);
  const std::string part = fresh_name(path);
  try {
    {
      Connection out(part, {}, Access::create);
      out.write([&] { write_whole(out, parts); });
      out.leave_wal();
    }
    give_name(part, path);
  } catch (...) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(part + suffix, error);
    throw;
  }
  return std::accumulate(parts.begin(), parts.end(), int64_t{0}, [](int64_t sum, const auto& p) {
    return sum + static_cast<int64_t>(p.plan.cases.size());
  });
}

}  // namespace wide
