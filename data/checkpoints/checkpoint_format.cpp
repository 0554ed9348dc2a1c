#include "data/checkpoints/checkpoint_format.h"

#include <algorithm>

#include "data/bytes/refuse.h"
#include "data/bytes/safetensors.h"
#include "engine/program/registry.h"

namespace wide {
bool add_checkpoint_format(CheckpointFormat format) {
  return enter(std::move(format), &CheckpointFormat::name);
}
const std::vector<CheckpointFormat>& checkpoint_formats() { return registry<CheckpointFormat>(); }

const CheckpointFormat& checkpoint_format(std::string_view bytes, const std::string& file) {
  for (const CheckpointFormat& format : checkpoint_formats())
    if (format.probe(bytes)) return format;
  // No format recognises these bytes: the one of the file's extension gives the best error message.
  for (const CheckpointFormat& format : checkpoint_formats())
    for (const std::string& extension : format.extensions)
      if (!bytes.empty() && file.ends_with(extension)) return format;
  refuse(file, "checkpoint", bytes.empty() ? "an empty file" : "a file of an unknown kind",
         listing(names_of(checkpoint_formats()), 9),
         "save it with safetensors.torch.save_file(model.state_dict(), ...)");
}

int dtype_bits(std::string_view dtype) {
  return dtype == "C128" ? 128 : safetensors::bits_of(dtype);
}

int64_t count_elements(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  // A size of 0 makes the tensor empty, even if the product of the others overflows.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  return count;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    // The other sizes of an empty tensor may be so large that their product overflows.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(sizes[i], 1), &stride)) stride = 1;
  }
  return strides;
}

}  // namespace wide
