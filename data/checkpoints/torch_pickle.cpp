#include "data/checkpoints/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/bytes/refuse.h"

namespace wide::torch_pickle {
namespace {

using pickle::Id;
using pickle::Kind;
using pickle::Value;
using pickle::Values;

constexpr size_t kMostDimensions = 64;
constexpr size_t kDeepest = 32;  // nesting depth of containers with tensors
constexpr size_t kLongestName = 4096, kLongestKey = 256;
/// Limits, since a few bytes of a pickle can ask for very many items; no state_dict comes near.
constexpr size_t kMostSizes = 1 << 22, kMostItems = 1 << 22, kMostNameBytes = 1 << 26;

struct Dtype {
  std::string_view torch, storage, name;
};
constexpr Dtype kDtypes[] = {
    {"float64", "DoubleStorage", "F64"},
    {"float32", "FloatStorage", "F32"},
    {"float16", "HalfStorage", "F16"},
    {"bfloat16", "BFloat16Storage", "BF16"},
    {"int64", "LongStorage", "I64"},
    {"int32", "IntStorage", "I32"},
    {"int16", "ShortStorage", "I16"},
    {"int8", "CharStorage", "I8"},
    {"uint8", "ByteStorage", "U8"},
    {"bool", "BoolStorage", "BOOL"},
    {"complex64", "ComplexFloatStorage", "C64"},
    {"complex128", "ComplexDoubleStorage", "C128"},
    {"uint16", "", "U16"},
    {"uint32", "", "U32"},
    {"uint64", "", "U64"},
    {"float8_e5m2", "", "F8_E5M2"},
    {"float8_e4m3fn", "", "F8_E4M3"},
};

constexpr std::string_view kRebuild = "torch._utils._rebuild_";

/// Other names than storages and dtypes. Only the tensors of the objects they make are kept.
constexpr std::string_view kNames[] = {
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.Counter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._tensor._rebuild_from_type_v2",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.Tensor",
    "torch.Size",
    "torch.device",
    "_codecs.encode",
};
/// Names in `builtins`, which protocol 2 calls `__builtin__`.
constexpr std::string_view kBuiltins[] = {"set", "frozenset", "list",      "dict",
                                          "int", "float",     "bytearray", "complex"};

std::string_view builtin(std::string_view name) {
  for (const std::string_view module : {"builtins.", "__builtin__."})
    if (name.starts_with(module)) {
      name.remove_prefix(module.size());
      for (const std::string_view known : kBuiltins)
        if (name == known) return known;
    }
  return "";
}

/// The dtype of "torch.FloatStorage" or of "torch.float32"; U8 for a storage without one.
std::string_view dtype_named(std::string_view name, std::string_view Dtype::*column) {
  if (!name.starts_with("torch.") || name.size() == 6) return "";
  name.remove_prefix(6);
  for (const Dtype& d : kDtypes)
    if (name == d.*column) return d.name;
  return "";
}
std::string_view storage_dtype(std::string_view name) {
  if (name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage") return "U8";
  return dtype_named(name, &Dtype::storage);
}
std::string_view torch_dtype(std::string_view name) { return dtype_named(name, &Dtype::torch); }

[[noreturn]] void odd(const Values& values, std::string_view what, const std::string& got,
                      const std::string& expected) {
  refuse(values.file(), printable(what), got, expected);
}

/// Item `i` of a tuple of arguments. Throws Error if it is missing or of another kind.
const Value& argument(const Values& values, std::string_view what, Id tuple, size_t i, Kind kind) {
  const Value& all = values[tuple];
  if (all.kind != Kind::tuple || i >= all.items.size())
    odd(values, what, fmt::format("{} arguments", all.items.size()), fmt::format("{}", i + 1));
  const Value& value = values[all.items[i]];
  if (value.kind != kind)
    odd(values, what, fmt::format("{} as argument {}", to_string(value.kind), i), to_string(kind));
  return value;
}

uint64_t count(const Values& values, std::string_view what, Id tuple, size_t i) {
  const int64_t number = argument(values, what, tuple, i, Kind::integer).number;
  if (number < 0) odd(values, what, fmt::format("{} as argument {}", number, i), "at least 0");
  return static_cast<uint64_t>(number);
}

std::vector<int64_t> counts(const Values& values, std::string_view what, Id tuple, size_t i) {
  std::vector<int64_t> out;
  const Value& list = argument(values, what, tuple, i, Kind::tuple);
  if (list.items.size() > kMostDimensions)
    odd(values, what, fmt::format("{} dimensions", list.items.size()),
        fmt::format("at most {}", kMostDimensions));
  for (const Id item : list.items) {
    const Value& value = values[item];
    if (value.kind != Kind::integer || value.number < 0)
      odd(values, what, fmt::format("{} among sizes", to_string(value.kind)),
          "an integer of at least 0");
    out.push_back(value.number);
  }
  return out;
}

Id indexed(Values& values, Kind kind, size_t index) {
  return values.add(Value{.kind = kind, .number = static_cast<int64_t>(index)});
}

}  // namespace

bool Meaning::knows(std::string_view name) const {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         !builtin(name).empty() || !storage_dtype(name).empty() || !torch_dtype(name).empty();
}

Id Meaning::call(Values& values, std::string_view name, Id arguments) {
  if (name == "torch._tensor._rebuild_from_type_v2") {
    const Value& function = argument(values, name, arguments, 0, Kind::name);
    const std::string_view type = argument(values, name, arguments, 1, Kind::name).text;
    if (type != "torch.Tensor" && !type.starts_with("torch.nn.parameter."))
      odd(values, name, printable(type), "torch.Tensor or a parameter");
    if (!function.text.starts_with(kRebuild))
      odd(values, name, printable(function.text), "a function that rebuilds a tensor");
    argument(values, name, arguments, 2, Kind::tuple);
    const std::string_view inner = function.text;
    return call(values, inner, values[arguments].items[2]);
  }
  if (name.starts_with("torch._utils._rebuild_parameter") ||
      name == "torch.nn.parameter.Parameter" || name == "torch.nn.parameter.Buffer") {
    argument(values, name, arguments, 0, Kind::tensor);
    return values[arguments].items[0];
  }
  if (name.starts_with("torch._utils._rebuild_tensor")) {
    View view;
    view.storage = static_cast<size_t>(argument(values, name, arguments, 0, Kind::storage).number);
    view.dtype = storages_[view.storage].dtype;
    view.offset = count(values, name, arguments, 1);
    view.sizes = counts(values, name, arguments, 2);
    view.strides = counts(values, name, arguments, 3);
    if (view.sizes.size() != view.strides.size())
      odd(values, name, fmt::format("{} strides", view.strides.size()),
          fmt::format("{} as there are sizes", view.sizes.size()));
    asked_sizes_ += view.sizes.size();
    if (asked_sizes_ > kMostSizes)
      odd(values, "pickle", "more dimensions of tensors", fmt::format("at most {}", kMostSizes));
    if (name.ends_with("_v3")) {
      const std::string_view dtype = argument(values, name, arguments, 6, Kind::name).text;
      view.dtype = torch_dtype(dtype);
      if (view.dtype.empty()) odd(values, name, printable(dtype), "a dtype");
    }
    views_.push_back(std::move(view));
    return indexed(values, Kind::tensor, views_.size() - 1);
  }
  if (name == "collections.OrderedDict") {
    const Id dict = values.add(Kind::dict);
    // Python 2 writes the items as a list of pairs.
    for (const Id list : values[arguments].items)
      for (const Id pair : values[list].items) {
        if (++copied_items_ > kMostItems)
          odd(values, name, "more items", fmt::format("at most {}", kMostItems));
        if (values[pair].items.size() != 2)
          odd(values, name, "an item that is no pair", "keys and values");
        values[dict].items.insert(values[dict].items.end(), values[pair].items.begin(),
                                  values[pair].items.end());
      }
    return dict;
  }
  if (name == "collections.defaultdict" || name == "collections.Counter" || builtin(name) == "dict")
    return values.add(Kind::dict);
  if (builtin(name) == "set" || builtin(name) == "frozenset" || builtin(name) == "list")
    return values.add(Kind::set);
  if (name == "torch.Size" || name == "torch.device" || name == "_codecs.encode" ||
      builtin(name) == "bytearray" || builtin(name) == "complex")
    return values.add(Kind::none);  // a value without tensors
  odd(values, "pickle", fmt::format("a call of {}", printable(name)), "none of it");
}

Id Meaning::persistent(Values& values, Id id) {
  constexpr std::string_view kWhat = "storage";
  if (values[id].kind != Kind::tuple)
    odd(values, kWhat, fmt::format("{} as its id", to_string(values[id].kind)), "a tuple");
  if (const auto tag = argument(values, kWhat, id, 0, Kind::text).text; tag != "storage")
    odd(values, "pickle", fmt::format("a persistent '{}'", printable(tag, 40)), "storages only");
  const std::string_view type = argument(values, kWhat, id, 1, Kind::name).text;
  Storage storage;
  storage.dtype = storage_dtype(type);
  if (storage.dtype.empty()) odd(values, kWhat, printable(type), "a type of storage");
  storage.key = argument(values, kWhat, id, 2, Kind::text).text.substr(0, kLongestKey);
  storage.numel = count(values, kWhat, id, 4);
  // In the older layout a storage may be a part of another one: (key, offset, size).
  if (values[id].items.size() > 5 && values[values[id].items[5]].kind != Kind::none) {
    const Id part = values[id].items[5];
    const uint64_t offset = count(values, kWhat, part, 1), numel = count(values, kWhat, part, 2);
    if (offset > storage.numel || numel > storage.numel - offset)
      odd(values, kWhat, fmt::format("{} elements from {}", numel, offset),
          fmt::format("at most the {} of the whole", storage.numel));
    storage.offset = offset;
    storage.numel = numel;
  }
  storages_.push_back(std::move(storage));
  return indexed(values, Kind::storage, storages_.size() - 1);
}

StoredTensor Meaning::locate(const std::string& file, const std::string& name, const View& view,
                             const ByteRange& place) const {
  const Storage& storage = storages_[view.storage];
  const uint64_t stored = static_cast<uint64_t>(dtype_bits(storage.dtype)) / 8;
  const uint64_t size = static_cast<uint64_t>(dtype_bits(view.dtype)) / 8;
  const std::string shown = "tensor " + printable(name);

  uint64_t begin = 0, bytes = 0;  // of the storage, from its start in the file
  if (__builtin_mul_overflow(storage.offset, stored, &begin) ||
      __builtin_mul_overflow(storage.numel, stored, &bytes) || begin > place.end - place.begin ||
      bytes > place.end - place.begin - begin)
    refuse(file, "storage of " + shown, fmt::format("{} bytes", place.end - place.begin),
           fmt::format("{} elements of {}", storage.numel, storage.dtype), "fetch the file again");

  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = view.dtype;
  tensor.sizes = view.sizes;
  tensor.strides = view.strides;
  const int64_t elements = count_elements(view.sizes);
  if (elements < 0)
    refuse(file, shown, fmt::format("sizes [{}]", fmt::join(view.sizes, ", ")), "below 2^63");
  uint64_t last = 0;  // index of the furthest element
  bool fits = true;
  if (elements)
    for (size_t i = 0; i < view.sizes.size(); ++i) {
      uint64_t reach = 0;
      fits = fits &&
             !__builtin_mul_overflow(static_cast<uint64_t>(view.sizes[i] - 1),
                                     static_cast<uint64_t>(view.strides[i]), &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
  uint64_t end = 0, first = 0;
  fits = fits && !__builtin_mul_overflow(view.offset, size, &first) &&
         !__builtin_add_overflow(last, view.offset, &end) &&
         !__builtin_add_overflow(end, elements ? 1 : 0, &end) &&
         !__builtin_mul_overflow(end, size, &end);
  if (!fits || (elements && end > bytes))
    refuse(file, shown,
           fmt::format("{} [{}] with strides [{}] from element {}", view.dtype,
                       fmt::join(view.sizes, ", "), fmt::join(view.strides, ", "), view.offset),
           fmt::format("it within the {} bytes of its storage", bytes), "fetch the file again");
  tensor.range = {place.begin + begin, place.begin + begin};
  if (elements) tensor.range = {place.begin + begin + first, place.begin + begin + end};
  return tensor;
}

std::vector<StoredTensor> Meaning::tensors(const Values& values, Id root,
                                           const std::map<std::string, ByteRange>& places,
                                           bool big_endian) const {
  struct Container {
    Id id;
    std::string prefix;
    size_t depth;
  };
  std::vector<StoredTensor> out;
  std::set<std::string> names;
  std::set<Id> seen{root};
  size_t name_bytes = 0;
  std::vector<Container> waiting{{root, "", 0}};
  // A container that occurs several times, or contains itself, is searched once.
  while (!waiting.empty()) {
    const Container container = std::move(waiting.back());
    waiting.pop_back();
    const Value& holder = values[container.id];
    const bool dict = holder.kind == Kind::dict;
    std::vector<Container> inner;
    for (size_t i = 0; i < holder.items.size(); i += dict ? 2 : 1) {
      const Id id = holder.items[dict ? i + 1 : i];
      const Kind kind = values[id].kind;
      const bool deeper = (kind == Kind::dict || kind == Kind::list || kind == Kind::tuple) &&
                          container.depth < kDeepest && !values[id].items.empty();
      if (kind != Kind::tensor && !deeper) continue;
      std::string name = container.prefix;
      if (!dict)
        name += fmt::format("{}", i);
      else if (const Value& key = values[holder.items[i]]; key.kind == Kind::text)
        name += key.text;
      else if (key.kind == Kind::integer)
        name += fmt::format("{}", key.number);
      else
        continue;
      if (name.size() > kLongestName)
        refuse(values.file(), "name " + printable(name, 40), fmt::format("{} bytes", name.size()),
               fmt::format("at most {}", kLongestName));
      if (deeper) {
        if (seen.insert(id).second) inner.push_back({id, name + ".", container.depth + 1});
        continue;
      }
      name_bytes += name.size();
      if (name_bytes > kMostNameBytes)
        refuse(values.file(), "names", fmt::format("{} bytes", name_bytes),
               fmt::format("at most {}", kMostNameBytes));
      if (!names.insert(name).second)
        refuse(values.file(), "name " + printable(name), "the same name twice", "every name once");
      const View& view = views_[static_cast<size_t>(values[id].number)];
      const std::string& key = storages_[view.storage].key;
      const auto place = places.find(key);
      if (place == places.end())
        refuse(values.file(), "tensor " + printable(name),
               fmt::format("no storage '{}'", printable(key, 40)), "its bytes in the file",
               "fetch the file again");
      out.push_back(locate(values.file(), name, view, place->second));
      out.back().nested = container.prefix.size();
      out.back().big_endian = big_endian;
    }
    // Reversed, so that containers are searched in the order of the file, depth first.
    waiting.insert(waiting.end(), std::make_move_iterator(inner.rbegin()),
                   std::make_move_iterator(inner.rend()));
  }
  if (out.empty())
    refuse(values.file(), "checkpoint",
           values[root].kind == Kind::tensor
               ? "a tensor without a name"
               : fmt::format("{} without tensors", to_string(values[root].kind)),
           "a state_dict", "save its weights with torch.save(model.state_dict(), ...)");
  return out;
}

}  // namespace wide::torch_pickle
