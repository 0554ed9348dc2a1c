#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/explorer/models/training/run_command.h"
#include "data/plot/curves.h"
#include "data/reports/run/run_figure.h"
#include "data/store/store.h"

namespace wide {

/// A row of the table: one model of the chosen runs.
struct TrainedModel {
  size_t run = 0, model = 0;  // places in `TrainingView::runs`, and in the run
  int64_t key = 0;
  std::string configuration;  // its hyperparameters that differ
  std::optional<double> best, last;
  int64_t best_step = 0;
  size_t alike = 0;              // unpruned models of its configuration; 0 if it was pruned itself
  std::optional<double> spread;  // standard deviation of their best values
};

struct TrainingView;

/// A column of the table of models.
struct ModelColumn {
  std::string title, tip;
  /// The number of a model; empty for the column of statuses, which are words.
  std::function<std::optional<double>(const TrainingView&, const TrainedModel&)> number;
};

/// The chosen runs as last read, with everything computed from them.
struct TrainingView {
  Runs runs;
  CurvesFigure figure;
  std::vector<std::string> metrics, differing;  // names
  std::string compared;                         // the metric that models are compared by
  bool more_is_better = false;
  std::vector<TrainedModel> models;
  std::vector<ModelColumn> columns;
  size_t best_column = 0;  // of the best values

  const ModelReport& report(const TrainedModel& model) const {
    return runs[model.run]->models[model.model];
  }
  std::string cell(const TrainedModel& model, size_t column) const;
};

/// A whole number, such as a step, with all of its digits, another number with five.
std::string shown_number(double value);
/// Computes everything that the panels show of the runs.
TrainingView training_view(Runs runs, const RunFigureOptions& options);
/// Places in `view.models` in the order of a column; models without a value come last.
std::vector<size_t> sorted_models(const TrainingView& view, size_t column, bool descending,
                                  const std::optional<std::set<int64_t>>& only);
/// The table of these models as CSV with full digits.
std::string models_csv(const TrainingView& view, const std::vector<size_t>& order);

/// The best checkpoints of the models in `brushed` (nullopt: of all), by run; a run without any of
/// them is left out.
std::vector<CheckpointsOf> shown_checkpoints(const TrainingView& view,
                                             const std::optional<std::set<int64_t>>& brushed);

/// What an image of faint lines shows, on which axes and at which size.
struct FaintAsked {
  std::shared_ptr<const TrainingView> view;
  CurveAxes axes;
  int width = 0, height = 0;
  bool dark = false;
  bool operator==(const FaintAsked&) const = default;
};

/// The faint lines as an image.
struct FaintLines : FaintAsked {
  std::vector<uint32_t> rgba;  // alpha in the highest byte, red in the lowest
  double drawn_ms = 0;         // how long it took, on a thread of its own
  bool continued = false;      // continued from the previous image
};

/// The store's training runs. While a panel shows them they are read when the store has changed,
/// and about once a second as long as one of them goes on, so that runs of other processes appear
/// and grow.
class TrainingModel {
 public:
  TrainingModel(Jobs& jobs, std::string db);

  /// Called by a panel in each frame in which it shows a run.
  void watch() { watched_ = true; }
  /// Reads the store when it is time, but not while a trial is `timing`. Returns whether a panel
  /// shows runs of which one still trains, or which are still to be read again.
  bool update(double now_s, bool timing);
  /// The store was replaced: clears the choice of runs.
  void forget();
  /// Reads the store as soon as possible.
  void refresh() {
    ++wanted_;
    next_s_ = 0;
  }

  const std::vector<RunRow>& runs() const { return rows_; }
  bool listed() const { return listed_; }
  int64_t run() const { return chosen_; }
  int64_t over() const { return over_; }  // the second run, or 0
  void choose(int64_t run);
  void lay_over(int64_t run);

  const RunFigureOptions& options() const { return options_; }
  void set_options(const RunFigureOptions& options);
  /// Only these models are shown; nullopt: all.
  const std::optional<std::set<int64_t>>& brushed() const { return brushed_; }
  void brush(std::optional<std::set<int64_t>> keys);
  int64_t lit() const { return lit_; }
  void light(int64_t key) { lit_ = key == lit_ ? -1 : key; }

  /// Asks the chosen run to stop a model, or (-1) itself, at its next evaluation. `said` is called
  /// with a line for the user.
  void stop(int64_t model, std::function<void(const std::string&)> said);

  /// Null until the runs were read.
  std::shared_ptr<const TrainingView> view() const { return view_; }
  /// Starts drawing the faint lines for these axes, and returns the latest image: with these axes
  /// once it is drawn, before that the previous one or null.
  std::shared_ptr<const FaintLines> faint(const CurveAxes& axes, int width, int height, bool dark);

  /// The image drawn last.
  std::shared_ptr<const FaintLines> drawn() const { return faint_; }

 private:
  struct Densities;
  /// Shows a run without the choices that were made for another.
  void show(int64_t run);
  void draw_up();
  RunFigureOptions with_brush() const;

  Jobs& jobs_;
  std::string db_;
  std::vector<RunRow> rows_;
  bool listed_ = false, watched_ = false;
  uint64_t wanted_ = 1, read_ = 0;  // how often the store was to be read; the last one that was
  double next_s_ = 0;
  int64_t chosen_ = 0, over_ = 0, lit_ = -1;
  Runs histories_;
  RunFigureOptions options_;
  std::optional<std::set<int64_t>> brushed_;
  std::shared_ptr<const TrainingView> view_;
  std::shared_ptr<const FaintLines> faint_;
  std::shared_ptr<Densities> densities_;
};

}  // namespace wide
