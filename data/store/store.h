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
  int64_t max_pages = 0;  // the file may not grow beyond this; 0: until the disk is full
  bool durable = true;    // a committed transaction survives a power failure
  int64_t magic = 0;      // statfs's number of the file system; 0: statfs is called
  std::string shown{};    // the file that messages name; "": the store's own
  std::string advice{};   // what messages advise; "": another --db FILE, or what they know
};

/// What identifies a case in its sweep, before it has results.
struct CaseKey {
  std::string target, shape, dtype, device, mode, phase;
  int64_t n = 0;
  std::vector<std::string> strategies;
  std::string machine = {};  // the only machine that may measure it; "": any
  bool operator==(const CaseKey&) const = default;
};

/// The cases and settings of a sweep. To resume a sweep, both must be the same.
struct StoredCases {
  std::string name, command;
  Environment environment;
  std::map<std::string, std::string> settings;  // "--seed" to "0": all that results depend on
  std::vector<CaseKey> cases;
  /// With `--part`: the position of each case in the whole sweep. Empty: 0, 1, ...
  std::vector<int64_t> positions = {};

  /// Whether several machines measure: then any machine may resume the sweep.
  bool any_machine = false;

  int64_t position(size_t index) const {
    return positions.empty() ? static_cast<int64_t>(index) : positions.at(index);
  }
};

/// Settings that only parts of a sweep have.
inline constexpr const char* kPartSetting = "--part";     // "2/3"
inline constexpr const char* kWholeSetting = "of cases";  // digest of all cases of the whole sweep
/// "on" if the sweep's cases are repeated on every machine. `kWholeSetting` is then the digest of
/// one machine's cases.
inline constexpr const char* kEachSetting = "--each-machine";

/// A sweep in a listing. `state`: running, complete, cancelled or interrupted; a sweep whose
/// process has ended without storing a final state is interrupted.
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

/// A fusion as it is stored: the whole report, and the coverage of every node.
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
  /// Opens an existing store for reading. Nothing is written, so an older schema and a read-only
  /// file or folder will do. Calls that write throw Error.
  static Store read(const std::string& path, const StoreOptions& options = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // ---- writing a sweep, by the process that runs it ----

  /// Stores a new sweep and its list of cases, owned by this process. Returns its number.
  int64_t begin(const StoredCases& stored);
  /// Takes over the latest unfinished sweep with the same cases and settings. Throws Error if there
  /// is none, and says what differs; if it is still running; or if the machine is another.
  /// `again_disturbed`: also takes a finished sweep, and counts its disturbed cases as not done;
  /// their old results are kept until `add_case` replaces them.
  int64_t resume(const StoredCases& stored, bool again_disturbed = false);
  /// Positions of the cases that have no result yet.
  std::vector<int64_t> missing(int64_t sweep);
  /// The stored results, by position in the list of cases.
  std::map<int64_t, Case> done(int64_t sweep);
  /// Notes that a case is running: if the process dies, its trials are `interrupted`.
  void begin_case(int64_t sweep, int64_t position);
  /// Stores a case and all that belongs to it. Throws Error if it is stored already, or another
  /// process has taken the sweep over. A case with cancelled trials still counts as not done.
  void add_case(int64_t sweep, int64_t position, const Case& result);
  /// Adds a machine that measures cases, besides the one that began the sweep.
  void add_machine(int64_t sweep, const Environment& machine);
  /// Ends a sweep: state complete, cancelled or interrupted. `changes` are added to those stored.
  void finish(int64_t sweep, const std::string& state, const std::vector<std::string>& changes);

  /// Adds changes of the environment that are found after the sweep has ended.
  void add_changes(int64_t sweep, const std::vector<std::string>& changes);

  // ---- reading ----

  /// The stored sweeps, newest first.
  std::vector<SweepRow> sweeps(int64_t limit = -1, int64_t offset = 0);
  /// Finds a sweep by its number, `last`, a reference's name, or its own name (the latest of it).
  std::optional<int64_t> find(const std::string& which);
  /// The report of all cases that have run; its id is the sweep's number. If the sweep was
  /// interrupted, the trials of the case that was running are `interrupted`.
  SweepReport load(int64_t sweep);
  /// The report without its cases.
  SweepReport load_head(int64_t sweep);
  /// The trials of a sweep as rows without samples, for tables of very many trials.
  TrialTable trials(int64_t sweep);
  /// One case with its samples, by the number that `trials` gives; nullopt if it was deleted.
  std::optional<Case> load_case(int64_t case_id);
  /// The cases and settings of a stored sweep.
  StoredCases stored_cases(int64_t sweep);
  StoreFacts facts();
  /// The network file system that it lies on, as "NFS"; "" for any other.
  const std::string& network() const;

  // ---- fusions: reading gives the report that was stored, without the coverage of nodes ----

  /// Adds a document of `fuse_document`. Throws nlohmann's exception for anything else.
  int64_t add_fuse(const nlohmann::ordered_json& document);
  std::vector<FuseRow> fusions(int64_t limit = -1, int64_t offset = 0);
  FuseReport load_fuse(int64_t fuse);

  // ---- training runs: reading gives the JSON that was stored ----

  /// Begins a run with `document` (a report without its history), owned by this process; or resumes
  /// `run` from `step`: newer rows and all events are deleted, as the run adds them again. Returns
  /// the run's number.
  std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                        int64_t step);
  /// {"run": number, "rows": [[model, metric, step, value]], "events": [[step, model, text]],
  /// "times": [[step, seconds]], "refused": [[id of a request, text]]}
  void add_run_rows(const nlohmann::ordered_json& rows);
  void end_run(const std::string& run, const nlohmann::ordered_json& document);
  /// Asks a running run to stop `model`, or (-1) the whole run, at its next evaluation.
  void ask_to_stop(int64_t run, int64_t model);
  /// Takes the requests to a run; called by its own process at the evaluation after `step` steps.
  /// Each request is returned once.
  std::vector<RunRequest> take_requests(const std::string& run, int64_t step);
  std::vector<RunRow> runs(int64_t limit = -1, int64_t offset = 0);
  /// A number, `last`, or a name (its latest).
  std::optional<int64_t> find_run(const std::string& which);
  nlohmann::ordered_json load_run(int64_t run);

  // ---- upkeep ----

  /// Deletes a sweep, its results and its references. Throws Error if it is still running.
  void remove(int64_t sweep);
  /// Writes one sweep as a store of its own. The file must not exist.
  void export_sweep(int64_t sweep, const std::string& path);
  /// Imports the sweeps of another store that are missing here; returns their numbers here.
  std::vector<int64_t> import_sweeps(const std::string& path);

  /// Moves a name that is taken. Throws Error where another sweep has that name.
  void set_reference(const std::string& name, int64_t sweep);
  bool remove_reference(const std::string& name);
  std::vector<ReferenceRow> references();
  std::optional<int64_t> reference(const std::string& name);

 private:
  explicit Store(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace wide
