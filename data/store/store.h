#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"
#include "data/store/runs/run_request.h"
#include "data/store/sweeps/browse.h"

namespace wide {

class Connection;

struct StoreOptions {
  int busy_ms = 10'000;   // how long to wait for another process's write
  int64_t max_pages = 0;  // the file may not grow beyond this; 0: only the disk's end counts
  bool durable = true;    // committed is on the disk, also when the power goes
  int64_t magic = 0;      // of its file system, as statfs has it; 0: statfs is asked
};

/// A case as it is planned: what identifies it in its sweep.
struct CasePlan {
  std::string target, shape, dtype, device, mode, phase;
  int64_t n = 0;
  std::vector<std::string> strategies;
  std::string machine = {};  // the only one that may measure it; "": any
  bool operator==(const CasePlan&) const = default;
};

/// What a sweep is asked to do. A resumed one must be asked the same.
struct SweepPlan {
  std::string name, command;
  Environment environment;
  std::map<std::string, std::string> settings;  // "--seed" to "0": all that decides the numbers
  std::vector<CasePlan> cases;
  /// Of a part of a plan (`--part`): the place of each case in the whole. Empty: 0, 1, ...
  std::vector<int64_t> positions = {};

  /// Several machines measure: one that resumes it may be another than the first.
  bool any_machine = false;

  int64_t position(size_t index) const {
    return positions.empty() ? static_cast<int64_t>(index) : positions.at(index);
  }
};

/// Settings of a plan that a part of it has, and the whole has not.
inline constexpr const char* kPartSetting = "--part";    // "2/3"
inline constexpr const char* kWholeSetting = "of plan";  // stands for all cases of the whole
/// Of a plan whose cases are repeated on every machine: "on". `kWholeSetting` stands for those of
/// one.
inline constexpr const char* kEachSetting = "--each-machine";

/// A sweep in a listing. `state`: running, complete, cancelled or interrupted; one whose process
/// is gone is interrupted.
struct SweepRow {
  int64_t id = 0;
  std::string name, state, started, finished, command, host, cpu, gpu;
  int64_t cases = 0, done = 0;
  std::map<std::string, int64_t> trials;  // by status
};

struct FuseRow {
  int64_t id = 0;
  std::string model, device, dtype, mode, date, host;
  std::vector<int64_t> n;
};

/// A training run in a list.
struct RunRow {
  int64_t id = 0, n = 0;
  std::string name, network, state, started, host;
  std::map<std::string, int64_t> statuses;  // of its models
};

/// A fusion as the store takes it: all of the report, and how every node went.
nlohmann::ordered_json fuse_document(const FuseReport& report);

struct ReferenceRow {
  std::string name, date;
  int64_t sweep = 0;
  std::string sweep_name;
};

struct StoreFacts {
  std::string path;
  int64_t schema = 0, bytes = 0, sweeps = 0, trials = 0, samples = 0, fusions = 0, tunings = 0;
};

/// The results of all sweeps and fusions: one SQLite file, which several processes may use
/// at once. What a call has acknowledged by returning is on disk. Every failure (full disk, lock
/// held too long, read-only, corrupt, newer schema) is an Error in one line with exit code 1, and
/// leaves the file as it was. Tables: schema.cpp. Not for several threads.
class Store {
 public:
  /// `--db`, else $WORKBENCH_DB, else ${XDG_DATA_HOME:-~/.local/share}/workbench/results.db.
  static std::string path(const std::string& option = "");
  /// Opens a store to write; makes it if there is none, and brings an older schema up to date.
  static Store create(const std::string& path, const StoreOptions& options = {});
  /// Opens one that exists to read; nothing is written, so any schema up to this program's, a
  /// read-only file or folder will do. A call that writes throws Error.
  static Store read(const std::string& path, const StoreOptions& options = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // ---- a sweep, by the process that runs it ----

  /// A new sweep with its cases planned, owned by this process. Returns its number.
  int64_t begin(const SweepPlan& plan);
  /// Takes over the latest unfinished sweep that was asked the same as `plan`. Throws Error when
  /// there is none, saying what differs; when it runs still; when the machine is another.
  /// `again_disturbed`: also a finished one, and its disturbed cases have no result that counts as
  /// done any more; the old one is kept until `add_case` brings another.
  int64_t resume(const SweepPlan& plan, bool again_disturbed = false);
  /// Positions in the plan that have no result yet.
  std::vector<int64_t> missing(int64_t sweep);
  /// The results there are, by position in the plan.
  std::map<int64_t, Case> done(int64_t sweep);
  /// Says that a case runs now: should the process die, its trials are `interrupted`.
  void begin_case(int64_t sweep, int64_t position);
  /// Stores a case and all that belongs to it. Throws Error when it is stored already, or when
  /// another process took the sweep over. One with cancelled trials stays missing.
  void add_case(int64_t sweep, int64_t position, const Case& result);
  /// Says that cases are measured on this machine too, besides the one that began the sweep.
  void add_machine(int64_t sweep, const Environment& machine);
  /// Ends a sweep: state complete, cancelled or interrupted. `changes` are added to those stored.
  void finish(int64_t sweep, const std::string& state, const std::vector<std::string>& changes);

  /// What is found out about the machine after a sweep has ended.
  void add_changes(int64_t sweep, const std::vector<std::string>& changes);

  // ---- reading ----

  /// Newest first.
  std::vector<SweepRow> sweeps(int64_t limit = -1, int64_t offset = 0);
  /// A number, `last`, a reference's name, or a sweep's name (its latest).
  std::optional<int64_t> find(const std::string& which);
  /// All of a sweep that has run; its id is its number. Of one that was interrupted, the trials of
  /// the case that ran are `interrupted`.
  SweepReport load(int64_t sweep);
  /// The same without its cases.
  SweepReport load_head(int64_t sweep);
  /// What `load` gives, as rows without samples: for tables of very many trials.
  TrialTable trials(int64_t sweep);
  /// One case with its samples, by the number that `trials` gives; nullopt when it is gone.
  std::optional<Case> load_case(int64_t case_id);
  /// The cases of a sweep as they were planned, and what else it was asked.
  SweepPlan plan(int64_t sweep);
  StoreFacts facts();
  /// The network file system that it lies on, as "NFS"; "" for any other.
  const std::string& network() const;

  // ---- fusions: a report comes back as it was, but for how every node went ----

  int64_t add_fuse(const FuseReport& report);
  /// The same of what `fuse_document` made. Throws nlohmann's exception for anything else.
  int64_t add_fuse_document(const nlohmann::ordered_json& document);
  std::vector<FuseRow> fusions(int64_t limit = -1, int64_t offset = 0);
  FuseReport load_fuse(int64_t fuse);

  // ---- training runs: a report's JSON comes back as it was ----

  /// A new run of `document` (a report without its history), owned by this process; or one that
  /// goes on from `step`: newer rows and all events go, as the run adds its own again. Its number.
  std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                        int64_t step);
  /// {"run": number, "rows": [[model, metric, step, value]], "events": [[step, model, text]],
  /// "times": [[step, seconds]], "refused": [[id of a request, text]]}
  void add_run_rows(const nlohmann::ordered_json& rows);
  void end_run(const std::string& run, const nlohmann::ordered_json& document);
  /// Asks a run that goes on to stop `model` at its next evaluation, or (-1) itself.
  void ask_to_stop(int64_t run, int64_t model);
  /// By the process that runs it, at its evaluation after `step` steps: what it is asked, each
  /// once.
  std::vector<RunRequest> take_requests(const std::string& run, int64_t step);
  std::vector<RunRow> runs(int64_t limit = -1, int64_t offset = 0);
  /// A number, `last`, or a name (its latest).
  std::optional<int64_t> find_run(const std::string& which);
  nlohmann::ordered_json load_run(int64_t run);

  // ---- upkeep ----

  /// Deletes a sweep, its results and its references.
  void remove(int64_t sweep);
  /// Writes one sweep as a store of its own. The file must not exist.
  void export_sweep(int64_t sweep, const std::string& path);
  /// Adds the sweeps of another store that are not here yet; returns their numbers here.
  std::vector<int64_t> import_sweeps(const std::string& path);

  /// Writes a new store with the sweep that those in `parts` are parts of, or with what several
  /// machines measured of one plan, all samples included. Throws Error where they are not all of
  /// one plan, each part or machine once and complete; then there is no file. Returns how many
  /// cases it has.
  static int64_t merge(const std::string& path, const std::vector<std::string>& parts);

  void set_reference(const std::string& name, int64_t sweep);
  bool remove_reference(const std::string& name);
  std::vector<ReferenceRow> references();
  std::optional<int64_t> reference(const std::string& name);

 private:
  explicit Store(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace wide
