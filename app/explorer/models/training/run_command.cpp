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

/// The best checkpoints of a run's `models`, or of all. Throws Error if there are none.
std::vector<fs::path> best_files(const std::string& run_folder,
                                 const std::optional<std::vector<int64_t>>& models) {
  const fs::path best = fs::path(run_folder) / "best";
  std::error_code error;
  if (run_folder.empty() || !fs::is_directory(best, error))
    fail("[checkpoints] folder: got {}, expected the best models of each run; try train --save",
         run_folder.empty() ? "a run that was not saved" : "no " + printable(best.string()));
  std::vector<std::string> names;
  for (const int64_t model : models.value_or(std::vector<int64_t>()))
    names.push_back(fmt::format("model-{:04}.", model));
  std::vector<fs::path> files;
  for (fs::directory_iterator at(best, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool wanted = !models || std::ranges::any_of(names, [&](const std::string& begin) {
      return name.starts_with(begin);
    });
    std::error_code unread;
    if (wanted && at->is_regular_file(unread)) files.push_back(at->path());
  }
  if (files.empty())
    fail("[checkpoints] models: got none of them in {}, expected a file for each; try all models",
         printable(best.string()));
  return files;
}

/// Returns their number.
size_t copy_files(const std::vector<fs::path>& files, const fs::path& folder) {
  try {
    fs::create_directories(folder);
    for (const fs::path& file : files)
      fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing);
  } catch (const fs::filesystem_error& e) {
    fail("[checkpoints] file: got {}, expected a folder that can be written; try another",
         printable(e.code().message()));
  }
  return files.size();
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

size_t copy_best_checkpoints(const std::vector<CheckpointsOf>& runs, const std::string& folder) {
  std::vector<std::vector<fs::path>> files;  // all are found before the first is copied
  for (const CheckpointsOf& of : runs) files.push_back(best_files(of.folder, of.models));
  size_t copied = 0;
  for (size_t i = 0; i < runs.size(); ++i)
    copied +=
        copy_files(files[i], runs.size() > 1 ? fs::path(folder) / fmt::format("run-{}", runs[i].run)
                                             : fs::path(folder));
  return copied;
}

}  // namespace wide
