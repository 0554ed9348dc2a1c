#include "data/checkpoint.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "data/safetensors.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

/// Wrappers put these before every name: DataParallel, torch.compile, Lightning.
const std::vector<std::string>& prefixes() {
  static const std::vector<std::string> list = [] {
    const std::vector<std::string> one = {"module.", "_orig_mod.", "model."};
    std::vector<std::string> all = {""};
    all.insert(all.end(), one.begin(), one.end());
    for (const auto& a : one)
      for (const auto& b : one)
        if (a != b) all.push_back(a + b);
    return all;
  }();
  return list;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && !text.compare(text.size() - end.size(), end.size(), end);
}

/// Buffers that a correct checkpoint may lack: the counter that old files do not have, and buffers
/// registered as not persistent, which TorchScript does not tell from the others. Statistics are
/// always saved; a network without them would compute with those of another.
bool may_be_missing(const TensorSpec& spec) {
  return spec.role == Role::buffer && !ends_with(spec.name, "running_mean") &&
         !ends_with(spec.name, "running_var");
}

/// The network's side of the match: every name a checkpoint may use, to the index of its weight.
struct Wanted {
  std::vector<TensorSpec> specs;
  std::map<std::string, size_t> index;

  explicit Wanted(const Network& network) {
    for (const size_t i : network.indices(false)) {
      index[network.tensors[i].name] = specs.size();
      specs.push_back(network.tensors[i]);
    }
    for (const auto& [alias, name] : network.aliases)
      if (const auto it = index.find(name); it != index.end()) index.emplace(alias, it->second);
  }
};

std::string find_prefix(const safetensors::Index& file, const Wanted& wanted) {
  std::string best;
  size_t most = 0;
  for (const std::string& prefix : prefixes()) {
    size_t found = 0;
    for (const auto& entry : file.entries)
      if (!entry.name.compare(0, prefix.size(), prefix))
        found += wanted.index.count(entry.name.substr(prefix.size()));
    if (found > most) most = found, best = prefix;
  }
  return best;
}

struct Match {
  std::vector<const safetensors::Entry*> entries;  // per weight; nullptr: keeps the network's own
};

void check_entry(const std::string& file, const safetensors::Entry& entry, const TensorSpec& spec) {
  if (at::IntArrayRef(entry.shape) != at::IntArrayRef(spec.sizes))
    fail("[{}] {}: got {}, expected {} as the network has; try checkpoints of this architecture",
         file, printable(entry.name), sizes_text(entry.shape), sizes_text(spec.sizes));
  const at::ScalarType dtype = scalar_type(entry, file);
  const bool fits =
      c10::isFloatingType(spec.dtype) ? c10::isFloatingType(dtype) : dtype == spec.dtype;
  if (!fits)
    fail("[{}] dtype of {}: got {}, expected {}; try checkpoints of this architecture", file,
         printable(entry.name), short_name(dtype),
         c10::isFloatingType(spec.dtype) ? "a floating one" : short_name(spec.dtype));
}

Match match(const std::shared_ptr<const safetensors::File>& file, const Network& network,
            const Wanted& wanted, std::set<std::string>* notes) {
  const std::string path = printable(file->path());
  const std::string prefix = find_prefix(file->index(), wanted);
  if (!prefix.empty()) notes->insert(fmt::format("prefix '{}' dropped from names", prefix));

  Match m;
  m.entries.resize(wanted.specs.size());
  std::vector<std::string> unexpected;
  for (const auto& entry : file->index().entries) {
    const bool prefixed = !entry.name.compare(0, prefix.size(), prefix);
    const auto it = wanted.index.find(prefixed ? entry.name.substr(prefix.size()) : entry.name);
    if (!prefixed || it == wanted.index.end()) {
      unexpected.push_back(entry.name);
      continue;
    }
    check_entry(path, entry, wanted.specs[it->second]);
    const auto*& slot = m.entries[it->second];
    if (slot && !same_bits(view(file, *slot), view(file, entry)))
      fail(
          "[{}] {} and {}: got different values, expected equal ones as the network ties them; "
          "try a network exported without tied weights",
          path, printable(slot->name), printable(entry.name));
    if (!slot) slot = &entry;
  }

  std::vector<std::string> missing;
  for (size_t i = 0; i < m.entries.size(); ++i) {
    if (m.entries[i]) continue;
    if (may_be_missing(wanted.specs[i]) && i < network.initial.size())
      notes->insert(fmt::format("{} is in no checkpoint: the network's own value is kept",
                                printable(wanted.specs[i].name)));
    else
      missing.push_back(wanted.specs[i].name);
  }
  if (!missing.empty())
    fail(
        "[{}] tensors: got none for {}{}, expected all {} of the network; try checkpoints of this "
        "architecture",
        path, listing(missing),
        unexpected.empty() ? "" : fmt::format(" (but {})", listing(unexpected)),
        wanted.specs.size());
  if (!unexpected.empty())
    fail(
        "[{}] tensors: got {}, expected only what the network has; try checkpoints of this "
        "architecture",
        path, listing(unexpected));
  for (const auto& [alias, name] : network.aliases)
    if (!file->index().find(prefix + alias) || !file->index().find(prefix + name))
      notes->insert(fmt::format("{} and {} are tied: one is in the checkpoint, both are loaded",
                                printable(name), printable(alias)));
  return m;
}

}  // namespace

std::vector<std::string> expand_checkpoints(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code error;
    std::vector<std::string> found;
    if (fs::is_directory(argument, error)) {
      for (const auto& entry : fs::directory_iterator(argument, error))
        if (entry.path().extension() == ".safetensors") found.push_back(entry.path().string());
      if (found.empty())
        fail(
            "[{}] weights: got a folder without .safetensors files, expected one per model; try "
            "another folder",
            printable(argument));
    } else if (fs::exists(argument, error)) {
      found.push_back(argument);
    } else if (argument.find_first_of("*?[") != std::string::npos) {
      glob_t paths{};
      if (::glob(argument.c_str(), 0, nullptr, &paths) == 0)
        for (size_t i = 0; i < paths.gl_pathc; ++i) found.emplace_back(paths.gl_pathv[i]);
      ::globfree(&paths);
      if (found.empty())
        fail("[{}] weights: got no file, expected one per model; try another pattern",
             printable(argument));
    } else {
      fail("[{}] weights: got no such file, expected a checkpoint; try another path",
           printable(argument));
    }
    // 10 after 9, not after 1: people number their seeds without leading zeros.
    std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
      return ::strverscmp(a.c_str(), b.c_str()) < 0;
    });
    for (std::string& file : found) {
      if (fs::path(file).extension() != ".safetensors")
        fail(
            "[{}] weights: got a {} file, expected .safetensors; try "
            "safetensors.torch.save_file(model.state_dict(), ...)",
            printable(file), printable(fs::path(file).extension().string()));
      files.push_back(std::move(file));
    }
  }
  return files;
}

LoadedWeights load_checkpoints(const Network& network, const std::vector<std::string>& files,
                               at::ScalarType dtype, bool share) {
  const Wanted wanted(network);
  const auto n = static_cast<int64_t>(files.size());
  LoadedWeights loaded;
  for (const TensorSpec& spec : wanted.specs) {
    Sizes sizes = spec.sizes;
    sizes.insert(sizes.begin(), n);
    loaded.tensors.push_back(at::empty(sizes, spec.dtype == at::kFloat ? dtype : spec.dtype));
  }
  loaded.shared.assign(wanted.specs.size(), share);

  std::set<std::string> notes;
  for (int64_t i = 0; i < n; ++i) {
    const auto file = std::make_shared<const safetensors::File>(files[static_cast<size_t>(i)]);
    const Match m = match(file, network, wanted, &notes);
    for (size_t k = 0; k < wanted.specs.size(); ++k) {
      const at::Tensor slot = loaded.tensors[k].select(0, i);
      slot.copy_(m.entries[k] ? view(file, *m.entries[k]) : network.initial[k]);
      if (loaded.shared[k] && i && !same_bits(slot, loaded.tensors[k].select(0, 0)))
        loaded.shared[k] = false;
    }
  }
  size_t count = 0;
  for (size_t k = 0; k < loaded.shared.size(); ++k)
    if (loaded.shared[k]) {
      loaded.tensors[k] = loaded.tensors[k].select(0, 0).clone();
      ++count;
    }
  if (share)
    notes.insert(fmt::format("{} of {} weights are equal in all checkpoints and shared", count,
                             loaded.shared.size()));
  loaded.notes.assign(notes.begin(), notes.end());
  return loaded;
}

}  // namespace wide
