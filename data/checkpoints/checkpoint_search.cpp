#include "data/checkpoints/checkpoint_search.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "data/checkpoints/checkpoint_format.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

/// "w0.safetensors .. w7.safetensors".
std::string range_text(const std::vector<std::string>& files) {
  const auto name = [](const std::string& file) {
    return printable(fs::path(file).filename().string());
  };
  if (files.size() == 1) return name(files.front());
  return fmt::format("{} .. {}", name(files.front()), name(files.back()));
}

void sort_naturally(std::vector<std::string>& files) {
  std::sort(files.begin(), files.end(), natural_less);
}

/// The format of a file's extension, or nullptr.
const CheckpointFormat* named_format(const std::string& name) {
  for (const CheckpointFormat& format : checkpoint_formats())
    for (const std::string& extension : format.extensions)
      if (name.size() > extension.size() && name.ends_with(extension)) return &format;
  return nullptr;
}

/// The checkpoints in a folder: those of the first format, as libraries save a model in two formats
/// side by side, and shards lie beside their index.
std::vector<std::string> search(const std::string& folder, size_t* left) {
  std::map<int, std::vector<std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error) || name.front() == '.') continue;
    if (const CheckpointFormat* format = named_format(name))
      found[format->order].push_back(entry.path().string());
  }
  if (found.empty()) return {};
  std::vector<std::string> taken = std::move(found.begin()->second);
  for (auto it = std::next(found.begin()); it != found.end(); ++it) *left += it->second.size();
  sort_naturally(taken);
  return taken;
}

/// The checkpoints of a folder, or, if it has none, of the folders in it, such as those of runs.
std::vector<std::string> search_runs(const std::string& folder, size_t* left) {
  std::vector<std::string> taken = search(folder, left), inner;
  if (!taken.empty()) return taken;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) inner.push_back(entry.path().string());
  sort_naturally(inner);
  for (const std::string& run : inner)
    for (std::string& file : search(run, left)) taken.push_back(std::move(file));
  return taken;
}

std::vector<std::string> matching(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  sort_naturally(paths);
  return paths;
}

}  // namespace

FoundCheckpoints find_checkpoints(const std::vector<std::string>& arguments) {
  FoundCheckpoints found;
  // A shell that expands `w*` puts w10 before w2: these are the models' numbers, so it is said.
  if (std::is_sorted(arguments.begin(), arguments.end()) &&
      !std::is_sorted(arguments.begin(), arguments.end(), natural_less))
    found.notes.push_back(
        fmt::format("checkpoints are numbered as given, {} first and {} last; try a folder or a "
                    "quoted pattern for the order of their numbers",
                    range_text({arguments.front()}), range_text({arguments.back()})));
  for (const std::string& argument : arguments) {
    std::error_code error;
    const bool exists = fs::exists(argument, error);
    if (exists && !fs::is_directory(argument, error)) {
      found.files.push_back(argument);
      continue;
    }
    const bool pattern = !exists && argument.find_first_of("*?[") != std::string::npos;
    if (!exists && !pattern)
      fail("[{}] weights: got no such file, expected a checkpoint; try another path",
           printable(argument));
    const auto paths = pattern ? matching(argument) : std::vector<std::string>{argument};
    if (paths.empty())
      fail("[{}] weights: got no file, expected one per model; try another pattern",
           printable(argument));
    std::vector<std::string> taken;
    size_t left = 0;
    for (const std::string& path : paths) {
      if (!fs::is_directory(path, error)) {
        taken.push_back(path);
        continue;
      }
      auto files = search_runs(path, &left);
      if (files.empty()) {
        std::vector<std::string> extensions;
        for (const CheckpointFormat& format : checkpoint_formats())
          extensions.insert(extensions.end(), format.extensions.begin(), format.extensions.end());
        fail(
            "[{}] weights: got a folder without checkpoints ({}), expected one per model; try "
            "another folder",
            printable(path), listing(extensions, 9));
      }
      taken.insert(taken.end(), files.begin(), files.end());
    }
    found.notes.push_back(fmt::format(
        "{}: {} taken ({}){}", printable(argument),
        taken.size() == 1 ? "1 checkpoint" : fmt::format("{} checkpoints", taken.size()),
        range_text(taken), left ? fmt::format(", {} files of other formats left out", left) : ""));
    found.files.insert(found.files.end(), taken.begin(), taken.end());
  }
  return found;
}

}  // namespace wide
