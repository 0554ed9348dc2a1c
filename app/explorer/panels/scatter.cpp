#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/explorer.h"
#include "app/explorer/ui/draw_canvas.h"

namespace wide::scatter_panel {
namespace {

constexpr double kReach = 8;        // units: the largest distance from the mouse to a point
constexpr double kManyTimes = 20;   // axes are logarithmic if max / min exceeds this
constexpr size_t kManySpots = 300;  // more points are drawn as dots

struct Spot {
  const TrainedModel* model = nullptr;
  Point value, at;
  Colour colour;
};

class ScatterPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    TrainingModel& training = explorer.training;
    training.watch();
    const auto view = training.view();
    if (!ui.filled(view && !view->models.empty(), !training.listed(), "No training run is shown",
                   "Choose one from the tab Trainings: its models appear by a hyperparameter."))
      return;
    std::vector<std::string> axes = view->differing;
    axes.emplace_back("model");
    if (std::find(axes.begin(), axes.end(), along_) == axes.end()) along_ = axes.front();
    ui.choose("hyperparameter", &along_, axes, std::identity(),
              std::min(ui.px(150), ImGui::GetContentRegionAvail().x * 0.6f),
              "What the horizontal axis is.");
    ui.wrapped("Drag a box to show these models alone; a click elsewhere shows all.");
    plot(ui, training, *view);
  }

 private:
  /// A point among very many: a square without a rim, since a circle has ten times the vertices.
  static void dot(Ui& ui, ImVec2 at, const Colour& tone) {
    const float reach = ui.px(1.5f);
    ImGui::GetWindowDrawList()->AddRectFilled({at.x - reach, at.y - reach},
                                              {at.x + reach, at.y + reach},
                                              colour(rgb(ui.theme().plot, tone), tone.opacity));
  }

  /// Fits an axis to the spots; it is logarithmic if they lie far apart.
  static void fit(const std::vector<Spot>& spots, double Point::*of, bool* logarithmic, double* low,
                  double* high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (const Spot& spot : spots) {
      *low = std::min(*low, spot.value.*of);
      *high = std::max(*high, spot.value.*of);
    }
    *logarithmic = *low > 0 && *high > kManyTimes * *low;
    if (*logarithmic) {
      const double rim = std::pow(*high / *low, 0.08);
      *low /= rim;
      *high *= rim;
      return;
    }
    const double rim = std::max(0.08 * (*high - *low), 1e-6 * std::max(1e-6, std::abs(*high)));
    *low -= rim;
    *high += rim;
  }

  std::vector<Spot> spots_of(const TrainingModel& training, const TrainingView& view) const {
    std::vector<Spot> spots;
    for (const TrainedModel& m : view.models) {
      if (!m.best) continue;
      const ModelReport& model = view.report(m);
      const auto it = model.hyperparameters.find(along_);
      if (along_ != "model" && it == model.hyperparameters.end()) continue;
      const double x = along_ == "model" ? double(model.number) : it->second;
      const bool in = !training.brushed() || training.brushed()->count(m.key);
      spots.push_back({&m, {x, *m.best}, {}, {Tone::muted, 0, in ? 0.7 : 0.25}});
    }
    std::map<int64_t, Colour> colours;
    for (const CurveLine& line : view.figure.lines)
      colours[line.key] = view.figure.groups[line.group].colour;
    for (Spot& spot : spots)
      if (const auto it = colours.find(spot.model->key); it != colours.end()) {
        spot.colour = it->second;
        spot.colour.opacity = 0.8;
      }
    return spots;
  }

  void plot(Ui& ui, TrainingModel& training, const TrainingView& view) {
    std::vector<Spot> spots = spots_of(training, view);
    if (spots.empty()) {
      ui.muted("No model has a value yet.");
      return;
    }
    const ImVec2 origin = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const double width = static_cast<double>(room.x / ui.scale());
    const double height = std::clamp(static_cast<double>(room.y / ui.scale()), 110.0, 420.0);
    DrawCanvas canvas(ui, *ImGui::GetWindowDrawList(), origin);
    CurveAxes axes;
    axes.plot = {56, 8, std::max(60.0, width - 76), height - 50};
    fit(spots, &Point::x, &axes.log_x, &axes.x_low, &axes.x_high);
    fit(spots, &Point::y, &axes.log_y, &axes.y_low, &axes.y_high);
    CurvesFigure figure;
    figure.x_name = along_;
    figure.y_name = "best " + view.compared;
    figure.log_y = axes.log_y;
    draw_curve_axes(canvas, figure, axes, {0, 0, width, height});
    for (Spot& spot : spots) {
      spot.at = axes.at(spot.value);
      const bool lit = spot.model->key == training.lit();
      if (spots.size() <= kManySpots || lit)
        canvas.marker(spot.at, Shape2D::circle, lit ? 9 : 5,
                      lit ? Colour{Tone::text} : spot.colour);
      else
        dot(ui, canvas.px(spot.at), spot.colour);
    }
    ImGui::InvisibleButton("scatter", {std::max(1.0f, room.x),
                                       std::max(1.0f, static_cast<float>(height) * ui.scale())});
    ui.note_last(ItemKind::area, "scatter");
    for (const Spot& spot : spots) {
      const ImVec2 at = canvas.px(spot.at);
      ui.note(ItemKind::mark, "point " + name_of(view, *spot.model),
              {at.x - ui.px(2), at.y - ui.px(2)}, {at.x + ui.px(2), at.y + ui.px(2)});
    }
    mouse(ui, training, view, canvas, spots);
  }

  /// "model 3", with its run if there are two.
  static std::string name_of(const TrainingView& view, const TrainedModel& model) {
    const std::string name = fmt::format("model {}", view.report(model).number);
    return view.runs.size() > 1 ? fmt::format("run {} {}", view.runs[model.run]->id, name) : name;
  }

  void mouse(Ui& ui, TrainingModel& training, const TrainingView& view, const DrawCanvas& canvas,
             const std::vector<Spot>& spots) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool over = ImGui::IsItemHovered(), held = ImGui::IsItemActive();
    const Point at = canvas.unit(io.MousePos);
    const Spot* nearest = nullptr;
    double best = kReach;
    for (const Spot& spot : spots) {
      const double far = std::hypot(spot.at.x - at.x, spot.at.y - at.y);
      if (!over || far >= best) continue;
      best = far;
      nearest = &spot;
    }
    if (held && ImGui::IsMouseDragging(0)) {
      from_ = io.MouseClickedPos[0];
      ImGui::GetWindowDrawList()->AddRectFilled(*from_, io.MousePos,
                                                colour(ui.theme().accent, 0.15));
      ImGui::GetWindowDrawList()->AddRect(*from_, io.MousePos, colour(ui.theme().accent));
    } else if (from_) {
      const Point a = canvas.unit(*from_);
      std::set<int64_t> keys;
      for (const Spot& spot : spots)
        if (spot.at.x >= std::min(a.x, at.x) && spot.at.x <= std::max(a.x, at.x) &&
            spot.at.y >= std::min(a.y, at.y) && spot.at.y <= std::max(a.y, at.y))
          keys.insert(spot.model->key);
      from_.reset();
      training.brush(keys.empty() ? std::nullopt : std::optional(std::move(keys)));
    } else if (over && ImGui::IsMouseReleased(0)) {
      if (nearest)
        training.light(nearest->model->key);
      else
        training.brush(std::nullopt);
    }
    if (!nearest || held) return;
    ImGui::BeginTooltip();
    ui.text(name_of(view, *nearest->model));
    ui.muted(nearest->model->configuration);
    ui.text(fmt::format("{} {}, best {}", along_, shown_number(nearest->value.x),
                        shown_number(nearest->value.y)));
    ImGui::EndTooltip();
  }

  std::string along_;
  std::optional<ImVec2> from_;
};

const bool registered = add_panel(
    {"scatter", "Scatter", "Models of a training run by a hyperparameter; a box chooses some.",
     Place::right, 1, [] { return std::make_unique<ScatterPanel>(); }});

}  // namespace
}  // namespace wide::scatter_panel
