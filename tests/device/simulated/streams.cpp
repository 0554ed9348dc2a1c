#include "tests/device/simulated/streams.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide::simulated {
namespace {

thread_local StreamId current_stream = 0;

}  // namespace

bool Pending::empty() const {
  return std::all_of(items_.begin(), items_.end(), [](const auto& all) { return all.empty(); });
}

void Pending::clear() {
  for (auto& all : items_) all.clear();
}

bool Pending::run_one(std::mt19937_64& chance, const std::function<void(Item&)>& call) {
  std::vector<size_t> ready;
  for (size_t s = 0; s < kStreams; ++s) {
    if (items_[s].empty()) continue;
    const Item& next = items_[s].front();
    if (next.kind != Item::Kind::wait || next.event->done >= next.version) ready.push_back(s);
  }
  if (ready.empty()) return false;
  auto& items = items_[ready[chance() % ready.size()]];
  Item item = std::move(items.front());
  items.pop_front();
  if (item.kind == Item::Kind::call) call(item);
  if (item.kind == Item::Kind::record) {
    item.event->done = item.version;
    item.event->ns = now_ns();
  }
  return true;
}

Captured::~Captured() { Memory::get().release_pool(this); }

Streams& Streams::get() {
  static auto* instance = new Streams;
  return *instance;
}

void Streams::reset(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  pending_.clear();
  order_ = {};
  capture_.reset();
  chance_.seed(seed);
  broken_.clear();
  violations.clear();
  launches = allocations_in_captures = replays = 0;
}

void Streams::violate(const std::string& what) {
  if (std::find(violations.begin(), violations.end(), what) == violations.end())
    violations.push_back(what);
}

void Streams::refuse_in_capture(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (!capture_) return;
  capture_->broken = true;
  violate(what + " in a capture");
  TORCH_CHECK(false, "[simulated] operation not permitted when stream is capturing: ", what);
}

void Streams::expect_whole() const {
  TORCH_CHECK(broken_.empty(), "[simulated] device-side error: ", broken_);
}

/// A call may touch what is allocated, and in a capture what is the capture's.
void Streams::check_blocks(const Launch& launch) {
  for (const Access& a : launch.accesses) {
    const Block* block = Memory::get().block_of(a.begin);
    const bool there = block && a.end <= block->begin + block->bytes;
    if (!there || !block->alive) {
      const std::string fault =
          fmt::format("{} memory: {}",
                      there ? "freed" : "memory of nobody, or beyond the end of a block:", a.what);
      violate(fault);
      TORCH_CHECK(false, "[simulated] ", fault);
    }
  }
}

void Streams::add(StreamId stream, Item item) {
  if (in_capture(stream))
    capture_->items.emplace_back(stream, std::move(item));
  else
    pending_.push(stream, std::move(item));
}

void Streams::launch(Launch launch) {
  const std::lock_guard lock(mutex_);
  expect_whole();
  check_blocks(launch);
  ++launches;
  const StreamId stream = current();
  const bool captured = in_capture(stream);
  if (capture_ && !captured && stream == 0) refuse_in_capture("a call on the default stream");
  const std::string fault = (captured ? capture_->order : order_).call(stream, launch.accesses);
  if (!fault.empty()) violate(fault);
  Item item{Item::Kind::call, launch.name, std::move(launch.work), launch.draws_from};
  if (captured) {
    for (Access& a : launch.accesses) {
      const int64_t id = Memory::get().block_of(a.begin)->id;
      capture_->uses.push_back({std::move(a), id});
    }
    if (item.draws_from) item.draw = {0, capture_->draws[item.draws_from.get()]++};
  } else if (item.draws_from) {
    item.draw = {item.draws_from->current_seed(), item.draws_from->take()};
  }
  add(stream, std::move(item));
}

uintptr_t Streams::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  expect_whole();
  const bool captured = in_capture(current());
  if (captured) ++allocations_in_captures;
  const Block block = Memory::get().allocate(bytes, current(), captured ? capture_.get() : nullptr);
  auto* data = reinterpret_cast<void*>(block.begin);
  launch({"allocation",
          {{block.begin, block.begin + block.bytes, true, "an allocation"}},
          [data, size = block.bytes](const Draw&) {
            std::memset(Memory::get().shadow(data), 0xff, size);
          }});
  return block.begin;
}

void Streams::free(uintptr_t begin) {
  const std::lock_guard lock(mutex_);
  Memory::get().free(begin);
}

StreamId Streams::current() { return current_stream; }
StreamId Streams::exchange(StreamId stream) { return std::exchange(current_stream, stream); }
StreamId Streams::from_pool() {
  const std::lock_guard lock(mutex_);
  next_in_pool_ = next_in_pool_ % static_cast<StreamId>(kStreams - 1) + 1;
  return next_in_pool_;
}

void Streams::record(const std::shared_ptr<DeviceEvent>& event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  const bool captured = in_capture(stream);
  event->clock = (captured ? capture_->order : order_).at(stream);
  event->captured = captured ? capture_.get() : nullptr;
  Item item{Item::Kind::record, "event", {}};
  item.event = event;
  item.version = ++event->recorded;
  add(stream, std::move(item));
}

void Streams::wait(const std::shared_ptr<DeviceEvent>& event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (event->recorded == 0) return;
  if (event->captured && event->captured == capture_.get()) {
    capture_->streams.insert(stream);  // it takes part from here on
  } else if (event->captured) {
    violate("an event of a capture that has ended");
    TORCH_CHECK(false, "[simulated] an event of a capture that has ended");
  } else if (in_capture(stream)) {
    refuse_in_capture("an event of outside is waited for");
  }
  (in_capture(stream) ? capture_->order : order_).wait(stream, event->clock);
  Item item{Item::Kind::wait, "wait", {}};
  item.event = event;
  item.version = event->recorded;
  add(stream, std::move(item));
}

void Streams::run_call(Item& item) {
  if (!broken_.empty()) return;
  try {
    const PlainDispatch plain;
    item.work(item.draw);
  } catch (const std::exception& thrown) {
    broken_ = item.name + ": " + first_line(thrown);
  }
}

void Streams::run(const std::function<bool()>& until) {
  while (!until()) {
    if (!pending_.run_one(chance_, [this](Item& item) { run_call(item); })) {
      violate("an event that is waited for and never recorded");
      pending_.clear();
      break;
    }
  }
  expect_whole();
}

bool Streams::query(const std::shared_ptr<DeviceEvent>& event) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("an event is asked for");
  if (event->done < event->recorded)  // so that who asks again and again gets an answer
    pending_.run_one(chance_, [this](Item& item) { run_call(item); });
  return event->done >= event->recorded;
}

void Streams::synchronize(const std::shared_ptr<DeviceEvent>& event) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("an event is waited for by the host");
  run([&] { return event->done >= event->recorded; });
  order_.host_waits(event->clock);
}

void Streams::synchronize(StreamId stream) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("a stream is waited for by the host");
  run([&] { return pending_.empty(stream); });
  order_.host_waits(order_.at(stream));
}

void Streams::synchronize() {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("the device is waited for");
  run([&] { return pending_.empty(); });
  for (size_t s = 0; s < kStreams; ++s) order_.host_waits(order_.at(static_cast<StreamId>(s)));
}

bool Streams::idle(StreamId stream) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("a stream is asked for");
  return pending_.empty(stream);
}

void Streams::begin_capture() {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("another capture begins");
  if (current() == 0) {
    violate("a capture of the default stream");
    TORCH_CHECK(false, "[simulated] the default stream cannot be captured");
  }
  expect_whole();
  capture_ = std::make_shared<Captured>();
  capture_->origin = current();
  capture_->streams = {current()};
}

std::shared_ptr<Captured> Streams::end_capture() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(capture_, "[simulated] no capture is under way");
  const std::shared_ptr<Captured> graph = std::move(capture_);
  capture_.reset();
  const auto fault = [&](const char* what) {
    violate(what);
    TORCH_CHECK(false, "[simulated] ", what);
  };
  if (current() != graph->origin) fault("a capture that ends on another stream");
  TORCH_CHECK(!graph->broken, "[simulated] the capture was invalidated");
  const Clock& end = graph->order.at(graph->origin);
  for (const StreamId s : graph->streams)
    if (end[static_cast<size_t>(s)] < graph->order.at(s)[static_cast<size_t>(s)])
      fault("a stream of a capture that does not come back");
  return graph;
}

void Streams::abandon_capture() noexcept {
  const std::lock_guard lock(mutex_);
  capture_.reset();
}

void Streams::replay(const std::shared_ptr<Captured>& graph) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("a graph is replayed");
  expect_whole();
  ++replays;
  std::map<uintptr_t, std::array<Access, 2>> touched;  // by block: reads, writes
  for (const Captured::Use& use : graph->uses) {
    const Block* block = Memory::get().block_of(use.access.begin);
    const bool there = block->pool == graph.get() || (block->alive && block->id == use.block);
    if (!there) {
      violate("freed memory in a replay: " + use.access.what);
      TORCH_CHECK(false, "[simulated] freed memory in a replay: ", use.access.what);
    }
    Access& all = touched[block->begin][use.access.write];
    if (all.end == 0) all = use.access;
    all.begin = std::min(all.begin, use.access.begin);
    all.end = std::max(all.end, use.access.end);
  }
  std::vector<Access> accesses;
  for (auto& [block, both] : touched)
    for (Access& a : both)
      if (a.end > 0) accesses.push_back(std::move(a));
  std::map<DeviceGenerator*, Draw> from;
  for (const auto& [generator, calls] : graph->draws) {
    from[generator] = {generator->current_seed(), generator->get_offset()};
    generator->take(calls);
  }
  const StreamId stream = current();
  const std::string fault = order_.call(stream, accesses);
  if (!fault.empty()) violate(fault + ", in a replay");
  Item item{Item::Kind::call, "graph", [this, graph, from](const Draw&) {
              Pending inside;
              std::map<DeviceEvent*, std::shared_ptr<DeviceEvent>> events;  // not yet reached
              for (const auto& [s, captured] : graph->items) {
                Item now = captured;
                if (now.event) {
                  std::shared_ptr<DeviceEvent>& own = events[now.event.get()];
                  if (!own) own = std::make_shared<DeviceEvent>();
                  now.event = own;
                }
                if (now.draws_from) {
                  const Draw& base = from.at(now.draws_from.get());
                  now.draw = {base.seed, base.offset + now.draw.offset};
                }
                inside.push(s, std::move(now));
              }
              while (inside.run_one(chance_, [this](Item& next) { run_call(next); })) {
              }
            }};
  pending_.push(stream, std::move(item));
}

}  // namespace wide::simulated
