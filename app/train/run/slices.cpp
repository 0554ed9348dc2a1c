#include "app/train/run/slices.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/train/run/merge.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// The rest of `name` after `prefix`; "" if it does not begin with it.
std::string after(const std::string& prefix, const std::string& name) {
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : "";
}

/// Dimensions of one model's tensor, for a parameter or buffer; -1 for other tensors, which models
/// never share.
int64_t own_dims(const Prepared& run, const std::string& name) {
  for (const char* kind : {kWeightTensors, kBestTensors})
    for (const TensorSpec& spec : run.network.tensors())
      if (after(kind, name) == spec.name) return static_cast<int64_t>(spec.sizes.size());
  return -1;
}

/// The slice of a file's tensor for the models from `first` on, in the form of `like`: a row for
/// each model, or one tensor that they share.
Tensor fitted(const Tensor& rows, bool rows_shared, int64_t first, const Tensor& like,
              bool like_shared) {
  if (rows_shared && like_shared) return rows;
  if (rows_shared) return rows.unsqueeze(0).expand(like.sizes()).contiguous();
  if (like_shared) return rows[first].contiguous();
  return rows.slice(0, first, first + like.size(0)).contiguous();
}

/// Expands the tensor to a row for each model.
bool is_own_normalization(const Prepared& run, const std::string& name) {
  std::string input = after("normalize.mean.", name);
  if (input.empty()) input = after("normalize.std.", name);
  const auto& all = run.data.normalization;
  return std::ranges::any_of(
      all, [&](const Normalization& n) { return n.by_model && n.input == input; });
}

/// Whether this is a moment or an average of a parameter, `[N, ...]`, which a file has only if some
/// of its models need it.
bool is_moment(const std::string& name) {
  return name.starts_with("state.") || name.starts_with("ema.");
}

/// A tensor of a file. If the file lacks it, as none of its models needed it: for best or averaged
/// weights the current weights, for an optimiser's moment zeros.
Tensor found_in(const RunFile& file, const std::string& name) {
  if (const auto at = file.tensors.find(name); at != file.tensors.end()) return at->second;
  for (const char* kind : {kBestTensors, "ema."})
    if (const std::string rest = after(kind, name); !rest.empty())
      return file.tensors.at(kWeightTensors + rest);
  const std::string parameter = after("state.", name);
  return at::zeros_like(
      file.tensors.at(kWeightTensors + parameter.substr(0, parameter.rfind('.'))));
}

/// The tensors of files of some models each, joined along the models.
std::map<std::string, Tensor> joined(const std::vector<RunFile>& files, const Prepared& run) {
  std::map<std::string, Tensor> all;
  std::set<std::string> names;
  for (const RunFile& file : files)
    for (const auto& [name, tensor] : file.tensors) names.insert(name);
  for (const std::string& name : names) {
    Tensors rows;
    bool shared = true;
    const int64_t dims = own_dims(run, name);
    for (const RunFile& file : files) {
      const Tensor t = found_in(file, name);
      shared = shared && t.dim() == dims && (rows.empty() || at::equal(t, rows.front()));
      rows.push_back(t);
    }
    if (shared || (name.starts_with(kNormalizeTensors) && !is_own_normalization(run, name))) {
      all[name] = rows.front();
      continue;
    }
    for (size_t k = 0; k < rows.size(); ++k) {
      if (rows[k].dim() != dims) continue;
      Sizes sizes = rows[k].sizes().vec();
      sizes.insert(sizes.begin(), files[k].tensors.at(kLossSum).numel());
      rows[k] = rows[k].unsqueeze(0).expand(sizes);
    }
    all[name] = at::cat(rows);
  }
  return all;
}

}  // namespace

TrainerState load_models(const SavedRun& saved, const std::string& folder, const Prepared& run,
                         const Trainer& trainer, TrainState* state) {
  std::vector<RunFile> files;
  for (const std::string& part : saved.parts) files.push_back(load_run_file(part));
  const std::map<std::string, Tensor> all =
      files.empty() ? load_run_file(folder).tensors : joined(files, run);
  TrainState of_file = *state;
  std::map<std::string, Tensor> from;  // the trainer's
  for (const auto& [name, tensor] : all) {
    if (const std::string best = after(kBestTensors, name); !best.empty())
      of_file.best[best] = tensor;
    else if (name == kLossSum)
      of_file.loss_sum = tensor;
    else if (!name.starts_with(kNormalizeTensors))
      from[name] = tensor;
  }
  TrainerState own = trainer.state();
  for (auto& [name, like] : own.tensors) {
    const auto there = from.find(name);
    if (there == from.end()) continue;  // the trainer reports that it is missing
    const int64_t dims = own_dims(run, name);
    like = fitted(there->second, there->second.dim() == dims, saved.first_model, like,
                  like.dim() == dims);
  }
  const int64_t first = saved.first_model;
  for (const auto& [name, tensor] : from)  // those that it does not know
    own.tensors.emplace(name, is_moment(name) ? tensor.slice(0, first, first + run.n()) : tensor);
  own.step = state->step;
  state->loss_sum =
      of_file.loss_sum.slice(0, saved.first_model, saved.first_model + run.n()).clone();
  const std::map<std::string, Tensor> weights = trainer.weights();
  for (const auto& [name, tensor] : of_file.best) {
    const Tensor& like = weights.at(name);
    const int64_t dims = own_dims(run, kBestTensors + name);
    state->best[name] =
        fitted(tensor, tensor.dim() == dims, saved.first_model, like, like.dim() == dims).clone();
  }
  return own;
}

TrainState save_slices(const std::vector<std::string>& slices, const Prepared& run,
                       const TrainOptions& options) {
  SavedRun whole = merge_slices(slices);
  std::vector<RunFile> files;
  for (const std::string& slice : slices) files.push_back(load_run_file(slice));
  RunFile out;
  out.metadata = files.front().metadata;
  out.tensors = joined(files, run);
  Json head = Json::parse(out.metadata.at(kRunHead));
  std::vector<int64_t> groups;
  for (size_t i = 0; i < run.everyone.size(); ++i)
    groups.push_back(run.data.folds > 0 ? run.everyone[i].fold : static_cast<int64_t>(i));
  head["options"] = to_json(options);
  head["groups"] = groups;
  head["state"] = to_json(whole.state);
  out.metadata[kRunHead] = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  out.metadata["plan"] = "";
  save_run_file(options.save, out);
  return std::move(whole.state);
}

}  // namespace wide
