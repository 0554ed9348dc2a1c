#include "data/store/store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/machine/environment.h"
#include "data/store/fusions.h"
#include "data/store/runs/runs.h"
#include "data/store/schema.h"
#include "data/store/sweeps/cases.h"
#include "data/store/sweeps/copy.h"
#include "data/store/sweeps/sweeps.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string default_path() {
  std::string data = variable("XDG_DATA_HOME");
  if (data.empty()) {
    const std::string home = variable("HOME");
    if (home.empty())
      throw Error("[store] folder: got neither HOME nor XDG_DATA_HOME, expected one; try --db FILE",
                  1);
    data = home + "/.local/share";
  }
  return data + "/workbench/results.db";
}

}  // namespace

std::string Store::path(const std::string& option) {
  if (!option.empty()) return option;
  const std::string given = variable("WORKBENCH_DB");
  return given.empty() ? default_path() : given;
}

Store Store::create(const std::string& path, const StoreOptions& options) {
  if (variable("WORKBENCH_DB").empty() && path == Store::path()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error)
      throw Error(fmt::format("[{}] store: got {} for its folder, expected to make it; try --db "
                              "FILE",
                              printable(path), error.message()),
                  1);
  }
  return Store(std::make_unique<Connection>(path, options, Access::create));
}

Store Store::read(const std::string& path, const StoreOptions& options) {
  return Store(std::make_unique<Connection>(path, options, Access::read));
}

Store::Store(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

int64_t Store::begin(const StoredCases& stored) {
  return connection_->write([&] { return insert_sweep(*connection_, stored, "running", ""); });
}

int64_t Store::resume(const StoredCases& stored, bool again_disturbed) {
  return connection_->write([&] { return resume_sweep(*connection_, stored, again_disturbed); });
}

std::vector<int64_t> Store::missing(int64_t sweep) {
  return connection_->read([&] { return missing_cases(*connection_, sweep); });
}

std::map<int64_t, Case> Store::done(int64_t sweep) {
  return connection_->read([&] { return done_cases(*connection_, sweep); });
}

void Store::begin_case(int64_t sweep, int64_t position) {
  return connection_->write([&] { return wide::begin_case(*connection_, sweep, position); });
}

void Store::add_case(int64_t sweep, int64_t position, const Case& result) {
  return connection_->write([&] { return wide::add_case(*connection_, sweep, position, result); });
}

void Store::finish(int64_t sweep, const std::string& state,
                   const std::vector<std::string>& changes) {
  return connection_->write([&] { return finish_sweep(*connection_, sweep, state, changes); });
}

void Store::add_changes(int64_t sweep, const std::vector<std::string>& changes) {
  return connection_->write([&] { return append_changes(*connection_, sweep, changes); });
}

std::vector<SweepRow> Store::sweeps(int64_t limit, int64_t offset) {
  return connection_->read([&] { return list_sweeps(*connection_, limit, offset); });
}

std::optional<int64_t> Store::find(const std::string& which) {
  return connection_->read([&] { return find_sweep(*connection_, which); });
}

SweepReport Store::load(int64_t sweep) {
  return connection_->read([&] { return read_sweep(*connection_, sweep); });
}

void Store::add_machine(int64_t sweep, const Environment& machine) {
  connection_->write([&] { wide::add_machine(*connection_, sweep, machine); });
}

SweepReport Store::load_head(int64_t sweep) {
  return connection_->read([&] { return read_sweep_head(*connection_, sweep); });
}

TrialTable Store::trials(int64_t sweep) {
  return connection_->read([&] { return read_trial_table(*connection_, sweep); });
}

std::optional<Case> Store::load_case(int64_t case_id) {
  return connection_->read([&] { return read_case(*connection_, case_id); });
}

StoredCases Store::stored_cases(int64_t sweep) {
  return connection_->read([&] { return read_stored_cases(*connection_, sweep); });
}

void Store::remove(int64_t sweep) {
  return connection_->write([&] { return delete_sweep(*connection_, sweep); });
}

int64_t Store::add_fuse(const nlohmann::ordered_json& document) {
  return connection_->write([&] { return insert_fuse(*connection_, document); });
}

std::vector<FuseRow> Store::fusions(int64_t limit, int64_t offset) {
  return connection_->read([&] { return list_fusions(*connection_, limit, offset); });
}

FuseReport Store::load_fuse(int64_t fuse) {
  return connection_->read([&] { return read_fuse(*connection_, fuse); });
}

std::string Store::begin_run(const nlohmann::ordered_json& document, const std::string& run,
                             int64_t step) {
  return connection_->write([&] { return insert_run(*connection_, document, run, step); });
}

void Store::add_run_rows(const nlohmann::ordered_json& rows) {
  connection_->write([&] { insert_run_rows(*connection_, rows); });
}

void Store::end_run(const std::string& run, const nlohmann::ordered_json& document) {
  connection_->write([&] { finish_run(*connection_, run, document); });
}

void Store::ask_to_stop(int64_t run, int64_t model) {
  connection_->write([&] { wide::ask_to_stop(*connection_, run, model); });
}

std::vector<RunRequest> Store::take_requests(const std::string& run, int64_t step) {
  // Called at each evaluation: takes the write lock only if there are requests.
  if (!connection_->read([&] { return has_requests(*connection_, run); })) return {};
  return connection_->write([&] { return wide::take_requests(*connection_, run, step); });
}

std::vector<RunRow> Store::runs(int64_t limit, int64_t offset) {
  return connection_->read([&] { return list_runs(*connection_, limit, offset); });
}

std::optional<int64_t> Store::find_run(const std::string& which) {
  return connection_->read([&] { return wide::find_run(*connection_, which); });
}

nlohmann::ordered_json Store::load_run(int64_t run) {
  return connection_->read([&] { return read_run(*connection_, run); });
}

void Store::export_sweep(int64_t sweep, const std::string& path) {
  wide::export_sweep(*connection_, sweep, path);
}

std::vector<int64_t> Store::import_sweeps(const std::string& path) {
  return wide::import_sweeps(*connection_, path);
}

const std::string& Store::network() const { return connection_->network(); }

StoreFacts Store::facts() {
  return connection_->read([&] {
    const auto count = [&](const std::string& sql) {
      Query query(*connection_, sql);
      return query.step() ? query.integer(0) : 0;
    };
    StoreFacts facts;
    facts.path = connection_->path();
    facts.schema = store_version();
    for (const char* suffix : {"", "-wal"}) {
      std::error_code error;
      const auto size = std::filesystem::file_size(facts.path + suffix, error);
      if (!error) facts.bytes += static_cast<int64_t>(size);
    }
    facts.sweeps = count("SELECT count(*) FROM sweep");
    facts.trials = count("SELECT count(*) FROM trial");
    facts.samples = count("SELECT coalesce(sum(length(ns)), 0) / 8 FROM samples");
    facts.fusions = count("SELECT count(*) FROM fuse");
    facts.tunings = count("SELECT count(*) FROM tuning");
    return facts;
  });
}

void Store::set_reference(const std::string& name, int64_t sweep) {
  check_name("reference", name);
  connection_->write([&] {
    // A reference that exists may move, also to a newer sweep of its name.
    Query other(*connection_,
                "SELECT max(id) FROM sweep WHERE name = ? HAVING max(id) <> ? AND NOT EXISTS "
                "(SELECT 1 FROM reference WHERE name = ?)",
                name, sweep, name);
    if (other.step() && !other.at(0).isNull())
      fail(
          "[{}] reference: got the name of sweep {}, expected one that no other sweep has; try "
          "{}-good",
          printable(name), other.integer(0), printable(name));
    Query(*connection_,
          "INSERT INTO reference(name, sweep, date) VALUES(?, ?, ?) ON CONFLICT(name) DO UPDATE "
          "SET sweep = excluded.sweep, date = excluded.date",
          name, sweep, utc_now())
        .run();
  });
}

bool Store::remove_reference(const std::string& name) {
  return connection_->write([&] {
    Query(*connection_, "DELETE FROM reference WHERE name = ?", name).run();
    return connection_->db().getChanges() > 0;
  });
}

std::vector<ReferenceRow> Store::references() {
  return connection_->read([&] {
    std::vector<ReferenceRow> rows;
    Query query(*connection_,
                "SELECT r.name, r.date, r.sweep, s.name FROM reference AS r JOIN sweep AS s ON "
                "s.id = r.sweep ORDER BY r.name");
    while (query.step())
      rows.push_back({query.text(0), query.text(1), query.integer(2), query.text(3)});
    return rows;
  });
}

std::optional<int64_t> Store::reference(const std::string& name) {
  return connection_->read([&]() -> std::optional<int64_t> {
    Query query(*connection_, "SELECT sweep FROM reference WHERE name = ?", name);
    if (!query.step()) return std::nullopt;
    return query.integer(0);
  });
}

}  // namespace wide
