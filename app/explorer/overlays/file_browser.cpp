#include "app/explorer/overlays/file_browser.h"

#include <fmt/format.h>
#include <imgui_internal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "app/explorer/ui/dialog.h"
#include "app/sandbox/output_files.h"
#include "data/one_line.h"
#include "data/text.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

/// Keys of jobs.
constexpr const char *kReadFolder = "read a folder", *kCountFiles = "count files";

bool fits(const std::string& name, const std::vector<std::string>& extensions) {
  return extensions.empty() ||
         std::any_of(extensions.begin(), extensions.end(),
                     [&](const std::string& extension) { return name.ends_with(extension); });
}

/// Why no file of this name may be written, as a line; "" if it may. `store`: see FileRequest.
std::string unwritable(const fs::path& path, const std::string& store) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return fmt::format("[file] folder: got no {}, expected one that is there; try Up",
                       printable(folder.string(), 200));
  const bool there = fs::exists(path, error);
  if (access(there ? path.c_str() : folder.c_str(), W_OK) != 0)
    return fmt::format("[file] {}: got {}, which may not be written, expected another; try Up",
                       there ? "file" : "folder", printable((there ? path : folder).string(), 200));
  try {
    check_apart({{"file", path.string()}}, {}, store);
  } catch (const std::exception& e) {
    return one_line(e);
  }
  return "";
}

}  // namespace

void FileBrowser::ask(FileRequest request) {
  request_ = std::move(request);
  open_ = fresh_ = preselect_ = true;
  name_ = request_.name;
  std::error_code error;
  if (fs::is_directory(request_.folder, error))
    folder_ = request_.folder;
  else if (folder_.empty())
    folder_ = fs::current_path().string();
  go(folder_);
}

FileBrowser::Folder FileBrowser::read(const std::string& path,
                                      const std::vector<std::string>& extensions) {
  Folder folder;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.front() == '.') continue;
    const bool is_folder = it->is_directory(error);
    if (is_folder || fits(name, extensions))
      folder.entries.push_back({std::move(name), is_folder});
    else
      ++folder.others;
  }
  std::sort(folder.entries.begin(), folder.entries.end(), [](const Entry& a, const Entry& b) {
    return a.folder != b.folder ? a.folder : natural_less(a.name, b.name);
  });
  return folder;
}

void FileBrowser::go(const std::string& folder) {
  folder_ = folder;
  shown_ = {};
  last_ = 0;
  jobs_.start(kReadFolder,
              [this, path = folder_, extensions = request_.extensions]() -> Jobs::Result {
                Folder found = read(path, extensions);
                return [this, found = std::move(found)]() mutable { shown_ = std::move(found); };
              });
  changed();
}

bool FileBrowser::any_chosen() const { return std::ranges::any_of(shown_.entries, &Entry::chosen); }

std::vector<std::string> FileBrowser::paths() const {
  const fs::path folder = folder_;
  if (!name_.empty()) return {(folder / name_).string()};
  const std::string begin = (folder / "").string();
  std::vector<std::string> all;
  for (const Entry& entry : shown_.entries)
    if (entry.chosen) all.push_back(begin + entry.name);
  return all;
}

void FileBrowser::changed() {
  error_.clear();
  count_.clear();
  replaced_.clear();
  ++choice_;
  std::vector<std::string> all = paths();
  if (all.empty() || !request_.count) return;
  jobs_.start(kCountFiles,
              [this, all = std::move(all), count = request_.count, of = choice_]() -> Jobs::Result {
                std::string text;
                try {
                  text = count(all);
                } catch (const std::exception&) {
                  // A name being typed is not counted; taking it reports errors.
                }
                return [this, of, text] {
                  if (of == choice_) count_ = text;
                };
              });
}

void FileBrowser::choose_none() {
  for (Entry& entry : shown_.entries) entry.chosen = false;
}

/// A click selects one file; with Ctrl it adds or removes one, with Shift it selects a range.
void FileBrowser::choose(size_t index) {
  std::vector<Entry>& all = shown_.entries;
  if (!request_.several) {
    name_ = all[index].name;
    return changed();
  }
  const ImGuiIO& io = ImGui::GetIO();
  name_.clear();
  if (io.KeyShift) {
    for (size_t i = std::min(index, last_); i <= std::max(index, last_); ++i)
      all[i].chosen = all[i].chosen || !all[i].folder;
  } else {
    const bool chosen = io.KeyCtrl && all[index].chosen;
    if (!io.KeyCtrl) choose_none();
    all[index].chosen = !chosen;
    last_ = index;
  }
  changed();
}

void FileBrowser::entries(Ui& ui) {
  std::string into;
  Ui::table_lines(shown_.entries.size(), [&](size_t i) {
    const Entry& entry = shown_.entries[i];
    const bool selected = name_.empty() ? entry.chosen : name_ == entry.name;
    if (!ui.row(fmt::format("{}{}##{}", printable(entry.name, 400), entry.folder ? "/" : "", i),
                selected))
      return;
    if (entry.folder)
      into = entry.name;
    else
      choose(i);
  });
  const size_t others = shown_.others;
  if (jobs_.busy(kReadFolder))
    ui.muted("reading the folder");
  else if (shown_.entries.empty())
    ui.muted(others > 0 ? "no file here fits" : "an empty folder");
  if (others > 0)
    ui.muted(fmt::format("{} not shown, which {} not end in {}",
                         others == 1 ? "1 other file" : fmt::format("{} other files", others),
                         others == 1 ? "does" : "do", listing(request_.extensions, 9)));
  if (!into.empty()) go((fs::path(folder_) / into).string());
}

void FileBrowser::accept() {
  const std::vector<std::string> all = paths();
  if (all.empty()) return;
  std::error_code error;
  if (all.size() == 1 && fs::is_directory(all.front(), error)) {
    name_.clear();
    return go(all.front());
  }
  if (request_.to_write) error_ = unwritable(all.front(), request_.store);
  if (!error_.empty()) {
    fresh_ = true;  // put the cursor into the name
    return;
  }
  if (request_.to_write && replaced_ != all.front() && fs::is_regular_file(all.front(), error)) {
    replaced_ = all.front();
    fresh_ = true;
    return;
  }
  if (!request_.count) return take(all);
  jobs_.start(kCountFiles, [this, all, count = request_.count, of = choice_]() -> Jobs::Result {
    std::string line;
    try {
      count(all);
    } catch (const std::exception& e) {
      line = one_line(e);
    }
    return [this, all, of, line] {
      if (!open_ || of != choice_) return;
      error_ = line;
      if (line.empty()) take(all);
    };
  });
}

void FileBrowser::take(const std::vector<std::string>& paths) {
  try {
    request_.take(paths);
    open_ = false;
  } catch (const std::exception& e) {
    error_ = one_line(e);
  }
}

void FileBrowser::draw(Ui& ui) {
  if (!begin_dialog(ui, "files", open_, 560, 460)) return;
  ui.bold(request_.title);
  if (ui.button("Up", Look::plain, true, "The folder above"))
    go(fs::path(folder_).parent_path().string());
  ImGui::SameLine();
  if (request_.several) {
    if (ui.button("All", Look::plain, true, "All files that are shown")) {
      name_.clear();
      for (Entry& entry : shown_.entries) entry.chosen = !entry.folder;
      changed();
    }
    ImGui::SameLine();
  }
  ImGui::AlignTextToFramePadding();
  ui.fitted(printable(folder_, 400), ImGui::GetContentRegionAvail().x, true);
  // Keeps room for an error line, so that the buttons do not move.
  const float below =
      2 * ImGui::GetFrameHeightWithSpacing() + ImGui::GetTextLineHeightWithSpacing();
  ImGui::BeginChild("entries", {0, -below});
  entries(ui);
  ImGui::EndChild();
  if (fresh_) ImGui::SetKeyboardFocusHere();
  fresh_ = false;
  if (ui.field("file name", &name_,
               request_.to_write  ? "a file to write"
               : request_.several ? "click, also with Ctrl or Shift, or type *.safetensors"
                                  : "a file",
               -1, "A name in this folder, a whole path, or a folder to go to")) {
    choose_none();
    changed();
  }
  // Selects the proposed name, so that typing replaces it.
  if (preselect_ && ImGui::IsItemActive()) {
    preselect_ = false;
    if (ImGuiInputTextState* state = ImGui::GetInputTextState(ImGui::GetItemID()))
      state->SelectAll();
  }
  // A key that is held does not confirm what it has just asked for.
  const bool done = ImGui::IsKeyPressed(key::kEnter, false);
  const bool replaces = !replaced_.empty() && error_.empty();
  const std::string line =
      replaces ? printable(name_, 200) + " is there already: replace it?" : error_;
  ui.tinted(line.empty() ? " " : ui.fit(line, ImGui::GetContentRegionAvail().x),
            replaces ? ui.theme().warn : ui.theme().bad);
  if (!line.empty()) {
    ui.items.set_value(line);
    ui.tip(line);
  }
  const bool any = !name_.empty() || any_chosen();
  if (ui.button(replaces            ? "Replace"
                : request_.to_write ? "Save"
                                    : "Open",
                Look::primary, any,
                replaces            ? "Writes over the file (Enter)"
                : request_.to_write ? "Writes the file (Enter)"
                                    : "Takes what is chosen (Enter)") ||
      done)
    accept();
  ImGui::SameLine();
  if (ui.button("Cancel", Look::plain, true, "Nothing is done (Escape)") || pressed(key::kEscape))
    open_ = false;
  if (!count_.empty()) {
    ImGui::SameLine();
    ui.label(count_);
  }
  end_dialog(open_);
}

}  // namespace wide
