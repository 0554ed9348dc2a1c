#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"

namespace wide::models_panel {
namespace {

constexpr size_t kMostHyperparameters = 40;  // a table has 64 columns

class ModelsPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    TrainingModel& training = explorer.training;
    training.watch();
    const auto view = training.view();
    if (!ui.filled(view && !view->models.empty(), !training.listed(), "No training run is shown",
                   "Models appear here as soon as a training run is chosen in the tab Trainings."))
      return;
    if (view != view_ || training.brushed() != only_) arrange(training, view);
    tools(explorer, ui, training);
    table(ui, training);
  }

  void store_replaced() override {
    view_.reset();
    order_.clear();
  }

 private:
  void arrange(const TrainingModel& training, const std::shared_ptr<const TrainingView>& view) {
    const bool other = !view_ || view_->columns.size() != view->columns.size() ||
                       view_->runs[0]->id != view->runs[0]->id;
    view_ = view;
    only_ = training.brushed();
    if (other) {
      // Sorted by the best value at first.
      column_ = view->best_column;
      descending_ = view->more_is_better;
    }
    order_ = sorted_models(*view, column_, descending_, only_);
  }

  void tools(Explorer& explorer, Ui& ui, TrainingModel& training) {
    ui.label(fmt::format("{} of {} models", order_.size(), view_->models.size()));
    ImGui::SameLine();
    if (ui.button("Copy CSV##models", Look::plain, true, "The rows that are shown")) {
      ImGui::SetClipboardText(models_csv(*view_, order_).c_str());
      explorer.say(fmt::format("copied {} rows", order_.size()));
    }
    ImGui::SameLine();
    if (ui.button("Save CSV##models", Look::plain, true, "The rows that are shown"))
      explorer.save_as("CSV", fmt::format("run-{}.csv", view_->runs[0]->id),
                       [&explorer, view = view_, order = order_](const std::string& path) {
                         explorer.write_later(path,
                                              [view, order] { return models_csv(*view, order); });
                       });
    if (training.brushed()) {
      ImGui::SameLine();
      if (ui.button("Show all models##table", Look::plain, true,
                    "Takes the brush of the scatter away"))
        training.brush(std::nullopt);
    }
  }

  void table(Ui& ui, TrainingModel& training) {
    constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                       ImGuiTableFlags_Resizable | ImGuiTableFlags_Sortable |
                                       ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit |
                                       ImGuiTableFlags_NoSavedSettings;
    const std::vector<ModelColumn>& columns = view_->columns;
    const int count = static_cast<int>(std::min(columns.size(), kMostHyperparameters + size_t{10}));
    const std::string id = fmt::format("models {}", count);
    if (!ImGui::BeginTable(id.c_str(), count, kFlags, ui.room(64))) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    for (int c = 0; c < count; ++c) {
      const ModelColumn& column = columns[static_cast<size_t>(c)];
      const bool sorted = static_cast<size_t>(c) == column_;
      ImGui::TableSetupColumn(
          column.title.c_str(),
          ImGuiTableColumnFlags_WidthFixed | (sorted ? ImGuiTableColumnFlags_DefaultSort : 0) |
              (sorted && descending_ ? ImGuiTableColumnFlags_PreferSortDescending : 0),
          std::max(ui.px(column.number ? 74 : 120), ui.text_width(column.title) + ui.px(22)));
    }
    ui.sort_heads([&](size_t c) { ui.table_head(columns[c].title, columns[c].tip); });
    if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs(); specs && specs->SpecsDirty) {
      if (specs->SpecsCount > 0) {
        column_ = static_cast<size_t>(specs->Specs[0].ColumnIndex);
        descending_ = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
        order_ = sorted_models(*view_, column_, descending_, only_);
      }
      specs->SpecsDirty = false;
    }
    Ui::table_lines(order_.size(),
                    [&](size_t i) { row(ui, training, view_->models[order_[i]], i, count); });
    ImGui::EndTable();
  }

  void row(Ui& ui, TrainingModel& training, const TrainedModel& model, size_t line,
           int count) const {
    ImGui::TableNextRow();
    ImGui::PushID(static_cast<int>(line));
    const bool lit = training.lit() == model.key;
    bool first = true;
    for (int c = 0; c < count; ++c) {
      if (!ImGui::TableSetColumnIndex(c)) continue;
      if (first) {
        if (ui.whole_line(fmt::format("row {}", line + 1), lit,
                          "Highlights the curve of this model."))
          training.light(model.key);
        first = false;
      }
      const std::string text = view_->cell(model, static_cast<size_t>(c));
      ui.cell_text(text, text.starts_with("diverged") ? ui.theme().bad : ui.theme().plot.text,
                   view_->columns[static_cast<size_t>(c)].number != nullptr);
    }
    ImGui::PopID();
  }

  std::shared_ptr<const TrainingView> view_;  // the view that `order_` was made for
  std::optional<std::set<int64_t>> only_;
  std::vector<size_t> order_;
  size_t column_ = 0;
  bool descending_ = false;
};

const bool registered =
    add_panel({"models", "Models", "The models of the training run that is chosen, sortable.",
               Place::bottom, 1, [] { return std::make_unique<ModelsPanel>(); }});

}  // namespace
}  // namespace wide::models_panel
