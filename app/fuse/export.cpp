#include "app/fuse/export.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "app/trial/contest.h"
#include "data/bytes/part_file.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/model/dynamic_portable.h"

namespace wide {

void check_export_path(const std::string& path) {
  export_format(path);
  check_writable_place(path);
}

namespace {

/// `expected`: the outputs of the separate models, or of the wide program.
Portable portable_of(const Network& network, const Program& single, const Ensemble& ensemble,
                     const FuseOptions& options, double most, Tensors expected,
                     const std::string& path) {
  Portable portable = make_portable(network, single, ensemble, options.compile.widen);
  if (!network.random) {
    Tensors made = run(portable, pick(network, ensemble, true));
    const size_t count = portable.program.outputs.size();
    made.resize(count);
    expected.resize(count);
    const double error = max_relative_error(made, expected);
    if (!(error <= most))
      throw Error(fmt::format("[{}] correctness: got relative error {}, expected at most {} from "
                              "the wide program; try --strategy *=vmap",
                              printable(path), error_text(error), error_text(most)),
                  4);
  }
  append_reduce(portable.program, options.reduce);
  return portable;
}

}  // namespace

std::vector<std::string> export_wide(Subject& subject, int64_t n, const FuseOptions& options,
                                     const Correctness& correctness, const Tensors& outputs,
                                     const std::vector<std::string>& paths) {
  const at::NoGradGuard no_grad;
  const Network& network = subject.network();
  // Twice, since both sides are computed in the same precision and each may be off by what is
  // allowed.
  const double most = 2 * allowed(correctness);
  const Portable portable =
      dynamic_portable(subject.batch(), subject.batches(), [&](int64_t batch) {
        if (batch == subject.batch()) {
          const Ensemble models = subject.ensemble(n);
          // With reduced outputs, models are compared one by one: reduced values hide differences.
          const bool apart = options.reduce == Reduce::none || network.random;
          return portable_of(network, subject.single(), models, options, most,
                             apart ? outputs : separate(subject.single(), models), paths.front());
        }
        const Network other = subject.network_at(batch);
        const Ensemble models = subject.ensemble_at(other, n);
        const Program single = record_single(other, models);
        return portable_of(other, single, models, options, most,
                           other.random ? Tensors{} : separate(single, models), paths.front());
      });
  const std::string batches =
      subject.batch() > 0 ? ", " + batch_text(portable, subject.batch()) : "";
  std::vector<std::string> notes;
  int64_t per_model = 0;
  for (const auto& [way, count] : portable.coverage.counts())
    if (way == Way::per_model) per_model = count;
  for (const std::string& path : paths) {
    export_format(path).write(portable, path);
    notes.push_back(fmt::format(
        "exported to {}: {} ATen operators{}{}", printable(path), portable.program.nodes.size(),
        per_model ? fmt::format(", {} of the network's nodes one by one", per_model) : "",
        batches));
  }
  return notes;
}

}  // namespace wide
