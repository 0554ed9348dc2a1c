#include "app/sandbox/seccomp.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/error.h"

namespace wide {
namespace {

/// System calls for computing, threads, memory, clocks and reading files, by the kernel's names.
/// Names that an architecture does not have are skipped.
constexpr const char* kAllowed[] = {
    // memory; mprotect: oneDNN compiles kernels
    "brk", "madvise", "mmap", "mprotect", "mremap", "munmap", "mincore", "mlock", "mlock2",
    "munlock", "get_mempolicy", "mbind", "membarrier", "arch_prctl", "pkey_alloc", "pkey_mprotect",
    // threads
    "futex", "futex_waitv", "gettid", "set_robust_list", "get_robust_list", "set_tid_address",
    "rseq", "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam",
    "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "exit", "exit_group",
    "restart_syscall", "getcpu",
    // signals of its own
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "sigaltstack", "pause",
    // clocks
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "times",
    // files; descriptors open for writing come from the process outside
    "read", "readv", "pread64", "preadv", "preadv2", "lseek", "write", "writev", "pwrite64",
    "close", "close_range", "dup", "dup2", "dup3", "fcntl", "fstat", "stat", "lstat", "newfstatat",
    "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
    "getdents", "getdents64", "getcwd", "fadvise64", "readahead", "poll", "ppoll", "select",
    "pselect6", "sendmsg", "recvmsg",
    // facts about the process and the machine
    "getpid", "getppid", "getpgrp", "getuid", "geteuid", "getgid", "getegid", "getrusage",
    "getrlimit", "sysinfo", "uname", "getrandom", "getpriority"};

/// Further calls that GPU drivers need.
constexpr const char* kDriver[] = {"ioctl",        "eventfd2",   "epoll_create1",
                                   "epoll_ctl",    "epoll_wait", "pipe2",
                                   "memfd_create", "ftruncate",  "socketpair"};

/// The flags of `open` that create or change a file.
constexpr uint64_t kMakes = O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
constexpr uint64_t kChanges = kMakes | O_ACCMODE;

// libseccomp's macros such as SCMP_A0 are compound literals, which C++ does not have.
scmp_arg_cmp masked(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

scmp_arg_cmp equal(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release) {
    check(context_ ? 0 : -ENOMEM);
    // A tree of comparisons instead of a list; no Spectre mitigation, since that is slow.
    check(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));
    check(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_SSB, 1));
  }

  template <class... Conditions>
  void allow(const char* name, Conditions... conditions) {
    rule(SCMP_ACT_ALLOW, name, conditions...);
  }
  void refuse(const char* name, int why) { rule(SCMP_ACT_ERRNO(static_cast<uint32_t>(why)), name); }
  void load() { check(seccomp_load(context_.get())); }

 private:
  template <class... Conditions>
  void rule(uint32_t action, const char* name, Conditions... conditions) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call < 0) return;
    check(seccomp_rule_add(context_.get(), action, call, sizeof...(conditions), conditions...));
  }
  static void check(int result) {
    if (result < 0)
      throw Error(fmt::format("[sandbox] seccomp: got {}, expected to restrict this process; try "
                              "another kernel",
                              std::strerror(-result)),
                  1);
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
};

}  // namespace

bool has_seccomp() {
  const uint32_t action = SECCOMP_RET_ERRNO;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void restrict_calls(bool devices) {
  if (!has_seccomp()) return;
  Filter filter;
  for (const char* name : kAllowed) filter.allow(name);
  if (devices)
    for (const char* name : kDriver) filter.allow(name);
  const uint64_t closed = devices ? kMakes : kChanges;
  filter.allow("open", masked(1, closed, 0));
  filter.allow("openat", masked(2, closed, 0));
  // Threads, but no processes. clone3 and openat2 pass their flags in memory, where a filter cannot
  // see them; with ENOSYS the C library falls back to the older calls.
  filter.allow("clone", masked(0, CLONE_THREAD, CLONE_THREAD));
  filter.refuse("clone3", ENOSYS);
  filter.refuse("openat2", ENOSYS);
  filter.refuse("fork", EAGAIN);
  // for abort and raise
  filter.allow("tgkill", equal(0, static_cast<uint64_t>(getpid())));
  // Limits may be read, not set.
  filter.allow("prlimit64", equal(2, 0));
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE, PR_GET_SECCOMP,
                           PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ})
    filter.allow("prctl", equal(0, static_cast<uint64_t>(option)));
  filter.load();
}

}  // namespace wide
