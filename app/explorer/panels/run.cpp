#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"
#include "app/sweep/text.h"
#include "data/text.h"

namespace wide::run_panel {
namespace {

/// What a target is: shown where it is chosen.
void describe(Ui& ui, const Target& t) {
  ui.bold(t.name);
  ui.wrapped(t.summary, false);
  if (!t.formula.empty()) ui.wrapped(t.formula);
  for (const auto& [name, sweep] : t.sweeps) {
    std::vector<std::string> shapes;
    for (const Shape& s : sweep.shapes) shapes.push_back(s.text());
    ui.wrapped(fmt::format("{}: {}", name, listing(shapes, 3)));
  }
  std::vector<std::string> names;
  for (const std::string& s : strategy_names(t)) names.push_back(s);
  ui.wrapped("strategies: " + listing(names, 99));
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
    const std::string about = seconds > 0 ? ", about " + duration_text(seconds) : "";
    if (ui.button("Run the quick sweep" + about, Look::primary)) {
      run.take_preset("quick");
      run.start();
    }
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
    ui.bar(share, fmt::format("{} of {} cases · {} left", p.done, p.total, duration_text(p.left_s)),
           width);
    ui.wrapped(p.doing.empty() ? " " : p.doing, false);
    if (!p.busy.empty()) ui.tinted(ui.fit(p.busy, width), ui.theme().warn);
    if (!p.busy.empty()) ui.tip(p.busy);
    if (p.state == RunState::paused) {
      if (ui.button("Go on", Look::primary)) run.go_on();
    } else if (ui.button("Pause", Look::plain, p.state == RunState::running,
                         "After the case that runs now.")) {
      run.pause();
    }
    ImGui::SameLine();
    if (ui.button("Cancel", Look::danger, p.state != RunState::cancelling,
                  "Cases that are done stay; Resume continues with the others."))
      run.cancel();
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
    if (ui.choice("preset", &at, names, ImGui::GetContentRegionAvail().x)) {
      run.take_preset(names[static_cast<size_t>(at)]);
      return;
    }
    if (at >= 0) ui.tip(run.presets()[static_cast<size_t>(at)].description);
    ui.small(fmt::format("targets: {} chosen", c.targets.size()));
    ui.field("find a target", &search_, "name, family or what it does", -1);
    const float below = ui.px(316);
    const float height = std::max(ui.px(110), ImGui::GetContentRegionAvail().y - below);
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
    if (ui.button("All", Look::plain, !found.empty()))
      for (const Target* t : found) c->targets.insert(t->name);
    ImGui::SameLine();
    if (ui.button("None", Look::plain, !found.empty()))
      for (const Target* t : found) c->targets.erase(t->name);
    std::string family;
    for (const Target* t : found) {
      const std::string group = std::string(to_string(t->kind)) + " · " + t->family;
      if (group != family) ui.small(group);
      family = group;
      bool on = c->targets.count(t->name) != 0;
      if (ui.checkbox(t->name, &on)) {
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

  /// What stands before a control, in a column of its own.
  static void label(Ui& ui, const char* text) {
    ImGui::AlignTextToFramePadding();
    ui.muted(text);
    ImGui::SameLine(ui.px(kColumn));
  }

  static void set_of(Ui& ui, const char* title, std::set<std::string>* chosen,
                     std::initializer_list<const char*> all) {
    label(ui, title);
    bool first = true;
    for (const char* name : all) {
      const float y = ImGui::GetCursorPosY();
      if (!first) ui.beside(ui.text_width(name) + 2 * ImGui::GetStyle().FramePadding.x);
      if (!first && ImGui::GetCursorPosY() == y) ImGui::SetCursorPosX(ui.px(kColumn));
      first = false;
      const bool on = chosen->count(name) != 0;
      if (ui.toggle(name, on)) {
        if (on && chosen->size() > 1)
          chosen->erase(name);
        else
          chosen->insert(name);
      }
    }
  }

  void options(Ui& ui, RunChoices* c) {
    label(ui, "N");
    ui.field("N", &c->n, "each target's own", -1);
    label(ui, "shapes");
    std::string axes = fmt::format("{}", fmt::join(c->axes, " "));
    if (ui.field("shapes", &axes, "linear.D=256,512", -1)) c->axes = split(axes, ' ');
    set_of(ui, "dtype", &c->dtypes, {"f32", "bf16", "f16", "f64"});
    set_of(ui, "device", &c->devices, {"cpu", "cuda"});
    set_of(ui, "phase", &c->phases, {"forward", "backward", "step"});
    set_of(ui, "mode", &c->modes, {"default", "eager", "max-autotune"});
    std::set<std::string> some = c->baselines;
    if (some.empty()) some = {"loop", "threads", "vmap"};
    const std::set<std::string> was = some;
    set_of(ui, "baselines", &some, {"loop", "threads", "vmap"});
    if (some != was) c->baselines = some.size() == 3 ? std::set<std::string>() : some;
    label(ui, "s a trial");
    number(ui, "seconds a trial", "1.5", &budget_, &c->budget_s);
    ui.tip("Seconds of timing for each trial and baseline.");
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.muted("hangs after");
    ImGui::SameLine();
    number(ui, "seconds of silence", "auto", &timeout_, &c->timeout_s);
    ui.tip("Seconds without a sign of life until a trial counts as hanging.");
  }

  /// A number as it is typed; `value` follows where it can be read. Empty is 0.
  struct Typed {
    std::string text;
    double value = -1;
  };
  static void number(Ui& ui, const char* name, const char* hint, Typed* typed, double* value) {
    if (typed->value != *value) typed->text = *value > 0 ? fmt::format("{}", *value) : "";
    const float width = std::min(ui.px(56), ImGui::GetContentRegionAvail().x);
    if (ui.field(name, &typed->text, hint, width)) {
      char* end = nullptr;
      const double read = std::strtod(typed->text.c_str(), &end);
      if (*end == 0 && read >= 0) *value = read;
    }
    typed->value = *value;
  }

  static void estimate(Ui& ui, RunModel& run) {
    const RunPlan& plan = run.plan();
    ImGui::Dummy({0, ui.px(2)});
    if (!plan.error.empty() && !run.planning())
      ui.tinted(ui.fit(plan.error, ImGui::GetContentRegionAvail().x), ui.theme().bad);
    else
      ui.text(run.planning() ? "estimating"
                             : fmt::format("{} cases, {} trials, about {}", plan.cases.size(),
                                           plan.trials, duration_text(plan.seconds)));
    if (!plan.error.empty()) ui.tip(plan.error);
    const bool able = plan.error.empty() && !plan.cases.empty();
    if (ui.button("Start", Look::primary, able, command_of(run.choices()))) run.start();
    ImGui::SameLine();
    if (ui.button("Copy command", Look::plain, able, "The same sweep, from a terminal."))
      ImGui::SetClipboardText(("./" + command_of(run.choices())).c_str());
  }

  static constexpr float kColumn = 84;
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
