#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/explorer/models/trials/groups.h"
#include "app/explorer/models/trials/overview.h"
#include "app/explorer/models/trials/trials.h"
#include "data/reports/sweep/figures.h"
#include "data/store/store.h"

namespace wide {

/// Identifies a trial or baseline of the open sweep, such as the selected one.
struct PointKey {
  int64_t case_id = 0, n = 0;
  std::string strategy, mode;
  bool baseline = false;
  bool operator==(const PointKey&) const = default;
};

/// One trial or baseline with all facts about it.
struct PointDetail {
  Case of;
  PointKey key;
  const Trial* trial() const;  // null for a baseline
  const Timing* timing() const;
  const MissingBaseline* missing() const;  // set for a baseline that could not run
  /// The command line that measures it again.
  std::string command;
};

/// A timing's share of the peak FLOP/s as a sentence. FLOPs are those of the layer's definition. If
/// the kernels report how many they execute, the sentence gives that share too; if not, it explains
/// a share above 100 %: an algorithm such as Winograd's executes fewer.
std::string arithmetic_text(const Timing& timing);

/// The stored sweeps, the open one and the selection, shared by all panels.
class Library {
 public:
  Library(Jobs& jobs, std::string db);

  const std::string& db() const { return db_; }

  // ---- sweeps ----
  const std::vector<SweepRow>& sweeps() const { return sweeps_; }
  const std::vector<FuseRow>& fusions() const { return fusions_; }
  bool listed() const { return listed_; }
  /// Why the store, or its open sweep, cannot be read; "" if it can.
  const std::string& unreadable() const { return not_listed_.empty() ? not_opened_ : not_listed_; }
  /// Reads the newest 500 sweeps and fusions again. If the open sweep was deleted, opens the newest
  /// one with results, else the newest; without any, none is open. `by_others`: another program
  /// wrote to the store. Then `told` is called with what is new, and the open sweep is read again
  /// if it has more results.
  void refresh(bool by_others = false);
  /// Reads the list and the open sweep again: the user pressed the key or button for it.
  void read_again();
  /// How many times `read_again` was called.
  uint64_t read_agains() const { return read_agains_; }
  /// Increases when the store has other sweeps, cases or fusions, and with `read_again`.
  uint64_t changes() const { return changes_; }
  /// While this window runs a fusion, changes of the list of fusions are not reported as another
  /// program's.
  void set_fusing(bool fusing) {
    fusing_ |= fusing;
    fused_ = !fusing;
  }
  /// Closes everything, as the store was replaced or removed.
  void forget();
  std::function<void(const std::string& line)> told = [](const std::string&) {};
  void open(int64_t sweep);
  /// Opens the sweep that the command line asks for.
  void open_asked(int64_t sweep) {
    asked_ = sweep;
    open(sweep);
  }
  int64_t sweep() const { return sweep_; }
  /// That sweep; 0: none was asked for, or the store was replaced.
  int64_t asked() const { return asked_; }
  const SweepRow* sweep_row() const;
  /// The open sweep's environment, command and changes, without cases.
  const SweepReport& head() const { return head_; }

  // ---- the open sweep ----
  const TrialTable* table() const { return table_.get(); }
  const std::vector<Group>& groups() const { return groups_; }
  std::vector<std::string> group_names() const;  // target and shape
  const std::vector<TableAxis>& axes() const { return *axes_; }
  const Overview& overview() const { return overview_; }
  /// What the user chose; "" leaves it to the program. `overview()` has the axes that are shown.
  const OverviewOptions& overview_options() const { return overview_options_; }
  void set_overview(const OverviewOptions& options);
  TrialsModel& trials() { return trials_; }
  /// Called once a frame: makes the overview again if the filter of the trials' table changed.
  void follow_filter();

  // ---- what is plotted ----
  size_t group() const { return group_; }
  void set_group(size_t group);
  /// Plots a group that the user chose, and selects its fastest trial at its largest N.
  void choose_group(size_t group);
  void set_group_of(uint32_t row);
  /// Chooses the x axis of plots: "N" or an axis of the shapes such as "T". Trials whose shapes
  /// lack it are plotted along N. "": `plot_axis` chooses.
  void set_axis(const std::string& axis);
  const std::string& axis() const { return axis_; }
  /// Selects the best trial of a target at its largest N; false if there is no such target.
  bool select_target(const std::string& target);
  const FigureOptions& options() const { return options_; }
  void set_options(const FigureOptions& options);
  /// The figure of the plotted group with all of its curves, however many; draw it in the parts
  /// that `split` (data/plot/figure.h) makes of it.
  const Figure* figure() const { return figure_ ? &*figure_ : nullptr; }

  // ---- the selected trial ----
  const std::optional<PointKey>& point() const { return point_; }
  void select(const PointKey& key);
  void select_row(uint32_t row);
  /// The facts about the selected point, which a job reads; until it ends, those of the point
  /// selected before (`PointDetail::key` says of which), or nullptr.
  const PointDetail* detail() const {
    const bool current = detail_ && (detail_->key == point_ || jobs_.busy("point"));
    return current ? &*detail_ : nullptr;
  }
  /// The facts about a point that is not selected; nullptr until they have been read.
  const PointDetail* glance(const PointKey& key);
  std::optional<PointKey> key_of(uint32_t row) const;
  /// The selected trial's row in the table.
  std::optional<uint32_t> selected_row() const;
  /// Why the selected point is no faster, in a line.
  std::string why() const;

  /// Increases with every change of the displayed data.
  uint64_t version() const { return version_; }

 private:
  /// A sweep that a job has read, with the tables made by the choices at that time.
  struct Opened {
    SweepReport head;
    std::shared_ptr<const TrialTable> table;
    std::shared_ptr<const std::vector<TableAxis>> axes;
    std::string axis;
    std::vector<Group> groups;
    OverviewOptions options;
    Overview overview;
  };
  void note_news(const std::vector<SweepRow>& sweeps, size_t fusions);
  /// Keeps why a job could not read, and says it.
  Jobs::Result unread(std::string Library::*what, const std::string& why);
  /// No sweep is open any more.
  void close();
  void draw_figure();
  void draw_overview();
  void draw_groups();
  void take(Opened opened);
  void read_point();
  void take_groups(std::vector<Group> groups);

  Jobs& jobs_;
  std::string db_;
  std::vector<SweepRow> sweeps_;
  std::vector<FuseRow> fusions_;
  bool listed_ = false, fusing_ = false;
  bool fused_ = false;  // the window's fusion has ended, and the list is not read again yet
  std::string not_listed_, not_opened_;  // why
  int64_t sweep_ = 0, asked_ = 0;
  SweepReport head_;
  std::shared_ptr<const TrialTable> table_;
  std::shared_ptr<const std::vector<TableAxis>> axes_;
  std::vector<Group> groups_;
  Overview overview_;
  OverviewOptions overview_options_;
  TrialsModel trials_;
  size_t group_ = 0;
  std::string axis_;
  FigureOptions options_;
  std::optional<Figure> figure_;
  std::optional<PointKey> point_;
  mutable uint64_t row_version_ = 0;  // of `selected_row_`
  mutable std::optional<uint32_t> selected_row_;
  std::optional<PointDetail> detail_;
  std::optional<PointKey> glanced_;
  std::optional<PointDetail> glance_;
  uint64_t version_ = 1, read_agains_ = 0, changes_ = 0;
};

}  // namespace wide
