#pragma once
#include <functional>
#include <string>

#include "data/reports/sweep/report.h"
#include "engine/lower/compile_options.h"
#include "engine/network.h"

namespace wide {

inline constexpr const char* kPeer = "torch.compile";              // of one model, called N times
inline constexpr const char* kBatchedPeer = "torch.compile vmap";  // of vmap over all models

/// What came of asking another Python.
struct PeerResult {
  std::vector<Timing> timings;      // baselines of these names
  std::vector<std::string> absent;  // why there is none
};

/// Which Python is asked, and how it measures.
struct PeerSettings {
  std::string python;
  std::string lacks;  // why it cannot compile; "": it can
  double budget_s = 1.5;
  int min_samples = 10;
  int threads = 0;  // 0: as many as here
};

/// What it is asked to compute.
struct PeerCase {
  int64_t n = 0;
  std::string phase;  // "forward", "backward" or "step"
  const Network& network;
  const Program& single;  // Program(1) of it
  const Ensemble& ensemble;
  const Tensors& expected;     // of the separate models `[N, ...]`, in the order of its results
  Mode mode = Mode::default_;  // on a device, reduce-overhead is asked of the batched peer too
};

/// Times a case through torch.compile: `settings.python` is started with the network as
/// torch.export loads it, with the same inputs and weights, and what it computes is held against
/// `expected`. Its absence is an answer, not an error. `alive` is called every few seconds while it
/// works.
PeerResult ask_peer(const PeerCase& of, const PeerSettings& settings,
                    const std::function<void()>& alive);

/// Why `python` cannot compile anything with torch.compile, or "". Takes some seconds.
std::string peer_lacks(const std::string& python);

/// The Python that the launcher set up (WORKBENCH_PYTHON), or the user's own: python3.
std::string python_of_torch();

}  // namespace wide
