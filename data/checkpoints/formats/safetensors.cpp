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
  for (safetensors::Entry& entry : safetensors::parse(bytes, file).entries) {
    StoredTensor tensor;
    tensor.strides = dense_strides(entry.shape);
    tensor.name = std::move(entry.name);
    tensor.dtype = std::move(entry.dtype);
    tensor.sizes = std::move(entry.shape);
    tensor.range = {entry.begin, entry.end};
    index.tensors.push_back(std::move(tensor));
  }
  return index;
}

const bool registered = add_checkpoint_format({"safetensors", {".safetensors"}, 1, probe, parse});

}  // namespace
}  // namespace wide::safetensors_checkpoint
