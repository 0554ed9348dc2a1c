#include "app/fuse/subject.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/checkpoints/checkpoint.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/machine/environment.h"
#include "data/networks/network_format.h"
#include "data/one_line.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Random values for another model's `t`, with its mean and spread, so that activations stay in
/// range. Tensors without negative values (variances, scales) keep that property; a constant tensor
/// gets a little noise; one with very large values, such as the -inf of a mask, is copied.
Tensor similar(const Tensor& t, Role role, at::Generator generator) {
  if (t.is_complex())
    return at::view_as_complex(similar(at::view_as_real(t).contiguous(), role, generator));
  if (!c10::isFloatingType(t.scalar_type()) || t.numel() == 0) return t.clone();
  constexpr double kMeasurable = 1e30;
  const Tensor x = t.to(at::kDouble);
  const double low = x.min().item<double>(), high = x.max().item<double>();
  if (!(low > -kMeasurable && high < kMeasurable)) return t.clone();  // also copies NaN
  const Tensor noise = at::randn(x.sizes(), generator, x.options());
  Tensor y;
  if (low == high)
    y = low > 0 ? x * (noise * 0.1).exp() : x + noise * 0.02;
  else if (low >= 0 || role == Role::buffer)
    y = x * (noise * 0.1).exp();
  else
    y = noise * x.std().item<double>() + x.mean().item<double>();
  return y.to(t.scalar_type());
}

/// The network's batch size, or 0 if it has none.
int64_t batch_of(const NetworkFile& file, const std::vector<TensorSpec>& inputs) {
  const auto other = file.with_batch(inputs, -1);
  for (size_t i = 0; other && i < inputs.size(); ++i)
    for (size_t d = 0; d < inputs[i].sizes.size(); ++d)
      if ((*other)[i].sizes[d] < 0) return inputs[i].sizes[d];
  return 0;
}

}  // namespace

const Target* registered_name(const std::string& model) {
  std::error_code error;
  if (std::filesystem::exists(model, error)) return nullptr;
  if (model.find('/') != std::string::npos || std::filesystem::path(model).has_extension())
    fail("[{}] file: got none, expected a network; try another path", printable(model));
  return &find_target(model);
}

Shape default_shape(const Target& target) {
  for (const char* sweep : {"quick", "ci", "full"})
    if (const auto it = target.sweeps.find(sweep);
        it != target.sweeps.end() && !it->second.shapes.empty())
      return it->second.shapes.front();
  fail("[{}] shape: got none, expected one in its sweeps; try another target", target.name);
}

Subject::Subject(const SubjectOptions& options)
    : device_(parse_device(options.device)), seed_(options.seed) {
  target_ = registered_name(options.model);
  if (target_) {
    const Shape shape = default_shape(*target_);
    network_ = target_->network(shape);
    if (shape.has("B")) batch_ = shape["B"];
    for (const size_t i : network_.indices(true))
      inputs_.push_back({network_.tensors[i], {}, 0, false});
  } else {
    file_ = open_network(options.model, {options.trusted});
    if (options.trusted)
      notes_.push_back("trusted: the file may call every operator that LibTorch has");
  }
  dtype_ = !options.dtype.empty() ? parse_float_dtype(options.dtype)
           : file_                ? file_->dtype()
                                  : at::kFloat;
  tolerance_ = (target_ ? *target_ : Target{}).tolerance_for(dtype_);

  read_inputs(options);
  if (file_ && inputs_.empty()) use_samples();
  if (file_) {  // files of inputs have an order of their own
    const std::vector<std::string> names = file_->input_names();
    const auto place = [&](const Input& input) {
      return std::ranges::find(names, input.spec.name);
    };
    std::ranges::stable_sort(inputs_,
                             [&](const Input& a, const Input& b) { return place(a) < place(b); });
    read_network();
    convert_refused();
  }
  notes_.insert(notes_.end(), network_.notes.begin(), network_.notes.end());
  const std::vector<std::string> files = find_weights(options);
  choose_ns(options);
  if (file_ && ns_.back() > 1 && network_.indices(false).empty())
    notes_.push_back(
        "the network has no weights that models could differ in: exported after freezing?");
  const auto memory = device_memory(device_);
  free_bytes_ = memory ? memory->free : available_memory();
  // Before weights are loaded N times. Which ones are shared is known when all files were read.
  check_memory(options.share_weights ? packed_bytes(network_, 1, dtype_) : 0);
  if (files.empty()) return;
  loaded_ = load_checkpoints(network_, files, dtype_, options.share_weights, [&](int64_t equal) {
    if (options.share_weights) check_memory(equal);
  });
  notes_.insert(notes_.end(), loaded_.notes.begin(), loaded_.notes.end());
}

void Subject::read_network() {
  std::vector<TensorSpec> specs;
  for (const Input& input : inputs_) specs.push_back(input.spec);
  network_ = file_->network(specs);
  batch_ = batch_of(*file_, specs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].spec = network_.tensors[i];
    if (Tensor& given = inputs_[i].given; given.defined() && given.is_floating_point())
      given = given.to(inputs_[i].spec.dtype_in(dtype_));
  }
}

void Subject::convert_refused() {
  std::vector<size_t> others;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const Input& input = inputs_[i]; input.given.defined() && !input.spec.follows_run())
      if (input.given.is_floating_point()) others.push_back(i);
  const auto runs = [&] {
    try {
      single();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (others.empty() || runs()) return;
  const std::vector<Input> as_given = inputs_;
  const auto convert = [&](size_t i) {
    inputs_[i].spec.set_dtype(dtype_, dtype_);
    read_network();
  };
  for (const size_t i : others) {  // one of them alone, as others may need their dtype
    inputs_ = as_given;
    convert(i);
    if (runs()) break;
  }
  if (!single_) {
    for (const size_t i : others) convert(i);
  }
  for (const size_t i : others)
    if (inputs_[i].spec.follows_run())
      notes_.push_back(fmt::format("input {} is converted from {} to {}, as forward refuses it",
                                   printable(inputs_[i].spec.name),
                                   short_name(as_given[i].given.scalar_type()),
                                   short_name(dtype_)));
}

void Subject::read_inputs(const SubjectOptions& options) {
  const bool fixed = target_ != nullptr;  // its ensemble has inputs already
  const std::string path = printable(options.inputs);
  const auto shared = [&](const std::string& name) {
    return std::ranges::find(options.shared_inputs, name) != options.shared_inputs.end();
  };
  const auto add = [&](Input input, const std::string& source) {
    for (Input& known : inputs_) {
      if (known.spec.name != input.spec.name) continue;
      if (!fixed || known.given.defined())
        fail("[{}] input {}: got it twice, expected it once; try to leave one out", source,
             printable(input.spec.name));
      if (known.spec.sizes != input.spec.sizes)
        fail("[{}] input {}: got {} for one model, expected {}; try inputs of this size", source,
             printable(input.spec.name), sizes_text(input.spec.sizes),
             sizes_text(known.spec.sizes));
      input.spec.role = known.spec.role;
      known = std::move(input);
      return;
    }
    if (fixed) {
      std::vector<std::string> names;
      for (const Input& known : inputs_) names.push_back(known.spec.name);
      fail("[{}] input: got {}, expected {}; try these names", source, printable(input.spec.name),
           listing(names, 9));
    }
    inputs_.push_back(std::move(input));
  };

  if (!options.inputs.empty())
    for (auto& [name, tensor] : load_tensors(options.inputs)) {
      Input input;
      input.shared = shared(name);
      if (!input.shared && tensor.dim() == 0)
        fail("[{}] input {}: got a single number, expected [N, ...]; try --shared-inputs {}", path,
             printable(name), printable(name));
      const at::ScalarType dtype = tensor.scalar_type();
      input.spec = {name, Role::input, tensor.sizes().slice(input.shared ? 0 : 1).vec(), dtype};
      input.spec.keeps_dtype = dtype == at::kFloat;
      if (fixed && c10::isFloatingType(dtype)) {
        input.spec.set_dtype(dtype_, dtype_);
        tensor = tensor.to(dtype_);
      }
      input.given = std::move(tensor);
      add(std::move(input), path);
    }
  for (const std::string& text : options.random_inputs) {
    const InputText parsed = parse_input(text);
    add({parsed.spec, {}, parsed.low, false}, "--input");
  }
  for (const std::string& name : options.shared_inputs) {
    bool found = false;
    for (Input& input : inputs_)
      if (input.spec.name == name) found = input.shared = true;
    if (!found) {
      std::vector<std::string> names;
      for (const Input& input : inputs_) names.push_back(input.spec.name);
      fail("[--shared-inputs] input: got {}, expected one of {}; try a name of forward's",
           printable(name), names.empty() ? "the inputs given" : listing(names, 9));
    }
  }
}

void Subject::use_samples() {
  std::vector<std::string> sizes;
  for (const TensorSpec& spec : file_->sample_inputs()) {
    inputs_.push_back({spec, {}, 0, false});
    sizes.push_back(fmt::format("{}={}", printable(spec.name), sizes_text(spec.sizes)));
  }
  if (!sizes.empty()) notes_.push_back("no inputs given: drawn as exported, " + listing(sizes, 8));
}

std::vector<std::string> Subject::find_weights(const SubjectOptions& options) {
  if (options.weights.empty()) {
    if (options.share_weights)
      fail("[--share-weights] weights: got none, expected --weights; try to leave it out");
    return {};
  }
  FoundCheckpoints found = find_checkpoints(options.weights);
  notes_.insert(notes_.end(), found.notes.begin(), found.notes.end());
  if (!options.n.empty()) {
    const auto most = static_cast<size_t>(parse_ns(options.n).back());
    if (most > found.files.size())
      fail("[--n] models: got {}, expected at most the {} checkpoints; try -n {}", most,
           found.files.size(), found.files.size());
    found.files.resize(most);
  }
  checkpoints_ = static_cast<int64_t>(found.files.size());
  return found.files;
}

void Subject::choose_ns(const SubjectOptions& options) {
  int64_t stacked = -1;
  for (const Input& input : inputs_) {
    if (!input.given.defined() || input.shared) continue;
    const int64_t count = input.given.size(0);
    if (stacked >= 0 && count != stacked)
      fail("[{}] input {}: got {} models, expected {} as the other inputs; try --shared-inputs {}",
           printable(options.inputs), printable(input.spec.name), count, stacked,
           printable(input.spec.name));
    stacked = count;
  }
  if (!options.n.empty())
    ns_ = parse_ns(options.n);
  else if (checkpoints_ > 0)
    ns_ = {checkpoints_};
  else if (stacked > 0)
    ns_ = {stacked};
  else if (target_ && target_->sweeps.count("quick") && !target_->sweeps.at("quick").n.empty())
    ns_ = {target_->sweeps.at("quick").n.front()};
  else
    fail("[--n] models: got neither --weights nor -n, expected a number of models; try -n 8");
  const int64_t most = ns_.back();
  if (stacked >= 0 && stacked < most)
    fail("[{}] inputs: got {} models, expected {}; try inputs stacked [{}, ...] or --shared-inputs",
         printable(options.inputs), stacked, most, most);
  if (stacked > most && options.n.empty())
    fail("[{}] inputs: got {} models, expected {} as there are checkpoints; try -n {}",
         printable(options.inputs), stacked, most, most);
}

Tensor Subject::input(size_t index, int64_t n) const {
  const Input& in = inputs_[index];
  if (in.given.defined()) return in.shared ? in.given : in.given.narrow(0, 0, n);
  Network only;  // a network of this input alone: each input has a seed of its own
  only.tensors = {in.spec};
  const uint64_t seed = seed_ * 1000003 + 17 * (index + 1);
  Tensor drawn = generate(only, in.shared ? 1 : n, dtype_, c10::kCPU, seed).tensors.at(0);
  if (in.low) drawn = drawn + in.low;
  return in.shared ? drawn.select(0, 0).contiguous() : drawn;
}

Tensor Subject::weight(size_t index, size_t k, int64_t n) const {
  if (has_weights())
    return loaded_.shared[k] ? loaded_.tensors[k] : loaded_.tensors[k].narrow(0, 0, n);
  const TensorSpec& spec = network_.tensors[index];
  const Tensor from = own_weight(index, k);
  const Tensor stacked = at::empty(wide_sizes(n, spec.sizes), from.options());
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t seed = (seed_ * 1000003 + static_cast<uint64_t>(i)) * 1000003 + k;
    stacked.select(0, i).copy_(similar(from, spec.role, at::detail::createCPUGenerator(seed)));
  }
  return stacked;
}

Ensemble Subject::ensemble(int64_t n) const {
  Ensemble e;
  if (target_ && !has_weights()) {
    e = generate(network_, n, dtype_, c10::kCPU, seed_);
  } else {
    e.n = n;
    e.tensors.resize(network_.tensors.size());
    e.shared.assign(network_.tensors.size(), false);
  }
  if (e.shared.size() != e.tensors.size()) e.shared.assign(e.tensors.size(), false);
  const auto inputs = network_.indices(true), weights = network_.indices(false);
  for (size_t k = 0; k < inputs.size(); ++k) {
    // Inputs that the registered target drew stay, since they have the ranges of its tests.
    const bool drawn = e.tensors[inputs[k]].defined() && !inputs_[k].given.defined();
    if (!drawn) {
      e.tensors[inputs[k]] = input(k, n);
      e.shared[inputs[k]] = inputs_[k].shared;
    } else if (inputs_[k].shared && !e.shared[inputs[k]]) {
      e.tensors[inputs[k]] = e.tensors[inputs[k]].select(0, 0).contiguous();
      e.shared[inputs[k]] = true;
    }
  }
  if (!target_ || has_weights())
    for (size_t k = 0; k < weights.size(); ++k) {
      e.tensors[weights[k]] = weight(weights[k], k, n);
      e.shared[weights[k]] = has_weights() && loaded_.shared[k];
    }
  for (Tensor& t : e.tensors) t = t.to(device_);
  return e;
}

std::optional<BatchRange> Subject::batches() const {
  if (batch_ == 0) return std::nullopt;
  if (target_) return BatchRange{};
  return range_around(batch_, [&](int64_t batch) {
    try {
      network_at(batch);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
}

Network Subject::network_at(int64_t batch) const {
  if (batch == batch_) return network_;
  Network network;
  if (target_) {
    Shape shape = default_shape(*target_);
    network = target_->network(shape.set("B", batch));
  } else {
    std::vector<TensorSpec> specs;
    for (const Input& input : inputs_) specs.push_back(input.spec);
    network = file_->network(file_->with_batch(specs, batch).value());
  }
  network.random = network_.random;
  return network;
}

Ensemble Subject::ensemble_at(const Network& network, int64_t n) const {
  Ensemble e = ensemble(n);
  for (const size_t i : network.indices(true)) {
    const Sizes& wanted = network.tensors[i].sizes;
    for (size_t d = 0; d < wanted.size(); ++d) {
      const auto dim = static_cast<int64_t>(d) + (e.shared[i] ? 0 : 1);
      const int64_t have = e.tensors[i].size(dim);
      if (have == wanted[d]) continue;
      const Tensor rows = at::arange(wanted[d], at::TensorOptions(device_).dtype(at::kLong));
      e.tensors[i] = e.tensors[i].index_select(dim, rows.remainder(have));
    }
  }
  return e;
}

/// Model 0, or the network with the weights of its own file; both record the same program.
Ensemble Subject::first_model() const {
  if (target_ || has_weights() || network_.initial.empty()) return ensemble(1);
  Ensemble e;
  e.n = 1;
  e.tensors.resize(network_.tensors.size());
  e.shared.assign(network_.tensors.size(), true);
  const auto inputs = network_.indices(true), weights = network_.indices(false);
  for (size_t k = 0; k < inputs.size(); ++k) {
    e.tensors[inputs[k]] = input(k, 1);
    e.shared[inputs[k]] = inputs_[k].shared;
  }
  for (size_t k = 0; k < weights.size(); ++k) e.tensors[weights[k]] = own_weight(weights[k], k);
  for (Tensor& t : e.tensors) t = t.to(device_);
  return e;
}

/// Turns an error that the network raises for its inputs into a user error.
Program Subject::record_first() const {
  const Ensemble first = first_model();
  try {
    return record_single(network_, first);
  } catch (const std::exception& e) {
    const bool ours = dynamic_cast<const Error*>(&e) || dynamic_cast<const std::logic_error*>(&e) ||
                      is_out_of_memory(e);
    if (ours) throw;
    std::vector<std::string> inputs;
    for (const Input& input : inputs_)
      inputs.push_back(fmt::format("{} {}{}", printable(input.spec.name),
                                   short_name(input.spec.dtype_in(dtype_)),
                                   sizes_text(input.spec.sizes)));
    fail("[{}] forward with {}: got {}, expected one model to run; try inputs of other sizes",
         printable(network_.name), listing(inputs, 9), one_line(e));
  }
}

const Program& Subject::single() {
  if (!single_) {
    single_ = record_first();
    // A file does not say whether it draws random numbers or updates buffers; its program does.
    for (const Node& node : single_->nodes) network_.random = network_.random || node.is_random();
    network_.training = network_.training || !single_->updates.empty();
    note_unread();
  }
  return *single_;
}

/// Notes parameters that forward does not read: used in training only, or the wrong forward was
/// exported.
void Subject::note_unread() {
  const ByValue<int32_t> uses = single_->uses();
  std::vector<std::string> unread;
  size_t all = 0;
  for (const ValueId id : single_->bound) {
    const Value& v = single_->value(id);
    if (v.role != Role::parameter) continue;
    ++all;
    if (uses[id] == 0) unread.push_back(printable(v.name));
  }
  if (!unread.empty())
    notes_.push_back(fmt::format("{} of {} parameters are not read by forward: {}", unread.size(),
                                 all, listing(unread)));
}

void Subject::check_memory(int64_t shared_bytes) {
  const int64_t n = ns_.back(),
                own = std::max<int64_t>(estimate_bytes(single(), 1) - shared_bytes, 1);
  largest_n_ = std::max<int64_t>(free_bytes_ - shared_bytes, 0) / own;
  if (n > largest_n_)
    throw Error(
        fmt::format("[{}] memory: got {} for n={}, expected at most the {} available; try {}",
                    printable(network_.name),
                    bytes_text(static_cast<double>(own) * static_cast<double>(n) +
                               static_cast<double>(shared_bytes)),
                    n, bytes_text(static_cast<double>(free_bytes_)),
                    largest_n_ ? fmt::format("-n {} or less", largest_n_)
                               : "a smaller batch or a larger machine"),
        5);
}

Tensor Subject::own_weight(size_t index, size_t k) const {
  const Tensor& own = network_.initial.at(k);
  return network_.tensors[index].follows_run() ? own.to(dtype_) : own;
}

}  // namespace wide
