#include "app/explorer/models/training/run_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "data/escape.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

/// Splits a command into words like a shell: single and double quotes, backslashes.
std::vector<std::string> shell_words_of(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool any = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < command.size())
        word += command[++i];
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      any = true;
    } else if (c == '\\' && i + 1 < command.size()) {
      word += command[++i];
      any = true;
    } else if (c == ' ') {
      if (any) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (any) words.push_back(word);
  return words;
}

/// Whether a word is the option, by any of the names that `workbench train` knows it by.
bool same_option(const std::string& word, const std::string& option) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"-n", "--n"},
                                                                   {"--batch", "--batch-size"}};
  return word == option || std::any_of(std::begin(kNames), std::end(kNames), [&](const auto& two) {
           return (word == two.first && option == two.second) ||
                  (word == two.second && option == two.first);
         });
}

/// The option's position, and whether its value is in the same word.
std::pair<size_t, bool> find_option(const std::vector<std::string>& words,
                                    const std::string& option) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (same_option(words[i], option)) return {i, false};
    const size_t equal = words[i].find('=');
    if (equal != std::string::npos && same_option(words[i].substr(0, equal), option))
      return {i, true};
  }
  return {words.size(), false};
}

/// The folder of a run's best checkpoints, which must be there.
fs::path best_folder(const std::string& run_folder) {
  const fs::path best = fs::path(run_folder) / "best";
  std::error_code error;
  if (run_folder.empty() || !fs::is_directory(best, error))
    fail("[checkpoints] folder: got no {}, expected the best models of the run; try train --save",
         printable(best.string()));
  return best;
}

}  // namespace

std::string changed_command(const std::string& command, const ChangedOptions& changes) {
  std::vector<std::string> words = shell_words_of(command);
  const auto take_away = [&words](const std::string& option) {
    const auto [at, joined] = find_option(words, option);
    if (at == words.size()) return;
    const size_t end = std::min(words.size(), at + (joined ? 1 : 2));
    words.erase(words.begin() + static_cast<ptrdiff_t>(at),
                words.begin() + static_cast<ptrdiff_t>(end));
  };
  take_away("--resume");
  for (const auto& [option, value] : changes) {
    if (value.empty()) continue;
    if (option == "--steps") take_away("--epochs");  // a run has one length
    if (option == "--epochs") take_away("--steps");
    const auto [at, joined] = find_option(words, option);
    if (at == words.size()) {
      words.push_back(option);
      words.push_back(value);
    } else if (joined) {
      words[at] = option + "=" + value;
    } else if (at + 1 < words.size()) {
      words[at + 1] = value;
    } else {
      words.push_back(value);
    }
  }
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string option_value(const std::string& command, const std::string& option) {
  const std::vector<std::string> words = shell_words_of(command);
  const auto [at, joined] = find_option(words, option);
  if (at == words.size()) return "";
  if (joined) return words[at].substr(words[at].find('=') + 1);
  return at + 1 < words.size() ? words[at + 1] : "";
}

size_t copy_best_checkpoints(const std::string& run_folder,
                             const std::optional<std::vector<int64_t>>& models,
                             const std::string& folder) {
  const fs::path best = best_folder(run_folder);
  std::vector<std::string> names;
  for (const int64_t model : models.value_or(std::vector<int64_t>()))
    names.push_back(fmt::format("model-{:04}.", model));
  size_t copied = 0;
  try {
    fs::create_directories(folder);
    for (const fs::directory_entry& entry : fs::directory_iterator(best)) {
      const std::string name = entry.path().filename().string();
      const bool wanted =
          !models || std::any_of(names.begin(), names.end(), [&](const std::string& begin) {
            return name.rfind(begin, 0) == 0;
          });
      if (!wanted || !entry.is_regular_file()) continue;
      fs::copy_file(entry.path(), fs::path(folder) / name, fs::copy_options::overwrite_existing);
      ++copied;
    }
  } catch (const fs::filesystem_error& e) {
    fail("[checkpoints] file: got {}, expected a folder that can be written; try another",
         printable(e.code().message()));
  }
  if (copied == 0)
    fail("[checkpoints] models: got none of them in {}, expected a file for each; try all models",
         printable(best.string()));
  return copied;
}

size_t copy_best_checkpoints(const std::vector<CheckpointsOf>& runs, const std::string& folder) {
  for (const CheckpointsOf& of : runs) best_folder(of.folder);
  size_t copied = 0;
  for (const CheckpointsOf& of : runs)
    copied += copy_best_checkpoints(
        of.folder, of.models,
        runs.size() > 1 ? (fs::path(folder) / fmt::format("run-{}", of.run)).string() : folder);
  return copied;
}

}  // namespace wide
