#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"
#include "app/explorer/ui/samples.h"
#include "data/plot/scale.h"
#include "data/reports/report_tables.h"
#include "data/text.h"

namespace wide::point_panel {
namespace {

std::string time_of(double ns) { return value_text(Measure::time, ns); }

/// "3.62× (95 %: 3.55 to 3.7)"
std::string ratio_of(const Interval& i) {
  return fmt::format("{}× (95 %: {} to {})", short_number(i.value), short_number(i.low),
                     short_number(i.high));
}

class PointPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!library.point()) {
      ui.empty("No trial is selected",
               "Click a point of a plot, a cell of the overview, or a row of the table.");
      return;
    }
    const PointDetail* detail = library.detail();
    const MissingBaseline* missing = detail ? detail->missing() : nullptr;
    if (!detail || (!detail->timing() && !missing)) {
      ui.muted(explorer.jobs.busy("point") ? "reading"
                                           : "This trial is not in the store any more.");
      return;
    }
    head(ui, *detail);
    if (missing) {
      pair(ui, "status", to_string(missing->status), ui.theme().bad);
      ui.wrapped(missing->reason, false);
      needed(ui, missing->needed_bytes);
    }
    if (const Trial* t = detail->trial()) results(ui, *detail, *t);
    if (const Timing* t = detail->timing()) {
      timing(ui, *t);
      samples(ui, *t);
    }
    command(explorer, ui, *detail);
    environment(explorer, ui);
  }

 private:
  static void pair(Ui& ui, const std::string& what, const std::string& value, uint32_t tone = 0) {
    if (value.empty()) return;
    ui.muted(what);
    ImGui::SameLine(ui.px(112));
    ui.tinted(ui.fit(value, ImGui::GetContentRegionAvail().x), tone ? tone : ui.theme().plot.text);
    ui.tip(value);
  }

  static void needed(Ui& ui, int64_t bytes) {
    if (bytes > 0) pair(ui, "needed", bytes_text(static_cast<double>(bytes)) + " by estimate");
  }

  static void head(Ui& ui, const PointDetail& d) {
    const float width = ImGui::GetContentRegionAvail().x;
    ImGui::PushFont(ui.fonts().title);
    ui.fitted(d.of.target + " / " + d.strategy, width);
    ImGui::PopFont();
    ui.fitted(fmt::format("N={} · {} · {} · {} · {} · {}", d.of.n, d.of.shape, d.of.dtype,
                          d.of.device, d.of.mode, d.of.phase),
              width, true);
    ImGui::Dummy({0, ui.px(2)});
  }

  static void results(Ui& ui, const PointDetail& d, const Trial& t) {
    const Theme& theme = ui.theme();
    const bool right = t.status == Status::ok;
    pair(ui, "status",
         std::string(to_string(t.status)) + (t.chosen ? ", chosen by the engine" : ""),
         right                             ? theme.good
         : t.status == Status::unsupported ? theme.plot.muted
                                           : theme.bad);
    if (!t.reason.empty()) ui.wrapped(t.reason, false);
    if (!right) needed(ui, t.needed_bytes);
    if (right && t.speedup) {
      pair(ui, "over best", ratio_of(t.speedup->vs_best) + " " + t.speedup->best_baseline);
      if (t.speedup->vs_loop) pair(ui, "over loop", ratio_of(*t.speedup->vs_loop));
      pair(ui, "verdict", t.verdict);
    }
    if (t.correctness) {
      const Correctness& c = *t.correctness;
      pair(ui, "error", fmt::format("{:.2g}, at most {:.2g}", c.max_rel, allowed(c)),
           c.pass ? 0 : theme.bad);
      pair(ui, "loop's own", fmt::format("{:.2g}", c.eager_max_rel));
      pair(ui, "models",
           fmt::format("{}, {}", c.isolated ? "apart" : "not apart",
                       c.ordered ? "in order" : "out of order"));
    }
    if (d.of.disturbed)
      pair(ui, "disturbed", fmt::format("others took {:.0f} % of the cores", 100 * d.of.other_load),
           theme.warn);
    if (d.of.window_frames >= 0)
      pair(ui, "window", fmt::format("drew {} times while this was timed", d.of.window_frames));
  }

  static void timing(Ui& ui, const Timing& t) {
    if (t.median_ns <= 0) return;
    pair(ui, "median", time_of(t.median_ns));
    pair(ui, "quartiles", time_of(t.q1_ns) + " to " + time_of(t.q3_ns));
    if (t.first_call_ns > 0) pair(ui, "first call", time_of(t.first_call_ns));
    if (t.with_packing_ns > 0) pair(ui, "with packing", time_of(t.with_packing_ns));
    if (t.peak_bytes > 0) pair(ui, "memory", bytes_text(static_cast<double>(t.peak_bytes)));
    if (t.flops_share > 0) pair(ui, "arithmetic", arithmetic_text(t));
    if (t.bytes_share > 0)
      pair(ui, "memory rate",
           fmt::format("{:.0f} % of this machine's bandwidth", 100 * t.bytes_share));
    if (!t.bound.empty()) pair(ui, "bound by", t.bound);
  }

  static void samples(Ui& ui, const Timing& t) {
    if (t.samples_ns.empty()) return;
    ImGui::Dummy({0, ui.px(4)});
    ui.bold(fmt::format("{} samples", t.samples_ns.size()));
    ImGui::SameLine();
    ui.muted(fmt::format("of {} calls, {} outliers", t.calls_per_sample, t.outliers));
    draw_samples(ui, t, ImGui::GetContentRegionAvail().x, ui.px(84));
    ui.small(fmt::format("from {} to {} · left: in order of time · right: how often",
                         time_of(*std::min_element(t.samples_ns.begin(), t.samples_ns.end())),
                         time_of(*std::max_element(t.samples_ns.begin(), t.samples_ns.end()))));
  }

  static void command(Explorer& explorer, Ui& ui, const PointDetail& d) {
    ImGui::Dummy({0, ui.px(4)});
    ui.bold("To measure it again");
    ui.wrapped(d.command);
    if (ui.button("Copy command", Look::plain, true, "The line above, to the clipboard")) {
      ImGui::SetClipboardText(d.command.c_str());
      explorer.say("copied the command");
    }
  }

  static void environment(Explorer& explorer, Ui& ui) {
    const Environment& e = explorer.library.head().environment;
    ImGui::Dummy({0, ui.px(4)});
    ui.bold("Measured on");
    pair(ui, "CPU", fmt::format("{}, {} threads", e.cpu, e.threads));
    pair(ui, "LibTorch", e.libtorch);
    pair(ui, "git", e.git);
    pair(ui, "date", e.date);
    if (ui.button("All of it", Look::plain, true, "All that is known of the machine"))
      explorer.show("environment");
  }
};

const bool registered = add_panel({"point", "Selected trial", "All that is known of one trial.",
                                   Place::right, 0, [] { return std::make_unique<PointPanel>(); }});

}  // namespace
}  // namespace wide::point_panel
