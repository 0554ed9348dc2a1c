#include "data/bytes/safetensors.h"

#include "data/checkpoints/checkpoint_format.h"

namespace wide::safetensors_checkpoint {
namespace {

/// Whether the bytes begin with a length and a JSON object.
bool probe(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && bytes[0] != '{';
}

CheckpointIndex parse(std::string_view bytes, const std::string& file) {
  CheckpointIndex index;
  for (safetensors::Entry& entry : safetensors::parse(bytes, file).entries)
    index.tensors.push_back({.name = std::move(entry.name),
                             .dtype = std::move(entry.dtype),
                             .sizes = entry.shape,
                             .strides = dense_strides(entry.shape),
                             .range = {entry.begin, entry.end}});
  return index;
}

const bool registered = add_checkpoint_format({"safetensors", {".safetensors"}, 1, probe, parse});

}  // namespace
}  // namespace wide::safetensors_checkpoint
