#include "app/explorer/models/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "data/plot/density.h"
#include "data/plot/palette.h"
#include "data/store/runs/run_reader.h"

namespace wide {
namespace {

constexpr double kLookPeriod_s = 1;
constexpr int64_t kMostRuns = 500;

/// Blends the layers of colours over each other, from the last to the first.
uint32_t blended(const std::vector<const CurveDensity*>& layers, const std::vector<uint32_t>& tints,
                 const std::vector<float>& cover, int x, int y) {
  float red = 0, green = 0, blue = 0, alpha = 0;  // multiplied by alpha
  for (size_t l = layers.size(); l-- > 0;) {
    const uint16_t count = layers[l]->at(x, y);
    if (count == 0) continue;
    const float share = cover[std::min<size_t>(count, cover.size() - 1)];
    const uint32_t tint = tints[l];
    red = red * (1 - share) + share * static_cast<float>(tint >> 16 & 0xFF);
    green = green * (1 - share) + share * static_cast<float>(tint >> 8 & 0xFF);
    blue = blue * (1 - share) + share * static_cast<float>(tint & 0xFF);
    alpha = alpha * (1 - share) + share;
  }
  if (alpha <= 0) return 0;
  const auto byte = [](float value) {
    return static_cast<uint32_t>(std::clamp(std::lround(value), 0L, 255L));
  };
  return byte(255 * alpha) << 24 | byte(blue / alpha) << 16 | byte(green / alpha) << 8 |
         byte(red / alpha);
}

/// Whether `after` is `before` with more points at the ends of its lines.
bool continues(const CurvesFigure& before, const CurvesFigure& after) {
  if (before.lines.size() != after.lines.size() || before.log_y != after.log_y) return false;
  for (size_t i = 0; i < before.lines.size(); ++i) {
    const CurveLine &a = before.lines[i], &b = after.lines[i];
    const Colour &of_a = before.groups[a.group].colour, &of_b = after.groups[b.group].colour;
    if (a.key != b.key || a.dashed != b.dashed || of_a.tone != of_b.tone ||
        of_a.series != of_b.series || b.points.size() < a.points.size())
      return false;
    if (a.points.empty()) continue;
    const Point &end = a.points.back(), &there = b.points[a.points.size() - 1];
    if (end.x != there.x || end.y != there.y) return false;
  }
  return true;
}

std::string csv_word(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void add_columns(TrainingView* view) {
  using View = const TrainingView&;
  using Model = const TrainedModel&;
  using Number = std::optional<double>;
  const auto add = [&](const std::string& title, const char* tip, auto number) {
    view->columns.push_back({title, tip, number});
  };
  if (view->runs.size() > 1)
    add("run", "the number of the training run in the store",
        [](View v, Model m) { return double(v.runs[m.run]->id); });
  add("model", "the model's number in its run",
      [](View v, Model m) { return double(v.report(m).number); });
  for (const std::string& key : view->differing)
    add(key, "a hyperparameter that is not the same for all models", [key](View v, Model m) {
      const auto& all = v.report(m).hyperparameters;
      const auto it = all.find(key);
      return it == all.end() ? std::nullopt : Number(it->second);
    });
  const bool folds = std::any_of(view->runs.begin(), view->runs.end(), [](const auto& run) {
    return std::any_of(run->models.begin(), run->models.end(),
                       [](const ModelReport& m) { return m.fold >= 0; });
  });
  if (folds)
    add("fold", "the fold whose rows validate this model", [](View v, Model m) {
      const int64_t fold = v.report(m).fold;
      return fold < 0 ? std::nullopt : Number(double(fold));
    });
  add("status", "trained, or why the model ended before the others; running while the run goes on",
      nullptr);
  view->best_column = view->columns.size();
  add("best " + view->compared, "the best value that the model had at any evaluation",
      [](View, Model m) { return m.best; });
  add("at step", "the training step of the best value",
      [](View, Model m) { return m.best ? Number(double(m.best_step)) : std::nullopt; });
  add("last " + view->compared, "the value at the model's last evaluation",
      [](View, Model m) { return m.last; });
  add("± of seeds",
      "standard deviation of the best values of the models with these hyperparameters, pruned ones "
      "left out",
      [](View, Model m) { return m.spread; });
  add("n", "how many models with these hyperparameters were not pruned",
      [](View, Model m) { return double(m.alike); });
}

/// Computes the spread over models with the same hyperparameters, of any seed and fold.
void take_spreads(TrainingView* view) {
  std::map<std::pair<size_t, std::string>, std::vector<TrainedModel*>> alike;
  // Leaves out pruned models: their best values come from fewer steps.
  for (TrainedModel& m : view->models)
    if (view->report(m).status != "pruned") alike[{m.run, m.configuration}].push_back(&m);
  for (auto& [unused, models] : alike) {
    std::vector<double> values;
    for (const TrainedModel* m : models)
      if (m->best) values.push_back(*m->best);
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / double(values.size());
    for (const double value : values) squares += (value - mean) * (value - mean);
    for (TrainedModel* m : models) {
      m->alike = models.size();
      if (values.size() > 1) m->spread = std::sqrt(squares / double(values.size() - 1));
    }
  }
}

}  // namespace

std::string shown_number(double value) {
  constexpr double kExact = 1e15;  // below it, a double holds every whole number
  return std::abs(value) < kExact && std::trunc(value) == value ? fmt::format("{:.0f}", value)
                                                                : fmt::format("{:.5g}", value);
}

std::string TrainingView::cell(const TrainedModel& m, size_t column) const {
  if (const auto& number = columns.at(column).number) {
    const std::optional<double> value = number(*this, m);
    return value ? shown_number(*value) : "";
  }
  const ModelReport& model = report(m);
  if (model.status == "trained" || model.status == "running") return model.status;
  return fmt::format("{} at {}", model.status, model.at_step);
}

TrainingView training_view(Runs runs, const RunFigureOptions& options) {
  TrainingView view;
  view.runs = std::move(runs);
  view.figure = run_figure(view.runs, options);
  view.metrics = figure_metrics(view.runs);
  if (view.runs.empty()) return view;
  view.compared = compared_metric(*view.runs[0]);
  view.more_is_better = larger_is_better(*view.runs[0]);
  std::set<std::string> differing;
  for (const auto& run : view.runs)
    for (const std::string& key : differing_hyperparameters(*run)) differing.insert(key);
  view.differing.assign(differing.begin(), differing.end());
  for (size_t r = 0; r < view.runs.size(); ++r) {
    const RunHistory& run = *view.runs[r];
    const std::vector<RunCurve>* curves = run.metric(view.compared);
    for (size_t m = 0; m < run.models.size(); ++m) {
      TrainedModel one{r, m, curve_key(r, m), group_name(run.models[m], view.differing), {}, {}, 0,
                       0, {}};
      if (const auto best = best_value(run, m, view.compared, view.more_is_better)) {
        one.best = best->value;
        one.best_step = best->step;
      }
      if (curves && !(*curves)[m].values.empty()) one.last = (*curves)[m].values.back();
      view.models.push_back(std::move(one));
    }
  }
  take_spreads(&view);
  add_columns(&view);
  return view;
}

std::vector<size_t> sorted_models(const TrainingView& view, size_t column, bool descending,
                                  const std::optional<std::set<int64_t>>& only) {
  struct Entry {
    size_t place;
    std::optional<double> number;
    std::string word;
  };
  std::vector<Entry> entries;
  const bool words = column < view.columns.size() && !view.columns[column].number;
  for (size_t i = 0; i < view.models.size(); ++i) {
    const TrainedModel& m = view.models[i];
    if (only && !only->count(m.key)) continue;
    entries.push_back({i, {}, ""});
    if (column >= view.columns.size()) continue;
    if (words)
      entries.back().word = view.cell(m, column);
    else
      entries.back().number = view.columns[column].number(view, m);
  }
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (words) return descending ? a.word > b.word : a.word < b.word;
    if (!a.number || !b.number) return a.number.has_value() && !b.number.has_value();
    return descending ? *a.number > *b.number : *a.number < *b.number;
  });
  std::vector<size_t> order;
  for (const Entry& entry : entries) order.push_back(entry.place);
  return order;
}

std::string models_csv(const TrainingView& view, const std::vector<size_t>& order) {
  std::string text;
  for (size_t c = 0; c < view.columns.size(); ++c)
    text += (c ? "," : "") + csv_word(view.columns[c].title);
  text += "\n";
  for (const size_t i : order) {
    const TrainedModel& m = view.models[i];
    for (size_t c = 0; c < view.columns.size(); ++c) {
      const auto& number_of = view.columns[c].number;
      const std::optional<double> number = number_of ? number_of(view, m) : std::nullopt;
      text += (c ? "," : "") + (number      ? fmt::format("{}", *number)
                                : number_of ? ""
                                            : csv_word(view.cell(m, c)));
    }
    text += "\n";
  }
  return text;
}

std::vector<CheckpointsOf> shown_checkpoints(const TrainingView& view,
                                             const std::optional<std::set<int64_t>>& brushed) {
  std::vector<CheckpointsOf> shown;
  for (size_t r = 0; r < view.runs.size(); ++r) {
    const RunHistory& run = *view.runs[r];
    CheckpointsOf of{run.id, run.dir, {}};
    if (brushed) {
      of.models.emplace();
      for (size_t m = 0; m < run.models.size(); ++m)
        if (brushed->count(curve_key(r, m))) of.models->push_back(run.models[m].number);
      if (of.models->empty()) continue;
    }
    shown.push_back(std::move(of));
  }
  return shown;
}

/// The densities of faint lines by colour; new points are added while the axes stay the same.
struct TrainingModel::Densities : FaintAsked {
  std::map<std::pair<int, int>, CurveDensity> layers;  // tone and series
};

TrainingModel::TrainingModel(Jobs& jobs, std::string db)
    : jobs_(jobs), db_(std::move(db)), densities_(std::make_shared<Densities>()) {}

void TrainingModel::forget() {
  rows_.clear();
  listed_ = false;
  chosen_ = over_ = 0;
  lit_ = -1;
  histories_.clear();
  brushed_.reset();
  view_.reset();
  faint_.reset();
  for (const char* key : {"training", "training view", "training lines"})
    jobs_.start(key, []() -> Jobs::Result { return {}; });
  refresh();
}

void TrainingModel::show(int64_t run) {
  chosen_ = run;
  if (over_ == run) over_ = 0;
  brushed_.reset();
  lit_ = -1;
  options_.by.clear();
  options_.metric.clear();
}

void TrainingModel::choose(int64_t run) {
  if (run == chosen_) return;
  show(run);
  refresh();
}

void TrainingModel::lay_over(int64_t run) {
  over_ = run == chosen_ ? 0 : run;
  brushed_.reset();
  if (lit_ >= kRunKey) lit_ = -1;
  refresh();
}

bool TrainingModel::update(double now_s, bool timing) {
  const bool watched = std::exchange(watched_, false);
  if (!watched) return false;
  const bool goes_on =
      wanted_ != read_ || std::any_of(rows_.begin(), rows_.end(),
                                      [](const RunRow& row) { return row.state == "running"; });
  if (!goes_on || timing || now_s < next_s_ || jobs_.busy("training")) return goes_on;
  next_s_ = now_s + kLookPeriod_s;
  jobs_.start("training",
              [this, db = db_, chosen = chosen_, over = over_, before = histories_,
               wanted = wanted_]() -> Jobs::Result {
                std::vector<RunRow> rows;
                Runs runs;
                int64_t run = chosen, second = over;
                if (std::filesystem::exists(db)) {
                  RunReader reader(db);
                  rows = reader.runs(kMostRuns);
                  const auto there = [&](int64_t id) {
                    return std::any_of(rows.begin(), rows.end(),
                                       [id](const RunRow& r) { return r.id == id; });
                  };
                  if (!there(run)) run = rows.empty() ? 0 : rows.front().id;
                  if (second == run || !there(second)) second = 0;
                  for (const int64_t id : {run, second}) {
                    if (id == 0) continue;
                    std::shared_ptr<const RunHistory> known;
                    for (const auto& history : before)
                      if (history->id == id) known = history;
                    if (auto history = reader.read(id, known)) runs.push_back(std::move(history));
                  }
                }
                return [this, rows, runs, run, second, chosen, over, wanted] {
                  read_ = wanted;
                  rows_ = rows;
                  listed_ = true;
                  if (chosen != chosen_ || over != over_)
                    return;  // the user chose another run meanwhile
                  // What was chosen of a run that is gone holds for no other.
                  if (run != chosen_) show(run);
                  if (second != over_) lay_over(second);
                  const bool same = runs == histories_;
                  histories_ = runs;
                  if (!same || !view_) draw_up();
                };
              });
  return goes_on;
}

void TrainingModel::stop(int64_t model, std::function<void(const std::string&)> said) {
  // A key of its own: a newer job would replace one that waits.
  const std::string key = fmt::format("stop {} of run {}", model, chosen_);
  jobs_.start(key, [db = db_, run = chosen_, model, said]() -> Jobs::Result {
    Store::create(db).ask_to_stop(run, model);
    const std::string what =
        model < 0 ? "run " + std::to_string(run) : fmt::format("model {} of run {}", model, run);
    return [said, what] { said("asked " + what + " to stop at its next evaluation"); };
  });
}

RunFigureOptions TrainingModel::with_brush() const {
  RunFigureOptions options = options_;
  if (!brushed_) return options;
  for (size_t r = 0; r < histories_.size(); ++r) {
    options.shown.emplace_back(histories_[r]->models.size(), false);
    for (size_t m = 0; m < options.shown[r].size(); ++m)
      options.shown[r][m] = brushed_->count(curve_key(r, m)) > 0;
  }
  return options;
}

void TrainingModel::set_options(const RunFigureOptions& options) {
  if (options == options_) return;
  options_ = options;
  draw_up();
}

void TrainingModel::brush(std::optional<std::set<int64_t>> keys) {
  if (keys == brushed_) return;
  brushed_ = std::move(keys);
  draw_up();
}

void TrainingModel::draw_up() {
  jobs_.start("training view", [this, runs = histories_, options = with_brush()]() -> Jobs::Result {
    auto view = std::make_shared<const TrainingView>(training_view(runs, options));
    return [this, view = std::move(view)] { view_ = view; };
  });
}

std::shared_ptr<const FaintLines> TrainingModel::faint(const CurveAxes& axes, int width, int height,
                                                       bool dark) {
  const FaintAsked asked{view_, axes, width, height, dark};
  // One job at a time, as each continues with the densities of the previous one.
  if ((faint_ && *faint_ == asked) || !view_ || jobs_.busy("training lines")) return faint_;
  jobs_.start("training lines", [this, asked, made = densities_]() -> Jobs::Result {
    const auto begun = std::chrono::steady_clock::now();
    auto lines = std::make_shared<FaintLines>();
    static_cast<FaintAsked&>(*lines) = asked;
    const CurvesFigure& figure = asked.view->figure;
    lines->continued = made->view && made->axes == asked.axes && made->width == asked.width &&
                       made->height == asked.height && continues(made->view->figure, figure);
    if (!lines->continued) made->layers.clear();
    static_cast<FaintAsked&>(*made) = asked;
    CurveAxes pixels = asked.axes;
    pixels.plot = {0, 0, double(asked.width), double(asked.height)};
    for (size_t i = 0; i < figure.lines.size(); ++i) {
      const CurveLine& line = figure.lines[i];
      const Colour& colour = figure.groups[line.group].colour;
      auto [layer, added] = made->layers.try_emplace({static_cast<int>(colour.tone), colour.series},
                                                     asked.width, asked.height);
      std::vector<Point> points;
      points.reserve(line.points.size());
      for (const Point& point : line.points) points.push_back(pixels.at(point));
      layer->second.extend(i, points, line.dashed);
    }
    std::vector<const CurveDensity*> layers;
    std::vector<uint32_t> tints;
    for (const auto& [tone, density] : made->layers) {
      layers.push_back(&density);
      tints.push_back(
          rgb(asked.dark ? kDark : kLight, {static_cast<Tone>(tone.first), tone.second, 1}));
    }
    const double one = faint_opacity(figure.lines.size());
    std::vector<float> cover;
    for (size_t count = 0; count <= 400; ++count)
      cover.push_back(static_cast<float>(1 - std::pow(1 - one, double(count))));
    lines->rgba.reserve(static_cast<size_t>(asked.width) * static_cast<size_t>(asked.height));
    for (int y = 0; y < asked.height; ++y)
      for (int x = 0; x < asked.width; ++x)
        lines->rgba.push_back(blended(layers, tints, cover, x, y));
    lines->drawn_ms =
        1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return [this, lines = std::move(lines)] { faint_ = lines; };
  });
  return faint_;
}

}  // namespace wide
