#include "engine/measure/peaks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "engine/device.h"
#include "engine/machine/caches.h"
#include "engine/measure/stopwatch.h"
#include "engine/program/registry.h"

namespace wide {
namespace {

constexpr double kLongEnoughNs = 60e6;  // for each measurement
constexpr int kMostPeakCalls = 400;
constexpr double kBusyNs = 5e6;  // a product that takes a device this long uses all of its units

/// The shortest of many calls, as disturbances only make calls longer.
class Shortest {
 public:
  explicit Shortest(c10::Device device) : device_(device), watch_(device) {}

  double operator()(const Work& call) const {
    call();
    synchronize(device_);
    double shortest = 0;
    const double start = now_ns();
    for (int i = 0; i < kMostPeakCalls && (i < 3 || now_ns() - start < kLongEnoughNs); ++i) {
      const double ns = watch_.time_ns(call);
      if (shortest == 0 || ns < shortest) shortest = ns;
    }
    return std::max(shortest, 1.0);
  }

 private:
  c10::Device device_;
  mutable Stopwatch watch_;
};

double gemm_flops_per_s(const Shortest& shortest, const at::TensorOptions& options) {
  double best = 0, ns = 0;
  const std::vector<int64_t> sizes = options.device().is_cpu()
                                         ? std::vector<int64_t>{256, 768}
                                         : std::vector<int64_t>{256, 1024, 2048, 6144};
  const auto memory = device_memory(options.device());
  for (const int64_t size : sizes) {
    if (ns > kBusyNs) break;
    const int64_t bytes = 3 * size * size * static_cast<int64_t>(options.dtype().itemsize());
    if (best > 0 && memory && bytes > memory->free / 2) break;
    const Tensor a = at::ones({size, size}, options), b = at::ones({size, size}, options);
    Tensor c = at::empty({size, size}, options);
    ns = shortest([&] { at::mm_out(c, a, b); });
    best = std::max(best, 2e9 * static_cast<double>(size * size * size) / ns);
  }
  return best;
}

double triad_bytes_per_s(const Shortest& shortest, const at::TensorOptions& options, double bytes) {
  const auto count = std::max<int64_t>(1024, static_cast<int64_t>(bytes / 3 / sizeof(float)));
  const Tensor a = at::ones({count}, options), b = at::ones({count}, options);
  Tensor c = at::zeros({count}, options);
  // In a short triad clock and call would dominate.
  const int repeats = bytes < (options.device().is_cpu() ? 4e6 : 5e8) ? 8 : 1;
  const double ns = shortest([&] {
    for (int i = 0; i < repeats; ++i) at::add_out(c, a, b, 3.0);
  });
  return 3e9 * sizeof(float) * static_cast<double>(count) * repeats / ns;
}

/// Working sets inside the cache that a device's cores share, and beyond it if memory allows.
std::vector<double> device_sizes(c10::Device device) {
  DeviceRuntime* runtime = device_runtime(device.type());
  const auto cache = static_cast<double>(runtime ? runtime->facts(device).cache_bytes : 0);
  double beyond = std::max(double{1 << 30}, 8 * cache);
  if (const auto memory = device_memory(device))
    beyond = std::min(beyond, static_cast<double>(memory->free) / 2);
  return cache > 0 && cache < beyond ? std::vector{cache / 2, beyond} : std::vector{beyond};
}

}  // namespace

bool add_peak_probe(PeakProbe probe) { return enter(std::move(probe)); }

double Peaks::memory_bytes_per_s() const {
  return bandwidth.empty() ? 0 : bandwidth.back().bytes_per_s;
}

double Peaks::bytes_per_s(double bytes) const {
  for (const Bandwidth& level : bandwidth)
    if (bytes <= level.working_set) return level.bytes_per_s;
  return memory_bytes_per_s();
}

Peaks typical_peaks(int threads) {
  Peaks peaks;
  peaks.threads = threads;
  peaks.flops_per_s[at::kFloat] = 8e10 * threads;
  peaks.bandwidth = {{1e6, 4e10 * threads}, {1.6e7, 2e10 * threads}, {1e9, 1e10}};
  peaks.step_ns = 500;
  return peaks;
}

Peaks measure_peaks(c10::Device device, int threads) {
  const c10::InferenceMode guard;
  const int before = at::get_num_threads();
  if (threads > 0) at::set_num_threads(threads);
  const Shortest shortest(device);
  Peaks peaks;
  peaks.threads = at::get_num_threads();
  const auto real = at::TensorOptions().device(device);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    peaks.flops_per_s[dtype] = gemm_flops_per_s(shortest, real.dtype(dtype));
  if (device.is_cpu())
    for (const PeakProbe& probe : registry<PeakProbe>()) {
      const PeakProbe::Work work = probe.make(peaks.threads);
      double& best = peaks.flops_per_s[at::kFloat];
      best = std::max(best, 1e9 * work.flops / shortest(work.call));
    }

  // A virtual machine may report too small an outer cache, so four times its size is used to exceed
  // it. For a large shared cache twice its size is enough: a gigabyte may not be free.
  constexpr double kEnough = 5e8;
  const auto inner =
      static_cast<double>(cache_bytes(2, peaks.threads, peaks.threads * (int64_t{1} << 20)));
  const double outer = std::max(2 * inner, static_cast<double>(last_cache_bytes(peaks.threads)));
  std::vector<double> sizes{inner / 2, outer / 2,
                            std::max(2 * outer, std::min(4 * outer, kEnough))};
  if (!device.is_cpu()) sizes = device_sizes(device);
  for (const double bytes : sizes) {
    try {
      const double speed = triad_bytes_per_s(shortest, real.dtype(at::kFloat), bytes);
      peaks.bandwidth.push_back({bytes, speed});
    } catch (const c10::Error&) {  // out of memory: the last measurement is used for larger sets
      if (peaks.bandwidth.empty()) throw;
    }
  }

  const Tensor one = at::ones({1}, real.dtype(at::kFloat));
  Tensor result = at::empty({1}, real.dtype(at::kFloat));
  constexpr int kSteps = 100;
  const double ns = shortest([&] {
    for (int i = 0; i < kSteps; ++i) at::add_out(result, one, one);
  });
  peaks.step_ns = ns / kSteps;
  at::set_num_threads(before);
  return peaks;
}

}  // namespace wide
