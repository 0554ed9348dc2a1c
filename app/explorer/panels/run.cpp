#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/explorer/explorer.h"
#include "app/sweep/text.h"
#include "data/text.h"
#include "engine/lower/compile_options.h"

namespace wide::run_panel {
namespace {

/// The description of a target, shown in its tooltip.
void describe(Ui& ui, const Target& t) {
  ui.bold(t.name);
  ui.wrapped(t.summary, false);
  if (!t.formula.empty()) ui.wrapped(t.formula);
  for (const auto& [name, sweep] : t.sweeps) {
    std::vector<std::string> shapes;
    for (const Shape& s : sweep.shapes) shapes.push_back(s.text());
    ui.wrapped(fmt::format("{}: {}", name, listing(shapes, 3)));
  }
  ui.wrapped("strategies: " + listing(strategy_names(t), 99));
}

class RunPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    RunModel& run = explorer.run;
    const RunProgress progress = run.progress();
    if (run.active()) {
      show_progress(explorer, ui, progress);
      return;
    }
    if (progress.state == RunState::ended || !progress.error.empty()) show_end(ui, run, progress);
    if (explorer.library.listed() && explorer.library.sweeps().empty()) first_run(ui, run);
    choose(ui, run);
  }

 private:
  void first_run(Ui& ui, RunModel& run) {
    const double seconds = run.preset_seconds("quick");
    ui.empty("Nothing has been measured yet",
             "The quick sweep runs every primitive and block at one or two shapes, checks each "
             "strategy against float64, and times it beside the honest baselines.");
    if (ui.button("Run the quick sweep", Look::primary, true,
                  "Starts now; it can be paused, cancelled and resumed.")) {
      run.take_preset("quick");
      run.start();
    }
    // One line in both cases, so that nothing below moves.
    ui.muted(seconds > 0 ? "takes about " + duration_text(seconds) : "estimating its time");
    ImGui::Dummy({0, ui.px(6)});
    ImGui::Separator();
  }

  static void show_end(Ui& ui, RunModel& run, const RunProgress& p) {
    if (!p.error.empty()) {
      ui.tinted("The sweep stopped", ui.theme().bad);
      ui.wrapped(p.error);
    } else {
      ui.tinted(fmt::format("Sweep {} {}: {} cases in {}", p.sweep, p.ended, p.done,
                            duration_text(p.elapsed_s)),
                p.ended == "complete" ? ui.theme().good : ui.theme().warn);
    }
    if (!p.disturbed.empty()) {
      ui.tinted("Other programs disturbed it", ui.theme().warn);
      ui.wrapped(p.disturbed);
      if (ui.button("Measure those again", Look::plain, true, "--resume --again disturbed"))
        run.resume(p.sweep, Resume::disturbed);
    }
    ImGui::Separator();
  }

  void show_progress(Explorer& explorer, Ui& ui, const RunProgress& p) {
    RunModel& run = explorer.run;
    const float width = ImGui::GetContentRegionAvail().x;
    ui.bold(fmt::format("{} · {}", p.name, to_string(p.state)));
    const double share =
        p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 0;
    ui.bar(share, fmt::format("{} of {} cases · {}", p.done, p.total, left_text(p)), width);
    // The buttons come above the changing text, so that they do not move.
    if (p.state == RunState::paused) {
      if (ui.button("Go on", Look::primary, true, "Continues with the next case")) run.go_on();
    } else if (ui.button("Pause", Look::plain, p.state == RunState::running,
                         "After the case that runs now.")) {
      run.pause();
    }
    ImGui::SameLine();
    if (ui.button("Cancel", Look::danger, p.state != RunState::cancelling,
                  "Cases that are done stay; Resume continues with the others."))
      run.cancel();
    ui.wrapped(p.doing.empty() ? " " : p.doing, false);
    if (!p.busy.empty()) {
      ui.tinted(ui.fit(p.busy, width), ui.theme().warn);
      ui.tip(p.busy);
    }
    ImGui::Dummy({0, ui.px(4)});
    ImGui::Separator();
    for (const auto& [name, target] : p.targets) {
      const float right = ui.px(64);
      ui.fitted(name, width - right - ui.px(90));
      ImGui::SameLine(width - right - ui.px(78));
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float filled = static_cast<float>(target.done) / static_cast<float>(target.total);
      ImDrawList& list = *ImGui::GetWindowDrawList();
      const float y = at.y + ImGui::GetTextLineHeight() / 2;
      list.AddLine({at.x, y}, {at.x + ui.px(72), y}, colour(ui.theme().raised), ui.px(4));
      if (filled > 0)
        list.AddLine({at.x, y}, {at.x + ui.px(72) * filled, y}, colour(ui.theme().accent),
                     ui.px(4));
      ImGui::Dummy({ui.px(72), 1});
      ImGui::SameLine(width - right + ui.px(12));
      const std::string count = fmt::format("{}/{}", target.done, target.total);
      if (target.incorrect + target.failed > 0)
        ui.tinted(count + " ✗", ui.theme().bad);
      else
        ui.muted(count);
    }
  }

  void choose(Ui& ui, RunModel& run) {
    RunChoices c = run.choices();
    const RunChoices before = c;
    std::vector<std::string> names;
    int at = -1;
    for (const Preset& p : run.presets()) {
      if (p.name == c.preset) at = static_cast<int>(names.size());
      names.push_back(p.name);
    }
    ui.small("preset");
    const std::string about =
        at >= 0 ? ": " + run.presets()[static_cast<size_t>(at)].description : ".";
    if (ui.choice("preset", &at, names, ImGui::GetContentRegionAvail().x,
                  "A list of targets and settings to begin from" + about)) {
      run.take_preset(names[static_cast<size_t>(at)]);
      return;
    }
    ui.small(fmt::format("targets: {} chosen", c.targets.size()));
    ui.field("find a target", &search_, "name, family or what it does", -1,
             "Shows only the targets whose name, family or description holds this.");
    const float below = ui.px(344);
    const float height = std::max(ui.px(80), ImGui::GetContentRegionAvail().y - below);
    ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().window));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(8), ui.px(6)});
    ImGui::BeginChild("targets", {0, height}, false, ImGuiWindowFlags_AlwaysUseWindowPadding);
    target_list(ui, &c);
    ImGui::EndChild();
    ImGui::PopStyleVar();
    ImGui::PopStyleColor();
    options(ui, &c);
    estimate(ui, run);
    if (!(c == before)) run.set_choices(std::move(c));
  }

  void target_list(Ui& ui, RunChoices* c) {
    const std::string wanted = lower_case(search_);
    std::vector<const Target*> found;
    for (const Target* t : targets())
      if (lower_case(t->name + " " + t->family + " " + t->summary + " " + to_string(t->kind))
              .find(wanted) != std::string::npos)
        found.push_back(t);
    if (ui.button("All", Look::plain, !found.empty(), "Chooses every target of the list below"))
      for (const Target* t : found) c->targets.insert(t->name);
    ImGui::SameLine();
    if (ui.button("None", Look::plain, !found.empty(), "Chooses none of the list below"))
      for (const Target* t : found) c->targets.erase(t->name);
    std::string family;
    for (const Target* t : found) {
      const std::string group = std::string(to_string(t->kind)) + " · " + t->family;
      if (group != family) ui.small(group);
      family = group;
      bool on = c->targets.count(t->name) != 0;
      // The description follows in a separate tooltip.
      const bool changed = ui.checkbox(t->name, &on);
      ui.items.set_tip(t->summary);
      if (changed) {
        if (on)
          c->targets.insert(t->name);
        else
          c->targets.erase(t->name);
      }
      if (ImGui::IsItemHovered()) {
        ImGui::SetNextWindowSize({ui.px(360), 0});
        ImGui::BeginTooltip();
        describe(ui, *t);
        ImGui::EndTooltip();
      }
    }
    if (found.empty())
      ui.empty("No target of this name",
               "Clear the search, or try a family such "
               "as convolution.");
  }

  static void set_of(Ui& ui, const char* title, std::set<std::string>* chosen,
                     const std::vector<std::pair<const char*, const char*>>& all) {
    ui.label(title, kColumn);
    bool first = true;
    for (const auto& [name, tip] : all) {
      const float y = ImGui::GetCursorPosY();
      if (!first) ui.beside(name);
      if (!first && ImGui::GetCursorPosY() == y) ImGui::SetCursorPosX(ui.px(kColumn));
      first = false;
      const bool on = chosen->count(name) != 0;
      if (ui.toggle(name, on, tip)) {
        if (on && chosen->size() > 1)
          chosen->erase(name);
        else
          chosen->insert(name);
      }
    }
  }

  /// Modes that run on one of the devices, and those that are chosen.
  static void modes(Ui& ui, RunChoices* c) {
    static const std::map<Mode, const char*> tips = {
        {Mode::default_, "Planned ahead, with kernels compiled beforehand"},
        {Mode::eager, "PyTorch's operators one after another"},
        {Mode::reduce_overhead, "As default, captured as one CUDA graph"},
        {Mode::max_autotune, "Measures whole programs and keeps the fastest"}};
    const bool gpu = c->devices.size() > c->devices.count("cpu");
    std::vector<std::pair<const char*, const char*>> all;
    for (const Mode mode : kModes)
      if (gpu || mode != Mode::reduce_overhead || c->modes.count(to_string(mode)) > 0)
        all.emplace_back(to_string(mode), tips.at(mode));
    set_of(ui, "mode", &c->modes, all);
  }

  static void baselines(Ui& ui, RunChoices* c) {
    static const std::map<std::string, const char*> tips = {
        {"loop", "The models called one after another, as their users do"},
        {"threads", "The models spread over the processor's cores"},
        {"vmap", "functorch's vmap over the stacked weights"},
        {"streams", "The models on several streams of the GPU"},
        {"graph", "The calls of all models captured as one CUDA graph"},
        {"optimised", "The network as an expert writes it by hand, where there is such a form"}};
    const std::vector<std::string> names = baselines_on(c->devices);
    std::vector<std::pair<const char*, const char*>> all;
    std::set<std::string> on;
    for (const std::string& name : names) {
      all.emplace_back(name.c_str(), tips.at(name));
      if (c->baselines.empty() || c->baselines.count(name) > 0) on.insert(name);
    }
    const std::set<std::string> was = on;
    set_of(ui, "baselines", &on, all);
    if (on != was) c->baselines = baselines_with(*c, on);
  }

  void options(Ui& ui, RunChoices* c) {
    ui.label("N", kColumn);
    ui.field("N", &c->n, "each target's own", -1,
             "Numbers of models, parted by commas: 4,8,16. Empty: those of each target.");
    ui.label("shapes", kColumn);
    std::string axes = fmt::format("{}", fmt::join(c->axes, " "));
    if (ui.field("shapes", &axes, "linear.D=256,512", -1,
                 "Other sizes for a target, as TARGET.AXIS=VALUES; several parted by spaces."))
      c->axes = split(axes, ' ');
    set_of(ui, "dtype", &c->dtypes,
           {{"f32", "Single precision, 32 bits"},
            {"bf16", "bfloat16: 16 bits with the range of f32"},
            {"f16", "Half precision, 16 bits"},
            {"f64", "Double precision, 64 bits"}});
    set_of(ui, "device", &c->devices,
           {{"cpu", "The processor"}, {"cuda", "An NVIDIA GPU, where there is one"}});
    set_of(ui, "phase", &c->phases,
           {{"forward", "Inference"},
            {"backward", "Forward and the gradients of all parameters"},
            {"step", "A whole training step, optimiser included"}});
    modes(ui, c);
    baselines(ui, c);
    ui.label("s a trial", kColumn);
    const std::string budget =
        number(ui, "seconds a trial", "1.5", "Seconds of timing for each trial and baseline.",
               &budget_, &c->budget_s);
    const float field = ui.px(56) + ImGui::GetStyle().ItemSpacing.x;
    ui.beside(ui.text_width("hangs after") + field);
    ui.label("hangs after");
    ui.beside(field);
    const std::string timeout = number(
        ui, "seconds of silence", "auto",
        "Seconds without a heartbeat until a trial counts as hanging.", &timeout_, &c->timeout_s);
    c->unread = budget.empty() ? timeout : budget;
  }

  /// The text of a number field, and the value that it had in the last frame.
  struct Typed {
    std::string text;
    double value = -1;
  };
  /// Returns a line about a text that is no number; "" if `value` follows the text.
  static std::string number(Ui& ui, const char* name, const char* hint, const char* tip,
                            Typed* typed, double* value) {
    if (typed->value != *value) typed->text = *value > 0 ? fmt::format("{}", *value) : "";
    const float width = std::min(ui.px(56), ImGui::GetContentRegionAvail().x);
    ui.field(name, &typed->text, hint, width, tip);
    const std::string error = take_seconds(name, typed->text, value);
    typed->value = *value;
    return error;
  }

  static void estimate(Ui& ui, RunModel& run) {
    const RunEstimate& estimate = run.estimate();
    ImGui::Dummy({0, ui.px(2)});
    if (!estimate.error.empty() && !run.estimating())
      ui.tinted(ui.fit(estimate.error, ImGui::GetContentRegionAvail().x), ui.theme().bad);
    else
      ui.wrapped(run.estimating()
                     ? "estimating"
                     : fmt::format("{} cases, {} trials, about {}", estimate.cases.size(),
                                   estimate.trials, duration_text(estimate.seconds)),
                 false);
    if (!estimate.error.empty()) {
      ui.items.set_value(estimate.error);
      ui.tip(estimate.error);
    }
    const bool able = estimate.error.empty() && !estimate.cases.empty();
    if (ui.button("Start", Look::primary, able, command_of(run.choices()))) run.start();
    ImGui::SameLine();
    if (ui.button("Copy command", Look::plain, able, "The same sweep, from a terminal."))
      ImGui::SetClipboardText(("./" + command_of(run.choices())).c_str());
  }

  static constexpr float kColumn = 84;  // where controls begin beside their labels
  std::string search_;
  Typed budget_, timeout_;
};

const bool registered =
    add_panel({"run", "Run",
               "What to run: targets, numbers of models, shapes, modes; and how far "
               "it is.",
               Place::left, 0, [] { return std::make_unique<RunPanel>(); }});

}  // namespace
}  // namespace wide::run_panel
