#include "engine/measure/loop_timeline.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <map>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

/// Records the outermost operators called on this thread: those that no other operator called.
struct OperatorWatch {
  struct Ran {
    std::string name;
    double begin_ns = 0, end_ns = 0;
  };
  std::vector<Ran> ran;
  int depth = 0;
};
thread_local OperatorWatch* watching = nullptr;

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (watching != nullptr && watching->depth++ == 0)
    watching->ran.push_back({function.name(), now_ns(), 0});
  return nullptr;
}

void operator_ends(const at::RecordFunction&, at::ObserverContext*) {
  if (watching != nullptr && --watching->depth == 0) watching->ran.back().end_ns = now_ns();
}

/// While this object lives, PyTorch reports this thread's operators to the watch.
class Watched {
 public:
  explicit Watched(OperatorWatch* watch)
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                           .scopes({at::RecordScope::FUNCTION}))) {
    watching = watch;
  }
  ~Watched() {
    watching = nullptr;
    at::removeCallback(handle_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  at::CallbackHandle handle_;
};

struct WatchedCall {
  double begin_ns = 0, end_ns = 0;
  std::vector<std::pair<double, double>> models;
  OperatorWatch watch;
};

}  // namespace

TimelineCall loop_timeline(const Baseline& loop, int64_t n, int threads, c10::Device device) {
  WIDE_ASSERT(loop.one, "no call of one model");
  TimelineCall shown;
  shown.name = loop.name;
  shown.calls = kWatchedCalls;
  shown.cores_a_lane = threads;
  shown.lanes = {"the thread that calls"};
  if (threads > 1 && device.is_cpu())
    shown.notes.push_back(fmt::format(
        "loop: an operator may use up to {} threads; which of them did what is not measured, the "
        "lane shows when it ran",
        threads));
  if (!device.is_cpu())
    shown.notes.emplace_back(
        "loop: the host waits after each model; operators show when they were called, not when the "
        "device ran them");

  std::vector<WatchedCall> calls(kWatchedCalls);
  loop.call();  // makes the models
  for (WatchedCall& call : calls) {
    const Watched watched(&call.watch);
    call.begin_ns = now_ns();
    for (int64_t i = 0; i < n; ++i) {
      const double begin = now_ns();
      loop.one(static_cast<size_t>(i));
      synchronize(device);
      call.models.emplace_back(begin, now_ns());
    }
    call.end_ns = now_ns();
  }
  std::vector<double> ns;
  for (const WatchedCall& call : calls) ns.push_back(call.end_ns - call.begin_ns);
  const size_t middle = median_at(ns);
  const WatchedCall& call = calls[middle];
  shown.call_ns = ns[middle];
  const auto add = [&](int32_t item, double begin, double end) {
    shown.spans.push_back({item, 0, -1, begin - call.begin_ns, end - call.begin_ns});
  };
  for (size_t i = 0; i < call.models.size(); ++i) {
    TimelineItem& item = shown.items.emplace_back();
    item.kind = "model";
    item.name = fmt::format("model {}", i);
    add(static_cast<int32_t>(i), call.models[i].first, call.models[i].second);
  }
  std::map<std::string, int32_t> known;
  for (const OperatorWatch::Ran& ran : call.watch.ran) {
    const auto [at, fresh] = known.emplace(ran.name, static_cast<int32_t>(shown.items.size()));
    if (fresh) {
      TimelineItem& item = shown.items.emplace_back();
      item.kind = "operator";
      item.name = ran.name;
    }
    add(at->second, ran.begin_ns, ran.end_ns);
  }
  sort_spans(shown.spans);
  return shown;
}

}  // namespace wide
