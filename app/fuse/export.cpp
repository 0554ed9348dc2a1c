#include "app/fuse/export.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "app/results/table.h"
#include "data/bytes/part_file.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/model/portable.h"

namespace wide {

void check_export_path(const std::string& path) {
  export_format(path);
  check_writable_place(path);
}

std::vector<std::string> export_wide(Subject& subject, int64_t n, const FuseOptions& options,
                                     const Tensors& outputs,
                                     const std::vector<std::string>& paths) {
  const at::NoGradGuard no_grad;
  const Network& network = subject.network();
  const Ensemble ensemble = subject.ensemble(n);
  Portable portable = make_portable(network, subject.single(), ensemble, options.compile.widen);
  if (!network.random) {
    Tensors made = run(portable, pick(network, ensemble, true));
    // What several models say together says too little about each of them.
    Tensors expected =
        options.reduce == Reduce::none ? outputs : separate(subject.single(), ensemble);
    const size_t count = portable.program.outputs.size();
    made.resize(count);
    expected.resize(count);
    const double error = max_relative_error(made, expected);
    // Both were computed in the same precision: each may be off by the tolerance.
    if (!(error <= 2 * subject.tolerance()))
      throw Error(fmt::format("[{}] correctness: got relative error {}, expected at most {} from "
                              "the wide program; try --strategy *=vmap",
                              printable(paths.front()), error_text(error),
                              error_text(2 * subject.tolerance())),
                  4);
  }
  append_reduce(portable.program, options.reduce);
  std::vector<std::string> notes;
  int64_t per_model = 0;
  for (const auto& [way, count] : portable.coverage.counts())
    if (way == Way::per_model) per_model = count;
  for (const std::string& path : paths) {
    export_format(path).write(portable, path);
    notes.push_back(fmt::format(
        "exported to {}: {} ATen operators{}", printable(path), portable.program.nodes.size(),
        per_model ? fmt::format(", {} of the network's nodes one by one", per_model) : ""));
  }
  return notes;
}

}  // namespace wide
