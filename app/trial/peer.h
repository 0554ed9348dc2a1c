#pragma once
#include <functional>
#include <string>

#include "data/reports/sweep/report.h"
#include "engine/lower/compile_options.h"
#include "engine/network.h"

namespace wide {

inline constexpr const char* kPeer = "torch.compile";  // one compiled model, called N times
inline constexpr const char* kBatchedPeer = "torch.compile vmap";  // vmap over all models, compiled

/// The measurements of torch.compile in another Python process.
struct PeerResult {
  std::vector<Timing> timings;      // named as above
  std::vector<std::string> absent;  // reasons for missing ones
};

/// The Python to use, and how it measures.
struct PeerSettings {
  std::string python;
  std::string lacks;  // why it cannot compile; "": it can
  double budget_s = 1.5;
  int min_samples = 10;
  int threads = 0;  // 0: as many as this process
};

/// The case to compute.
struct PeerCase {
  int64_t n = 0;
  std::string phase;  // "forward", "backward" or "step"
  const Network& network;
  const Program& single;  // Program(1) of it
  const Ensemble& ensemble;
  const Tensors&
      expected;  // of the separate models `[N, ...]`, in the order of the network's results
  Mode mode = Mode::default_;  // with reduce-overhead on a GPU, the batched peer uses that mode too
};

/// Times a case with torch.compile: starts `settings.python` with the network as a torch.export
/// file and the same inputs and weights, and compares its results with `expected`. A peer that
/// cannot run is a result (`absent`), not an error. `alive` is called every few seconds meanwhile.
PeerResult ask_peer(const PeerCase& of, const PeerSettings& settings,
                    const std::function<void()>& alive);

/// Why `python` cannot compile anything with torch.compile, or "". Takes some seconds.
std::string peer_lacks(const std::string& python);

/// The Python that the launcher set up (WORKBENCH_PYTHON), or the user's own: python3.
std::string python_of_torch();

}  // namespace wide
