#include "data/store/sweeps/copy.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/bytes/new_file.h"
#include "data/bytes/part_file.h"
#include "data/store/sweeps/cases.h"
#include "data/store/sweeps/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

Error no_sweep(const std::string& path, int64_t sweep) {
  return Error(
      fmt::format("[sweep {}] store: got no such number in {}, expected a stored sweep; "
                  "try workbench list sweeps",
                  sweep, printable(path)));
}

/// Copies a sweep between stores; its number may change. nullopt: it is in `to` already.
std::optional<int64_t> copy_sweep(Connection& from, Connection& to, int64_t sweep) {
  Query head(from, "SELECT uuid, started, finished, changes, state FROM sweep WHERE id = ?", sweep);
  if (!head.step()) throw no_sweep(from.path(), sweep);
  const std::string uuid = head.text(0);
  if (Query known(to, "SELECT id FROM sweep WHERE uuid = ?", uuid); known.step())
    return std::nullopt;

  const SweepReport report = read_sweep(from, sweep);
  StoredCases stored = read_stored_cases(from, sweep);
  stored.environment = report.environment;
  // In the other store, no process runs it.
  const std::string state = head.text(4) == "running" ? "interrupted" : head.text(4);
  const int64_t id = insert_sweep(to, stored, state, uuid);
  for (const Environment& machine : report.machines) add_machine(to, id, machine);
  Query(to, "UPDATE sweep SET started = ?, finished = ?, changes = ?, owner = NULL WHERE id = ?",
        head.text(1), head.at(2).isNull() ? std::nullopt : std::optional<std::string>(head.text(2)),
        head.text(3), id)
      .run();
  Query positions(from, "SELECT position, state FROM \"case\" WHERE sweep = ? ORDER BY position",
                  sweep);
  size_t next = 0;
  while (positions.step()) {
    if (positions.text(1) == "done" || positions.text(1) == "partial")
      insert_case(to, id, positions.integer(0), report.cases.at(next++));
    else
      Query(to, "UPDATE \"case\" SET state = ? WHERE sweep = ? AND position = ?", positions.text(1),
            id, positions.integer(0))
          .run();
  }
  return id;
}

}  // namespace

void expect_new_store(const std::string& path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    fail("[{}] {}: got a file that exists, expected a new one; try another name", printable(path),
         what);
  check_writable_place(path);
}

void make_store(const std::string& path, const std::string& advice,
                const std::function<void(Connection&)>& fill) {
  const std::string part = fresh_name(path);
  try {
    {
      Connection out(part, {.shown = path, .advice = advice}, Access::create);
      fill(out);
      out.leave_wal();
    }
    give_name(part, path);
  } catch (...) {
    std::error_code error;
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(part + suffix, error);
    throw;
  }
}

void export_sweep(Connection& connection, int64_t sweep, const std::string& path) {
  expect_new_store(path, "export");
  make_store(path, "another FILE.db", [&](Connection& out) {
    connection.read([&] { out.write([&] { copy_sweep(connection, out, sweep); }); });
  });
}

std::vector<int64_t> import_sweeps(Connection& connection, const std::string& path) {
  Connection source(path, {}, Access::read);
  return connection.write([&] {
    return source.read([&] {
      std::vector<int64_t> added;
      Query sweeps(source, "SELECT id FROM sweep ORDER BY id");
      while (sweeps.step())
        if (const auto id = copy_sweep(source, connection, sweeps.integer(0))) added.push_back(*id);
      return added;
    });
  });
}

}  // namespace wide
