#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/explorer/explorer.h"
#include "app/explorer/models/child.h"
#include "app/explorer/models/fuse.h"
#include "app/explorer/ui/plot_view.h"
#include "data/checkpoints/checkpoint_format.h"
#include "data/networks/network_format.h"
#include "data/one_line.h"
#include "data/plot/scale.h"
#include "data/reports/report_format.h"
#include "data/text.h"

namespace wide::fuse_panel {
namespace {

/// Which ways are good news: the best first.
const std::vector<std::pair<const char*, const char*>> kWays = {
    {"strategy", "a primitive's strategy"},
    {"vmap", "functorch's vmap"},
    {"shared", "once for all models"},
    {"per_model", "one by one"}};

class FusePanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    ask(explorer, ui);
    if (child_.running()) {
      running(ui);
      return;
    }
    if (started_) {  // it has ended
      started_ = false;
      if (doing_ == Doing::fusing) {
        explorer.library.refresh();
        wanted_ = shown_ = -1;
      }
      if (doing_ == Doing::exporting && child_.code() == 0) explorer.say("wrote " + exported_);
      if (child_.code() != 0) {
        const std::string said = child_.output();
        const size_t end = said.find_last_not_of(" \n");
        const size_t line = end == std::string::npos ? end : said.rfind('\n', end);
        error_ = end == std::string::npos
                     ? fmt::format("it ended with exit code {}", child_.code())
                     : said.substr(line == std::string::npos ? 0 : line + 1, end - line);
      }
    }
    if (!error_.empty()) {
      ui.tinted("The fusion failed", ui.theme().bad);
      ui.wrapped(error_, false);
    }
    if (doing_ == Doing::tracing && error_.empty() && !child_.output().empty()) {
      if (ui.button("Back to the results")) doing_ = Doing::fusing;
      ImGui::BeginChild("programs", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
      const std::string text = child_.output();
      ImGui::TextUnformatted(text.data(), text.data() + text.size());
      ImGui::EndChild();
      return;
    }
    stored(explorer, ui);
  }

  bool drop(Explorer&, const std::vector<std::string>& paths) override {
    return take_files(paths, &choices_);
  }

 private:
  void ask(Explorer& explorer, Ui& ui) {
    const float width = ImGui::GetContentRegionAvail().x, column = ui.px(70);
    const auto labelled = [&](const char* label) {
      ImGui::AlignTextToFramePadding();
      ui.muted(label);
      ImGui::SameLine(column);
    };
    labelled("network");
    ui.field("network", &choices_.model, "net.pt2, net.ts, or a registered name such as lenet",
             width - column - ui.px(92));
    ImGui::SameLine();
    if (ui.button("Choose##network")) choose_network(explorer);
    labelled("weights");
    if (ui.button("Add")) choose_weights(explorer);
    ImGui::SameLine();
    if (ui.button("Remove", Look::plain, !choices_.weights.empty())) choices_.weights.clear();
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.text(weights());
    ui.tip("Or drop a network and its checkpoints on the window.");
    ImGui::SameLine();
    ui.checkbox("share equal ones", &choices_.share_weights);
    labelled("N");
    ui.field("models", &choices_.n, "4,8,16", ui.px(110));
    ImGui::SameLine();
    ui.field("inputs", &choices_.inputs, "random inputs: x=2x3x64x64:f32",
             std::max(ui.px(90), width - column - ui.px(110 + 248)));
    const bool able = !choices_.model.empty() && !child_.running();
    ImGui::SameLine();
    if (ui.button("Fuse", Look::primary, able))
      start(explorer, fuse_arguments(choices_, explorer.library.db()), Doing::fusing);
    ImGui::SameLine();
    if (ui.button("Programs", Look::plain, able,
                  "The program of one model, and the wide one after "
                  "each pass"))
      start(explorer, trace_arguments(choices_), Doing::tracing);
    ImGui::SameLine();
    if (ui.button(
            "Export", Look::plain, able,
            "The wide program with its weights in a file: .pt2 for torch.export.load, .ts for "
            "torch.jit.load"))
      explorer.save_as("wide program", "wide.pt2", [this, &explorer](const std::string& path) {
        exported_ = path;
        start(explorer, export_arguments(choices_, path), Doing::exporting);
      });
    ImGui::Separator();
  }

  void choose_network(Explorer& explorer) {
    FileRequest request;
    request.title = "Choose a network: .pt2 or TorchScript";
    request.folder = std::filesystem::path(choices_.model).parent_path().string();
    request.extensions = extensions_of(network_formats());
    request.take = [this](const std::vector<std::string>& paths) {
      choices_.model = paths.front();
    };
    explorer.files.ask(std::move(request));
  }

  void choose_weights(Explorer& explorer) {
    FileRequest request;
    request.title = "Add checkpoints, one per model";
    request.folder = std::filesystem::path(choices_.model).parent_path().string();
    request.extensions = extensions_of(checkpoint_formats());
    request.several = true;
    request.count = weights_text;
    request.take = [this](const std::vector<std::string>& paths) {
      weights_text(paths);  // refuses what holds none
      choices_.weights.insert(choices_.weights.end(), paths.begin(), paths.end());
      choices_.n.clear();
    };
    explorer.files.ask(std::move(request));
  }

  /// How many there are; files are looked for only when other ones are named.
  const std::string& weights() {
    if (counted_ && *counted_ == choices_.weights) return count_;
    counted_ = choices_.weights;
    try {
      count_ = weights_text(choices_.weights);
    } catch (const std::exception& e) {
      count_ = one_line(e);
    }
    return count_;
  }

  template <class Format>
  static std::vector<std::string> extensions_of(const std::vector<Format>& formats) {
    std::vector<std::string> all;
    for (const Format& format : formats)
      all.insert(all.end(), format.extensions.begin(), format.extensions.end());
    return all;
  }

  enum class Doing { fusing, tracing, exporting };

  void start(Explorer& explorer, std::vector<std::string> arguments, Doing doing) {
    error_.clear();
    child_.wake = [&explorer] { explorer.jobs.wake(); };
    doing_ = doing;
    try {
      child_.start(std::move(arguments));
      started_ = true;
    } catch (const std::exception& e) {
      error_ = one_line(e);
    }
  }

  void running(Ui& ui) {
    ui.text(doing_ == Doing::tracing     ? "recording and widening in a process of its own"
            : doing_ == Doing::exporting ? "fusing, checking and writing in a process of its own"
                                         : "fusing, checking and timing in a process of its own");
    if (ui.button("Stop", Look::danger)) child_.stop();
    ui.wrapped(child_.output());
  }

  void stored(Explorer& explorer, Ui& ui) {
    const auto& fusions = explorer.library.fusions();
    if (fusions.empty()) {
      ui.empty("No network has been fused yet",
               "Drop a network (.pt2 or TorchScript) and its checkpoints on the window, or type a "
               "registered "
               "name such as mlp above and press Fuse.");
      return;
    }
    std::vector<std::string> names;
    int at = 0;
    for (const FuseRow& row : fusions) {
      if (row.id == wanted_) at = static_cast<int>(names.size());
      names.push_back(
          fmt::format("{} · {} · N={} · {}", row.id, row.model, fmt::join(row.n, ","), row.date));
    }
    ui.choice("fusion", &at, names, std::min(ui.px(420), ImGui::GetContentRegionAvail().x));
    const int64_t id = fusions[static_cast<size_t>(at)].id;
    if (id != shown_) {
      shown_ = wanted_ = id;
      view_.reset();
      explorer.jobs.start("fusion", [this, db = explorer.library.db(), id]() -> Jobs::Result {
        FuseView view = fuse_view(Store::read(db).load_fuse(id));
        return [this, view = std::move(view)]() mutable { view_ = std::move(view); };
      });
    }
    if (!view_) {
      ui.muted("reading");
      return;
    }
    result(explorer, ui, *view_);
  }

  void result(Explorer& explorer, Ui& ui, const FuseView& view) {
    const FuseView::AtN& last = view.curve.back();
    const float width = ImGui::GetContentRegionAvail().x;
    if (!last.right)
      ui.tinted("✗ incorrect: " + ui.fit(view.failure, width * 0.8f), ui.theme().bad);
    else
      ui.title(last.vs_best > 0
                   ? fmt::format("{}× over {} at N={}, {}× over loop", short_number(last.vs_best),
                                 last.best_baseline, last.n, short_number(last.vs_loop))
                   : fmt::format("right at N={}, not timed", last.n));
    if (view.curve.size() > 1) {
      if (ui.toggle("Numbers", !plotted_, "What was measured at each N, and of each step"))
        plotted_ = false;
      ImGui::SameLine();
      if (ui.toggle("Along N", plotted_, "The speedup and the error along N")) plotted_ = true;
      if (plotted_) {
        plot(explorer, ui, view);
        return;
      }
    }
    coverage(ui, view, width);
    curve(ui, view);
    for (const std::string& note : view.notes) ui.fitted(note, width, true);
    steps(ui, view);
  }

  void plot(Explorer& explorer, Ui& ui, const FuseView& view) {
    ImGui::SameLine();
    int over = over_loop_ ? 1 : 0;
    if (ui.choice("over", &over, {"over best", "over loop"}, ui.px(100))) over_loop_ = over == 1;
    ImGui::SameLine();
    if (ui.button("Save plot")) ImGui::OpenPopup("save plot");
    const Figure figure = fuse_figure(view, over_loop_);
    if (ui.begin_popup("save plot")) {
      explorer.plot_entries(ui, figure, plot_.box(), "fusion",
                            fmt::format("fusion {} · {}", shown_, view.cpu));
      ui.end_popup();
    }
    plot_.draw(ui, figure, std::nullopt);
  }

  static void coverage(Ui& ui, const FuseView& view, float width) {
    ui.small(view.timed_coverage ? "how it was made wide, by time"
                                 : "how it was made wide, by nodes");
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float height = ui.px(16);
    float x = at.x;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    static constexpr int kTones[] = {2, 5, 0, 1};
    for (size_t i = 0; i < view.coverage.size(); ++i) {
      const double share = view.timed_coverage ? view.coverage[i].time : view.coverage[i].nodes;
      const float part = width * static_cast<float>(share);
      if (part < 0.5f) continue;
      list.AddRectFilled({x, at.y}, {x + part - 1, at.y + height},
                         colour(ui.theme().plot.series[static_cast<size_t>(kTones[i])]));
      x += part;
    }
    ImGui::Dummy({width, height});
    ui.note_last(ItemKind::area, "coverage");
    for (size_t i = 0; i < view.coverage.size() && i < kWays.size(); ++i) {
      const double share = view.timed_coverage ? view.coverage[i].time : view.coverage[i].nodes;
      const std::string text = fmt::format("{} {:.0f} %", kWays[i].second, 100 * share);
      if (i > 0) ui.beside(ui.text_width(text) + ui.px(18));
      const ImVec2 dot = ImGui::GetCursorScreenPos();
      list.AddRectFilled({dot.x, dot.y + ui.px(4)}, {dot.x + ui.px(10), dot.y + ui.px(14)},
                         colour(ui.theme().plot.series[static_cast<size_t>(kTones[i])]), ui.px(2));
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ui.px(16));
      ui.muted(text);
    }
    for (const auto& [op, reason] : view.fallbacks)
      ui.fitted(op + " one by one: " + reason, width, true);
  }

  static void curve(Ui& ui, const FuseView& view) {
    if (!ImGui::BeginTable("along N", 6,
                           ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings))
      return;
    static const std::pair<const char*, float> kColumns[] = {{"N", 36},     {"over best", 76},
                                                             {"95 %", 104}, {"over loop", 76},
                                                             {"error", 66}, {"memory", 130}};
    for (const auto& [name, width] : kColumns)
      ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthFixed, ui.px(width));
    ui.table_heads();
    for (const FuseView::AtN& p : view.curve) {
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(0);
      ui.text(std::to_string(p.n));
      ImGui::TableSetColumnIndex(1);
      if (p.right && p.vs_best > 0)
        ui.text(short_number(p.vs_best) + "×");
      else
        ui.tinted(p.right ? "–" : "✗", p.right ? ui.theme().plot.muted : ui.theme().bad);
      ImGui::TableSetColumnIndex(2);
      ui.muted(p.vs_best > 0 ? fmt::format("{} to {}", short_number(p.low), short_number(p.high))
                             : "–");
      ImGui::TableSetColumnIndex(3);
      ui.text(p.vs_loop > 0 ? short_number(p.vs_loop) + "×" : "–");
      ImGui::TableSetColumnIndex(4);
      ui.text(fmt::format("{:.1e}", p.error));
      ImGui::TableSetColumnIndex(5);
      ui.fitted(fmt::format("{}, was {}", bytes_text(p.wide_bytes), bytes_text(p.separate_bytes)),
                ImGui::GetContentRegionAvail().x, true);
    }
    ImGui::EndTable();
  }

  static void steps(Ui& ui, const FuseView& view) {
    if (view.steps.empty()) {
      if (!view.plan.empty()) ui.wrapped(view.plan);
      return;
    }
    if (!ImGui::BeginTable("steps", 5,
                           ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                               ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings,
                           {0, std::max(ui.px(120), ImGui::GetContentRegionAvail().y)}))
      return;
    ImGui::TableSetupScrollFreeze(0, 1);
    static const std::pair<const char*, float> kColumns[] = {
        {"step", 170}, {"module", 0}, {"by", 150}, {"time", 72}, {"share", 56}};
    for (const auto& [name, width] : kColumns)
      ImGui::TableSetupColumn(
          name, width > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_WidthStretch,
          ui.px(width));
    ui.table_heads();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(view.steps.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const FuseView::Step& s = view.steps[static_cast<size_t>(i)];
        ImGui::TableNextRow();
        ImGui::TableSetColumnIndex(0);
        ui.fitted(s.what, ImGui::GetContentRegionAvail().x);
        ImGui::TableSetColumnIndex(1);
        ui.fitted(s.where, ImGui::GetContentRegionAvail().x, true);
        ImGui::TableSetColumnIndex(2);
        ui.fitted(s.how, ImGui::GetContentRegionAvail().x);
        ImGui::TableSetColumnIndex(3);
        ui.text(value_text(Measure::time, s.ns));
        ImGui::TableSetColumnIndex(4);
        ui.text(fmt::format("{:.0f} %", 100 * s.share));
      }
    ImGui::EndTable();
  }

  FuseChoices choices_;
  std::optional<std::vector<std::string>> counted_;
  std::string count_;  // of those
  Child child_;
  bool started_ = false;
  Doing doing_ = Doing::fusing;
  std::string error_, exported_;
  int64_t wanted_ = -1, shown_ = -1;
  std::optional<FuseView> view_;
  bool plotted_ = false, over_loop_ = false;
  PlotView plot_;
};

const bool registered =
    add_panel({"fuse", "Trial fusion", "Fuse a network of your own: coverage, speedup, memory.",
               Place::middle, 4, [] { return std::make_unique<FusePanel>(); }});

}  // namespace
}  // namespace wide::fuse_panel
