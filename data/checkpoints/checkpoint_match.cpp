#include "data/checkpoints/checkpoint_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Names that PyTorch's wrappers add anywhere in a name, and that no user's module has.
constexpr std::string_view kWrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                          "_checkpoint_wrapped_module."};
/// Usual containers of a state_dict; of several that match equally the first is used.
constexpr std::string_view kContainers[] = {"state_dict.", "model_state_dict.", "model_state.",
                                            "model.",      "module.",           "net.",
                                            "network.",    "weights.",          "params."};

/// The time of matching grows with the square of a name's length.
constexpr size_t kLongestName = 4096;

void check_length(const std::string& name, const std::string& file) {
  if (name.size() > kLongestName)
    fail("[{}] name {}: got {} bytes, expected at most {}; try to save the file again", file,
         printable(name, 40), name.size(), kLongestName);
}

/// `name` from `begin` on, without wrappers' names.
std::string unwrapped(const std::string& name, size_t begin = 0) {
  std::string out = name.substr(begin);
  for (const std::string_view wrapper : kWrappers)
    for (size_t at = 0; (at = out.find(wrapper, at)) != std::string::npos;)
      if (at == 0 || out[at - 1] == '.')
        out.erase(at, wrapper.size());
      else
        ++at;
  return out;
}

bool wrapper_at(const std::string& name, size_t at) {
  return std::any_of(std::begin(kWrappers), std::end(kWrappers), [&](std::string_view wrapper) {
    return !name.compare(at, wrapper.size(), wrapper);
  });
}

/// "layer1.0" of "layer1.0.weight"; "" of "weight".
std::string_view module_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return name.substr(0, dot == std::string_view::npos ? 0 : dot);
}

/// Whether a correct checkpoint may lack a buffer: the counter that old files do not have, and
/// buffers that are not persistent, which TorchScript does not mark. Running statistics are always
/// saved: without them a model would use another one's. `beside`: tensors that are not used, by the
/// name that the network would have for them. One of the same module and sizes may be the buffer.
bool may_be_missing(const TensorSpec& spec,
                    const std::vector<std::pair<std::string, const StoredTensor*>>& beside) {
  if (spec.role != Role::buffer) return false;
  if (spec.name.ends_with("num_batches_tracked")) return true;
  return !spec.persistent && !spec.name.ends_with("running_mean") &&
         !spec.name.ends_with("running_var") &&
         std::ranges::none_of(beside, [&](const auto& other) {
           return !spec.sizes.empty() && module_of(other.first) == module_of(spec.name) &&
                  at::IntArrayRef(other.second->sizes) == at::IntArrayRef(spec.sizes);
         });
}

/// The prefix of names that only the file has, and the one that only the network has.
struct Prefix {
  std::string file, network;
  auto operator<=>(const Prefix&) const = default;
};

struct Votes {
  size_t count = 0, first = 0;  // how many tensors match; the first of them
};

size_t rank(const std::string& prefix) {
  for (size_t i = 0; i < std::size(kContainers); ++i)
    if (prefix.starts_with(kContainers[i])) return i;
  return std::size(kContainers);
}

std::vector<std::pair<Prefix, Votes>> candidates(const CheckpointFile& file,
                                                 const WantedWeights& wanted) {
  std::map<Prefix, Votes> votes;
  const auto& tensors = file.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    for (size_t at = 0; at != std::string::npos;) {
      const size_t dot = name.find('.', at), next = dot == std::string::npos ? dot : dot + 1;
      const std::string rest = unwrapped(name, at);
      if (wrapper_at(name, at)) {  // part of the prefix where it was first
        at = next;
        continue;
      }
      for (const std::string& ahead : wanted.prefixes()) {
        // Names may lose a prefix or gain one, not both, which would rename modules. The name of
        // the state_dict's container may always be lost.
        if (!ahead.empty() && at != 0 && at != tensors[i].nested) continue;
        if (wanted.find(ahead + rest) < 0) continue;
        Votes& v = votes[{name.substr(0, at), ahead}];
        if (!v.count++) v.first = i;
      }
      at = next;
    }
  }
  std::vector<std::pair<Prefix, Votes>> list(votes.begin(), votes.end());
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    const auto key = [](const auto& c) {
      return std::make_tuple(-static_cast<int64_t>(c.second.count), c.first.network.size(),
                             rank(c.first.file), c.second.first);
    };
    return key(a) < key(b);
  });
  return list;
}

void describe_prefix(const std::vector<std::pair<Prefix, Votes>>& found, const CheckpointFile& file,
                     std::vector<std::string>* notes) {
  const auto& [prefix, votes] = found.front();
  const size_t nested = std::min(file.tensors()[votes.first].nested, prefix.file.size());
  const auto container = [&](const std::string& text, size_t length) {
    return printable(text.substr(0, length ? length - 1 : 0));
  };
  if (nested) {
    std::string also;
    for (size_t i = 1; i < found.size(); ++i)
      if (const auto& other = found[i];
          other.second.count == votes.count && other.first.network == prefix.network)
        also = fmt::format(" ('{}' would match as well)",
                           container(other.first.file, other.first.file.size()));
    notes->push_back(
        fmt::format("weights taken from '{}'{}", container(prefix.file, nested), also));
  }
  if (prefix.file.size() > nested)
    notes->push_back(
        fmt::format("prefix '{}' dropped from names", printable(prefix.file.substr(nested))));
  if (!prefix.network.empty())
    notes->push_back(fmt::format("prefix '{}' put before names, as the network has it",
                                 printable(prefix.network)));
}

void check_tensor(const CheckpointFile& file, size_t index, const TensorSpec& spec) {
  const StoredTensor& tensor = file.tensors()[index];
  const std::string path = printable(file.path());
  if (at::IntArrayRef(tensor.sizes) != at::IntArrayRef(spec.sizes))
    fail("[{}] {}: got {}, expected {} as the network has; try checkpoints of this architecture",
         path, printable(tensor.name), sizes_text(tensor.sizes), sizes_text(spec.sizes));
  const at::ScalarType dtype = file.dtype(index);
  const bool fits =
      c10::isFloatingType(spec.dtype) ? c10::isFloatingType(dtype) : dtype == spec.dtype;
  if (!fits)
    fail("[{}] dtype of {}: got {}, expected {}; try checkpoints of this architecture", path,
         printable(tensor.name), short_name(dtype),
         c10::isFloatingType(spec.dtype) ? "a floating one" : short_name(spec.dtype));
}

}  // namespace

WantedWeights::WantedWeights(const Network& network) : network_(network) {
  std::map<std::string, size_t> by_name;
  for (const size_t i : network.indices(false)) {
    check_length(network.tensors[i].name, printable(network.name));
    by_name[network.tensors[i].name] = specs_.size();
    index_[unwrapped(network.tensors[i].name)] = specs_.size();
    specs_.push_back(network.tensors[i]);
  }
  for (const auto& [alias, name] : network.aliases) check_length(alias, printable(network.name));
  for (const auto& [alias, name] : network.aliases)
    if (const auto it = by_name.find(name); it != by_name.end())
      index_.emplace(unwrapped(alias), it->second);

  std::string common = index_.empty() ? "" : index_.begin()->first;
  for (const auto& [name, at] : index_) {
    size_t same = 0;
    while (same < common.size() && same < name.size() && common[same] == name[same]) ++same;
    common.resize(same);
  }
  prefixes_.push_back("");
  for (size_t dot = common.find('.'); dot != std::string::npos; dot = common.find('.', dot + 1))
    prefixes_.push_back(common.substr(0, dot + 1));
}

int64_t WantedWeights::find(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? -1 : static_cast<int64_t>(it->second);
}

CheckpointMatch match_checkpoint(const CheckpointFile& file, const WantedWeights& wanted) {
  const auto& tensors = file.tensors();
  const std::string path = printable(file.path());
  for (const StoredTensor& tensor : tensors) check_length(tensor.name, path);
  const auto found = candidates(file, wanted);
  const Prefix prefix = found.empty() ? Prefix{} : found.front().first;

  CheckpointMatch match;
  match.tensors.assign(wanted.specs().size(), kAbsent);
  std::vector<std::string> unused;
  std::vector<std::pair<std::string, const StoredTensor*>> beside;
  std::set<std::string> names;
  bool wrapped = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    const bool ours = name.starts_with(prefix.file);
    const int64_t weight =
        ours ? wanted.find(prefix.network + unwrapped(name, prefix.file.size())) : -1;
    if (weight < 0) {
      unused.push_back(name);
      if (ours)
        beside.emplace_back(prefix.network + unwrapped(name, prefix.file.size()), &tensors[i]);
      continue;
    }
    const auto k = static_cast<size_t>(weight);
    check_tensor(file, i, wanted.specs()[k]);
    const std::string plain = unwrapped(name, prefix.file.size());
    names.insert(prefix.network + plain);
    wrapped = wrapped || prefix.file.size() + plain.size() != name.size();
    size_t& slot = match.tensors[k];
    if (slot != kAbsent && !file.same_place(slot, i) &&
        !same_bits(file.tensor(slot), file.tensor(i)))
      fail(
          "[{}] {} and {}: got different values, expected equal ones as the network ties them; "
          "try a network exported without tied weights",
          path, printable(tensors[slot].name), printable(name));
    if (slot == kAbsent) slot = i;
  }

  std::vector<std::string> missing;
  for (size_t k = 0; k < match.tensors.size(); ++k)
    if (match.tensors[k] == kAbsent &&
        !(may_be_missing(wanted.specs()[k], beside) && k < wanted.network().initial.size()))
      missing.push_back(wanted.specs()[k].name);
  if (!missing.empty())
    fail(
        "[{}] tensors: got none for {}{}, expected all {} of the network; try checkpoints of this "
        "architecture",
        path, listing(missing), unused.empty() ? "" : fmt::format(" (but {})", listing(unused)),
        wanted.specs().size());
  if (names.empty())
    fail(
        "[{}] tensors: got none that the network has, expected its {} weights; try an export that "
        "was not frozen",
        path, wanted.specs().size());

  if (!found.empty()) describe_prefix(found, file, &match.notes);
  if (wrapped) match.notes.push_back("wrappers such as '_orig_mod.' dropped inside names");
  if (!unused.empty())
    match.notes.push_back(
        fmt::format("{} of a checkpoint {} not used: {}",
                    unused.size() == 1 ? "1 tensor" : fmt::format("{} tensors", unused.size()),
                    unused.size() == 1 ? "is" : "are", listing(unused)));
  for (const auto& [alias, name] : wanted.network().aliases)
    if (!names.count(unwrapped(alias)) || !names.count(unwrapped(name)))
      match.notes.push_back(
          fmt::format("{} and {} are tied: one is in the checkpoint, both are loaded",
                      printable(name), printable(alias)));
  return match;
}

}  // namespace wide
