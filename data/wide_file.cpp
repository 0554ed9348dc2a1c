#include "data/wide_file.h"

#include <ATen/ATen.h>

#include "data/checkpoints/checkpoint.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/networks/network_format.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// A file as it is read for both forms of `load`.
struct Opened {
  std::shared_ptr<const NetworkFile> file;
  Network network;
  Options options;
  at::ScalarType dtype = at::kFloat;
};

Opened open(const std::string& path, const Tensors& sample, const Options& options) {
  Opened opened{open_network(path), {}, options};
  if (opened.options.input_names.empty()) opened.options.input_names = opened.file->input_names();
  const std::vector<std::string>& names = opened.options.input_names;
  if (names.size() != sample.size())
    fail("[{}] sample: got {} inputs, expected {} ({}); try one tensor for each", printable(path),
         sample.size(), names.size(), opened.file->wanted());
  opened.dtype = options.dtype.value_or(opened.file->dtype());
  std::vector<TensorSpec> inputs;
  for (size_t k = 0; k < sample.size(); ++k) {
    const at::ScalarType type = sample[k].scalar_type();
    inputs.push_back({names[k], Role::input, sample[k].sizes().vec(),
                      at::isFloatingType(type) ? at::kFloat : type, Fill::normal, 1.0});
  }
  opened.network = opened.file->network(inputs);
  return opened;
}

WideModel make(Opened opened, Tensors weights, std::vector<bool> shared, int64_t n,
               const Tensors& sample) {
  std::vector<TensorSpec> specs;
  for (const size_t i : opened.network.indices(false)) specs.push_back(opened.network.tensors[i]);
  const auto source = [file = opened.file](const std::vector<TensorSpec>& inputs) {
    return file->network(inputs);
  };
  return WideModel(source, std::move(specs), std::move(weights), std::move(shared), n, sample,
                   std::move(opened.options));
}

}  // namespace

WideModel load(const std::string& network, const std::vector<std::string>& checkpoints,
               const Tensors& sample, const Options& options) {
  const at::NoGradGuard no_grad;
  Opened opened = open(network, sample, options);
  const std::vector<std::string> files = find_checkpoints(checkpoints).files;
  if (files.empty())
    fail("[{}] checkpoints: got none, expected one for each model; try load(network, n, sample)",
         printable(network));
  LoadedWeights loaded =
      load_checkpoints(opened.network, files, opened.dtype, options.share_weights);
  if (options.verbose && options.log)
    for (const std::string& note : loaded.notes) options.log(note);
  return make(std::move(opened), std::move(loaded.tensors), std::move(loaded.shared),
              static_cast<int64_t>(files.size()), sample);
}

WideModel load(const std::string& network, int64_t n, const Tensors& sample,
               const Options& options) {
  const at::NoGradGuard no_grad;
  if (n < 1) fail("[{}] models: got {}, expected at least 1; try 1", printable(network), n);
  Opened opened = open(network, sample, options);
  Tensors weights;
  std::vector<bool> shared(opened.network.initial.size(), options.share_weights);
  for (const Tensor& own : opened.network.initial) {
    const Tensor t =
        at::isFloatingType(own.scalar_type()) && own.scalar_type() == opened.file->dtype()
            ? own.to(opened.dtype)
            : own;
    weights.push_back(options.share_weights ? t.clone() : expanded(n, t).contiguous());
  }
  return make(std::move(opened), std::move(weights), std::move(shared), n, sample);
}

}  // namespace wide
