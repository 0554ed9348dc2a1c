#include "data/checkpoints/checkpoint_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_set>

#include "data/bytes/refuse.h"
#include "data/tensors.h"

namespace wide {
namespace {

uint64_t length(const ByteRange& range) { return range.end - range.begin; }

/// Reverses the bytes of every number of `width` bytes.
void swap_bytes(char* data, uint64_t bytes, uint64_t width) {
  for (uint64_t at = 0; at + width <= bytes; at += width)
    std::reverse(data + at, data + at + width);
}

}  // namespace

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  const auto file = std::make_shared<const MappedFile>(path);
  CheckpointIndex index = checkpoint_format(file->bytes(), path).parse(file->bytes(), path);
  const auto parts = std::move(index.parts);
  add(file, std::move(index));
  for (const auto& [name, expected] : parts) {
    const std::string beside = (std::filesystem::path(path).parent_path() / name).string();
    const auto part = std::make_shared<const MappedFile>(beside);
    CheckpointIndex held = checkpoint_format(part->bytes(), beside).parse(part->bytes(), beside);
    if (!held.parts.empty())
      refuse(beside, "checkpoint", "an index", "a part of " + printable(path), "check the index");
    const std::unordered_set<std::string> wanted(expected.begin(), expected.end());
    std::erase_if(held.tensors, [&](const StoredTensor& t) { return !wanted.count(t.name); });
    if (held.tensors.size() < wanted.size()) {
      std::unordered_set<std::string> found;
      for (const StoredTensor& t : held.tensors) found.insert(t.name);
      for (const std::string& missing : expected)
        if (!found.count(missing))
          refuse(beside, "tensor " + printable(missing), "none",
                 "it here as " + printable(path) + " says", "fetch both again");
    }
    add(part, std::move(held));
  }
}

void CheckpointFile::add(const std::shared_ptr<const MappedFile>& file, CheckpointIndex index) {
  files_.push_back(file);
  for (StoredTensor& tensor : index.tensors) {
    tensors_.push_back(std::move(tensor));
    file_of_.push_back(file);
  }
}

at::ScalarType CheckpointFile::dtype(size_t index) const {
  return scalar_type(tensors_[index].dtype, tensors_[index].name, file_of_[index]->path());
}

const char* CheckpointFile::plain_bytes(size_t index) const {
  const StoredTensor& t = tensors_[index];
  if (t.big_endian && dtype_bits(t.dtype) > 8) return nullptr;
  int64_t stride = 1;  // the stride of a dimension of size 1 does not matter
  for (size_t i = t.sizes.size(); i-- > 0;) {
    if (t.sizes[i] == 0) break;
    if (t.sizes[i] != 1 && t.strides[i] != stride) return nullptr;
    stride *= t.sizes[i];
  }
  return file_of_[index]->data() + t.range.begin;
}

at::Tensor CheckpointFile::tensor(size_t index) const {
  const StoredTensor& t = tensors_[index];
  const at::ScalarType type = dtype(index);
  const auto width = static_cast<uint64_t>(c10::elementSize(type));
  const auto& file = file_of_[index];
  char* data = file->data() + t.range.begin;
  if (!t.big_endian || width == 1 || count_elements(t.sizes) == 0)
    return tensor_over(file, data, t.sizes, type, t.strides);
  const at::Tensor own = at::empty({static_cast<int64_t>(length(t.range) / width)}, type);
  char* bytes = static_cast<char*>(own.mutable_data_ptr());
  std::memcpy(bytes, data, length(t.range));
  swap_bytes(bytes, length(t.range), c10::isComplexType(type) ? width / 2 : width);
  return own.as_strided(t.sizes, t.strides, 0);
}

bool CheckpointFile::same_place(size_t a, size_t b) const {
  const StoredTensor &x = tensors_[a], &y = tensors_[b];
  return file_of_[a] == file_of_[b] && x.range.begin == y.range.begin &&
         x.range.end == y.range.end && x.sizes == y.sizes && x.strides == y.strides &&
         x.dtype == y.dtype;
}

int64_t CheckpointFile::bytes() const {
  int64_t sum = 0;
  for (const auto& file : files_) sum += static_cast<int64_t>(file->bytes().size());
  return sum;
}

}  // namespace wide
