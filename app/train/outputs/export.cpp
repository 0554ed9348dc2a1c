#include "app/train/outputs/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "data/text.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/model/dynamic_portable.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

/// A batch made of an input's first rows, repeated where there are too few.
Tensor first_rows(const Prepared& run, const DataPart& part, const TensorSpec& spec,
                  int64_t batch) {
  const Tensor rows = at::arange(batch, at::kLong).remainder(part.rows());
  const auto dtype = spec.dtype_in(run.network.dtype());
  return part.values.index_select(part.own ? 1 : 0, rows).to(dtype);
}

/// Adds each model's normalisation (of its fold) as buffers to its weights.
void add_normalization(const Prepared& run, Network* network, Ensemble* models) {
  for (const Normalization& n : run.data.normalization) {
    std::vector<int64_t> groups;
    for (int64_t m = 0; m < run.n(); ++m)
      groups.push_back(n.mean.size(0) == 1 ? 0 : run.data.folds > 0 ? run.feed->fold_of(m) : m);
    const auto add = [&](const char* what, const Tensor& all) {
      const Tensor own = all.index_select(0, at::tensor(groups, at::kLong));
      network->tensors.push_back({fmt::format("normalize.{}.{}", what, n.input), Role::buffer,
                                  own.sizes().slice(1).vec(), at::kDouble});
      if (!network->initial.empty()) network->initial.push_back(own[0]);
      models->tensors.push_back(own);
      models->shared.push_back(false);
      return network->tensors.size() - 1;
    };
    const size_t mean = add("mean", n.mean), std = add("std", n.std);
    size_t input = 0;
    while (network->tensors[input].name != n.input) ++input;
    network->forward = [forward = network->forward, mean, std, input](const Tensors& bound) {
      Tensors own(bound.begin(), bound.begin() + static_cast<std::ptrdiff_t>(mean));
      const Tensor x = own[input];
      own[input] = ((x.to(at::kDouble) - bound[mean]) / bound[std]).to(x.scalar_type());
      return forward(own);
    };
  }
  network->instantiate = nullptr;
}

/// The outputs to write: of a network that computes its loss beside an answer, without the loss and
/// all that needs more inputs than the answer, as targets; empty: all.
std::vector<size_t> outputs_to_write(const Prepared& run) {
  const size_t answer = run.loss.answer, loss = run.loss.held_output;
  std::vector<size_t> outputs;
  if (run.loss.loss.name != "output" || answer == loss) return outputs;
  const std::vector<std::set<std::string>> read = run.network.read_inputs();
  for (size_t i = 0; i < read.size(); ++i)
    if (i != loss && std::ranges::includes(read.at(answer), read[i])) outputs.push_back(i);
  return outputs;
}

/// Leaves out all other outputs, and inputs that only they are computed from.
void write_only(const std::vector<size_t>& outputs, Program* single, Network* network,
                Ensemble* models) {
  const std::vector<bool> read = keep_outputs(single, outputs);
  for (size_t i = network->tensors.size(); i-- > 0;) {
    if (read[i] || network->tensors[i].role != Role::input) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    single->bound.erase(single->bound.begin() + at);
    network->tensors.erase(network->tensors.begin() + at);
    models->tensors.erase(models->tensors.begin() + at);
    models->shared.erase(models->shared.begin() + at);
  }
}

/// Compiles the evaluation form of all models for one batch size. Throws Error (exit code 4) if its
/// results differ from those of separate models.
Portable portable_run(const Prepared& run, const std::map<std::string, Tensor>& weights,
                      const std::string& path, const std::vector<size_t>& outputs, int64_t batch) {
  Network network = run.network.eval_form(batch);
  Ensemble models;
  models.n = run.n();
  size_t input = 0;
  for (const TensorSpec& spec : network.tensors) {
    Tensor t;
    bool shared = false;
    if (spec.role == Role::input) {
      const DataPart& part = run.data.train.inputs.at(input++);
      t = first_rows(run, part, spec, batch);
      if (!part.own) t = expanded(run.n(), t).contiguous();
    } else {
      t = weights.at(spec.name);
      shared = t.dim() == static_cast<int64_t>(spec.sizes.size());
    }
    models.tensors.push_back(t);
    models.shared.push_back(shared);
  }
  add_normalization(run, &network, &models);
  Program single = record_single(network, models);
  if (!outputs.empty()) write_only(outputs, &single, &network, &models);
  Portable portable = make_portable(network, single, models, {});
  Tensors inputs;
  for (const size_t i : network.indices(true)) inputs.push_back(models.tensors[i]);
  Tensors made = wide::run(portable, inputs);
  Tensors expected = separate(single, models);
  made.resize(portable.program.outputs.size());
  expected.resize(made.size());
  const double error = max_relative_error(made, expected);
  const double most = 2 * Target{}.tolerance_for(run.network.dtype());
  if (!(error <= most))
    throw Error(fmt::format("[{}] correctness: got relative error {:.2g}, expected at most {:.2g} "
                            "from separate models; try the checkpoints of --save",
                            printable(path), error, most),
                4);
  return portable;
}

}  // namespace

std::vector<std::string> export_run(const Prepared& run,
                                    const std::map<std::string, Tensor>& weights,
                                    const std::vector<std::string>& paths) {
  const at::NoGradGuard no_grad;
  const int64_t batch = run.network.batch();
  const std::vector<size_t> outputs = outputs_to_write(run);
  const Portable portable = dynamic_portable(batch, run.network.eval_batches(), [&](int64_t size) {
    return portable_run(run, weights, paths[0], outputs, size);
  });
  std::vector<std::string> notes;
  for (const std::string& path : paths) {
    export_format(path).write(portable, path);
    notes.push_back(fmt::format("exported to {}: {} models in evaluation, {}", printable(path),
                                run.n(), batch_text(portable, batch)));
  }
  return notes;
}

}  // namespace wide
