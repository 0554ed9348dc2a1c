#include "engine/machine/threads.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

// MKL's own function, which LibTorch contains if it was built with MKL.
extern "C" int MKL_Set_Num_Threads_Local(int) __attribute__((weak));

namespace wide {

namespace {

/// Runs below autograd and without view tracking: pool threads lack the caller's state.
struct Inference {
  at::AutoDispatchBelowADInplaceOrView guard;
  c10::AutoGradMode no_grad{false};
};

/// Number of threads of this process; 2 if unknown.
ptrdiff_t threads_now() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/task", error);
  return error ? 2 : std::distance(begin(all), end(all));
}

/// A forked process inherits the pool's bookkeeping but not its threads, and waiting for them would
/// never end: everything runs on the calling thread there. If the parent had only one thread, there
/// was no pool yet, and the new process makes its own.
std::atomic<bool> had_threads{false}, forked{false};
[[maybe_unused]] const int fork_handlers = pthread_atfork(
    [] {
      had_threads = threads_now() > 1;
      at::get_num_threads();  // ATen sets OpenMP's number at its first call: now, not later
    },
    nullptr,
    [] {
      if (!had_threads) return;
      forked = true;
      omp_set_num_threads(1);  // also for kernels' own parallel loops outside ranges
    });

/// While it exists, operators called on this thread run on it alone. It starts no threads and
/// changes no other thread's number: ATen and oneDNN ask OpenMP, MKL has its own.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {
    omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local) before_mkl_ = MKL_Set_Num_Threads_Local(1);
  }
  ~OneThread() {
    omp_set_num_threads(before_);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_mkl_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
  int before_mkl_ = 0;  // 0: the thread had no number of its own
};

}  // namespace

void use_one_thread() {
  // ATen sets OpenMP's number of threads at each thread's first operator, which must not happen
  // after this.
  at::internal::lazy_init_num_threads();
  at::get_num_threads();
  omp_set_num_threads(1);
}

void run_parallel(int threads, int items, const std::function<void(int, int)>& work) {
  std::optional<OneThread> one_thread;  // also for kernels' own parallel loops
  if (forked) threads = 1;
  if (threads == 1) one_thread.emplace();
  if (threads <= 1 || items <= 1) {
    Inference inference;
    for (int i = 0; i < items; ++i) work(0, i);
    return;
  }
  // Every thread begins with its own queue, so that its models' weights are still in its cache from
  // the last call, then helps the others.
  struct alignas(64) Queue {
    std::atomic<int> next{0};
    int end = 0;
  };
  std::vector<Queue> queues(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    queues[static_cast<size_t>(t)].next = items * t / threads;
    queues[static_cast<size_t>(t)].end = items * (t + 1) / threads;
  }
  std::exception_ptr error;
  std::mutex mutex;
#pragma omp parallel num_threads(threads)
  {
    Inference inference;
    use_one_thread();
    const int self = omp_get_thread_num();
    try {
      // OpenMP may start fewer threads than asked for: the others' queues are then taken over.
      for (int step = 0; step < threads; ++step) {
        Queue& queue = queues[static_cast<size_t>((self + step) % threads)];
        for (int i = queue.next++; i < queue.end; i = queue.next++) work(self, i);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void run_serial(const std::function<void()>& work) {
  const OneThread one_thread;
  const Inference inference;
  work();
}

}  // namespace wide
