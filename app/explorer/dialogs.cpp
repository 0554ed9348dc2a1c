// What lies over everything: the palette of actions, the sheet of keys, the file browser.
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>

#include "app/explorer/explorer.h"
#include "data/one_line.h"
#include "data/plot/figures.h"
#include "data/reports/report_format.h"
#include "data/text.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// A box in the middle of the window; false while it is closed.
bool begin_dialog(Ui& ui, const char* name, float width, float height) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  const ImVec2 wanted = {std::min(ui.px(width), size.x - ui.px(24)),
                         std::min(ui.px(height), size.y - ui.px(24))};
  ImGui::SetNextWindowPos({(size.x - wanted.x) / 2, (size.y - wanted.y) / 3});
  ImGui::SetNextWindowSize(wanted);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(14), ui.px(12)});
  ImGui::OpenPopup(name);
  const bool open =
      ImGui::BeginPopupModal(name, nullptr,
                             ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                 ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar();
  return open;
}

bool pressed(int key) { return ImGui::IsKeyPressed(key, true); }

}  // namespace

std::vector<Action> Explorer::actions() {
  std::vector<Action> all;
  for (const PanelInfo& info : panels())
    all.push_back({"Show " + info.title, "", [this, name = info.name] { show(name); }});
  all.push_back({"Start the sweep", "Ctrl+R", [this] {
                   show("run");
                   run.start();
                 }});
  all.push_back({"Pause the sweep", "", [this] { run.pause(); }});
  all.push_back({"Go on with the sweep", "", [this] { run.go_on(); }});
  all.push_back({"Cancel the sweep", "", [this] { run.cancel(); }});
  all.push_back({"Undo the filter", "Ctrl+Z", [this] { library.trials().undo(); }});
  all.push_back({"Redo the filter", "Ctrl+Y", [this] { library.trials().redo(); }});
  all.push_back({"Clear the filter", "", [this] { library.trials().set_filter(""); }});
  all.push_back({"Light or dark", "Ctrl+D", [this] { settings.dark = !settings.dark; }});
  const auto scale = [this](double step) {
    settings.scale = std::clamp((settings.scale == 0 ? 1 : settings.scale) + step, 0.75, 2.0);
  };
  all.push_back({"Larger", "Ctrl++", [scale] { scale(0.125); }});
  all.push_back({"Smaller", "Ctrl+-", [scale] { scale(-0.125); }});
  all.push_back({"Size as the monitor says", "Ctrl+0", [this] { settings.scale = 0; }});
  all.push_back({"Read the store again", "F5", [this] {
                   library.refresh();
                   if (library.sweep() > 0) library.open(library.sweep());
                 }});
  all.push_back({"Keys", "?", [this] { shortcuts_open_ = true; }});
  all.push_back({"Quit", "Ctrl+Q", [this] { quit = true; }});
  return all;
}

void Explorer::keys(Ui&) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool dialog = palette_open_ || shortcuts_open_ || files_.open;
  if (io.KeyCtrl && pressed(key::kP)) {
    palette_open_ = !palette_open_;
    palette_fresh_ = true;
  }
  if (dialog) return;
  if (pressed(key::kF5)) {
    library.refresh();
    if (library.sweep() > 0) library.open(library.sweep());
  }
  if (!io.KeyCtrl) {
    if (io.WantTextInput) return;
    for (const ImWchar c : io.InputQueueCharacters)
      if (c == '?') shortcuts_open_ = true;
    return;
  }
  static const std::pair<int, const char*> kKeys[] = {{key::kR, "Start the sweep"},
                                                      {key::kD, "Light or dark"},
                                                      {key::kQ, "Quit"},
                                                      {key::kEqual, "Larger"},
                                                      {key::kMinus, "Smaller"},
                                                      {key::k0, "Size as the monitor says"}};
  static const std::pair<int, const char*> kUndo[] = {{key::kZ, "Undo the filter"},
                                                      {key::kY, "Redo the filter"}};
  const auto run_named = [this](const char* name) {
    for (const Action& action : actions())
      if (action.name == name) action.run();
  };
  for (const auto& [k, name] : kKeys)
    if (pressed(k)) run_named(name);
  // While somebody types these belong to the text.
  for (const auto& [k, name] : kUndo)
    if (pressed(k) && !io.WantTextInput) run_named(name);
}

void Explorer::palette(Ui& ui) {
  if (!palette_open_) return;
  if (!begin_dialog(ui, "palette", 480, 420)) return;
  ui.enter("palette");
  if (palette_fresh_) {
    palette_text_.clear();
    palette_at_ = 0;
    ImGui::SetKeyboardFocusHere();
  }
  palette_fresh_ = false;
  if (ui.field("action", &palette_text_, "what to do", -1)) palette_at_ = 0;
  const std::string wanted = lower(palette_text_);
  std::vector<Action> found;
  for (Action& action : actions())
    if (lower(action.name).find(wanted) != std::string::npos) found.push_back(std::move(action));
  const int count = static_cast<int>(found.size());
  if (pressed(key::kDown)) ++palette_at_;
  if (pressed(key::kUp)) --palette_at_;
  palette_at_ = std::clamp(palette_at_, 0, std::max(0, count - 1));
  const Action* taken = nullptr;
  if (pressed(key::kEnter) && count > 0) taken = &found[static_cast<size_t>(palette_at_)];
  ImGui::BeginChild("actions");
  for (int i = 0; i < count; ++i) {
    const Action& action = found[static_cast<size_t>(i)];
    const float right = ImGui::GetContentRegionAvail().x - ui.text_width(action.keys);
    if (ui.row(action.name, i == palette_at_)) taken = &action;
    if (action.keys.empty()) continue;
    ImGui::SameLine(right);
    ui.muted(action.keys);
  }
  if (found.empty()) ui.muted("nothing of this name; try fewer letters");
  ImGui::EndChild();
  if (taken || pressed(key::kEscape)) {
    palette_open_ = false;
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
  if (taken) taken->run();
}

void Explorer::shortcuts(Ui& ui) {
  if (!shortcuts_open_) return;
  if (!begin_dialog(ui, "keys", 460, 470)) return;
  ui.enter("keys");
  ui.title("Keys and mouse");
  ImGui::Dummy({0, ui.px(6)});
  static const std::pair<const char*, const char*> kMouse[] = {
      {"wheel over a plot", "zoom"},
      {"drag, right drag", "move, zoom into a box"},
      {"double click on a plot", "all of it"},
      {"click on a point", "select it"},
      {"click in the legend", "hide a curve; twice: only it"},
      {"click on a column", "sort; with Shift by several"},
      {"drop files", "fuse them"}};
  const float column = ui.px(190);
  const auto line = [&](const std::string& what, const std::string& does) {
    ui.bold(what);
    ImGui::SameLine(column);
    ui.text(does);
  };
  for (const Action& action : actions())
    if (!action.keys.empty()) line(action.keys, action.name);
  line("Ctrl+P", "Everything that can be done");
  for (const auto& [what, does] : kMouse) line(what, does);
  ImGui::Dummy({0, ui.px(6)});
  if (ui.button("Close") || pressed(key::kEscape)) {
    shortcuts_open_ = false;
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
}

// ---------------------------------------------------------------------------- the file browser

void Explorer::save_as(const std::string& kind, const std::string& name,
                       std::function<void(const std::string&)> write) {
  const std::string folder = files_.folder.empty() ? fs::current_path().string() : files_.folder;
  files_ = {true, true, true, "Save as " + kind, folder, name, "", {}, std::move(write)};
  list_files();
}

void Explorer::open_file(const std::string& what, std::function<void(const std::string&)> take) {
  const std::string folder = files_.folder.empty() ? fs::current_path().string() : files_.folder;
  files_ = {true, true, false, what, folder, "", "", {}, std::move(take)};
  list_files();
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

void Explorer::list_files() {
  files_.entries.clear();
  std::error_code error;
  for (fs::directory_iterator it(files_.folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.front() != '.') files_.entries.emplace_back(name, it->is_directory(error));
  }
  std::sort(files_.entries.begin(), files_.entries.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second : a.first < b.first;
  });
}

void Explorer::files(Ui& ui) {
  if (!files_.open) return;
  if (!begin_dialog(ui, "files", 560, 460)) return;
  ui.enter("files");
  ui.bold(files_.title);
  const auto go = [&](const fs::path& folder) {
    files_.folder = folder.string();
    list_files();
  };
  if (ui.button("Up")) go(fs::path(files_.folder).parent_path());
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  ui.fitted(printable(files_.folder, 400), ImGui::GetContentRegionAvail().x, true);
  const float below = 2 * ImGui::GetFrameHeightWithSpacing() + ui.px(30);
  ImGui::BeginChild("entries", {0, -below});
  std::string into;
  for (const auto& [name, folder] : files_.entries) {
    bool twice = false;
    if (ui.row(printable(name, 400) + (folder ? "/" : "") + "##" + name, name == files_.name,
               &twice)) {
      if (folder)
        into = name;
      else
        files_.name = name;
    }
  }
  if (files_.entries.empty()) ui.muted("an empty folder");
  ImGui::EndChild();
  if (!into.empty()) go(fs::path(files_.folder) / into);
  if (files_.fresh) ImGui::SetKeyboardFocusHere();
  files_.fresh = false;
  ui.field("file name", &files_.name, files_.to_write ? "a file to write" : "a file", -1);
  bool done = pressed(key::kEnter);
  if (!files_.error.empty())
    ui.tinted(ui.fit(files_.error, ImGui::GetContentRegionAvail().x), ui.theme().bad);
  if (ui.button(files_.to_write ? "Save" : "Open", Look::primary, !files_.name.empty()))
    done = true;
  ImGui::SameLine();
  const bool cancel = ui.button("Cancel") || pressed(key::kEscape);
  if (done && !files_.name.empty()) {
    const fs::path path = fs::path(files_.folder) / files_.name;
    std::error_code error;
    if (fs::is_directory(path, error)) {
      files_.name.clear();
      go(path);
    } else {
      try {
        files_.take(path.string());
        files_.open = false;
      } catch (const std::exception& e) {
        files_.error = one_line(e);
      }
    }
  }
  if (cancel) files_.open = false;
  if (!files_.open) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

void Explorer::drop(const std::vector<std::string>& paths) {
  for (const PanelInfo& info : panels())
    if (panels_[info.name]->drop(*this, paths)) {
      show(info.name);
      return;
    }
  say("nothing here takes these files; drop a network or checkpoints", true);
}

}  // namespace wide
