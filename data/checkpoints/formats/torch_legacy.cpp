#include <cstring>
#include <map>

#include "data/bytes/refuse.h"
#include "data/checkpoints/checkpoint_format.h"
#include "data/checkpoints/torch_pickle.h"

// Files of torch.save before PyTorch 1.6, or with _use_new_zipfile_serialization=False: five
// pickles (magic number, version, system, the object, the keys of its storages), then for every key
// the number of elements and the elements, little-endian on any machine.
namespace wide::torch_legacy_checkpoint {
namespace {

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kVersion = 1001;

/// Whether it has the layout before PyTorch 0.2, which PyTorch reads only with weights_only=False.
bool is_tar(std::string_view bytes) {
  constexpr size_t kMagicAt = 257;
  return bytes.size() > 512 && bytes.substr(kMagicAt, 5) == "ustar";
}

/// Whether the bytes begin with a pickle, of any protocol, of the magic number.
bool probe(std::string_view bytes) {
  if (is_tar(bytes)) return true;
  return bytes.size() > 16 && bytes[0] == '\x80' &&
         bytes.substr(0, 32).find(kMagic) != std::string_view::npos;
}

CheckpointIndex parse(std::string_view bytes, const std::string& file) {
  if (is_tar(bytes))
    refuse(file, "checkpoint", "a tar archive (PyTorch before 0.2)", "a layout since then",
           "load and save it with PyTorch");
  torch_pickle::Meaning meaning;
  pickle::Values values(file);
  size_t at = 0;
  const auto next = [&] {
    const pickle::Read read = pickle::load(bytes.substr(at), values, meaning);
    at += read.end;
    return read.root;
  };
  const pickle::Id magic = next(), version = next();
  if (values[magic].text != kMagic || values[version].kind != pickle::Kind::integer ||
      values[version].number != kVersion)
    refuse(file, "checkpoint", "another magic number or version",
           fmt::format("version {} of torch.save's older layout", kVersion));
  next();  // the writer's byte order and type sizes, which are not needed
  const pickle::Id root = next(), keys = next();

  std::map<std::string, uint64_t> widths;
  for (const auto& storage : meaning.storages())
    widths[storage.key] = static_cast<uint64_t>(dtype_bits(storage.dtype)) / 8;
  std::map<std::string, ByteRange> places;
  for (const pickle::Id id : values[keys].items) {
    const std::string key(values[id].text);
    const auto width = widths.find(key);
    if (width == widths.end() || places.count(key))
      refuse(file, "storage '" + printable(key, 40) + "'",
             width == widths.end() ? "a key that nothing uses" : "it twice",
             "every storage of the pickle once");
    uint64_t numel = 0, size = 0;
    if (bytes.size() - at < sizeof numel)
      refuse(file, "storage '" + printable(key, 40) + "'", "the end of the file", "its elements",
             "fetch the file again");
    std::memcpy(&numel, bytes.data() + at, sizeof numel);
    at += sizeof numel;
    if (__builtin_mul_overflow(numel, width->second, &size) || size > bytes.size() - at)
      refuse(file, "storage '" + printable(key, 40) + "'",
             fmt::format("{} bytes", bytes.size() - at), fmt::format("{} elements", numel),
             "fetch the file again");
    places[key] = {at, at + size};
    at += size;
  }
  return {meaning.tensors(values, root, places, false), {}};
}

const bool registered =
    add_checkpoint_format({"PyTorch state_dict (before 1.6)", {}, 2, probe, parse});

}  // namespace
}  // namespace wide::torch_legacy_checkpoint
