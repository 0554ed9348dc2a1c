// The simulated device behind engine/device.h.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <unistd.h>

#include "engine/device.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

class Timer final : public DeviceTimer {
 public:
  void start() override { start_.record(stream_of(Streams::current())); }
  void stop() override { stop_.record(stream_of(Streams::current())); }
  double ns() override {
    stop_.synchronize();
    return std::max(1.0, start_.elapsedTime(stop_) * 1e6);
  }

 private:
  c10::Event start_{kDevice.type(), c10::EventFlag::BACKEND_DEFAULT};
  c10::Event stop_{kDevice.type(), c10::EventFlag::BACKEND_DEFAULT};
};

class Graph final : public DeviceGraph {
 public:
  Graph() : stream_(Streams::get().from_pool()) {}
  void on_stream(const Work& work) override {
    const c10::StreamGuard guard(stream_of(stream_));
    work();
  }
  void begin() override { Streams::get().begin_capture(); }
  void end() override { captured_ = Streams::get().end_capture(); }
  void abandon() noexcept override { Streams::get().abandon_capture(); }
  void replay() override {
    TORCH_CHECK(captured_, "[simulated] a replay without a capture");
    Streams::get().replay(captured_);
  }

 private:
  StreamId stream_;
  std::shared_ptr<Captured> captured_ = nullptr;
};

class Runtime final : public DeviceRuntime {
 public:
  /// As a driver that one process has started: those that are forked from it afterwards have none.
  int count() const override {
    static const pid_t started_by = getpid();
    TORCH_CHECK(started_by == getpid(), "[simulated] initialization error: used before a fork");
    return 1;
  }
  void synchronize(c10::Device) override { Streams::get().synchronize(); }
  std::unique_ptr<DeviceTimer> timer(c10::Device) override { return std::make_unique<Timer>(); }
  Work on_streams(c10::Device, std::vector<Work> works, int streams) override {
    std::vector<c10::Stream> pool;
    for (int i = 0; i < streams && i < static_cast<int>(works.size()); ++i)
      pool.push_back(stream_of(Streams::get().from_pool()));
    return [pool, works = std::move(works)] {
      const c10::Stream caller = stream_of(Streams::current());
      c10::Event forked(kDevice.type());
      forked.record(caller);
      for (const c10::Stream& stream : pool) forked.block(stream);
      for (size_t i = 0; i < works.size(); ++i) {
        const c10::StreamGuard guard(pool[i % pool.size()]);
        works[i]();
      }
      for (const c10::Stream& stream : pool) {
        c10::Event joined(kDevice.type());
        joined.record(stream);
        joined.block(caller);
      }
    };
  }
  std::unique_ptr<DeviceGraph> graph(c10::Device) override { return std::make_unique<Graph>(); }
  DeviceMemory memory(c10::Device) override {
    const Memory& all = Memory::get();
    return {all.limit() - all.allocated(), all.limit(), all.allocated(), all.peak()};
  }
  void reset_peak(c10::Device) override { Memory::get().reset_peak(); }
  void release_memory(c10::Device) override {
    Streams::get().synchronize();
    Memory::get().release();
  }
  DeviceFacts facts(c10::Device) override {
    return {"Simulated device", "00000000:02:00.0", "1.0", int64_t{1} << 20};
  }
};

}  // namespace

void register_runtime() { add_device_runtime(kDevice.type(), std::make_unique<Runtime>()); }

}  // namespace wide::simulated
