#include <algorithm>
#include <filesystem>

#include "data/bytes/mapped_file.h"
#include "data/bytes/npy.h"
#include "data/bytes/refuse.h"
#include "data/bytes/zip/zip.h"
#include "data/datasets/dataset.h"
#include "data/tensors.h"
#include "data/text.h"

namespace wide::numpy_dataset {
namespace {

namespace fs = std::filesystem;

/// The array at `begin` of a file.
at::Tensor tensor_of(const std::shared_ptr<const MappedFile>& file, uint64_t begin,
                     const npy::Array& array, const std::string& name) {
  const at::ScalarType dtype = scalar_type(array.dtype, name, file->path());
  std::vector<int64_t> sizes = array.shape;
  if (array.column_major) std::reverse(sizes.begin(), sizes.end());
  const at::Tensor tensor = tensor_over(file, file->data() + begin + array.begin, sizes, dtype);
  if (!array.column_major) return tensor;
  std::vector<int64_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  return tensor.permute(order).contiguous();
}

std::string without_npy(const std::string& name) {
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

Dataset load_archive(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  Dataset data;
  for (const zip::Entry& entry : zip::parse(file->bytes(), path, zip::Compressed::taken).entries) {
    if (entry.compressed)
      refuse(path, "array " + printable(entry.name), "it compressed", "it as it is",
             "save it with numpy.savez");
    zip::check_crc(file->bytes(), entry, path);
    const std::string name = without_npy(entry.name);
    const npy::Array array =
        npy::parse(zip::bytes_of(file->bytes(), entry), path + ":" + entry.name);
    data.columns.push_back({name, tensor_of(file, entry.begin, array, name)});
  }
  return data;
}

/// The array of a .npy file, named like the file.
DatasetColumn column_in(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string name = fs::path(path).stem().string();
  return {name, tensor_of(file, 0, npy::parse(file->bytes(), path), name)};
}

Dataset load_one(const std::string& path) { return {path, {column_in(path)}}; }

Dataset load_folder(const std::string& path) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".npy") files.push_back(entry.path().string());
  if (files.empty())
    refuse(path, "data", "a folder without .npy files", "one a column", "give another folder");
  std::sort(files.begin(), files.end(), natural_less);
  Dataset data;
  for (const std::string& file : files) data.columns.push_back(column_in(file));
  return data;
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_archive(const std::string& path) {
  return is_file(path) && zip::probe(MappedFile(path).bytes());
}

bool is_array(const std::string& path) {
  return is_file(path) && npy::probe(MappedFile(path).bytes());
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

[[maybe_unused]] const bool registered[] = {
    add_dataset_format({"npz", {".npz"}, 1, is_archive, load_archive}),
    add_dataset_format({"npy", {".npy"}, 1, is_array, load_one}),
    add_dataset_format({"a folder of npy", {}, 1, is_folder, load_folder})};

}  // namespace
}  // namespace wide::numpy_dataset
