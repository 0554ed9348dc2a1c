#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/explorer/explorer.h"
#include "app/explorer/models/child.h"
#include "app/explorer/models/fusions/fuse.h"
#include "app/explorer/models/fusions/timeline.h"
#include "app/explorer/ui/plot_view.h"
#include "app/explorer/ui/timeline_plot.h"
#include "data/checkpoints/checkpoint_format.h"
#include "data/networks/network_format.h"
#include "data/one_line.h"
#include "data/plot/scale.h"
#include "data/reports/report_format.h"
#include "data/text.h"

namespace wide::fuse_panel {
namespace {

/// The ways of computing an operator, the best first, and the numbers of their colours.
constexpr std::pair<const char*, size_t> kWays[] = {{"a primitive's strategy", 2},
                                                    {"functorch's vmap", 5},
                                                    {"once for all models", 0},
                                                    {"one by one", 1}};

class FusePanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    ask(explorer, ui);
    if (child_.running()) {
      running(ui);
      return;
    }
    if (std::exchange(started_, false)) ended(explorer);
    if (!error_.empty()) {
      ui.tinted(doing_ == Doing::tracing     ? "The programs could not be shown"
                : doing_ == Doing::exporting ? "The export failed"
                                             : "The fusion failed",
                ui.theme().bad);
      ui.wrapped(error_, false);
      // Older results are not drawn below the error: they would look like this fusion's.
      if (explorer.library.fusions().empty()) return;
      if (ui.button("Show earlier fusions", Look::plain, true,
                    "The fusions that are in the store; what failed left nothing there")) {
        error_.clear();
        doing_ = Doing::fusing;
      }
      return;
    }
    if (stopped_)
      ui.tinted("Stopped before its end; nothing was stored. Earlier fusions:",
                ui.theme().plot.muted);
    if (const std::string text = doing_ == Doing::tracing ? child_.output() : ""; !text.empty()) {
      if (ui.button("Back to the results", Look::plain, true, "Shows the stored fusions again"))
        doing_ = Doing::fusing;
      ImGui::BeginChild("programs", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
      ImGui::TextUnformatted(text.data(), text.data() + text.size());
      ImGui::EndChild();
      return;
    }
    stored(explorer, ui);
  }

  void store_replaced() override {
    wanted_ = shown_ = -1;
    report_.reset();
    error_.clear();
  }

  bool drop(Explorer&, const std::vector<std::string>& paths) override {
    return take_files(paths, &choices_);
  }

 private:
  /// Called when the process has ended. An end by the Stop button is no failure.
  void ended(Explorer& explorer) {
    explorer.library.set_fusing(false);
    explorer.library.refresh();
    if (stopped_) return;
    if (child_.code() == 0) {
      if (doing_ == Doing::exporting) explorer.say("wrote " + exported_);
      if (doing_ != Doing::fusing) return;
      wanted_ = shown_ = -1;
      return;
    }
    const std::string said = child_.output();
    const size_t end = said.find_last_not_of(" \n");
    const size_t line = end == std::string::npos ? end : said.rfind('\n', end);
    error_ = end == std::string::npos
                 ? fmt::format("it ended with exit code {}", child_.code())
                 : said.substr(line == std::string::npos ? 0 : line + 1, end - line);
  }

  void ask(Explorer& explorer, Ui& ui) {
    constexpr float kLabels = 70;  // units: room for labels before the controls
    const float width = ImGui::GetContentRegionAvail().x - ui.px(kLabels) - ui.px(92);
    ui.label("network", kLabels);
    ui.field("network", &choices_.model, "net.pt2, net.ts, or a registered name such as lenet",
             width,
             "The network of which N are fused: a file, or the name of a registered target.");
    ImGui::SameLine();
    if (ui.button("Choose##network", Look::plain, true, "A .pt2 or TorchScript file"))
      choose(explorer, request_for("Choose a network: .pt2 or TorchScript", network_formats()),
             &choices_.model);
    ui.label("weights", kLabels);
    if (ui.button("Add", Look::plain, true,
                  "Checkpoints, one a model: their number is N. Or drop them on the window."))
      choose_weights(explorer);
    ImGui::SameLine();
    if (ui.button("Remove", Look::plain, !choices_.weights.empty(),
                  "Takes all checkpoints away: the models are then copies with seeds of their own"))
      choices_.weights.clear();
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.fitted(weights(explorer), std::max(ui.px(60), ImGui::GetContentRegionAvail().x - ui.px(4)));
    ui.label("inputs", kLabels);
    ui.field(
        "inputs", &choices_.inputs, "random, x=2x3x64x64:f32, or x.safetensors", width,
        "What the models are called with. Empty: random numbers of the sizes the network was "
        "exported with. x=2x3x64x64:f32: random numbers of these sizes, by the argument's name. Or "
        "a file with a tensor [N, ...] for each argument.");
    ImGui::SameLine();
    if (ui.button("Choose##inputs", Look::plain, true, "A file of input tensors"))
      choose(explorer, request_for("Choose a file of input tensors", checkpoint_formats()),
             &choices_.inputs);
    ui.label("N", kLabels);
    ui.field("models", &choices_.n, "4,8,16", ui.px(92),
             "Numbers of models, parted by commas. Empty: one for each checkpoint.");
    ui.beside(ui.text_width("share equal weights") + ui.px(30));
    ui.checkbox("share equal weights", &choices_.share_weights,
                "Weights that are the same in all checkpoints are kept and computed once.");
    const bool able = !choices_.model.empty() && !child_.running();
    if (ui.next_button("Fuse", able,
                       "Makes the wide program, checks it against separate runs, and times both",
                       Look::primary))
      start(explorer, fuse_arguments(choices_, explorer.library.db()), Doing::fusing);
    if (ui.next_button("Programs", able,
                       "The program of one model, and the wide one after each pass"))
      start(explorer, trace_arguments(choices_), Doing::tracing);
    if (ui.next_button(
            "Export", able,
            "The wide program with its weights in a file: .pt2 for torch.export.load, .ts for "
            "torch.jit.load"))
      explorer.save_as("wide program", "wide.pt2", [this, &explorer](const std::string& path) {
        exported_ = path;
        start(explorer, export_arguments(choices_, path), Doing::exporting);
      });
    ImGui::Separator();
  }

  /// A request for files of these formats.
  template <class Format>
  FileRequest request_for(const char* title, const std::vector<Format>& formats) const {
    FileRequest request;
    request.title = title;
    request.folder = std::filesystem::path(choices_.model).parent_path().string();
    for (const Format& format : formats)
      request.extensions.insert(request.extensions.end(), format.extensions.begin(),
                                format.extensions.end());
    return request;
  }

  static void choose(Explorer& explorer, FileRequest request, std::string* path) {
    request.take = [path](const std::vector<std::string>& paths) { *path = paths.front(); };
    explorer.files.ask(std::move(request));
  }

  void choose_weights(Explorer& explorer) {
    FileRequest asked = request_for("Add checkpoints, one per model", checkpoint_formats());
    asked.several = true;
    asked.count = weights_text;
    asked.take = [this](const std::vector<std::string>& paths) {
      choices_.weights.insert(choices_.weights.end(), paths.begin(), paths.end());
      choices_.n.clear();
    };
    explorer.files.ask(std::move(asked));
  }

  /// A text with the number of weights; a job searches for the files if the names changed.
  const std::string& weights(Explorer& explorer) {
    if (counted_ && *counted_ == choices_.weights) return count_;
    counted_ = choices_.weights;
    count_ = "counting";
    explorer.jobs.start("weights", [this, files = choices_.weights]() -> Jobs::Result {
      std::string text;
      try {
        text = weights_text(files);
      } catch (const std::exception& e) {
        text = one_line(e);
      }
      return [this, text] { count_ = text; };
    });
    return count_;
  }

  enum class Doing { fusing, tracing, exporting };

  void start(Explorer& explorer, std::vector<std::string> arguments, Doing doing) {
    error_.clear();
    stopped_ = false;
    child_.wake = [&explorer] { explorer.jobs.wake(); };
    doing_ = doing;
    try {
      child_.start(std::move(arguments));
      started_ = true;
      explorer.library.set_fusing(doing == Doing::fusing);
    } catch (const std::exception& e) {
      error_ = one_line(e);
    }
  }

  void running(Ui& ui) {
    ui.text(doing_ == Doing::tracing     ? "recording and widening in a process of its own"
            : doing_ == Doing::exporting ? "fusing, checking and writing in a process of its own"
                                         : "fusing, checking and timing in a process of its own");
    if (ui.button("Stop", Look::danger, true, "Ends it now; nothing of it is kept")) {
      stopped_ = true;
      child_.stop();
    }
    ui.wrapped(child_.last_lines());
  }

  void stored(Explorer& explorer, Ui& ui) {
    const auto& fusions = explorer.library.fusions();
    if (!ui.filled(
            !fusions.empty(), !explorer.library.listed(), "No network has been fused yet",
            "Drop a network (.pt2 or TorchScript) and its checkpoints on the window, or type "
            "a registered name such as mlp above and press Fuse."))
      return;
    // The newest one is shown, which is not in a list that was read before.
    if (wanted_ < 0 && explorer.jobs.busy("list")) {
      ui.muted("reading");
      return;
    }
    std::vector<std::string> names;
    int at = 0;
    for (const FuseRow& row : fusions) {
      if (row.id == wanted_) at = static_cast<int>(names.size());
      names.push_back(
          fmt::format("{} · {} · N={} · {}", row.id, row.model, fmt::join(row.n, ","), row.date));
    }
    ui.choice("fusion", &at, names, std::min(ui.px(420), ImGui::GetContentRegionAvail().x),
              "The fusions that are stored, the newest first.");
    const int64_t id = fusions[static_cast<size_t>(at)].id;
    if (id != shown_) {
      shown_ = wanted_ = id;
      report_.reset();
      timeline_ = {};
      bar_.reset();
      lanes_.fit();
      explorer.jobs.start("fusion", [this, db = explorer.library.db(), id]() -> Jobs::Result {
        FuseReport report = Store::read(db).load_fuse(id);
        TimelineView timeline = timeline_view(report);
        return [this, report = std::move(report), timeline = std::move(timeline)]() mutable {
          report_ = std::move(report);
          timeline_ = std::move(timeline);
        };
      });
    }
    if (!report_) {
      ui.muted("reading");
      return;
    }
    result(explorer, ui, *report_);
  }

  void result(Explorer& explorer, Ui& ui, const FuseReport& report) {
    const FuseResult& last = report.curve.back();
    const float width = ImGui::GetContentRegionAvail().x;
    headline(ui, last, width);
    choose_part(ui, report);
    if (part_ == Part::along_n && report.curve.size() > 1) {
      plot(explorer, ui, report);
      return;
    }
    if (part_ == Part::timeline && timeline_.report) {
      timeline(ui, timeline_);
      return;
    }
    coverage(ui, last, width);
    curve(ui, report);
    for (const std::string& note : last.notes) ui.fitted(note, width, true);
    steps(ui, last);
  }

  void choose_part(Ui& ui, const FuseReport& report) {
    if (report.curve.size() < 2 && !timeline_.report) return;
    const auto offer = [&](const char* label, Part part, const char* tip) {
      if (ui.toggle(label, part_ == part, tip)) part_ = part;
    };
    offer("Numbers", Part::numbers, "What was measured at each N, and of each step");
    if (report.curve.size() > 1) {
      ImGui::SameLine();
      offer("Along N", Part::along_n, "The speedup and the error along N");
    }
    if (!timeline_.report) return;
    ImGui::SameLine();
    offer("Timeline", Part::timeline,
          "One call of the loop and one of the wide program on a common axis of time, as they ran");
  }

  /// Draws the timeline, and below it the facts about the clicked bar.
  void timeline(Ui& ui, const TimelineView& view) {
    ImGui::SameLine();
    if (ui.button("Fit", Look::plain, true,
                  "Shows both calls from begin to end; the wheel zooms, a drag moves"))
      lanes_.fit();
    if (ui.next_button("Fit wide", true, "Shows the wide program's call alone from begin to end"))
      lanes_.show(0, view.report->curve.back().timeline.back().call_ns);
    const float width = ImGui::GetContentRegionAvail().x;
    const float below = ui.px(24) * static_cast<float>(4 + view.notes.size());
    const auto about = [&](const PickedBar& bar) { return bar_text(view, bar); };
    if (const auto picked =
            lanes_.draw(ui, view.lanes, view.end_ns, bar_,
                        std::max(ui.px(160), ImGui::GetContentRegionAvail().y - below), about))
      bar_ = picked;
    if (bar_)
      for (const std::string& line : bar_details(view, *bar_)) ui.wrapped(line, false);
    else
      ui.fitted("Click a bar: which node and module it comes from, how near it is to the peaks",
                width, true);
    for (const std::string& note : view.notes) ui.fitted(note, width, true);
  }

  /// The speedup in large type, if its interval excludes 1.
  static void headline(Ui& ui, const FuseResult& last, float width) {
    if (!last.correctness.pass) {
      ui.tinted("✗ incorrect: " + ui.fit(last.correctness.failure, width * 0.8f), ui.theme().bad);
      return;
    }
    const Interval best = shown_speedup(last, false);
    if (!(best.value > 0)) {
      ui.text(fmt::format("correct at N={}, not timed", last.n));
      return;
    }
    const std::string text = fmt::format("{}× over {} at N={}, {}× over loop",
                                         short_number(best.value), last.speedup->best_baseline,
                                         last.n, short_number(shown_speedup(last, true).value));
    const std::string verdict = verdict_of(last);
    const bool clear = verdict == "FASTER" || verdict == "SLOWER";
    ImGui::PushFont(clear ? ui.fonts().title : ui.fonts().body);
    ui.fitted(clear ? text : verdict + ": " + text, width, !clear);
    ImGui::PopFont();
  }

  void plot(Explorer& explorer, Ui& ui, const FuseReport& report) {
    ImGui::SameLine();
    int over = over_loop_ ? 1 : 0;
    if (ui.choice("over", &over, {"over best", "over loop"}, ui.px(100),
                  "What the speedup is over: the fastest baseline, or a plain loop."))
      over_loop_ = over == 1;
    ImGui::SameLine();
    if (ui.button("Save plot", Look::plain, true, "The plot as a picture"))
      ImGui::OpenPopup("save plot");
    const Figure figure = fuse_figure(report, over_loop_);
    if (ImGui::BeginPopup("save plot")) {
      explorer.plot_entries(ui, figure, plot_.box(), "fusion",
                            fmt::format("fusion {} · {}", shown_, report.environment.cpu));
      ImGui::EndPopup();
    }
    plot_.draw(ui, figure, std::nullopt);
  }

  static void coverage(Ui& ui, const FuseResult& result, float width) {
    const bool timed = !result.coverage_time.empty();
    const std::vector<WayShare> shares = way_shares(result);
    ui.small(timed ? "how it was made wide, by time" : "how it was made wide, by nodes");
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float height = ui.px(16);
    float x = at.x;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    for (size_t i = 0; i < shares.size(); ++i) {
      const double share = timed ? shares[i].time : shares[i].nodes;
      const float part = width * static_cast<float>(share);
      if (part < 0.5f) continue;
      list.AddRectFilled({x, at.y}, {x + part - 1, at.y + height},
                         colour(ui.theme().plot.series[kWays[i].second]));
      x += part;
    }
    ImGui::Dummy({width, height});
    ui.note_last(ItemKind::area, "coverage");
    for (size_t i = 0; i < shares.size(); ++i) {
      const double share = timed ? shares[i].time : shares[i].nodes;
      const std::string text = fmt::format("{} {:.0f} %", kWays[i].first, 100 * share);
      if (i > 0) ui.beside(ui.text_width(text) + ui.px(18));
      const ImVec2 dot = ImGui::GetCursorScreenPos();
      list.AddRectFilled({dot.x, dot.y + ui.px(4)}, {dot.x + ui.px(10), dot.y + ui.px(14)},
                         colour(ui.theme().plot.series[kWays[i].second]), ui.px(2));
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ui.px(16));
      ui.muted(text);
    }
    for (const Fallback& f : result.fallbacks)
      ui.fitted(fallback_text(f.op, f.reason), width, true);
  }

  static void curve(Ui& ui, const FuseReport& report) {
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const float height = line * static_cast<float>(std::min<size_t>(report.curve.size(), 6) + 1) +
                         ImGui::GetStyle().ScrollbarSize + ui.px(4);
    if (!ui.begin_table(
            "along N",
            {{"N", 36, "How many models are fused"},
             {"over best", 76,
              "How many times as fast as the best way of running the models separately"},
             {"95 %", 104, "The 95 % interval of that speedup"},
             {"over loop", 76, "How many times as fast as calling the models one after another"},
             {"error", 66, "The largest error against separate runs in double precision"},
             {"memory", 130, "Memory of the weights as one, and of the separate models"}},
            {0, height}, ImGuiTableFlags_ScrollX))
      return;
    for (const FuseResult& p : report.curve) {
      const Interval best = shown_speedup(p, false), loop = shown_speedup(p, true);
      const bool right = p.correctness.pass;
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(0);
      ui.text(std::to_string(p.n));
      ImGui::TableSetColumnIndex(1);
      if (right && best.value > 0)
        ui.text(short_number(best.value) + "×");
      else
        ui.tinted(right ? "–" : "✗", right ? ui.theme().plot.muted : ui.theme().bad);
      ImGui::TableSetColumnIndex(2);
      ui.muted(best.value > 0
                   ? fmt::format("{} to {}", short_number(best.low), short_number(best.high))
                   : "–");
      ImGui::TableSetColumnIndex(3);
      ui.text(loop.value > 0 ? short_number(loop.value) + "×" : "–");
      ImGui::TableSetColumnIndex(4);
      ui.text(fmt::format("{:.1e}", p.correctness.max_rel));
      ui.cell(5,
              fmt::format("{}, was {}", bytes_text(double(p.wide_bytes)),
                          bytes_text(double(p.separate_bytes))),
              true);
    }
    ImGui::EndTable();
  }

  static void steps(Ui& ui, const FuseResult& result) {
    if (result.steps.empty()) {
      if (!result.plan.empty()) ui.wrapped(result.plan);
      return;
    }
    if (!ui.begin_table("steps",
                        {{"step", 170, "The operator or kernel that runs"},
                         {"module", 0, "Where in the network it comes from"},
                         {"by", 150, "The layer kind and the strategy that made it wide"},
                         {"time", 72, "Median time of the step"},
                         {"share", 56, "Its share of the time of all steps"}},
                        ui.room(120), ImGuiTableFlags_RowBg))
      return;
    Ui::table_lines(result.steps.size(), [&](size_t i) {
      const StepCost& s = result.steps[i];
      ImGui::TableNextRow();
      ui.cell(0, s.op);
      ui.cell(1, s.module, true);
      ui.cell(2, s.primitive.empty() ? s.strategy : s.primitive + " / " + s.strategy);
      ui.cell(3, value_text(Measure::time, s.median_ns));
      ui.cell(4, fmt::format("{:.0f} %", 100 * s.share));
    });
    ImGui::EndTable();
  }

  FuseChoices choices_;
  std::optional<std::vector<std::string>> counted_;
  std::string count_;  // text for those weights
  Child child_;
  bool started_ = false, stopped_ = false;
  Doing doing_ = Doing::fusing;
  std::string error_, exported_;
  int64_t wanted_ = -1, shown_ = -1;
  std::optional<FuseReport> report_;
  TimelineView timeline_;  // of it
  enum class Part { numbers, along_n, timeline };
  Part part_ = Part::numbers;
  bool over_loop_ = false;
  PlotView plot_;
  TimelinePlot lanes_;
  std::optional<PickedBar> bar_;  // of the timeline
};

const bool registered =
    add_panel({"fuse", "Fusion", "Fuse a network of your own: coverage, speedup, memory.",
               Place::middle, 4, [] { return std::make_unique<FusePanel>(); }});

}  // namespace
}  // namespace wide::fuse_panel
