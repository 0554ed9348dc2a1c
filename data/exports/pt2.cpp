#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/export/pt2_archive_constants.h>

#include "data/bytes/part_file.h"
#include "data/exports/pt2_graph.h"
#include "data/exports/pt2_sample.h"
#include "data/exports/pt2_schema.h"
#include "engine/error.h"

namespace wide::pt2_export {
namespace {

namespace spec = torch::_export::archive_spec;
using json = nlohmann::ordered_json;

constexpr const char* kModel = "model";  // the name that torch.export.load expects

class Archive {
 public:
  explicit Archive(const std::string& path)
      : file_(path), zip_([this](const void* data, size_t size) {
          file_.write(data, size);
          return size;
        }) {
    zip_.setMinVersion(6);
  }

  void record(const std::string& name, const void* data, size_t size) {
    zip_.writeRecord(name, data, size);
  }
  void record(const std::string& name, std::string_view text) {
    record(name, text.data(), text.size());
  }

  /// Adds a file for every tensor, and a table of their names and sizes.
  void tensors(const std::vector<Pt2Tensor>& all, std::string_view folder, std::string_view prefix,
               std::string_view table) {
    json config = json::object();
    for (size_t i = 0; i < all.size(); ++i) {
      const Pt2Tensor& t = all[i];
      const std::string file = fmt::format("{}{}", prefix, i);
      const Tensor here = t.tensor.detach().to(at::kCPU).resolve_conj().resolve_neg();
      // The tensor is dense but maybe permuted: writes its memory in order, and its strides.
      record(fmt::format("{}{}", folder, file), here.const_data_ptr(), here.nbytes());
      const bool grad = t.parameter && at::isFloatingType(t.tensor.scalar_type());
      config[t.name] = {{"path_name", file},
                        {"is_param", t.parameter},
                        {"use_pickle", false},
                        {"tensor_meta", pt2_tensor_meta(describe(t.tensor), grad)}};
    }
    record(fmt::format(fmt::runtime(table), kModel), json{{"config", config}}.dump());
  }

  void finish() {
    record(std::string(spec::ARCHIVE_FORMAT_PATH), spec::ARCHIVE_FORMAT_VALUE);
    record(std::string(spec::ARCHIVE_VERSION_PATH), spec::ARCHIVE_VERSION_VALUE);
    zip_.writeEndOfFile();
    file_.commit();
  }

 private:
  PartFile file_;
  caffe2::serialize::PyTorchStreamWriter zip_;
};

void write(const Portable& portable, const std::string& path) {
  const Pt2Model model = pt2_model(portable);
  Archive archive(path);
  archive.tensors(model.weights, spec::WEIGHTS_DIR, spec::WEIGHT_FILENAME_PREFIX,
                  spec::WEIGHTS_CONFIG_FILENAME_FORMAT);
  archive.tensors(model.constants, spec::CONSTANTS_DIR, spec::TENSOR_CONSTANT_FILENAME_PREFIX,
                  spec::CONSTANTS_CONFIG_FILENAME_FORMAT);
  archive.record(fmt::format(fmt::runtime(spec::MODELS_FILENAME_FORMAT), kModel),
                 model.json.dump());
  archive.record(fmt::format(fmt::runtime(spec::SAMPLE_INPUTS_FILENAME_FORMAT), kModel),
                 pt2_sample_inputs(portable.sample));
  archive.finish();
}

[[maybe_unused]] const bool registered = add_export_format({"torch.export archive", ".pt2", write});

}  // namespace
}  // namespace wide::pt2_export
