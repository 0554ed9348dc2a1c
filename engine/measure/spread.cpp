#include "engine/measure/spread.h"

#include <ATen/ThreadLocalState.h>
#include <omp.h>

#include <exception>
#include <mutex>

#include "engine/machine/threads.h"

namespace wide {

void call_spread(int64_t count, int threads, const std::function<void(int64_t, int64_t)>& call) {
  const at::ThreadLocalState state;
  std::exception_ptr failure;
  std::mutex failure_mutex;
#pragma omp parallel num_threads(threads)
  {
    // Inside a parallel region ATen, MKL and oneDNN use one thread each.
    use_one_thread();
    // An exception must not leave the region, neither from the guard nor from a model.
    try {
      const at::ThreadLocalStateGuard guard(state);
      const int64_t workers = omp_get_num_threads(), worker = omp_get_thread_num();
      call(count * worker / workers, count * (worker + 1) / workers);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace wide
