#include "app/sandbox/output_files.h"

#include <filesystem>
#include <map>

#include "data/store/store.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

bool replaces(const fs::path& output, const fs::path& input) {
  std::error_code error;
  if (!fs::is_directory(output, error)) return same_file(output, input);
  const std::string name = input.filename().string();
  return name.starts_with("model-") && name.ends_with(".safetensors") &&
         same_file(output, input.parent_path().empty() ? "." : input.parent_path());
}

}  // namespace

void check_apart(const OutputFiles& outputs, const std::vector<std::string>& read,
                 const std::string& db) {
  std::error_code error;
  std::map<fs::path, std::string> option_of;
  for (const auto& [option, path] : outputs) {
    if (path.empty() || path == "-" || fs::is_character_file(path, error)) continue;
    for (const std::string& input : read)
      if (!input.empty() && replaces(path, input))
        fail("[{}] file: got {}, which is read here, expected another one; try another path",
             option, printable(input));
    if (same_file(path, Store::path(db)))
      fail("[{}] file: got {}, which is the results store, expected another one; try another path",
           option, printable(path));
    const auto [other, first] = option_of.emplace(fs::weakly_canonical(path, error), option);
    if (!first && !fs::is_directory(path, error))
      fail("[{}] file: got {}, which {} writes too, expected another one; try another path", option,
           printable(path), other->second);
  }
}

}  // namespace wide
