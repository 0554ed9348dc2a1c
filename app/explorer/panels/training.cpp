#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/explorer/explorer.h"
#include "app/explorer/models/child.h"
#include "app/explorer/models/training/run_command.h"
#include "app/explorer/overlays/changed_run.h"
#include "app/explorer/ui/draw_canvas.h"
#include "app/explorer/ui/image.h"
#include "data/one_line.h"

namespace wide::training_panel {
namespace {

constexpr double kNear = 8;  // units: the largest distance from the mouse to a line

/// How long a window that is closed waits for a training that it resumed to save its state.
constexpr double kSaving_s = 60;

constexpr double kSmoothings[] = {0, 0.5, 0.8, 0.9, 0.97};

class TrainingPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    TrainingModel& training = explorer.training;
    training.watch();
    if (changed_.draw(ui)) explorer.say("copied the command");
    if (std::exchange(started_, false)) ended(explorer, training);
    if (!ui.filled(
            !training.runs().empty(), !training.listed(), "No training run is stored",
            "workbench train and nw.train store their runs; one that trains now appears here "
            "by itself."))
      return;
    choose(ui, training);
    tools(explorer, ui, training);
    const auto view = training.view();
    if (!view || view->runs.empty()) {
      ui.muted("reading the run");
      return;
    }
    if (view->figure.shown == 0) {
      const bool any = std::any_of(view->runs.begin(), view->runs.end(),
                                   [](const auto& run) { return !run->metrics.empty(); });
      const std::string& metric = training.options().metric;
      if (any) {
        ui.empty("The models shown have no " + (metric.empty() ? view->compared : metric),
                 "Choose another metric above, or show all models.");
        return;
      }
      ui.empty("No evaluation is stored yet",
               "A run stores its first values with its first evaluation.");
      return;
    }
    plot(ui, training, *view);
  }

 private:
  static void choose(Ui& ui, TrainingModel& training) {
    std::vector<std::string> names, over{"no second run"};
    int at = -1, second = 0;
    for (const RunRow& row : training.runs()) {
      if (row.id == training.run()) at = static_cast<int>(names.size());
      names.push_back(fmt::format("run {} · {} · {}", row.id, row.name, row.state));
      if (row.id == training.over()) second = static_cast<int>(over.size());
      over.push_back(fmt::format("and run {} · {}", row.id, row.name));
    }
    const float room = ImGui::GetContentRegionAvail().x;
    const float width = std::min(ui.px(230), room * 0.5f);
    if (ui.choice("training run", &at, names, width, "Whose learning curves are shown."))
      training.choose(training.runs()[static_cast<size_t>(at)].id);
    if (training.runs().size() < 2) return;
    ui.beside(std::min(ui.px(160), room * 0.4f));
    if (ui.choice("second run", &second, over, std::min(ui.px(160), room * 0.4f),
                  "Shows the curves of a second run over those of the first."))
      training.lay_over(second == 0 ? 0 : training.runs()[static_cast<size_t>(second) - 1].id);
  }

  void tools(Explorer& explorer, Ui& ui, TrainingModel& training) {
    const auto view = training.view();
    if (!view || view->runs.empty()) return;
    RunFigureOptions options = training.options();
    const auto choose = [&ui](const char* name, auto* chosen, const auto& values, const auto& shown,
                              float width, const char* tip) {
      ui.beside(ui.px(width));
      ui.choose(name, chosen, values, shown, ui.px(width), tip);
    };
    choose("metric", &options.metric, view->metrics, std::identity(), 108,
           "What is plotted; models are compared by the first of the list.");
    std::vector<std::string> along{"step", "epoch"};
    if (!view->runs[0]->seconds.empty()) along.emplace_back("seconds");
    choose("along the axis", &options.along, along, std::identity(), 84,
           "What the horizontal axis counts.");
    std::vector<std::vector<std::string>> by(1);  // first, by none of them
    for (const std::string& key : view->differing) by.push_back({key});
    choose(
        "grouped", &options.by, by,
        [](const auto& keys) { return "by " + (keys.empty() ? "configuration" : keys.front()); },
        128,
        "Which models have a median in common. A configuration is all hyperparameters; seeds "
        "and folds are what differs inside.");
    choose(
        "smoothing", &options.smoothing, kSmoothings,
        [](double value) {
          return value == 0 ? "not smoothed" : fmt::format("smoothed {}", value);
        },
        112, "Exponential mean, as TensorBoard's; medians have the raw line behind.");
    const auto toggle = [&](const char* label, bool* on, const char* tip) {
      ui.beside(label);
      if (ui.toggle(label, *on, tip)) *on = !*on;
    };
    toggle("log", &options.log_y, "A logarithmic vertical axis.");
    if (view->runs[0]->metric("train_loss") && options.metric != "train_loss")
      toggle("training loss", &options.training,
             "Beside the validation loss, dashed, where the metric is the loss.");
    training.set_options(options);
    if (ui.next_button(
            "Fit##curves", zoom_.has_value(),
            "Shows all again. The wheel zooms, dragging moves, a double click shows all."))
      zoom_.reset();
    if (training.brushed() &&
        ui.next_button("Show all models", true, "Takes the brush of the scatter away"))
      training.brush(std::nullopt);
    if (ui.next_button("Export##training", true, "Picture, table and command"))
      ImGui::OpenPopup("export");
    exports(explorer, ui, *view);
    stops(explorer, ui, training, *view);
  }

  /// Buttons that stop a running training, in whichever process it runs.
  void stops(Explorer& explorer, Ui& ui, TrainingModel& training, const TrainingView& view) {
    const RunHistory& run = *view.runs[0];
    resume(explorer, ui, run);
    if (run.state != "running") return;
    const auto said = [&explorer](const std::string& line) { explorer.say(line); };
    const int64_t lit = training.lit();
    const bool one = lit >= 0 && lit < std::ssize(run.models) &&
                     run.models[static_cast<size_t>(lit)].status == "running";
    if (ui.next_button("Stop model", one,
                       "The highlighted model ends at its next evaluation; the others go on.",
                       Look::danger))
      training.stop(run.models[static_cast<size_t>(lit)].number, said);
    if (ui.next_button(
            "Stop run", true,
            run.dir.empty()
                ? "The run ends at its next evaluation. It is not saved: nothing goes on with it."
                : "The run saves and ends at its next evaluation, as by Ctrl+C: workbench train "
                  "--resume goes on with it.",
            Look::danger))
      training.stop(-1, said);
  }

  void exports(Explorer& explorer, Ui& ui, const TrainingView& view) {
    if (!ImGui::BeginPopup("export")) return;
    const RunHistory& run = *view.runs[0];
    const std::string name = fmt::format("run-{}", run.id);
    if (ui.row("Picture as SVG", false))
      explorer.save_as("SVG", name + ".svg",
                       [&explorer, shown = explorer.training.view(),
                        footer = run.command](const std::string& path) {
                         explorer.write_later(path, [shown, footer] {
                           return curves_document(shown->figure, footer);
                         });
                       });
    if (ui.row("Picture as PNG", false))
      explorer.save_as("PNG", name + ".png", [&explorer, box = box_](const std::string& path) {
        explorer.take_picture(path, box);
      });
    if (ui.row("Models as CSV", false))
      explorer.save_as("CSV", name + ".csv",
                       [&explorer, shown = explorer.training.view(),
                        only = explorer.training.brushed()](const std::string& path) {
                         explorer.write_later(path, [shown, only] {
                           return models_csv(
                               *shown, sorted_models(*shown, shown->columns.size(), false, only));
                         });
                       });
    if (ui.row("Copy command", false)) {
      ImGui::SetClipboardText(run.command.c_str());
      explorer.say("copied the command of run " + std::to_string(run.id));
    }
    if (ui.row("Copy command with changed settings", false)) changed_.ask(run.command);
    if (ui.row("Best checkpoints of the models shown", false)) save_best(explorer, view);
    ImGui::EndPopup();
  }

  /// Saves the best checkpoints of the models shown to a folder.
  static void save_best(Explorer& explorer, const TrainingView& view) {
    explorer.save_as(
        "folder of checkpoints", fmt::format("run-{}-best", view.runs[0]->id),
        [&explorer,
         shown = shown_checkpoints(view, explorer.training.brushed())](const std::string& folder) {
          explorer.jobs.start("copy to " + folder, [&explorer, shown, folder]() -> Jobs::Result {
            const size_t count = copy_best_checkpoints(shown, folder);
            return [&explorer, count, folder] {
              explorer.say(fmt::format("copied {} checkpoints to {}", count, folder));
            };
          });
        });
  }

  /// Resumes an interrupted run in a process of its own.
  void resume(Explorer& explorer, Ui& ui, const RunHistory& run) {
    const bool busy = child_.running();
    if (busy && run.id == resumed_) {
      ui.next_label("goes on", "A process of its own goes on with it; its curves grow here.");
      return;
    }
    if (run.state != "interrupted" && run.state != "cancelled") return;
    if (!ui.next_button(
            "Resume run", !run.dir.empty() && !busy,
            run.dir.empty() ? "It was not saved: train --save keeps what a resume needs."
            : busy ? fmt::format("Run {} goes on now; this one can when that has ended.", resumed_)
                   : "Goes on from the last state that " + run.dir + " has"))
      return;
    child_.wake = [&explorer] { explorer.jobs.wake(); };
    child_.patience_s = kSaving_s;
    try {
      child_.start({"train", "--resume", run.dir, "--db", explorer.library.db()});
      started_ = true;
      resumed_ = run.id;
      explorer.say(fmt::format("run {} goes on", run.id));
    } catch (const std::exception& e) {
      explorer.say(one_line(e), true);
    }
  }

  /// Called in every frame: reports the end of a resumed run.
  void ended(Explorer& explorer, TrainingModel& training) {
    started_ = child_.running();
    if (started_) return;
    training.refresh();
    if (child_.code() == 0) return;
    const std::string said = child_.output();
    const size_t end = said.find_last_not_of(" \n");
    const size_t line = end == std::string::npos ? end : said.rfind('\n', end);
    explorer.say(end == std::string::npos
                     ? fmt::format("train ended with exit code {}", child_.code())
                     : said.substr(line == std::string::npos ? 0 : line + 1, end - line),
                 true);
  }

  void plot(Ui& ui, TrainingModel& training, const TrainingView& view) {
    const CurvesFigure& figure = view.figure;
    const ImVec2 origin = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const float scale = ui.scale();
    const Box all{0, 0, std::max(160.0f, room.x / scale), std::max(120.0f, room.y / scale - 2)};
    box_ = {origin.x, origin.y, room.x, room.y};
    DrawCanvas canvas(ui, *ImGui::GetWindowDrawList(), origin);
    const CurvesLayout layout = curves_layout(canvas, figure, all);
    const std::string of = fmt::format("{}|{}|{}|{}", figure.title, training.options().metric,
                                       figure.x_name, figure.log_y);
    if (of != of_) zoom_.reset();
    of_ = of;
    // Computes the limits of all lines only if there are new values.
    if (fitted_of_ != training.view()) {
      fitted_ = fitted_axes(figure, layout.plot);
      fitted_of_ = training.view();
    }
    CurveAxes axes = zoom_ ? *zoom_ : fitted_;
    axes.plot = layout.plot;
    draw_curve_axes(canvas, figure, axes, all);
    faint(ui, training, canvas, axes);
    const std::vector<DrawnCurveEnd> ends =
        draw_curves(canvas, figure, axes, layout, {false, training.lit()});
    ImGui::InvisibleButton(
        "curves", {static_cast<float>(all.width) * scale, static_cast<float>(all.height) * scale},
        ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    ImGui::SetItemUsingMouseWheel();
    ui.note_last(ItemKind::area, "curves");
    for (const DrawnCurveEnd& end : ends) {
      const ImVec2 at = canvas.px(end.at);
      ui.note(ItemKind::mark, "end of " + figure.lines[end.line].name,
              {at.x - ui.px(3), at.y - ui.px(3)}, {at.x + ui.px(3), at.y + ui.px(3)});
    }
    pointed(ui, training, view, canvas, axes);
    mouse(ui, canvas, axes);
  }

  /// Draws the image of all faint lines; while a new one is made, the last one at its place.
  void faint(Ui& ui, TrainingModel& training, const DrawCanvas& canvas, const CurveAxes& axes) {
    const Box& plot = axes.plot;
    const ImVec2 from = canvas.px({plot.x, plot.y}), to = canvas.px({plot.right(), plot.bottom()});
    const ImVec2 corner{std::round(from.x), std::round(from.y)};
    const int width = std::max(1, static_cast<int>(std::lround(to.x - from.x)));
    const int height = std::max(1, static_cast<int>(std::lround(to.y - from.y)));
    const auto lines = training.faint(axes, width, height, ui.theme().dark);
    if (!lines) return;
    if (lines != lines_) {
      lines_ = lines;
      image_.width = lines->width;
      image_.height = lines->height;
      image_.rgba = lines->rgba;
      image_.version = Image::next_version();
    }
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const ImVec2 end{corner.x + static_cast<float>(width), corner.y + static_cast<float>(height)};
    if (lines->axes == axes) {
      list.AddImage(texture_of(image_), corner, end);
      return;
    }
    if (lines->axes.log_y != axes.log_y) return;
    const CurveAxes& was = lines->axes;
    list.PushClipRect(corner, end, true);
    list.AddImage(texture_of(image_), canvas.px(axes.at({was.x_low, was.y_high})),
                  canvas.px(axes.at({was.x_high, was.y_low})));
    list.PopClipRect();
  }

  /// The line under the mouse: its tooltip, and a click that highlights it.
  void pointed(Ui& ui, TrainingModel& training, const TrainingView& view, const DrawCanvas& canvas,
               const CurveAxes& axes) {
    if (!ImGui::IsItemHovered()) return;
    const Point mouse = canvas.unit(ImGui::GetIO().MousePos);
    if (mouse.x < axes.plot.x || mouse.x > axes.plot.right()) return;
    const double x = axes.value_at(mouse).x;
    const CurveLine* nearest = nullptr;
    Point value;
    double best = kNear;
    for (const CurveLine& line : view.figure.lines) {
      const auto after = std::lower_bound(line.points.begin(), line.points.end(), x,
                                          [](const Point& p, double v) { return p.x < v; });
      for (const auto& point : {after, after == line.points.begin() ? after : after - 1}) {
        if (point == line.points.end()) continue;
        const Point at = axes.at(*point);
        const double far = std::hypot((at.x - mouse.x) / 3, at.y - mouse.y);
        if (!(far < best)) continue;
        best = far;
        nearest = &line;
        value = *point;
      }
    }
    if (!nearest) return;
    const auto model = std::find_if(view.models.begin(), view.models.end(),
                                    [&](const auto& m) { return m.key == nearest->key; });
    ImGui::BeginTooltip();
    ui.text(nearest->name + (nearest->dashed ? ", training" : ""));
    if (model != view.models.end()) ui.muted(model->configuration);
    ui.text(fmt::format("{} at {} {}", shown_number(value.y), training.options().along,
                        shown_number(value.x)));
    ImGui::EndTooltip();
    if (ImGui::IsMouseReleased(0) && !moved_) training.light(nearest->key);
  }

  void mouse(Ui& ui, const DrawCanvas& canvas, const CurveAxes& axes) {
    const ImGuiIO& io = ImGui::GetIO();
    if (ImGui::IsMouseClicked(0)) moved_ = false;
    const Point at = canvas.unit(io.MousePos);
    const Box& plot = axes.plot;
    const auto inside = [&](const Point& p) {
      return p.x >= plot.x && p.x <= plot.right() && p.y >= plot.y && p.y <= plot.bottom();
    };
    // Sets the limits of both axes to these two corners.
    const auto show = [&](const Point& low, const Point& high) {
      const Point a = axes.value_at(low), b = axes.value_at(high);
      const double least = 1e-9 * std::max(std::abs(a.x), std::abs(b.x));
      if (!(b.x - a.x > least) || !(b.y > a.y) || !std::isfinite(a.y) || !std::isfinite(b.y))
        return;
      zoom_ = axes;
      zoom_->x_low = a.x;
      zoom_->x_high = b.x;
      zoom_->y_low = a.y;
      zoom_->y_high = b.y;
    };
    if (ImGui::IsItemHovered() && inside(at) && io.MouseWheel != 0) {
      const double f = std::pow(0.85, io.MouseWheel);
      show({at.x + (plot.x - at.x) * f, at.y + (plot.bottom() - at.y) * f},
           {at.x + (plot.right() - at.x) * f, at.y + (plot.y - at.y) * f});
    }
    if (ImGui::IsItemHovered() && inside(at) && ImGui::IsMouseDoubleClicked(0)) zoom_.reset();
    const bool boxing = ImGui::IsItemActive() &&
                        (ImGui::IsMouseDragging(1) || (io.KeyShift && ImGui::IsMouseDragging(0)));
    if (boxing && !box_from_) box_from_ = io.MouseClickedPos[ImGui::IsMouseDragging(1) ? 1 : 0];
    if (box_from_) {
      ImGui::GetWindowDrawList()->AddRect(*box_from_, io.MousePos, colour(ui.theme().accent), 0, 0,
                                          ui.px(1.5f));
      if (!boxing) {
        const Point a = canvas.unit(*box_from_);
        if (std::abs(a.x - at.x) > 6 && std::abs(a.y - at.y) > 6)
          show({std::min(a.x, at.x), std::max(a.y, at.y)},
               {std::max(a.x, at.x), std::min(a.y, at.y)});
        box_from_.reset();
      }
      moved_ = true;
    } else if (ImGui::IsItemActive() && ImGui::IsMouseDragging(0)) {
      moved_ = true;
      const double x = static_cast<double>(io.MouseDelta.x / ui.scale());
      const double y = static_cast<double>(io.MouseDelta.y / ui.scale());
      if (x != 0 || y != 0) show({plot.x - x, plot.bottom() - y}, {plot.right() - x, plot.y - y});
    }
  }

  std::string of_;  // which plot the zoom belongs to
  std::optional<CurveAxes> zoom_;
  CurveAxes fitted_;
  std::shared_ptr<const TrainingView> fitted_of_;
  std::shared_ptr<const FaintLines> lines_;  // which lines the image shows
  Image image_;
  std::optional<ImVec2> box_from_;
  bool moved_ = false;
  Box box_;
  ChangedRun changed_;
  Child child_;
  bool started_ = false;  // a resume that may still run
  int64_t resumed_ = 0;   // the run that `child_` goes on with
};

const bool registered = add_panel(
    {"training", "Training", "Learning curves of all models of a training run, while it trains.",
     Place::middle, 6, [] { return std::make_unique<TrainingPanel>(); }});

}  // namespace
}  // namespace wide::training_panel
