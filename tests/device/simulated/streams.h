#pragma once
#include <c10/core/Stream.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "tests/device/simulated/generator.h"
#include "tests/device/simulated/order.h"

namespace wide::simulated {

inline const c10::Device kDevice{c10::DeviceType::PrivateUse1, 0};

/// Where a call draws random numbers from.
struct Draw {
  uint64_t seed = 0, offset = 0;
};

/// A call as it is given out: the memory that it touches and what it does there.
struct Launch {
  std::string name;
  std::vector<Access> accesses;
  std::function<void(const Draw&)> work;
  c10::intrusive_ptr<DeviceGenerator> draws_from = {};
};

inline c10::Stream stream_of(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }

/// Kernels see nothing of what their caller is about: recording, gradients, vmap.
struct PlainDispatch {
  c10::impl::ForceDispatchKeyGuard keys{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset};
};

class Captured;

struct DeviceEvent {
  uint64_t recorded = 0, done = 0;  // how often
  double ns = 0;                    // when it was reached last
  Clock clock{};
  const Captured* captured = nullptr;  // by the capture that it was recorded in last
};

/// What stands in a stream: a call, or an event that is recorded or waited for.
struct Item {
  enum class Kind { call, record, wait };
  Kind kind = Kind::call;
  std::string name;
  std::function<void(const Draw&)> work;
  c10::intrusive_ptr<DeviceGenerator> draws_from = {};
  Draw draw = {};  // in a graph the offset counts from the replay's
  std::shared_ptr<DeviceEvent> event = {};
  uint64_t version = 0;
};

/// What streams have to do, and in which order it may be done.
class Pending {
 public:
  void push(StreamId stream, Item item) {
    items_[static_cast<size_t>(stream)].push_back(std::move(item));
  }
  bool empty(StreamId stream) const { return items_[static_cast<size_t>(stream)].empty(); }
  bool empty() const;
  /// Takes the next item of a stream that need not wait, by chance. False: there is none.
  bool run_one(std::mt19937_64& chance, const std::function<void(Item&)>& call);
  void clear();

 private:
  std::array<std::deque<Item>, kStreams> items_;
};

/// The calls of a graph, with the memory that they use and that belongs to them.
class Captured {
 public:
  ~Captured();

 private:
  friend class Streams;
  StreamId origin = 0;
  std::set<StreamId> streams;
  std::vector<std::pair<StreamId, Item>> items;
  Order order;
  struct Use {
    Access access;
    int64_t block = 0;  // the allocation's id
  };
  std::vector<Use> uses;
  std::map<DeviceGenerator*, uint64_t> draws;
  bool broken = false;
};

/// The device at work. Nothing runs before somebody waits; then calls run in an order drawn by
/// chance, which respects streams and events alone. Thread-safe.
class Streams {
 public:
  static Streams& get();

  void launch(Launch launch);
  /// Memory for a tensor, for the current stream, filled with what nobody should read.
  uintptr_t allocate(size_t bytes);
  void free(uintptr_t begin);

  static StreamId current();
  static StreamId exchange(StreamId stream);
  StreamId from_pool();

  void record(const std::shared_ptr<DeviceEvent>& event, StreamId stream);
  void wait(const std::shared_ptr<DeviceEvent>& event, StreamId stream);
  bool query(const std::shared_ptr<DeviceEvent>& event);
  void synchronize(const std::shared_ptr<DeviceEvent>& event);
  void synchronize(StreamId stream);
  void synchronize();
  bool idle(StreamId stream);

  void begin_capture();  // on the current stream
  std::shared_ptr<Captured> end_capture();
  void abandon_capture() noexcept;
  void replay(const std::shared_ptr<Captured>& graph);
  bool capturing() const { return capture_ != nullptr; }
  /// What a device under capture refuses: noted, and thrown.
  void refuse_in_capture(const std::string& what);

  /// From here on the device fails, as after an assertion in a kernel.
  void break_with(const std::string& why) { broken_ = why; }
  void violate(const std::string& what);
  void reset(uint64_t seed);

  std::vector<std::string> violations;
  int64_t launches = 0, allocations_in_captures = 0, replays = 0;

 private:
  bool in_capture(StreamId stream) const { return capture_ && capture_->streams.count(stream); }
  void add(StreamId stream, Item item);
  void run(const std::function<bool()>& until);
  void run_call(Item& item);
  void check_blocks(const Launch& launch);
  void expect_whole() const;

  std::recursive_mutex mutex_;
  Pending pending_;
  Order order_;
  std::shared_ptr<Captured> capture_;
  std::mt19937_64 chance_{1};
  std::string broken_;
  StreamId next_in_pool_ = 0;
};

}  // namespace wide::simulated
