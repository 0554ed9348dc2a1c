#include "data/networks/pt2/archive.h"

#include <algorithm>

#include "data/bytes/refuse.h"
#include "data/bytes/zip/zip.h"
#include "data/checkpoints/checkpoint_format.h"

namespace wide::pt2 {
namespace {

constexpr const char* kAgain = "export it again with torch.export.save";
constexpr const char* kOldModel = "serialized_exported_program.json";

/// Whether all numbers are known, not expressions, and not negative.
bool plain(const std::vector<Size>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(),
                     [](const Size& s) { return s.expression.empty() && s.value >= 0; });
}

/// Refuses a tensor whose elements do not all lie in its storage.
void check_extent(const Stored& t, const std::string& file) {
  const TensorMeta& m = t.meta;
  const std::string what = "tensor " + printable(t.name);
  const auto broken = [&](const std::string& got) {
    refuse(file, what, got, "plain sizes, strides and offset", kAgain);
  };
  if (!plain(m.sizes) || !plain(m.strides) || !plain({m.offset}))
    broken("symbolic or negative sizes");
  if (m.sizes.size() != m.strides.size())
    broken(fmt::format("{} sizes, {} strides", m.sizes.size(), m.strides.size()));
  uint64_t last = static_cast<uint64_t>(m.offset.value), count = 1;
  for (size_t i = 0; i < m.sizes.size(); ++i) {
    const auto size = static_cast<uint64_t>(m.sizes[i].value);
    const auto stride = static_cast<uint64_t>(m.strides[i].value);
    if (!size) return;
    uint64_t reach = 0;
    if (__builtin_mul_overflow(size - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last) || __builtin_mul_overflow(count, size, &count) ||
        count > static_cast<uint64_t>(INT64_MAX))
      broken("sizes beyond 64 bits");
  }
  uint64_t bytes = 0;
  if (last == UINT64_MAX || __builtin_mul_overflow(last + 1, bytes_of(m.dtype), &bytes))
    broken("sizes beyond 64 bits");
  if (bytes > t.end - t.begin)
    refuse(file, what, fmt::format("{} bytes of data", t.end - t.begin),
           fmt::format("at least {}", bytes), "fetch the file again");
}

/// The schema's dtype for a safetensors name.
Dtype dtype_of(const std::string& name) {
  static const std::map<std::string, Dtype> all = {
      {"U8", Dtype::u8},    {"I8", Dtype::i8},   {"I16", Dtype::i16},      {"I32", Dtype::i32},
      {"I64", Dtype::i64},  {"F16", Dtype::f16}, {"F32", Dtype::f32},      {"F64", Dtype::f64},
      {"C64", Dtype::c64},  {"U16", Dtype::u16}, {"BOOL", Dtype::boolean}, {"BF16", Dtype::bf16},
      {"C128", Dtype::c128}};
  const auto it = all.find(name);
  return it == all.end() ? Dtype::unknown : it->second;
}

/// Whether the graph has weights of a state_dict (`in_state_dict`), or constants outside it.
bool wants(const Program& program, bool in_state_dict) {
  using K = InputSpec::Kind;
  return std::any_of(program.inputs.begin(), program.inputs.end(), [&](const InputSpec& spec) {
    const bool in = spec.kind == K::parameter || (spec.kind == K::buffer && spec.persistent);
    const bool beside = spec.kind == K::constant || (spec.kind == K::buffer && !spec.persistent);
    return in_state_dict ? in : beside;
  });
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& file)
      : bytes_(bytes), file_(file), index_(zip::parse(bytes, file)), folder_(index_.folder()) {}

  Archive read() {
    if (const zip::Entry* order = find("byteorder");
        order && zip::bytes_of(bytes_, *order) == "big")
      refuse(file_, "byte order", "big", "little", "export it on another machine");
    const bool old = find(kOldModel);
    const zip::Entry& model = old ? *find(kOldModel) : only_model();
    Archive archive;
    zip::check_crc(bytes_, model, file_);
    archive.program = parse_program(zip::bytes_of(bytes_, model), file_, inner(model));
    const std::string name = old ? "" : name_of(model);
    // Only what the graph needs is read: older files may have a torch.save of an empty dict.
    if (wants(archive.program, true))
      archive.weights = old ? saved("serialized_state_dict.pt") : group("weights", name);
    if (wants(archive.program, false))
      archive.constants = old ? saved("serialized_constants.pt") : group("constants", name);
    for (const auto* list : {&archive.weights, &archive.constants})
      for (const Stored& t : *list) check_extent(t, file_);
    return archive;
  }

 private:
  const zip::Entry* find(const std::string& name) const { return index_.find(folder_ + name); }

  std::string inner(const zip::Entry& entry) const { return entry.name.substr(folder_.size()); }

  /// "model" of "models/model.json".
  std::string name_of(const zip::Entry& entry) const {
    const std::string path = inner(entry);
    return path.substr(7, path.size() - 12);
  }

  const zip::Entry& only_model() const {
    const zip::Entry* found = nullptr;
    for (const zip::Entry& e : index_.entries) {
      const std::string path = inner(e);
      if (path.size() <= 12 || path.compare(0, 7, "models/") ||
          path.compare(path.size() - 5, 5, ".json"))
        continue;
      if (found)
        refuse(file_, "models",
               fmt::format("{} and {}", printable(name_of(*found)), printable(name_of(e))),
               "one in the archive", "save each with torch.export.save");
      found = &e;
    }
    if (!found) refuse(file_, "models", "none", "one in the archive", kAgain);
    return *found;
  }

  /// The tensors of "weights" or "constants": since PyTorch 2.9 raw records with a list of them,
  /// before a torch.save.
  std::vector<Stored> group(const std::string& kind, const std::string& model) {
    const std::string folder = "data/" + kind + "/";
    const std::string list = fmt::format("{}{}_{}_config.json", folder, model, kind);
    const zip::Entry* config = find(list);
    if (!config) return saved(folder + model + ".pt");
    zip::check_crc(bytes_, *config, file_);
    std::vector<Stored> all;
    for (Payload& p : parse_payloads(zip::bytes_of(bytes_, *config), file_, list)) {
      const std::string what = "tensor " + printable(p.name);
      if (p.pickled || !p.meta)
        refuse(file_, what, "a pickled object", "a plain tensor",
               "export the network without tensor subclasses and custom objects");
      const zip::Entry* record = find(folder + p.record);
      if (!record)
        refuse(file_, what, "no record " + printable(p.record), "its data", "fetch the file again");
      all.push_back({std::move(p.name), std::move(*p.meta), record->begin, record->end});
    }
    return all;
  }

  /// The tensors of a torch.save, as PyTorch wrote them before 2.9.
  std::vector<Stored> saved(const std::string& name) const {
    const zip::Entry* entry = find(name);
    if (!entry) refuse(file_, printable(name), "none", "one in the archive", kAgain);
    const std::string_view bytes = zip::bytes_of(bytes_, *entry);
    const std::string inside = file_ + "/" + name;
    std::vector<Stored> all;
    for (StoredTensor& t : checkpoint_format(bytes, inside).parse(bytes, inside).tensors) {
      Stored stored;
      stored.meta.dtype = dtype_of(t.dtype);
      if (t.big_endian || stored.meta.dtype == Dtype::unknown)
        refuse(inside, "tensor " + printable(t.name), t.dtype, "a dtype of PyTorch, little-endian",
               kAgain);
      for (const int64_t size : t.sizes) stored.meta.sizes.push_back({.value = size});
      for (const int64_t stride : t.strides) stored.meta.strides.push_back({.value = stride});
      stored.begin = entry->begin + t.range.begin;
      stored.end = entry->begin + t.range.end;
      stored.name = std::move(t.name);
      all.push_back(std::move(stored));
    }
    return all;
  }

  std::string_view bytes_;
  const std::string& file_;
  zip::Index index_;
  std::string folder_;
};

}  // namespace

bool same_tensor(const Stored& a, const Stored& b) {
  const auto equal = [](const std::vector<Size>& x, const std::vector<Size>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Size& p, const Size& q) { return p.value == q.value; });
  };
  return a.begin == b.begin && a.end == b.end && a.end > a.begin && a.meta.dtype == b.meta.dtype &&
         a.meta.offset.value == b.meta.offset.value && equal(a.meta.sizes, b.meta.sizes) &&
         equal(a.meta.strides, b.meta.strides);
}

bool probe(std::string_view bytes, bool named_pt2) {
  if (!zip::probe(bytes)) return false;
  zip::Index index;
  try {
    index = zip::parse(bytes, "");
  } catch (const Error&) {
    return named_pt2;  // true: reading it then gives the error message
  }
  const std::string folder = index.folder();
  return index.find(folder + kOldModel) ||
         std::any_of(index.entries.begin(), index.entries.end(), [&](const zip::Entry& e) {
           return !e.name.compare(0, folder.size() + 7, folder + "models/");
         });
}

Archive parse_archive(std::string_view bytes, const std::string& file) {
  return Reader(bytes, file).read();
}

}  // namespace wide::pt2
