#include "app/explorer/explorer.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/actions.h"
#include "data/plot/svg_document.h"
#include "data/reports/report_format.h"
#include "engine/measure/clock.h"

namespace wide {
namespace {

constexpr float kHeader = 44, kFooter = 26, kSplitter = 6;
constexpr float kSmallWidth = 1100, kSmallHeight = 560;  // units

}  // namespace

Explorer::Explorer(std::string db, Settings with)
    : library(jobs, db), run(jobs, db), training(jobs, db), settings(std::move(with)) {
  jobs.failed = [this](const std::string& line) { say(line, true); };
  for (const PanelInfo& info : panels()) panels_[info.name] = info.make();
  shown_ = {{Place::left, "run"},
            {Place::middle, "matrix"},
            {Place::right, "point"},
            {Place::bottom, "trials"}};
  show(settings.view);
  show(settings.left_view);
  FigureOptions options = library.options();
  options.over_loop = settings.over_loop;
  options.measure = measure_of(settings.measure);
  library.set_options(options);
  library.set_axis(settings.axis);
  library.set_overview(
      {settings.matrix_rows, settings.matrix_columns, measure_of(settings.colour), {}});
  // What was looked for in one store would hide what another one has.
  if (settings.store != db) settings.filter.clear();
  settings.store = db;
  library.trials().set_filter(settings.filter);
  if (!run.presets().empty()) run.take_preset("ci");
  library.refresh();
}

Explorer::~Explorer() = default;

bool Explorer::update() {
  bool changed = jobs.deliver();
  library.follow_filter();
  // While a trial is timed nothing else may run.
  watching_ = training.update(now_s(), run.progress().timing);
  if (const uint64_t stored = run.stored(); stored != stored_) {
    stored_ = stored;
    changed = true;
    const int64_t sweep = run.progress().sweep;
    library.refresh();
    // Until it has a result it does not take the place of one that has.
    if (sweep > 0 && run.progress().done > 0) library.open(sweep);
  }
  return changed;
}

bool Explorer::show(const std::string& panel) {
  for (const PanelInfo& info : panels())
    if (info.name == panel) {
      shown_[info.place] = panel;
      if (info.place == Place::middle) settings.view = panel;
      if (info.place == Place::left) settings.left_view = panel;
      return true;
    }
  return false;
}

void Explorer::say(const std::string& line, bool is_error) {
  said_ = line;
  said_error_ = is_error;
}

void Explorer::take_picture(const std::string& path, const Box& box) {
  pictures.push_back({path, box});
}

void Explorer::save_as(const std::string& kind, const std::string& name,
                       std::function<void(const std::string&)> write) {
  FileRequest request;
  request.title = "Save as " + kind;
  request.name = name;
  request.to_write = true;
  request.take = [write = std::move(write)](const std::vector<std::string>& paths) {
    write(paths.front());
  };
  files.ask(std::move(request));
}

void Explorer::write_later(const std::string& path, std::function<std::string()> text) {
  say("writing " + path);
  jobs.start("write " + path, [this, path, text = std::move(text)]() -> Jobs::Result {
    write_report(path, text());
    return [this, path] { say("wrote " + path); };
  });
}

void Explorer::plot_entries(Ui& ui, const Figure& figure, const Box& box, const std::string& name,
                            const std::string& footer) {
  if (ui.row("Plot as PNG", false))
    save_as("PNG", name + ".png",
            [this, box](const std::string& path) { take_picture(path, box); });
  if (ui.row("Plot as SVG", false))
    save_as("SVG", name + ".svg", [this, figure, footer](const std::string& path) {
      write_later(path, [figure, footer] { return svg_document({figure}, figure.title, footer); });
    });
}

void Explorer::drop(const std::vector<std::string>& paths) {
  for (const PanelInfo& info : panels())
    if (panels_[info.name]->drop(*this, paths)) {
      show(info.name);
      return;
    }
  say("nothing here takes these files; drop a network or checkpoints", true);
}

void Explorer::draw(Ui& ui, bool whole) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::Begin("workbench", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoBackground);
  ImGui::PopStyleVar();
  if (!whole) {
    place(ui, Place::middle, 0, 0, size.x, size.y);
    ImGui::End();
    return;
  }
  const float head = ui.px(kHeader), foot = ui.px(kFooter), gap = ui.px(kSplitter);
  const float height = size.y - head - foot;
  // What was chosen is kept: a window that was small for a while is as before once it is large.
  const auto units = [&](double* value, double least, double most) {
    const double fits = std::clamp(*value, std::min(least, most), std::max(least, most));
    if (ImGui::IsMouseDown(0)) *value = fits;
    return std::round(ui.px(static_cast<float>(fits)));
  };
  // In a small window the middle keeps half of it.
  const float wide = size.x / ui.scale(), high = height / ui.scale();
  const float side = wide * (wide < kSmallWidth ? 0.25f : 0.35f);
  const float left = units(&settings.left, 220, side);
  const float right = units(&settings.right, 240, side);
  const float bottom = units(&settings.bottom, 110, high * (high < kSmallHeight ? 0.35f : 0.6f));
  const float middle = size.x - left - right - 2 * gap, upper = height - bottom - gap;
  header(ui);
  place(ui, Place::left, 0, head, left, height);
  splitter(ui, "splitter left", left, head, gap, height, &settings.left, 1);
  place(ui, Place::middle, left + gap, head, middle, upper);
  splitter(ui, "splitter right", left + gap + middle, head, gap, upper, &settings.right, -1);
  place(ui, Place::right, size.x - right, head, right, upper);
  splitter(ui, "splitter bottom", left + gap, head + upper, size.x - left - gap, gap,
           &settings.bottom, -1);
  place(ui, Place::bottom, left + gap, head + upper + gap, size.x - left - gap, bottom);
  footer(ui, size.y - foot, size.x, foot);
  ui.enter("explorer");
  press_keys(*this);
  const std::vector<Action> actions = actions_of(*this);
  palette.draw(ui, actions);
  keys.draw(ui, actions);
  files.draw(ui);
  ImGui::End();
}

void Explorer::header(Ui& ui) {
  ui.enter("header");
  ImGui::SetCursorPos({0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(9)});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().panel));
  ImGui::BeginChild("header", {0, ui.px(kHeader - 1)}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleColor();
  ImGui::AlignTextToFramePadding();
  ui.bold("workbench");
  ImGui::SameLine(0, ui.px(20));
  std::vector<std::string> names;
  int at = -1;
  for (const SweepRow& row : library.sweeps()) {
    if (row.id == library.sweep()) at = static_cast<int>(names.size());
    names.push_back("sweep " + std::to_string(row.id) + " · " + row.name + " · " + row.started);
  }
  if (names.empty()) {
    ImGui::AlignTextToFramePadding();
    ui.muted(library.listed() ? "nothing stored yet" : "reading the store");
  } else if (ui.choice("sweep", &at, names,
                       std::clamp(ImGui::GetWindowWidth() - ui.px(640), ui.px(120), ui.px(330)),
                       "Which measurement is shown in all panels, the newest first.")) {
    library.open(library.sweeps()[static_cast<size_t>(at)].id);
  }
  const SweepRow* row = library.sweep_row();
  if (row && row->state != "complete" && !names.empty()) {
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.tinted(row->state + ", " + std::to_string(row->done) + " of " + std::to_string(row->cases),
              ui.theme().warn);
    if ((row->state == "interrupted" || row->state == "cancelled") && !run.active()) {
      ImGui::SameLine();
      if (ui.button("Resume", Look::plain, true, "Runs the cases that are missing."))
        run.resume(row->id);
    }
  }
  const float right = ImGui::GetWindowContentRegionMax().x;
  const auto width = [&](const char* label) {
    return ui.text_width(label) + 2 * ImGui::GetStyle().FramePadding.x;
  };
  const char* theme_label = settings.dark ? "Light" : "Dark";
  static const std::vector<double> kScales = {0, 0.75, 0.9, 1, 1.25, 1.5, 1.75, 2};
  static const std::vector<std::string> kScaleNames = {"Auto",  "75 %",  "90 %",  "100 %",
                                                       "125 %", "150 %", "175 %", "200 %"};
  const float space = ImGui::GetStyle().ItemSpacing.x;
  const float buttons = width("Actions") + width("Light") + width("?") + ui.px(84) + 3 * space;
  ImGui::SameLine(right - buttons);
  if (ui.button("Actions", Look::quiet, true, "Everything that can be done, by name (Ctrl+P)"))
    palette.show();
  ImGui::SameLine(right - buttons + width("Actions") + space);
  if (ui.button(theme_label, Look::quiet, true, "Colours of the window (Ctrl+D)"))
    settings.dark = !settings.dark;
  ImGui::SameLine(right - width("?") - ui.px(84) - space);
  int scale = 0;
  for (size_t i = 0; i < kScales.size(); ++i)
    if (std::abs(kScales[i] - settings.scale) < 0.01) scale = static_cast<int>(i);
  if (ui.choice("scale", &scale, kScaleNames, ui.px(84),
                "Size of everything; Auto follows the monitor."))
    settings.scale = kScales[static_cast<size_t>(scale)];
  ImGui::SameLine();
  if (ui.button("?", Look::quiet, true, "Keys")) keys.show();
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

/// The panels of one place, a tab for each where there are several.
void Explorer::place(Ui& ui, Place where, float x, float y, float width, float height) {
  ImGui::SetCursorPos({x, y});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::BeginChild(to_string(where), {width, height}, false, ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ui.enter(std::string(to_string(where)) + " tabs");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float tab = ui.px(34);
  const ImVec2 at = ImGui::GetWindowPos();
  list.AddLine({at.x, at.y + tab - 0.5f}, {at.x + width, at.y + tab - 0.5f},
               colour(ui.theme().border));
  float next = ui.px(6);
  float all = next, count = 0;
  for (const PanelInfo& info : panels())
    if (info.place == where) {
      all += ui.text_width(info.title) + ui.px(24);
      ++count;
    }
  const bool narrow = all > width;
  // Where not even narrow ones have room each gives up a part of its title.
  const float room = width - next - ui.px(8), needed = all - next - ui.px(12) * count;
  const float share = needed > room ? room / needed : 1;
  for (const PanelInfo& info : panels()) {
    if (info.place != where) continue;
    const bool on = shown_[where] == info.name;
    ImGui::PushFont(on ? ui.fonts().bold : ui.fonts().body);
    const float pad = ui.px(narrow ? 6 : 12);
    const float wide = (ui.text_width(info.title) + 2 * pad) * share;
    const std::string title = share < 1 ? ui.fit(info.title, wide - 2 * pad) : info.title;
    ImGui::SetCursorPos({next, 0});
    if (ImGui::InvisibleButton(("tab " + info.name).c_str(), {wide, tab})) show(info.name);
    const bool hovered = ImGui::IsItemHovered();
    ui.note_last(ItemKind::tab, info.title, true, on);
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    const float text = ImGui::GetFontSize();
    list.AddText({from.x + pad, from.y + (tab - text) / 2},
                 colour(on || hovered ? ui.theme().plot.text : ui.theme().plot.muted),
                 title.c_str());
    if (on)
      list.AddRectFilled({from.x + pad / 2, to.y - ui.px(2)}, {to.x - pad / 2, to.y},
                         colour(ui.theme().accent));
    ImGui::PopFont();
    ui.tip(info.summary);
    next += wide;
  }
  ImGui::SetCursorPos({0, tab});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(10)});
  ImGui::BeginChild("inside", {0, 0}, false, ImGuiWindowFlags_AlwaysUseWindowPadding);
  ImGui::PopStyleVar();
  const std::string& name = shown_[where];
  ui.enter(name);
  if (const auto panel = panels_.find(name); panel != panels_.end()) panel->second->draw(*this, ui);
  ImGui::EndChild();
  ImGui::EndChild();
}

void Explorer::splitter(Ui& ui, const char* name, float x, float y, float width, float height,
                        double* units, int sign) {
  ui.enter("splitters");
  ImGui::SetCursorPos({x, y});
  ImGui::InvisibleButton(name, {width, height});
  ui.note_last(ItemKind::handle, name);
  const bool upright = height > width;
  if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
    ImGui::SetMouseCursor(upright ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    ImGui::GetWindowDrawList()->AddRectFilled(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                              colour(ui.theme().accent, 0.35));
  }
  const ImVec2 moved = ImGui::GetIO().MouseDelta;
  if (ImGui::IsItemActive())
    *units += static_cast<double>(sign * (upright ? moved.x : moved.y) / ui.scale());
}

void Explorer::footer(Ui& ui, float y, float width, float height) {
  ui.enter("footer");
  ImGui::SetCursorPos({0, y});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(5)});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().raised));
  ImGui::BeginChild("footer", {width, height}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleColor();
  ImGui::PushFont(ui.fonts().small);
  const std::string db = ui.fit(library.db(), width * 0.35f);
  const float right = ui.text_width(db);
  const float room = width - right - ui.px(48);
  const RunProgress progress = run.progress();
  if (!said_.empty()) {
    ui.tinted(ui.fit(said_, room), said_error_ ? ui.theme().bad : ui.theme().plot.text);
    ui.tip(said_);
  } else if (!progress.doing.empty()) {
    ui.muted(ui.fit(progress.doing, room));
  } else {
    ui.muted(jobs.busy() ? "reading" : "Ctrl+P: everything that can be done · ?: keys");
  }
  ImGui::SameLine(width - right - ui.px(12));
  ui.muted(db);
  ui.tip("the store: " + library.db());
  ImGui::PopFont();
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

}  // namespace wide
