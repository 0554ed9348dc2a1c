#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/explorer/explorer.h"
#include "app/explorer/ui/samples.h"
#include "data/plot/scale.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"

namespace wide::point_panel {
namespace {

std::string time_of(double ns) { return value_text(Measure::time, ns); }

/// "3.62× (95 %: 3.55 to 3.7)"
std::string ratio_of(const Interval& i) {
  return fmt::format("{}× (95 %: {} to {})", short_number(i.value), short_number(i.low),
                     short_number(i.high));
}

/// The explanation of a row of the details, for its tooltip.
const std::string& meaning(const std::string& what) {
  static const std::map<std::string, std::string> meanings = {
      {"status",
       "How the trial ended. ok: it ran and gave the answers of the separate models. incorrect: it "
       "gave others, so that its time counts for nothing."},
      {"over best",
       "How many times as fast as the best way of running the models separately, with the interval "
       "that holds the true ratio with 95 % confidence."},
      {"over loop", "How many times as fast as calling the models one after another."},
      {"verdict",
       "FASTER or SLOWER where the interval is sure of it, SAME within 3 %, else UNCLEAR."},
      {"error",
       "The largest difference to separate runs in double precision, relative to the answer, and "
       "the largest that still counts as right."},
      {"loop's own",
       "The same error of the separate models themselves, which compute in this dtype as well."},
      {"models",
       "apart: nothing of one model reaches another. in order: permuting the models permutes the "
       "answers."},
      {"disturbed",
       "Other programs used the processor while this was timed: its times are not to be trusted."},
      {"window",
       "How often this window was drawn meanwhile: drawing takes time from what is timed."},
      {"needed", "The memory that it would need by estimate, which this machine has not."},
      {"median", "Half of the calls took less time than this, half took more."},
      {"quartiles",
       "A quarter of the calls took less than the first, a quarter more than the second."},
      {"first call", "The time of the first call, with all that is done once."},
      {"with packing",
       "The median of a call that also stacks the inputs before and splits the outputs after."},
      {"memory", "The most memory that one call held."},
      {"arithmetic",
       "Operations a second, as a share of the most that was measured on this machine. They are "
       "those of the definition: a kernel that needs fewer of them may pass 100 %."},
      {"memory rate",
       "Bytes a second that have to be read and written, as a share of the most that was measured "
       "here. What stays in the caches may pass 100 %."},
      {"bound by",
       "What keeps it from being faster: launch is the cost of calling operators, compute the "
       "arithmetic, memory the reading and writing."},
      {"host", "The name of the machine; the sweep was measured on several."},
      {"CPU", "The processor it was measured on, and how many threads computed."},
      {"LibTorch", "The version of PyTorch's library."},
      {"git", "The commit of the program that measured it."},
      {"date", "When the sweep began."}};
  static const std::string kNone;
  const auto found = meanings.find(what);
  return found == meanings.end() ? kNone : found->second;
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
    environment(explorer, ui, *detail);
  }

 private:
  static void pair(Ui& ui, const std::string& what, const std::string& value, uint32_t tone = 0) {
    if (value.empty()) return;
    const std::string& means = meaning(what);
    ui.muted(what);
    ui.tip(means);
    ImGui::SameLine(ui.px(112));
    const std::string part = ui.fit(value, ImGui::GetContentRegionAvail().x);
    ui.tinted(part, tone ? tone : ui.theme().plot.text);
    ui.tip(part == value ? means : value + "\n\n" + means);
  }

  static void needed(Ui& ui, int64_t bytes) {
    if (bytes > 0) pair(ui, "needed", bytes_text(static_cast<double>(bytes)) + " by estimate");
  }

  static void head(Ui& ui, const PointDetail& d) {
    const float width = ImGui::GetContentRegionAvail().x;
    ImGui::PushFont(ui.fonts().title);
    ui.fitted(d.of.target + " / " + d.key.strategy, width);
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
    ui.fitted(fmt::format("of {} calls, {} outliers", t.calls_per_sample, t.outliers), true);
    draw_samples(ui, t, ImGui::GetContentRegionAvail().x, ui.px(84));
    ImGui::PushFont(ui.fonts().small);
    ui.wrapped(fmt::format("from {} to {} · left: in order of time · right: how often",
                           time_of(*std::min_element(t.samples_ns.begin(), t.samples_ns.end())),
                           time_of(*std::max_element(t.samples_ns.begin(), t.samples_ns.end()))));
    ImGui::PopFont();
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

  static void environment(Explorer& explorer, Ui& ui, const PointDetail& d) {
    const SweepReport& sweep = explorer.library.head();
    const Environment& e = environment_of(sweep, d.of);
    ImGui::Dummy({0, ui.px(4)});
    ui.bold("Measured on");
    if (!sweep.machines.empty()) pair(ui, "host", e.host);
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
