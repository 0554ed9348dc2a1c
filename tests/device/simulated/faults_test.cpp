// Faults that are planted on purpose, each of which is found by its name: a check that finds
// nothing wrong proves nothing.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include "engine/device.h"
#include "tests/device/simulated/backend.h"

namespace wide::simulated {
namespace {

at::TensorOptions on_device() { return at::TensorOptions().device(kDevice); }

Tensor zeros4() { return at::zeros({4}, on_device()); }

void on(StreamId stream, const Work& work) {
  const c10::StreamGuard guard(stream_of(stream));
  work();
}

/// `second` on stream 2 after `first` on stream 1, which it waits for by an event.
void in_order(const Work& first, const Work& second, StreamId recorded_on = 1) {
  on(1, first);
  c10::Event event(kDevice.type());
  event.record(stream_of(recorded_on));
  event.block(stream_of(2));
  on(2, second);
}

void capture_once(const Work& in_capture) {
  capture(kDevice, [&] {
    if (Streams::get().capturing()) in_capture();
  });
}

struct PlantedFault {
  std::string name, found;  // how its violation begins
  std::function<void()> plant;
};

const std::vector<PlantedFault>& planted_faults() {
  static const std::vector<PlantedFault> all = {
      {"a dropped event", "a missing event: aten::copy_ source reads on stream 2 what aten::fill_",
       [] {
         Tensor x = zeros4(), y = zeros4();
         synchronize(kDevice);
         on(1, [&] { x.fill_(5); });
         on(2, [&] { y.copy_(x); });
       }},
      {"an event of the wrong stream", "a missing event: aten::copy_ source reads on stream 2",
       [] {
         Tensor x = zeros4(), y = zeros4();
         synchronize(kDevice);
         in_order([&] { x.fill_(5); }, [&] { y.copy_(x); }, 3);
       }},
      {"an event recorded too early", "a missing event: aten::copy_ source reads on stream 2",
       [] {
         Tensor x = zeros4(), y = zeros4();
         synchronize(kDevice);
         c10::Event event(kDevice.type());
         event.record(stream_of(1));
         on(1, [&] { x.fill_(5); });
         event.block(stream_of(2));
         on(2, [&] { y.copy_(x); });
       }},
      {"a result overwritten while another stream reads it",
       "a missing event: aten::fill_ argument 0 writes on stream 1 what aten::copy_ source reads",
       [] {
         Tensor x = zeros4(), y = zeros4();
         synchronize(kDevice);
         on(2, [&] { y.copy_(x); });
         on(1, [&] { x.fill_(5); });
       }},
      {"a result read by the host's stream too early",
       "a missing event: a copy to the host reads on stream 0 what aten::fill_",
       [] {
         Tensor x = zeros4();
         synchronize(kDevice);
         on(1, [&] { x.fill_(5); });
         x.cpu();
       }},
      {"memory given back while another stream uses it",
       "a missing event: an allocation writes on stream 0 what aten::copy_ source reads on stream "
       "1",
       [] {
         Tensor x = zeros4(), y = zeros4();
         synchronize(kDevice);
         on(1, [&] { y.copy_(x); });
         x.reset();
         x = zeros4();
       }},
      {"CPU and device mixed", "devices mixed: aten::add argument 1 is on cpu",
       [] { zeros4().add(at::ones({4})); }},
      {"an index on the CPU", "devices mixed: aten::index argument 1 is on cpu",
       [] {
         zeros4().index({at::tensor({1, 2})});
       }},
      {"a slot by an address that was given away", "freed memory: aten::fill_ argument 0",
       [] {
         Tensor x = zeros4();
         Tensor window = at::empty({0}, on_device());
         window.unsafeGetTensorImpl()->set_sizes_contiguous({4});
         window.storage().set_data_ptr_noswap({x.data_ptr(), kDevice});
         window.storage().set_nbytes(16);
         x.reset();
         window.fill_(1);
       }},
      {"a slot that is too small", "memory of nobody, or beyond the end of a block:",
       [] {
         Tensor x = zeros4();
         x.unsafeGetTensorImpl()->set_sizes_contiguous({1 << 20});
         x.storage().set_nbytes(4 << 20);
         x.fill_(1);
       }},
      {"a graph whose input was given away", "freed memory in a replay: aten::copy_ source",
       [] {
         Tensor x = zeros4(), y = zeros4();
         const auto graph = capture(kDevice, [&] { y.copy_(x); });
         x.reset();
         graph->replay();
       }},
      {"a graph whose output is another tensor's now",
       "freed memory in a replay: aten::copy_ target",
       [] {
         Tensor x = zeros4(), y = zeros4();
         const auto graph = capture(kDevice, [&] { y.copy_(x); });
         y.reset();
         y = zeros4();
         graph->replay();
       }},
      {"a wait in a capture", "the device is waited for in a capture",
       [] { capture_once([] { synchronize(kDevice); }); }},
      {"a host read in a capture", "a number read by the host in a capture",
       [] {
         const Tensor x = zeros4();
         capture_once([&] { x.sum().item<float>(); });
       }},
      {"a copy from the host in a capture", "a copy from the host in a capture",
       [] {
         Tensor x = zeros4();
         capture_once([&] { x.copy_(at::ones({4})); });
       }},
      {"sizes that depend on values in a capture", "a result read by the host: aten::nonzero",
       [] {
         const Tensor x = zeros4();
         capture_once([&] { at::nonzero(x); });
       }},
      {"a generator seeded in a capture", "a generator is seeded in a capture",
       [] { capture_once([] { at::manual_seed(3); }); }},
      {"a capture of the default stream", "a capture of the default stream",
       [] { Streams::get().begin_capture(); }},
      {"a stream of a capture that does not come back",
       "a stream of a capture that does not come back",
       [] {
         Tensor x = zeros4();
         capture_once([&] {
           c10::Event event(kDevice.type());
           event.record(stream_of(Streams::current()));
           const StreamId other = Streams::current() % 32 + 1;
           event.block(stream_of(other));
           on(other, [&] { x.fill_(1); });
         });
       }},
      {"a replay beside a stream that writes its input",
       "a missing event: aten::copy_ source reads on stream 0 what aten::fill_",
       [] {
         Tensor x = zeros4(), y = zeros4();
         const auto graph = capture(kDevice, [&] { y.copy_(x); });
         on(1, [&] { x.fill_(5); });
         graph->replay();
       }},
  };
  return all;
}

class SimulatedFaults : public ::testing::Test {};

TEST_F(SimulatedFaults, AreAllFound) {
  install();
  EXPECT_GE(planted_faults().size(), 15u);
  for (const PlantedFault& fault : planted_faults()) {
    SCOPED_TRACE(fault.name);
    Streams::get().reset(1);
    try {
      fault.plant();
      synchronize(kDevice);
    } catch (const c10::Error&) {
    }
    const std::vector<std::string> found = Streams::get().violations;
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.front().substr(0, fault.found.size()), fault.found);
    Streams::get().abandon_capture();
  }
  Streams::get().reset(1);
}

/// The same without the fault: what is found is no more than what is wrong.
TEST_F(SimulatedFaults, SoundCallsAreNotTaken) {
  install();
  for (uint64_t seed = 1; seed < 10; ++seed) {
    Streams::get().reset(seed);
    Tensor x = zeros4(), y = zeros4();
    synchronize(kDevice);
    in_order([&] { x.fill_(5); }, [&] { y.copy_(x); });
    on(2, [&] { synchronize(kDevice); });
    EXPECT_EQ(y.sum().item<float>(), 20);
    const auto graph = capture(kDevice, [&] { y.copy_(x).mul_(2); });
    graph->replay();
    EXPECT_EQ(y.sum().item<float>(), 40);
    EXPECT_EQ(Streams::get().violations, std::vector<std::string>{});
  }
  Streams::get().reset(1);
}

}  // namespace
}  // namespace wide::simulated
