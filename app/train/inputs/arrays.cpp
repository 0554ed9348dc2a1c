#include "app/train/inputs/arrays.h"

#include "data/bytes/npy.h"
#include "data/bytes/zip/zip_writer.h"
#include "data/tensors.h"

namespace wide {

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  Tensors plain;
  std::vector<std::string> heads;
  for (const auto& [name, tensor] : arrays) {
    // NumPy has no bfloat16.
    plain.push_back(tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat).contiguous()
                                                          : tensor.contiguous());
    heads.push_back(
        npy::header(safetensors_name(plain.back().scalar_type()), tensor.sizes().vec()));
  }
  std::vector<zip::Item> items;
  for (size_t i = 0; i < arrays.size(); ++i)
    items.push_back(
        {arrays[i].first + ".npy",
         {heads[i], {static_cast<const char*>(plain[i].const_data_ptr()), plain[i].nbytes()}}});
  zip::write(path, items);
}

}  // namespace wide
