#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "data/bytes/mapped_file.h"
#include "data/bytes/refuse.h"
#include "data/networks/network_format.h"
#include "data/networks/pt2/archive.h"
#include "data/networks/pt2/call_list_builder.h"
#include "data/networks/pt2/enumerations.h"
#include "data/networks/pt2/forms.h"
#include "data/networks/pt2/symbols.h"
#include "data/networks/pt2/tree.h"
#include "data/tensors.h"
#include "engine/record/recorded_constant.h"

namespace wide::pt2::network_format {
namespace {

Tensor make_tensor(const std::shared_ptr<const MappedFile>& file, const Stored& stored) {
  Sizes sizes, strides;
  for (const Size& s : stored.meta.sizes) sizes.push_back(s.value);
  for (const Size& s : stored.meta.strides) strides.push_back(s.value);
  const uint64_t offset =
      static_cast<uint64_t>(stored.meta.offset.value) * bytes_of(stored.meta.dtype);
  return tensor_over(file, file->data() + stored.begin + offset, sizes,
                     scalar_type(stored.meta.dtype), strides);
}

struct Weight {
  TensorSpec spec;
  Tensor initial;
  std::vector<size_t> places = {};  // inputs of the graph
};

struct UserInput {
  Leaf leaf;
  size_t place = 0;  // input of the graph
  const TensorMeta* meta = nullptr;
};

/// What is written back after a run: an output of the graph to one of its inputs.
struct WriteBack {
  size_t output = 0, place = 0;
};

/// A sorted archive. All models keep it alive, as call lists point into it.
struct Loaded {
  std::string name;
  bool trusted = false;
  std::shared_ptr<const MappedFile> file;
  Archive archive;
  std::vector<UserInput> inputs;
  std::vector<Weight> weights;
  std::map<std::string, std::string> aliases;
  std::vector<std::pair<size_t, Tensor>> constants;     // by input of the graph
  std::vector<std::pair<size_t, c10::IValue>> numbers;  // numbers among the graph's inputs
  std::vector<WriteBack> write_backs;
  std::vector<size_t> results;  // outputs of the graph that the network returns
  std::vector<std::string> notes;
  at::ScalarType dtype = at::kFloat;

  const Program& program() const { return archive.program; }
};

/// A graph's calls and constants for one dtype and device.
struct Prepared {
  CallList calls;
  std::vector<std::pair<size_t, Tensor>> constants;
};

/// Call lists by setting, made when first asked for; shared by all models.
class CallLists {
 public:
  CallLists(std::shared_ptr<const Loaded> loaded, Form form)
      : loaded_(std::move(loaded)), form_(form) {}

  const Loaded& loaded() const { return *loaded_; }

  /// The setting that `bound` tensors, with `specs`, ask for.
  const Prepared& get(const Tensors& bound, const std::vector<TensorSpec>& specs) {
    Setting setting{loaded_->dtype, loaded_->dtype, c10::kCPU};
    for (size_t i = bound.size(); i-- > 0;) {
      setting.device = bound[i].device();
      if (specs[i].follows_run()) setting.to = bound[i].scalar_type();
    }
    const std::lock_guard lock(mutex_);
    for (const auto& prepared : all_)
      if (prepared->calls.setting == setting) return *prepared;
    const Unrecorded kept;
    auto prepared = std::make_unique<Prepared>();
    prepared->calls = list_calls(loaded_->program(), setting, loaded_->name, loaded_->trusted);
    bring_into(form_, loaded_->program(), &prepared->calls);
    for (const auto& [place, tensor] : loaded_->constants)
      prepared->constants.emplace_back(place, setting.apply(tensor));
    all_.push_back(std::move(prepared));
    return *all_.back();
  }

 private:
  std::shared_ptr<const Loaded> loaded_;
  Form form_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Prepared>> all_;
};

/// Where one of the network's inputs goes in the graph.
struct Entry {
  size_t place = 0;
  bool convert = false;  // its floating dtype in the export is not the network's
  at::ScalarType dtype = at::kFloat;
};

void put_inputs(Registers& registers, const std::vector<Entry>& entries, const Tensors& inputs) {
  for (size_t i = 0; i < entries.size(); ++i)
    registers[entries[i].place] = entries[i].convert ? inputs[i].to(entries[i].dtype) : inputs[i];
}

/// Runs a graph whose inputs are in their registers; buffers are updated in place.
Tensors run(const Loaded& loaded, const CallList& calls, Registers& registers) {
  const std::vector<c10::IValue> outputs = calls.run(registers);
  for (const WriteBack& w : loaded.write_backs)
    if (outputs[w.output].isTensor())
      registers[w.place].toTensor().copy_(outputs[w.output].toTensor());
  Tensors results;
  results.reserve(loaded.results.size());
  for (const size_t i : loaded.results) results.push_back(outputs[i].toTensor());
  return results;
}

class ExportFile : public NetworkFile {
 public:
  explicit ExportFile(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}

  std::string wanted() const override {
    std::vector<std::string> all;
    for (const UserInput& input : loaded_->inputs)
      all.push_back(fmt::format("{}: {}{}", input.leaf.name, to_string(input.meta->dtype),
                                sizes_text(input.meta->sizes)));
    return listing(all, 12);
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names;
    for (const UserInput& input : loaded_->inputs) names.push_back(input.leaf.name);
    return names;
  }

  std::vector<std::string> output_names() const override {
    const Program& program = loaded_->program();
    std::vector<size_t> users;
    for (size_t i = 0; i < program.outputs.size(); ++i)
      if (program.outputs[i].kind == OutputSpec::Kind::user) users.push_back(i);
    const std::vector<std::string> all = output_leaves(program, users.size(), loaded_->name);
    std::vector<std::string> names;
    for (size_t k = 0; k < all.size(); ++k)
      if (std::find(loaded_->results.begin(), loaded_->results.end(), users[k]) !=
          loaded_->results.end())
        names.push_back(all[k]);
    return names;
  }

  std::vector<TensorSpec> sample_inputs() const override {
    std::vector<TensorSpec> specs;
    for (const UserInput& input : loaded_->inputs) {
      TensorSpec spec;
      spec.name = input.leaf.name;
      for (const Size& size : input.meta->sizes) spec.sizes.push_back(size.value);
      spec.set_dtype(scalar_type(input.meta->dtype), loaded_->dtype);
      spec.fill = is_floating(input.meta->dtype) ? Fill::normal : Fill::integers;
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  std::optional<std::vector<TensorSpec>> with_batch(const std::vector<TensorSpec>& inputs,
                                                    int64_t batch) const override;
  at::ScalarType dtype() const override { return loaded_->dtype; }
  Network network(const std::vector<TensorSpec>& inputs, Form form) const override;
  FormFlags forms() const override {
    return form_flags(list_calls(loaded_->program(), {}, loaded_->name, loaded_->trusted));
  }

 private:
  std::vector<Entry> entries(const std::vector<TensorSpec>& inputs) const;

  std::shared_ptr<const Loaded> loaded_;
};

void check_dtype(const Loaded& loaded, const UserInput& input, const TensorSpec& given) {
  const bool floating = is_floating(input.meta->dtype);
  if (floating ? c10::isFloatingType(given.dtype) : given.dtype == scalar_type(input.meta->dtype))
    return;
  std::string got = c10::toString(given.dtype);
  std::transform(got.begin(), got.end(), got.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  refuse(
      loaded.name, "dtype of input " + printable(input.leaf.name), got,
      fmt::format("{} as exported", to_string(input.meta->dtype)),
      fmt::format("--input {}=...:{}", printable(input.leaf.name), to_string(input.meta->dtype)));
}

std::vector<Entry> ExportFile::entries(const std::vector<TensorSpec>& inputs) const {
  const std::vector<std::string> names = names_of(inputs);
  std::vector<std::string> missing;
  std::vector<bool> taken(inputs.size(), false);
  std::vector<Entry> entries(inputs.size());
  Symbols symbols;
  for (const UserInput& input : loaded_->inputs) {
    auto it = std::find(names.begin(), names.end(), input.leaf.name);
    if (it == names.end() && !input.leaf.other.empty())
      it = std::find(names.begin(), names.end(), input.leaf.other);
    if (it == names.end()) {
      missing.push_back(input.leaf.name);
      continue;
    }
    const auto i = static_cast<size_t>(it - names.begin());
    taken[i] = true;
    check_dtype(*loaded_, input, inputs[i]);
    bind_sizes(input.leaf.name, inputs[i].sizes, *input.meta, loaded_->program(), &symbols,
               loaded_->name);
    const at::ScalarType dtype = scalar_type(input.meta->dtype);
    entries[i] = {input.place, is_floating(input.meta->dtype) && dtype != loaded_->dtype, dtype};
  }
  if (!missing.empty() || std::find(taken.begin(), taken.end(), false) != taken.end())
    refuse(loaded_->name, "inputs", names.empty() ? "none" : listing(names, 8),
           "(" + wanted() + ")",
           "give --inputs FILE.safetensors with these names or --input NAME=2x3x64x64:f32");
  check_guards(loaded_->program(), symbols, loaded_->name);
  return entries;
}

std::optional<std::vector<TensorSpec>> ExportFile::with_batch(const std::vector<TensorSpec>& inputs,
                                                              int64_t batch) const {
  std::string symbol;
  for (const UserInput& input : loaded_->inputs)
    if (symbol.empty() && !input.meta->sizes.empty()) symbol = input.meta->sizes[0].expression;
  if (symbol.empty()) return std::nullopt;
  std::vector<TensorSpec> changed = inputs;
  for (const UserInput& input : loaded_->inputs)
    for (TensorSpec& spec : changed) {
      if (spec.name != input.leaf.name && spec.name != input.leaf.other) continue;
      const std::vector<Size>& sizes = input.meta->sizes;
      for (size_t d = 0; d < sizes.size() && d < spec.sizes.size(); ++d)
        if (sizes[d].expression == symbol) spec.sizes[d] = batch;
    }
  return changed;
}

Network ExportFile::network(const std::vector<TensorSpec>& inputs, Form form) const {
  const std::vector<Entry> entry = entries(inputs);
  Network network;
  network.name = loaded_->name;
  network.tensors = inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    network.tensors[i].set_dtype(entry[i].dtype, loaded_->dtype);
  for (const Weight& weight : loaded_->weights) {
    network.tensors.push_back(weight.spec);
    network.initial.push_back(weight.initial);
  }
  network.aliases = loaded_->aliases;
  network.notes = loaded_->notes;

  const auto lists = std::make_shared<CallLists>(loaded_, form);
  const std::vector<TensorSpec> specs = network.tensors;
  const auto count = static_cast<std::ptrdiff_t>(inputs.size());
  network.forward = [lists, entry, specs, count](const Tensors& bound) {
    const Loaded& loaded = lists->loaded();
    const Prepared& prepared = lists->get(bound, specs);
    Registers registers = prepared.calls.registers();
    put_inputs(registers, entry, {bound.begin(), bound.begin() + count});
    for (size_t k = 0; k < loaded.weights.size(); ++k)
      for (const size_t place : loaded.weights[k].places)
        registers[place] = bound[static_cast<size_t>(count) + k];
    for (const auto& [place, tensor] : prepared.constants)
      registers[place] = recorded_constant(tensor);
    for (const auto& [place, number] : loaded.numbers) registers[place] = number;
    return run(loaded, prepared.calls, registers);
  };

  network.instantiate = [lists, entry, specs, count](const Tensors& weights) -> Model {
    const Loaded& loaded = lists->loaded();
    const Prepared& prepared = lists->get(weights, {specs.begin() + count, specs.end()});
    Registers registers = prepared.calls.registers();
    for (size_t k = 0; k < loaded.weights.size(); ++k) {
      // A forward may update its buffers in place; the caller's tensors must not see that.
      const Weight& weight = loaded.weights[k];
      const auto& written = prepared.calls.written;
      // Batch norm in training writes to its statistics, though its schema declares no write.
      const bool own = weight.spec.role == Role::buffer ||
                       std::any_of(weight.places.begin(), weight.places.end(), [&](size_t place) {
                         return written.count(place) ||
                                std::any_of(loaded.write_backs.begin(), loaded.write_backs.end(),
                                            [&](const WriteBack& w) { return w.place == place; });
                       });
      const Tensor tensor = own ? weights.at(k).clone() : weights.at(k);
      for (const size_t place : weight.places) registers[place] = tensor;
    }
    for (const auto& [place, tensor] : prepared.constants) registers[place] = tensor;
    for (const auto& [place, number] : loaded.numbers) registers[place] = number;
    return [lists, entry, calls = &prepared.calls, registers](const Tensors& given) mutable {
      const at::NoGradGuard no_grad;
      put_inputs(registers, entry, given);
      return run(lists->loaded(), *calls, registers);
    };
  };
  return network;
}

/// Sorts an archive's inputs and outputs into what a network has.
class Loader {
 public:
  Loader(const std::string& path, std::shared_ptr<const MappedFile> file, bool trusted)
      : loaded_(std::make_shared<Loaded>()) {
    loaded_->name = path;
    loaded_->trusted = trusted;
    loaded_->file = std::move(file);
    loaded_->archive = parse_archive(loaded_->file->bytes(), path);
  }

  std::shared_ptr<const Loaded> load() {
    const Program& program = loaded_->program();
    if (program.inputs.size() != program.graph.inputs.size() ||
        program.outputs.size() != program.graph.outputs.size())
      refuse(loaded_->name, "graph",
             fmt::format("{} inputs, {} outputs", program.graph.inputs.size(),
                         program.graph.outputs.size()),
             fmt::format("{} and {} as in its signature", program.inputs.size(),
                         program.outputs.size()),
             "export it again with torch.export.save");
    choose_dtype();
    find_written();
    for (const Stored& s : loaded_->archive.weights) add_weight(s, /*persistent=*/true);
    std::vector<std::string> names;
    for (size_t i = 0; i < program.inputs.size(); ++i) input(i, &names);
    name_inputs(names);
    for (size_t i = 0; i < program.outputs.size(); ++i) output(i);
    if (loaded_->results.empty())
      refuse(loaded_->name, "outputs", "no tensor", "at least one", "return a tensor from forward");
    for (Weight& weight : loaded_->weights)
      weight.spec.set_dtype(weight.spec.dtype, loaded_->dtype);
    for (const auto& [alias, name] : loaded_->aliases)
      loaded_->notes.push_back(
          fmt::format("{} and {} are tied: one weight", printable(name), printable(alias)));
    return loaded_;
  }

 private:
  /// The network's dtype is that of its first floating weight.
  void choose_dtype() {
    for (const auto* list : {&loaded_->archive.weights, &loaded_->archive.constants})
      for (const Stored& s : *list)
        if (is_floating(s.meta.dtype)) {
          loaded_->dtype = scalar_type(s.meta.dtype);
          return;
        }
  }

  void find_written() {
    written_ = list_calls(loaded_->program(), {}, loaded_->name, loaded_->trusted).written;
    for (const OutputSpec& o : loaded_->program().outputs)
      if (o.kind == OutputSpec::Kind::mutation)
        for (size_t i = 0; i < loaded_->program().inputs.size(); ++i)
          if (loaded_->program().inputs[i].target == o.target) written_.insert(i);
  }

  /// A buffer, until an input says that it is a parameter.
  size_t add_weight(const Stored& stored, bool persistent) {
    const auto [it, fresh] = weight_of_.emplace(stored.name, loaded_->weights.size());
    if (!fresh) return it->second;
    for (const auto& [other, index] : stored_)
      if (same_tensor(*other, stored)) {
        loaded_->aliases[stored.name] = loaded_->weights[index].spec.name;
        return it->second = index;
      }
    stored_.emplace_back(&stored, it->second);
    const Tensor own = make_tensor(loaded_->file, stored);
    TensorSpec spec{stored.name, Role::buffer, own.sizes().vec(), own.scalar_type()};
    spec.persistent = persistent;
    loaded_->weights.push_back({std::move(spec), own});
    return it->second;
  }

  const Stored* constant(const std::string& name) const {
    for (const Stored& s : loaded_->archive.constants)
      if (s.name == name) return &s;
    return nullptr;
  }

  void input(size_t i, std::vector<std::string>* names) {
    using K = InputSpec::Kind;
    const InputSpec& spec = loaded_->program().inputs[i];
    switch (spec.kind) {
      case K::parameter:
      case K::buffer:
      case K::constant: {
        auto it = weight_of_.find(spec.target);
        if (it == weight_of_.end()) {
          const Stored* stored = constant(spec.target);
          if (!stored)
            refuse(loaded_->name, "tensor " + printable(spec.target), "none", "its values",
                   "export it again with torch.export.save");
          if (!written_.count(i)) {
            loaded_->constants.emplace_back(i, make_tensor(loaded_->file, *stored));
            return;
          }
          // A tensor that forward writes to needs one copy per model, also when no checkpoint has
          // it.
          add_weight(*stored, /*persistent=*/false);
          it = weight_of_.find(spec.target);
        }
        Weight& weight = loaded_->weights[it->second];
        weight.places.push_back(i);
        if (spec.kind == K::parameter) weight.spec.role = Role::parameter;
        return;
      }
      case K::user:
        names->push_back(user_input(i, spec.value));
        return;
      case K::number:
        names->emplace_back();
        return;
      case K::object:
        refuse(loaded_->name, "input " + printable(spec.target), "a custom object", "tensors",
               "export the network without it");
      case K::token:
        refuse(loaded_->name, "input", "a token of an operator with side effects", "tensors",
               "export the network without such operators");
    }
  }

  /// The graph's name of input `i` if it is a tensor that the caller gives, or "".
  std::string user_input(size_t i, const Argument& value) {
    if (value.kind == Argument::Kind::tensor && !value.list) {
      const std::string& name = value.items[0].name;
      const auto it = loaded_->program().graph.tensors.find(name);
      if (it == loaded_->program().graph.tensors.end())
        refuse(loaded_->name, "input " + printable(name), "no sizes", "them", "export it again");
      for (const Size& size : it->second.sizes)
        if (size.known && size.value < 0)
          refuse(loaded_->name, "input " + printable(name), fmt::format("size {}", size.value),
                 "sizes from 0 on", "export it again");
      loaded_->inputs.push_back({{}, i, &it->second});
      return name;
    }
    const std::string symbol = value.items.empty() ? "" : value.items[0].name;
    if (value.kind == Argument::Kind::integer && !symbol.empty()) {
      const auto it = loaded_->program().graph.integers.find(symbol);
      if (it == loaded_->program().graph.integers.end() || !it->second.known)
        refuse(loaded_->name, "input " + printable(symbol), "a number of any value",
               "one that the export knows", "export it without a dynamic one");
      loaded_->numbers.emplace_back(i, c10::IValue(it->second.value));
      loaded_->notes.push_back(fmt::format("input {} is {}, as on the exporter's sample",
                                           printable(symbol), it->second.value));
    }
    return "";
  }

  /// Leaves of forward's arguments for the inputs that are tensors.
  void name_inputs(const std::vector<std::string>& names) {
    const std::vector<Leaf> leaves = input_leaves(loaded_->program(), names, loaded_->name);
    size_t k = 0;
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) loaded_->inputs[k++].leaf = leaves[i];
  }

  void output(size_t i) {
    using K = OutputSpec::Kind;
    const OutputSpec& spec = loaded_->program().outputs[i];
    const Argument& value = loaded_->program().graph.outputs[i];
    const bool tensor =
        value.kind == Argument::Kind::tensor && !value.list && !value.items[0].name.empty();
    switch (spec.kind) {
      case K::user:
        if (tensor)
          loaded_->results.push_back(i);
        else if (value.kind != Argument::Kind::none)
          loaded_->notes.push_back(
              fmt::format("result {} is a plain number and left out of the outputs", i));
        return;
      case K::mutation:
      case K::input_mutation:
        loaded_->write_backs.push_back({i, place_of(spec)});
        return;
      case K::gradient:
        refuse(loaded_->name, "outputs", "gradients", "those of a forward pass",
               "export the forward pass alone");
      case K::token:
        refuse(loaded_->name, "outputs", "a token of an operator with side effects", "tensors",
               "export the network without such operators");
    }
  }

  size_t place_of(const OutputSpec& spec) const {
    const Program& program = loaded_->program();
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const InputSpec& input = program.inputs[i];
      const std::string name = input.kind == InputSpec::Kind::user && !input.value.items.empty()
                                   ? input.value.items[0].name
                                   : input.target;
      const bool user = spec.kind == OutputSpec::Kind::input_mutation;
      if (name == spec.target && (input.kind == InputSpec::Kind::user) == user) return i;
    }
    refuse(loaded_->name, "outputs", "a change of " + printable(spec.target), "one of its inputs",
           "export it again");
  }

  std::shared_ptr<Loaded> loaded_;
  std::map<std::string, size_t> weight_of_;  // by name, aliases too
  std::vector<std::pair<const Stored*, size_t>> stored_;
  std::set<size_t> written_;
};

bool probe_file(const std::string& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, 4);
  if (std::string_view(magic, 4) != std::string_view("PK\3\4", 4)) return false;
  const bool named = std::filesystem::path(path).extension() == ".pt2";
  return probe(MappedFile(path).bytes(), named);
}

std::unique_ptr<NetworkFile> load(const std::string& path, const NetworkOptions& options) {
  return std::make_unique<ExportFile>(
      Loader(path, std::make_shared<const MappedFile>(path), options.trusted).load());
}

const bool registered = add_network_format({"torch.export", {".pt2"}, probe_file, load});

}  // namespace
}  // namespace wide::pt2::network_format
