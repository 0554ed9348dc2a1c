#include "app/train/export.h"

#include <ATen/ATen.h>

#include "data/text.h"
#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/model/portable.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

/// The first rows of an input, as often as a batch takes.
Tensor first_rows(const Prepared& run, const DataPart& part, const TensorSpec& spec) {
  const Tensor rows = at::arange(run.network.batch(), at::kLong).remainder(part.rows());
  const auto dtype = spec.dtype == at::kFloat ? run.network.dtype() : spec.dtype;
  return part.values.index_select(part.own ? 1 : 0, rows).to(dtype);
}

/// What a model's rows are normalised with, as buffers behind its weights: those of its fold.
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

}  // namespace

std::vector<std::string> export_run(const Prepared& run,
                                    const std::map<std::string, Tensor>& weights,
                                    const std::vector<std::string>& paths) {
  const at::NoGradGuard no_grad;
  Network network = run.network.eval_form();
  Ensemble models;
  models.n = run.n();
  size_t input = 0;
  for (const TensorSpec& spec : network.tensors) {
    Tensor t;
    bool shared = false;
    if (spec.role == Role::input) {
      const DataPart& part = run.data.train.inputs.at(input++);
      t = first_rows(run, part, spec);
      if (!part.own) t = expanded(run.n(), t).contiguous();
    } else {
      t = weights.at(spec.name);
      shared = t.dim() == static_cast<int64_t>(spec.sizes.size());
    }
    models.tensors.push_back(t);
    models.shared.push_back(shared);
  }
  add_normalization(run, &network, &models);
  const Program single = record_single(network, models);
  const Portable portable = make_portable(network, single, models, {});
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
                            printable(paths.front()), error, most),
                4);
  std::vector<std::string> notes;
  for (const std::string& path : paths) {
    export_format(path).write(portable, path);
    notes.push_back(fmt::format("exported to {}: {} models in evaluation, batches of {}",
                                printable(path), run.n(), run.network.batch()));
  }
  return notes;
}

}  // namespace wide
