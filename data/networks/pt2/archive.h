#pragma once
#include "data/networks/pt2/schema.h"

// Finds the program and tensors in a torch.export archive. Knows no LibTorch.
namespace wide::pt2 {

/// A tensor of the archive: `[begin, end)` are the bytes of its storage, counted from the start of
/// the file; sizes, strides and offset (in elements) are known numbers that stay inside them.
struct Stored {
  std::string name;  // as in a state_dict
  TensorMeta meta;
  uint64_t begin = 0, end = 0;
};

/// Whether two entries are one tensor under two names: same memory, sizes and strides.
bool same_tensor(const Stored& a, const Stored& b);

struct Archive {
  Program program;
  std::vector<Stored> weights;    // parameters and persistent buffers
  std::vector<Stored> constants;  // lifted constants and buffers that are not persistent
};

/// True for the bytes of a torch.export archive, and for those of a broken zip archive.
bool probe(std::string_view bytes, bool named_pt2);

/// Reads and checks an archive as PyTorch 2.6 to 2.11 write it. Throws Error.
Archive parse_archive(std::string_view bytes, const std::string& file);

}  // namespace wide::pt2
