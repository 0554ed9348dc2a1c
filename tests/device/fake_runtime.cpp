#include "tests/device/fake_runtime.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <set>

#include "engine/machine/clock.h"

namespace wide::fake_runtime {
namespace {

/// What a captured call reads or writes.
struct Use {
  uintptr_t address = 0;
  int64_t block = 0;  // the allocation it lay in
  std::string where;  // "aten::add argument 1"
};

struct CapturedCall {
  c10::OperatorHandle op;
  Stack stack;
  std::vector<Use> uses;
  std::vector<std::pair<size_t, Tensor>> results;  // fresh ones: where they lay
};

struct Block {
  int64_t id = 0;
  size_t bytes = 0;
  c10::DataPtr memory;
  std::vector<c10::DataPtr>* pool = nullptr;  // of the capture that asked for it
};

/// All that the fake knows; one for the process, since allocations outlive a runtime.
struct State {
  std::recursive_mutex mutex;
  std::map<uintptr_t, Block> blocks;  // alive
  int64_t next_block = 1, bytes = 0, peak = 0, captured_allocations = 0;
  int64_t free_bytes = int64_t{1} << 40;
  bool capturing = false, invalid = false, pool_open = false;
  std::string broken;
  std::vector<std::string> calls, violations;
  std::vector<CapturedCall>* captured = nullptr;
  std::vector<c10::DataPtr>* pool = nullptr;   // of the capture under way
  std::set<std::vector<c10::DataPtr>*> pools;  // of the graphs that live

  void violate(const std::string& rule) { violations.push_back(rule); }
  void call(const char* name) { calls.emplace_back(name); }
  const Block* block_of(const void* data) const {
    const auto at = reinterpret_cast<uintptr_t>(data);
    auto it = blocks.upper_bound(at);
    if (it == blocks.begin()) return nullptr;
    --it;
    return at < it->first + std::max<size_t>(it->second.bytes, 1) ? &it->second : nullptr;
  }
};

State& state() {
  static State* all = new State;
  return *all;
}

void free_block(void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto at = s.blocks.find(reinterpret_cast<uintptr_t>(data));
  if (at == s.blocks.end()) return;
  Block& block = at->second;
  // Memory of a capture belongs to its graph, which writes to it at every replay.
  if (s.pools.count(block.pool)) {
    block.pool->push_back(std::move(block.memory));
    return;
  }
  s.bytes -= static_cast<int64_t>(block.bytes);
  s.blocks.erase(at);
}

class WatchedAllocator final : public c10::Allocator {
 public:
  explicit WatchedAllocator(c10::Allocator* inner) : inner_(inner) {}
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = inner_->allocate(bytes);
    void* data = memory.get();
    if (!data) return memory;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.blocks[reinterpret_cast<uintptr_t>(data)] = {s.next_block++, bytes, std::move(memory),
                                                   s.capturing ? s.pool : nullptr};
    s.bytes += static_cast<int64_t>(bytes);
    s.peak = std::max(s.peak, s.bytes);
    if (s.capturing) ++s.captured_allocations;
    return {data, data, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* inner_;
};

/// The tensor again, by nothing but its address.
IValue by_address(const IValue& v, const std::string& where, std::vector<Use>* uses) {
  if (v.isTensor()) {
    const Tensor& t = v.toTensor();
    if (!t.defined() || t.layout() != c10::kStrided || !t.has_storage() || !t.is_cpu()) return v;
    const void* data = t.const_data_ptr();
    if (!data) return v;
    if (const Block* block = state().block_of(data))
      uses->push_back({reinterpret_cast<uintptr_t>(data), block->id, where});
    Tensor again = at::from_blob(const_cast<void*>(data), t.sizes(), t.strides(), t.options());
    if (t.unsafeGetTensorImpl()->is_wrapped_number())
      again.unsafeGetTensorImpl()->set_wrapped_number(true);
    return again;
  }
  if (v.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : v.toTensorVector())
      list.push_back(by_address(t, where, uses).toTensor());
    return list;
  }
  return v;
}

thread_local int depth = 0;

struct Running : at::ObserverContext {
  size_t index = 0;
  bool outermost = false;
};

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& fn) {
  auto running = std::make_unique<Running>();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  running->outermost = depth++ == 0;
  if (!s.capturing || !running->outermost) return running;
  const std::string name = fn.name();
  for (const char* read : {"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero",
                           "aten::equal", "aten::nonzero"})
    if (name == read) {
      s.violate("host read in a capture: " + name);
      s.invalid = true;
    }
  const auto op_name = fn.operator_name();
  const auto op = op_name ? c10::Dispatcher::singleton().findOp(*op_name) : std::nullopt;
  running->outermost = op.has_value();
  if (!op) return running;
  CapturedCall call{*op, {}, {}, {}};
  int i = 0;
  for (const IValue& v : fn.inputs())
    call.stack.push_back(by_address(v, fmt::format("{} argument {}", name, i++), &call.uses));
  running->index = s.captured->size();
  s.captured->push_back(std::move(call));
  return running;
}

void on_return(const at::RecordFunction& fn, at::ObserverContext* context) {
  --depth;
  auto* running = static_cast<Running*>(context);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!running->outermost || !s.capturing || running->index >= s.captured->size()) return;
  CapturedCall& call = (*s.captured)[running->index];
  size_t i = 0;
  for (const IValue& v : fn.outputs()) {
    const size_t at = i++;
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    std::vector<Use> uses;
    const IValue again = by_address(v, fmt::format("{} result {}", fn.name(), at), &uses);
    const bool known =
        !uses.empty() && std::any_of(call.uses.begin(), call.uses.end(),
                                     [&](const Use& u) { return u.block == uses[0].block; });
    if (!uses.empty() && !known) {
      call.results.emplace_back(at, again.toTensor());
      call.uses.push_back(uses[0]);
    }
  }
}

class Timer final : public DeviceTimer {
 public:
  void start() override { note("start", &started_, true); }
  void stop() override { note("stop", &stopped_, started_ > 0); }
  double ns() override {
    double unused = 0;
    note("ns", &unused, stopped_ > 0);
    return std::max(1.0, stopped_ - started_);
  }

 private:
  static void note(const char* what, double* when, bool in_order) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.call(what);
    if (!in_order) s.violate(fmt::format("events out of order: {}", what));
    if (s.capturing) s.violate(fmt::format("an event in a capture: {}", what));
    *when = now_ns();
  }
  double started_ = 0, stopped_ = 0;
};

Tensor generator_state() {
  return at::globalContext().defaultGenerator(c10::kCPU).get_state().clone();
}

class Graph final : public DeviceGraph {
 public:
  Graph() : before_(generator_state()) {}
  ~Graph() override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.captured == &calls_) close();
    s.pools.erase(&pool_);
    for (const c10::DataPtr& memory : pool_)
      s.blocks.erase(reinterpret_cast<uintptr_t>(memory.get()));
  }

  void on_stream(const Work& work) override { work(); }
  void begin() override {
    State& s = state();
    const Tensor now = generator_state();
    const std::lock_guard lock(s.mutex);
    s.call("begin");
    if (s.capturing || s.pool_open) {
      s.violate("a capture inside of another");
      throw std::runtime_error("a capture is under way");
    }
    if (!now.equal(before_)) s.violate("warm-up moved the generator");
    s.capturing = s.pool_open = true;
    s.invalid = false;
    s.captured = &calls_;
    s.pool = &pool_;
    s.pools.insert(&pool_);
    before_ = now;
  }
  /// As CUDA's: of a broken capture nothing but the capture itself ends.
  void end() override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.call("end");
    s.capturing = false;
    put_generator_back();
    if (s.invalid) throw std::runtime_error("the capture was invalidated");
    close();
    ended_ = true;
  }
  void abandon() noexcept override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.call("abandon");
    s.capturing = false;
    put_generator_back();
    close();
  }
  void replay() override {
    State& s = state();
    {
      const std::lock_guard lock(s.mutex);
      s.call("replay");
      if (!ended_) s.violate("a replay without a capture");
      for (const CapturedCall& call : calls_)
        for (const Use& use : call.uses) {
          const Block* block = s.block_of(reinterpret_cast<const void*>(use.address));
          if (block && block->id == use.block) continue;
          s.violate("freed memory in a replay: " + use.where);
          throw std::runtime_error("a graph reads freed memory: " + use.where);
        }
    }
    const c10::InferenceMode whatever_they_were_made_in;
    for (const CapturedCall& call : calls_) {
      Stack stack = call.stack;
      call.op.callBoxed(&stack);
      for (const auto& [k, place] : call.results) Tensor(place).copy_(stack[k].toTensor());
    }
  }

 private:
  /// Nothing is drawn during a capture: nothing runs.
  void put_generator_back() const {
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    generator.set_state(before_);
  }
  static void close() {
    State& s = state();
    s.capturing = s.pool_open = s.invalid = false;
    s.captured = nullptr;
    s.pool = nullptr;
  }

  Tensor before_;
  bool ended_ = false;
  std::vector<CapturedCall> calls_;
  std::vector<c10::DataPtr> pool_;
};

class Runtime final : public DeviceRuntime {
 public:
  int count() const override { return 1; }
  void synchronize(c10::Device) override {
    note("synchronize");
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.capturing) {
      s.violate("synchronised in a capture");
      s.invalid = true;
    }
    if (!s.broken.empty()) throw std::runtime_error(s.broken);
  }
  std::unique_ptr<DeviceTimer> timer(c10::Device) override { return std::make_unique<Timer>(); }
  Work on_streams(c10::Device, std::vector<Work> works, int) override {
    note("streams");
    return [works = std::move(works)] {
      for (const Work& work : works) work();
    };
  }
  std::unique_ptr<DeviceGraph> graph(c10::Device) override {
    note("graph");
    return std::make_unique<Graph>();
  }
  DeviceMemory memory(c10::Device) override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    return {s.free_bytes, int64_t{1} << 40, s.bytes, s.peak};
  }
  void reset_peak(c10::Device) override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.peak = s.bytes;
  }
  void release_memory(c10::Device) override { note("release"); }
  DeviceFacts facts(c10::Device) override { return {"Fake GPU", "00000000:01:00.0", "1.0"}; }

 private:
  static void note(const char* what) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.call(what);
  }
};

c10::Allocator* own_allocator = nullptr;
at::CallbackHandle observer = 0;

}  // namespace
}  // namespace wide::fake_runtime

namespace wide {

using fake_runtime::state;

FakeRuntime::FakeRuntime() {
  using namespace fake_runtime;
  State& s = state();
  s.calls.clear();
  s.violations.clear();
  s.broken.clear();
  s.free_bytes = int64_t{1} << 40;
  s.captured_allocations = 0;
  own_allocator = c10::GetCPUAllocator();
  static WatchedAllocator* watched = new WatchedAllocator(own_allocator);
  c10::SetCPUAllocator(watched, /*priority=*/200);
  observer = at::addGlobalCallback(at::RecordFunctionCallback(&on_call, &on_return)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  add_device_runtime(c10::kCPU, std::make_unique<Runtime>());
}

FakeRuntime::~FakeRuntime() {
  add_device_runtime(c10::kCPU, nullptr);
  at::removeCallback(fake_runtime::observer);
  c10::SetCPUAllocator(fake_runtime::own_allocator, /*priority=*/200);
}

std::vector<std::string> FakeRuntime::calls() const { return state().calls; }
int64_t FakeRuntime::count(const std::string& call) const {
  return std::count(state().calls.begin(), state().calls.end(), call);
}
std::vector<std::string> FakeRuntime::violations() const { return state().violations; }
bool FakeRuntime::capturing() const { return state().capturing || state().pool_open; }
int64_t FakeRuntime::allocations_in_captures() const { return state().captured_allocations; }
void FakeRuntime::break_with(const std::string& error) { state().broken = error; }
void FakeRuntime::set_free_memory(int64_t bytes) { state().free_bytes = bytes; }

}  // namespace wide
