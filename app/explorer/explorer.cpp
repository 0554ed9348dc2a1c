#include "app/explorer/explorer.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/explorer/layout.h"
#include "app/explorer/overlays/actions.h"
#include "app/sandbox/output_files.h"
#include "data/plot/svg_document.h"
#include "data/reports/report_format.h"
#include "engine/machine/clock.h"

namespace wide {

Explorer::Explorer(std::string db, Settings with)
    : library(jobs, db), run(jobs, db), training(jobs, db), settings(std::move(with)), watch_(db) {
  library.told = [this](const std::string& line) { say(line); };
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
  // A filter made for another store would hide this one's trials.
  if (settings.store != db) settings.filter.clear();
  settings.store = db;
  library.trials().set_filter(settings.filter);
  if (!run.presets().empty()) run.take_preset("ci");
  library.refresh();
}

bool Explorer::update() {
  bool changed = jobs.deliver();
  library.follow_filter();
  if (look_at_store()) {
    tell_store_change(std::exchange(change_, StoreChange::none));
    changed = true;
  }
  // While a trial is timed nothing else may run.
  watching_ = training.update(now_s(), run.progress().timing);
  if (const uint64_t stored = run.stored(); stored != stored_) {
    stored_ = stored;
    changed = true;
    const int64_t sweep = run.progress().sweep;
    library.refresh();
    // Does not replace an open sweep that has results before this one has some.
    if (sweep > 0 && run.progress().done > 0) library.open(sweep);
  }
  return changed;
}

bool Explorer::look_at_store() {
  // While a trial is timed nothing else may run.
  if (change_ == StoreChange::none && !run.progress().timing) change_ = watch_.look(now_s());
  return change_ != StoreChange::none;
}

void Explorer::tell_store_change(StoreChange change) {
  if (change == StoreChange::written) {
    // Changes by this window's own sweep are read after every case instead.
    if (!run.active()) library.refresh(true);
    training.refresh();
    return;
  }
  const char* what = change == StoreChange::gone       ? "is gone: nothing is left to show of it"
                     : change == StoreChange::appeared ? "is there now, and was read"
                                                       : "is another file now, and was read again";
  say("the store " + library.db() + " " + what, change == StoreChange::gone);
  library.forget();
  training.forget();
  settings.filter.clear();
  unfocus_ = true;  // a text field with focus would restore its old text
  for (auto& [name, panel] : panels_) panel->store_replaced();
  library.refresh();
}

bool Explorer::show(const std::string& panel) {
  for (const PanelInfo& info : panels())
    if (info.name == panel) {
      shown_[info.place] = panel;
      fold(info.place, false);
      if (info.place == Place::middle) settings.view = panel;
      if (info.place == Place::left) settings.left_view = panel;
      return true;
    }
  return false;
}

void Explorer::fold(Place place, bool folded) {
  if (place == Place::left) settings.left_folded = folded;
  if (place == Place::right) settings.right_folded = folded;
  if (place == Place::bottom) settings.bottom_folded = folded;
  // If there is room for one side only, keep open the side of the panel that the user chose.
  if (place == Place::left || place == Place::right)
    settings.narrow_right = (place == Place::right) != folded;
}

void Explorer::say(const std::string& line, bool is_error) {
  said_ = line;
  said_error_ = is_error;
}

void Explorer::take_picture(const std::string& path, const Box& box) {
  check_apart({{"picture", path}}, {}, library.db());
  pictures.push_back({path, box});
}

void Explorer::save_as(const std::string& kind, const std::string& name,
                       std::function<void(const std::string&)> write) {
  FileRequest request;
  request.title = "Save as " + kind;
  request.name = name;
  request.to_write = true;
  request.store = library.db();
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

void Explorer::draw(Ui& ui, std::optional<Place> only) {
  if (std::exchange(unfocus_, false)) ImGui::ClearActiveID();
  ui.unreadable = library.unreadable();
  scale_ = ui.scale();
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::Begin("workbench", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoBackground);
  ImGui::PopStyleVar();
  if (only) {
    place(ui, *only, 0, 0, size.x, size.y);
    ImGui::End();
    return;
  }
  const float head = ui.px(kHeaderHeight), foot = ui.px(kFooterHeight), gap = ui.px(kSplitter);
  const float height = size.y - head - foot;
  const WindowLayout layout = layout_of(settings, size.x / ui.scale(), size.y / ui.scale());
  const float left = std::round(ui.px(layout.left)), right = std::round(ui.px(layout.right));
  const float bottom = std::round(ui.px(layout.bottom));
  const float middle = size.x - left - right - 2 * gap, upper = height - bottom - gap;
  const auto side = [&](Place where, bool folded, float x, float wide, float high) {
    if (folded)
      strip(ui, where, x, head, wide, high);
    else
      place(ui, where, x, head, wide, high);
  };
  header(ui);
  side(Place::left, layout.left_folded, 0, left, height);
  if (!layout.left_folded)
    splitter(ui, "splitter left", left, head, gap, height, layout.left, &settings.left, 1);
  place(ui, Place::middle, left + gap, head, middle, upper);
  if (!layout.right_folded)
    splitter(ui, "splitter right", left + gap + middle, head, gap, upper, layout.right,
             &settings.right, -1);
  side(Place::right, layout.right_folded, size.x - right, right, upper);
  if (!layout.bottom_folded)
    splitter(ui, "splitter bottom", left + gap, head + upper, size.x - left - gap, gap,
             layout.bottom, &settings.bottom, -1);
  place(ui, Place::bottom, left + gap, head + upper + gap, size.x - left - gap, bottom);
  footer(ui, size.y - foot, size.x, foot);
  ui.enter("explorer");
  const std::vector<Action> actions = actions_of(*this);
  press_keys(*this, actions);
  palette.draw(ui, actions);
  keys.draw(ui, actions);
  files.draw(ui);
  ImGui::End();
}

}  // namespace wide
