#include "engine/cuda/device.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>

// CUDA behind engine/device.h. Uses c10's generic events, as ATen's inline ones call the CUDA
// runtime directly, whose library would then have to be found and linked.

namespace wide {
namespace {

// A device without an index is the current one, as everywhere in PyTorch.
c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : c10::cuda::current_device();
}

c10::cuda::CUDAStream current_stream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(index_of(device));
}

class CudaTimer : public DeviceTimer {
 public:
  explicit CudaTimer(c10::Device device) : device_(device) {}
  void start() override { start_.record(current_stream(device_)); }
  void stop() override { stop_.record(current_stream(device_)); }
  double ns() override {
    stop_.synchronize();
    return start_.elapsedTime(stop_) * 1e6;
  }

 private:
  c10::Device device_;
  // The backend's default flag enables timing; PyTorch's default does not.
  c10::Event start_{c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event stop_{c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT};
};

class CudaGraph : public DeviceGraph {
 public:
  explicit CudaGraph(c10::Device device)
      : index_(index_of(device)),
        // Capturing is forbidden on the default stream.
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_)),
        pool_(at::cuda::graph_pool_handle()) {}

  void on_stream(const Work& work) override {
    const c10::DeviceGuard device(c10::Device(c10::kCUDA, index_));
    const c10::StreamGuard guard(stream_.unwrap());
    work();
  }
  void begin() override { graph_.capture_begin(pool_); }
  void end() override { graph_.capture_end(); }
  void abandon() noexcept override {
    try {
      graph_.capture_end();
      return;
    } catch (const std::exception&) {
      // Ending a capture that failed throws before it has cleaned up everything.
    }
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(index_, pool_);
      c10::cuda::CUDACachingAllocator::releasePool(index_, pool_);
    } catch (const std::exception&) {
      // The capture had not begun, or its end has done this already.
    }
    try {
      // The generator's state is marked as captured; a clone of it is not.
      at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
      generator.graphsafe_set_state(generator.clone());
    } catch (const std::exception&) {
    }
  }
  void replay() override { graph_.replay(); }

 private:
  c10::DeviceIndex index_;
  c10::cuda::CUDAStream stream_;
  c10::cuda::MempoolId_t pool_;
  at::cuda::CUDAGraph graph_;
};

class CudaRuntime : public DeviceRuntime {
 public:
  int count() const override { return c10::cuda::device_count(); }
  std::string why_none() const override {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible ? fmt::format("CUDA_VISIBLE_DEVICES is \"{}\"", visible) : "";
  }

  void synchronize(c10::Device device) override {
    const c10::DeviceGuard guard(c10::Device(c10::kCUDA, index_of(device)));
    c10::cuda::device_synchronize();
  }

  std::unique_ptr<DeviceTimer> timer(c10::Device device) override {
    return std::make_unique<CudaTimer>(device);
  }

  Work on_streams(c10::Device device, std::vector<Work> works, int streams) override {
    std::vector<c10::cuda::CUDAStream> pool;
    for (int i = 0; i < streams && i < static_cast<int>(works.size()); ++i)
      pool.push_back(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_of(device)));
    const auto forked = std::make_shared<c10::Event>(c10::kCUDA);
    const auto joined = std::make_shared<std::vector<c10::Event>>();
    for (size_t i = 0; i < pool.size(); ++i) joined->emplace_back(c10::kCUDA);
    return [device, pool, forked, joined, works = std::move(works)] {
      const c10::cuda::CUDAStream caller = current_stream(device);
      forked->record(caller);
      for (const c10::cuda::CUDAStream& stream : pool) forked->block(stream);
      for (size_t i = 0; i < works.size(); ++i) {
        const c10::StreamGuard guard(pool[i % pool.size()].unwrap());
        works[i]();
      }
      for (size_t i = 0; i < pool.size(); ++i) {
        (*joined)[i].record(pool[i]);
        (*joined)[i].block(caller);
      }
    };
  }

  std::unique_ptr<DeviceGraph> graph(c10::Device device) override {
    return std::make_unique<CudaGraph>(device);
  }

  DeviceMemory memory(c10::Device device) override {
    DeviceMemory memory;
    c10::DeviceAllocator* allocator = ready_allocator();
    const c10::DeviceIndex index = index_of(device);
    const auto [free, total] = allocator->getMemoryInfo(index);
    memory.free = static_cast<int64_t>(free);
    memory.total = static_cast<int64_t>(total);
    const auto stats = allocator->getDeviceStats(index);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    memory.allocated = stats.allocated_bytes[all].current;
    memory.peak = stats.allocated_bytes[all].peak;
    // Unused memory that the allocator caches is available too.
    memory.free += stats.reserved_bytes[all].current - memory.allocated;
    return memory;
  }

  void reset_peak(c10::Device device) override {
    ready_allocator()->resetPeakStats(index_of(device));
  }

  void release_memory(c10::Device) override { ready_allocator()->emptyCache(); }

  DeviceFacts facts(c10::Device device) override {
    const cudaDeviceProp& p = *at::cuda::getDeviceProperties(index_of(device));
    return {p.name, fmt::format("{:08x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID),
            fmt::format("{}.{}", p.major, p.minor), p.l2CacheSize};
  }

 private:
  // The allocator works only after CUDA's lazy initialisation.
  static c10::DeviceAllocator* ready_allocator() {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    return c10::getDeviceAllocator(c10::kCUDA);
  }
};

}  // namespace

std::unique_ptr<DeviceRuntime> make_cuda_runtime() { return std::make_unique<CudaRuntime>(); }

}  // namespace wide
