#include "app/train/run/merge.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/train/inputs/fingerprint.h"
#include "app/train/run/identity.h"
#include "data/escape.h"
#include "data/store/sweeps/part.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

struct SavedPart {
  std::string folder;
  Part part;
  SavedRun run;
};

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

SavedPart read_part(const std::string& folder) {
  SavedPart p{folder, {}, read_saved_run(folder)};
  if (p.run.options.part.empty())
    fail("[{}] --merge: got a whole run, expected a part; try one of train --part",
         printable(folder));
  p.part = parse_part(p.run.options.part);
  return p;
}

/// The options that all parts of a run must share. Left out: where results go, speed, and paths,
/// since files are compared by their contents.
Json options_of(const SavedRun& run) {
  Json options = to_json(run.options);
  for (const char* file : {"validation", "test"})  // or a share
    if (options[file].get<std::string>().starts_with('/')) options[file] = "a file";
  for (const char* file : {"data", "models", "rows"})
    options[file] = options[file].get<std::string>().empty() ? "" : "a file";
  for (const char* file : {"network", "eval_model", "epoch_data"})  // not all of it is compared
    options[file] = file_name(options[file]);
  for (Json& weights : options["weights"]) weights = file_name(weights);
  for (const char* own :
       {"part", "save", "log", "save_every", "keep", "threads", "validation_of_rest"})
    options.erase(own);
  return options;
}

void expect_same_training(const SavedPart& p, const SavedPart& first) {
  const auto refuse = [&](const std::string& what, const std::string& got,
                          const std::string& expected) {
    fail("[{}] --merge: got part {} with {} {}, expected {} as in {}; try parts of one training",
         printable(p.folder), p.part.text(), what, got.empty() ? "none" : printable(got, 60),
         expected.empty() ? "none" : printable(expected, 60), printable(first.folder));
  };
  if (p.part.count != first.part.count)
    refuse("a number of parts", std::to_string(p.part.count), std::to_string(first.part.count));
  const Json got = options_of(p.run), expected = options_of(first.run);
  const auto text = [](const Json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); };
  for (const auto& [key, value] : expected.items())
    if (got.at(key) != value) refuse(key, text(got.at(key)), text(value));
  std::string other = identity_difference(p.run.identity, first.run.identity);
  if (other.empty() && !p.run.data.empty() && !first.run.data.empty())
    other = data_difference(p.run.data, first.run.data);
  if (!other.empty())
    fail(
        "[{}] --merge: got part {} with {} than in {}, expected one training; try parts of one "
        "training",
        printable(p.folder), p.part.text(), other, printable(first.folder));
}

void expect_all(const std::vector<SavedPart>& parts) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].folder == parts[i - 1].folder)
      fail("[{}] --merge: got it twice, expected each part once; try to leave one out",
           printable(parts[i].folder));
    else if (parts[i].part.number == parts[i - 1].part.number)
      fail("[{}] --merge: got part {}, which {} has too, expected it once; try to leave one out",
           printable(parts[i].folder), parts[i].part.text(), printable(parts[i - 1].folder));
  std::vector<std::string> missing;
  for (int64_t number = 1; number <= parts.front().part.count; ++number)
    if (std::ranges::none_of(parts, [&](const SavedPart& p) { return p.part.number == number; }))
      missing.push_back(Part{number, parts.front().part.count}.text());
  if (!missing.empty())
    fail("[--merge] parts: got {} of {}, expected {} too; try to add what is missing", parts.size(),
         parts.front().part.count, listing(missing, 9));
  for (const SavedPart& p : parts)
    for (const ModelState& m : p.run.state.models)
      if (m.running())
        fail("[{}] --merge: got part {} at step {}, expected it at its end; try train --resume {}",
             printable(p.folder), p.part.text(), p.run.state.step, shell_word(p.folder));
}

/// The number after "model " in a text, or -1.
int64_t model_in(const std::string& text) {
  const size_t at = text.find("model ");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + 6);
}

void put(const std::vector<double>& values, size_t first, size_t n, std::vector<double>* all) {
  all->resize(n, std::nan(""));
  std::copy(values.begin(), values.end(), all->begin() + static_cast<std::ptrdiff_t>(first));
}

SavedRun put_together(const std::vector<SavedPart>& parts) {
  SavedRun whole = parts.front().run;
  whole.options.part.clear();
  whole.options.log.clear();
  whole.plan.clear();  // the parts chose strategies and ranges for fewer models
  std::vector<TrainState> states;
  for (const SavedPart& p : parts) {
    states.push_back(p.run.state);
    whole.parts.push_back(p.folder);
  }
  whole.state = merge_states(states);
  return whole;
}

}  // namespace

std::string renumbered(const std::string& text, int64_t first) {
  const std::string before = "model ";
  std::string all;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
    at += before.size();
    int64_t model = 0;
    const char* digits = text.data() + at;
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), model);
    if (error != std::errc()) continue;
    all += text.substr(done, at - done) + std::to_string(first + model);
    done = at += static_cast<size_t>(end - digits);
  }
  return all + text.substr(done);
}

TrainState merge_states(const std::vector<TrainState>& parts) {
  TrainState whole;
  const std::string& name = parts.front().name;
  if (std::ranges::all_of(parts, [&](const TrainState& s) { return s.name == name; }))
    whole.name = name;
  size_t n = 0;
  for (const TrainState& s : parts) n += s.models.size();
  std::map<int64_t, Evaluated> rows;
  size_t first = 0;
  for (const TrainState& s : parts) {
    whole.step = std::max(whole.step, s.step);
    whole.loss_steps = std::max(whole.loss_steps, s.loss_steps);
    whole.seconds = std::max(whole.seconds, s.seconds);  // parts may have run at the same time
    whole.models.insert(whole.models.end(), s.models.begin(), s.models.end());
    for (const Evaluated& e : s.history) {
      Evaluated& row = rows[e.step];
      row.step = e.step;
      row.epoch = e.epoch;
      row.seconds = std::max(row.seconds, e.seconds);
      row.wall_s = std::max(row.wall_s, e.wall_s);
      put(e.train_loss, first, n, &row.train_loss);
      put(e.made, first, n, &row.made);
      for (const auto& [metric, values] : e.values) put(values, first, n, &row.values[metric]);
    }
    const auto of_all = static_cast<int64_t>(first);
    for (const Event& e : s.events)
      whole.events.push_back(
          {e.step, e.model < 0 ? e.model : e.model + of_all, renumbered(e.what, of_all)});
    for (const std::string& note : s.check_notes)
      whole.check_notes.push_back(renumbered(note, of_all));
    whole.check_notes_left_out += s.check_notes_left_out;
    first += s.models.size();
  }
  for (auto& [step, row] : rows) whole.history.push_back(std::move(row));
  // Order of events within a step: divergence, then the evaluation, then pruning, then requests.
  const auto place = [](const Event& e) {
    if (e.what.ends_with(" asked to") || e.what.starts_with("refused at step ")) return 3;
    const bool pruned = e.what.find(" pruned at step ") != std::string::npos;
    return pruned ? 2 : e.what.find(" stopped at step ") != std::string::npos ? 1 : 0;
  };
  std::ranges::stable_sort(whole.events, [&](const Event& a, const Event& b) {
    return std::pair(a.step, place(a)) < std::pair(b.step, place(b));
  });
  return whole;
}

SavedRun merge_runs(const std::vector<std::string>& folders) {
  std::vector<SavedPart> parts;
  for (const std::string& folder : folders) parts.push_back(read_part(folder));
  std::ranges::stable_sort(
      parts, [](const SavedPart& a, const SavedPart& b) { return a.part.number < b.part.number; });
  for (const SavedPart& p : parts) expect_same_training(p, parts.front());
  expect_all(parts);
  return put_together(parts);
}

SavedRun merge_slices(const std::vector<std::string>& folders) {
  std::vector<SavedPart> parts;
  for (size_t rank = 0; rank < folders.size(); ++rank) {
    try {
      parts.push_back(read_part(folders[rank]));
    } catch (const Error&) {
      throw Error(fmt::format("[{}] ranks: got no file of rank {}, expected a folder that all see; "
                              "try --save in one of a file system that they share",
                              printable(folders[rank]), rank),
                  1);
    }
    if (parts.back().run.state.step != parts.front().run.state.step)
      throw Error(fmt::format("[{}] ranks: got step {} of rank {}, expected {} as of rank 0; try "
                              "--resume",
                              printable(folders[rank]), parts.back().run.state.step, rank,
                              parts.front().run.state.step),
                  1);
  }
  SavedRun whole = put_together(parts);
  const TrainState& leads = parts.front().run.state;
  whole.state.run = leads.run;
  whole.state.command = leads.command;
  whole.state.started = leads.started;
  whole.state.resumes = leads.resumes;
  return whole;
}

SavedRun cut_run(const SavedRun& whole, const std::string& folder, const TrainOptions& options) {
  SavedRun own = whole;
  const Part part = parse_part(options.part);
  const auto n = static_cast<int64_t>(whole.state.models.size());
  const int64_t first = part.first(n), last = part.last(n);
  const auto cut = [&](auto* list) {
    if (!list->empty()) *list = {list->begin() + first, list->begin() + last};
  };
  const auto mine = [&](int64_t model) {
    return model < 0 || model >= n ? first == 0 : first <= model && model < last;
  };
  own.options = options;
  own.plan.clear();
  own.tensors_in = folder;
  own.first_model = first;
  TrainState& state = own.state;
  if (first > 0) state.run.clear();
  cut(&state.models);
  for (Evaluated& row : state.history) {
    cut(&row.train_loss);
    cut(&row.made);
    for (auto& [metric, values] : row.values) cut(&values);
  }
  std::erase_if(state.events, [&](const Event& e) { return !mine(e.model); });
  for (Event& e : state.events) {
    e.what = renumbered(e.what, -first);
    if (e.model >= 0) e.model -= first;
  }
  std::erase_if(state.check_notes, [&](const auto& note) { return !mine(model_in(note)); });
  for (std::string& note : state.check_notes) note = renumbered(note, -first);
  if (first > 0) state.check_notes_left_out = 0;
  return own;
}

}  // namespace wide
