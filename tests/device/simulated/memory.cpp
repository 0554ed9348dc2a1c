#include "tests/device/simulated/memory.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "engine/error.h"

namespace wide::simulated {
namespace {

constexpr size_t kSmallest = 512, kPage = 4096;

/// Few different sizes, so that what is given away fits what is asked for next.
size_t rounded_size(size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::max(kSmallest, std::bit_floor(bytes) / 4);
  return (bytes + step - 1) / step * step;
}

struct sigaction before {};

/// Names the address that the host touched; then the process ends as it would have.
void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (Memory::get().owns(address)) {
    char text[200];
    const Block* block = Memory::get().block_of(address);
    const int length = std::snprintf(
        text, sizeof text,
        "[simulated] host access to device memory: address %p, byte %zu of a block of %zu\n",
        info->si_addr, block ? address - block->begin : 0, block ? block->bytes : 0);
    if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
    std::signal(SIGSEGV, SIG_DFL);
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr)
    before.sa_sigaction(signal, info, context);
  else
    std::signal(SIGSEGV, SIG_DFL);
}

}  // namespace

Memory& Memory::get() {
  static auto* instance = new Memory;
  return *instance;
}

Memory::Memory() {
  file_ = memfd_create("simulated-device", MFD_CLOEXEC);
  WIDE_ASSERT(file_ >= 0 && ftruncate(file_, static_cast<off_t>(kBytes)) == 0, "no memory file");
  const auto map = [&](int protection) {
    void* at = mmap(nullptr, kBytes, protection, MAP_SHARED | MAP_NORESERVE, file_, 0);
    WIDE_ASSERT(at != MAP_FAILED, "the memory file cannot be mapped");
    return reinterpret_cast<uintptr_t>(at);
  };
  seen_ = map(PROT_NONE);
  shadow_ = map(PROT_READ | PROT_WRITE);
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

const Block& Memory::allocate(size_t bytes, StreamId stream, const void* pool) {
  const size_t size = rounded_size(bytes);
  if (allocated_ + static_cast<int64_t>(size) > limit_)
    C10_THROW_ERROR(OutOfMemoryError,
                    fmt::format("sim out of memory: got {} bytes asked for with {} of {} in use",
                                size, allocated_, limit_));
  std::vector<uintptr_t>& free = free_[{stream, pool, size}];
  Block* block = nullptr;
  if (free.empty()) {
    // Whole pages for what is large, so that they can be given back.
    if (size >= kPage) next_ = (next_ + kPage - 1) / kPage * kPage;
    WIDE_ASSERT(next_ + size <= kBytes, "the simulated device has used up its addresses");
    block = &blocks_[seen_ + next_];
    block->begin = seen_ + next_;
    block->bytes = size;
    next_ += size;
  } else {
    block = &blocks_.at(free.back());
    free.pop_back();
  }
  block->id = next_id_++;
  block->stream = stream;
  block->pool = pool;
  block->alive = true;
  allocated_ += static_cast<int64_t>(size);
  peak_ = std::max(peak_, allocated_);
  return *block;
}

void Memory::free(uintptr_t begin) {
  Block& block = blocks_.at(begin);
  WIDE_ASSERT(block.alive, "freed twice");
  block.alive = false;
  allocated_ -= static_cast<int64_t>(block.bytes);
  free_[{block.stream, block.pool, block.bytes}].push_back(begin);
}

void Memory::release_pool(const void* pool) {
  for (auto it = free_.begin(); it != free_.end();) {
    if (it->first.pool != pool) {
      ++it;
      continue;
    }
    std::vector<uintptr_t>& all = free_[{it->first.stream, nullptr, it->first.bytes}];
    all.insert(all.end(), it->second.begin(), it->second.end());
    it = free_.erase(it);
  }
  for (auto& [begin, block] : blocks_)
    if (block.pool == pool) block.pool = nullptr;
}

void Memory::release() {
  for (const auto& [place, blocks] : free_) {
    if (place.bytes < kPage) continue;
    for (const uintptr_t begin : blocks)
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(begin - seen_), static_cast<off_t>(place.bytes));
  }
}

const Block* Memory::block_of(uintptr_t address) const {
  auto at = blocks_.upper_bound(address);
  if (at == blocks_.begin()) return nullptr;
  --at;
  return address < at->first + at->second.bytes ? &at->second : nullptr;
}

}  // namespace wide::simulated
