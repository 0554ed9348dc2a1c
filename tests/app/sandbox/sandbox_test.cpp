// A sandbox: what it may do, what it may not, and what becomes of it when it fails.
#include "app/sandbox/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>

#include "app/cli.h"
#include "app/sandbox/devices.h"
#include "app/sandbox/landlock.h"
#include "app/sandbox/seccomp.h"
#include "data/bytes/part_file.h"
#include "engine/error.h"
#include "engine/machine/threads.h"
#include "tests/scratch.h"

namespace wide::sandbox_test {
namespace {

namespace fs = std::filesystem;

class Sandbox : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(path("named"), "named");
    write_text(path("other"), "other");
    policy_.what = "net.pt2";
    policy_.read = {path("named")};
    policy_.write = {path("result")};
    policy_.timeout_s = 20;
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string content(const std::string& name) const { return read_text(path(name)); }
  std::set<std::string> files() const { return folder_.names(); }

  /// Of a sandbox in a copy of this process, whose signals are its own: its exit code and its line.
  struct End {
    int code = 0;
    std::string line;
  };
  End run(const std::function<int()>& work) const {
    const std::string line = path("line");
    const pid_t pid = fork();
    if (pid == 0) {
      const int fd = ::open(line.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      dup2(fd, STDERR_FILENO);
      _exit(exit_code_of([&] { return run_in_sandbox(policy_, work); }));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    End end{WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), content("line")};
    fs::remove(line);
    return end;
  }
  void fails(const std::string& text, const std::function<int()>& work) const {
    const End end = run(work);
    EXPECT_EQ(end.code, 5) << end.line;
    EXPECT_NE(end.line.find(text), std::string::npos) << end.line;
    EXPECT_EQ(std::count(end.line.begin(), end.line.end(), '\n'), 1) << end.line;
    EXPECT_EQ(files(), (std::set<std::string>{"named", "other"}));
  }

  Scratch folder_;
  SandboxPolicy policy_;
};

TEST_F(Sandbox, ReturnsWhatItsWorkReturns) {
  for (const int code : {0, 2, 4}) EXPECT_EQ(run([&] { return code; }).code, code);
  const End end = run([]() -> int { throw Error("[a] b: got c", 3); });
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.line, "[a] b: got c\n");
}

/// Every way of reaching what is not its own. Which of them come to pass is in the exit code.
TEST_F(Sandbox, HoldsBackWhatIsNotItsOwn) {
  const std::string other = path("other"), made = path("made"), sub = path("sub");
  const std::pair<const char*, std::function<long()>> tries[] = {
      {"open to write", [&] { return ::open(other.c_str(), O_WRONLY); }},
      {"open to read and write", [&] { return ::open(other.c_str(), O_RDWR); }},
      {"truncate on opening", [&] { return ::open(other.c_str(), O_RDONLY | O_TRUNC); }},
      {"make", [&] { return ::open(made.c_str(), O_RDONLY | O_CREAT, 0600); }},
      {"make without a name",
       [&] { return ::open(folder_.path().c_str(), O_TMPFILE | O_RDWR, 0600); }},
      {"openat2",
       [&] {
         const uint64_t how[3] = {O_WRONLY, 0, 0};
         return ::syscall(SYS_openat2, AT_FDCWD, other.c_str(), how, sizeof how);
       }},
      {"creat", [&] { return ::creat(made.c_str(), 0600); }},
      {"truncate", [&] { return ::truncate(other.c_str(), 0); }},
      {"rename", [&] { return ::rename(other.c_str(), made.c_str()); }},
      {"link", [&] { return ::link(other.c_str(), made.c_str()); }},
      {"symlink", [&] { return ::symlink(other.c_str(), made.c_str()); }},
      {"unlink", [&] { return ::unlink(other.c_str()); }},
      {"mkdir", [&] { return ::mkdir(sub.c_str(), 0700); }},
      {"mkfifo", [&] { return ::mkfifo(made.c_str(), 0600); }},
      {"chmod", [&] { return ::chmod(other.c_str(), 0777); }},
      {"socket", [] { return ::socket(AF_INET, SOCK_STREAM, 0); }},
      {"unix socket", [] { return ::socket(AF_UNIX, SOCK_STREAM, 0); }},
      {"fork", [] { return ::fork(); }},
      {"fork by the call", [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"exec", [] { return ::execl("/bin/true", "true", nullptr); }},
      {"kill", [] { return ::kill(::getppid(), 0); }},
      {"signal a thread of others",
       [] { return ::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0); }},
      {"ptrace", [] { return ::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr); }},
      {"read other memory",
       [] {
         char here = 0;
         iovec to{&here, 1}, from{&here, 1};
         return ::syscall(SYS_process_vm_readv, ::getppid(), &to, 1, &from, 1, 0);
       }},
      {"outlive", [] { return ::prctl(PR_SET_PDEATHSIG, 0); }},
      {"raise a limit",
       [] {
         const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
         return ::setrlimit(RLIMIT_DATA, &none);
       }},
      {"a session of its own", [] { return ::setsid(); }},
      {"io_uring", [] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"control the terminal", [] { return ::syscall(SYS_ioctl, 0, 0x5412, "x"); }},
  };
  if (!has_seccomp()) GTEST_SKIP() << "no seccomp";
  for (const auto& [name, attempt] : tries) {
    EXPECT_EQ(run([&] { return attempt() < 0 ? 0 : 1; }).code, 0) << name;
    // Also where the kernel has no Landlock.
    const pid_t pid = fork();
    if (pid == 0) {
      restrict_calls(false);
      _exit(attempt() < 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << name;
  }
  EXPECT_EQ(content("other"), "other");
  EXPECT_EQ(files(), (std::set<std::string>{"named", "other"}));
}

TEST_F(Sandbox, ReadsOnlyWhatIsNamed) {
  if (landlock_version() == 0) GTEST_SKIP() << "no Landlock";
  const auto reads = [&](const std::string& file) {
    return run([&] { return ::open(file.c_str(), O_RDONLY) >= 0 ? 1 : 0; }).code == 1;
  };
  EXPECT_TRUE(reads(path("named")));
  for (const char* file : {"/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"})
    EXPECT_TRUE(reads(file) || !fs::exists(file)) << file;
  for (const std::string& file :
       {path("other"), folder_.path().string(), std::string("/etc/passwd"),
        std::string("/proc/1/environ"), std::string("/proc/self/mem")})
    EXPECT_FALSE(reads(file)) << file;
  std::error_code error;
  fs::create_symlink(path("other"), path("link"), error);
  EXPECT_FALSE(reads(path("link")));
}

/// The driver starts while it still may do what that takes; afterwards it names its threads, and
/// libraries that it or LibTorch want late are found.
TEST_F(Sandbox, ADeviceIsStartedBeforeAndServedAfter) {
  const std::string mark = path("mark");
  ::setenv("FAKE_DRIVER_MARK", mark.c_str(), 1);
  policy_.driver = fs::read_symlink("/proc/self/exe").parent_path() / "libfake_driver.so";
  ASSERT_TRUE(fs::exists(policy_.driver));
  EXPECT_EQ(run([] { return 0; }).code, 0);
  EXPECT_FALSE(fs::exists(mark)) << "a driver is started for nobody";
  policy_.device = true;
  const End end = run([&] {
    const int name = ::open(fmt::format("/proc/self/task/{}/comm", ::syscall(SYS_gettid)).c_str(),
                            O_RDWR | O_CLOEXEC);
    if (name < 0 || ::write(name, "worker", 6) != 6) return 2;
    for (const std::string& folder : device_library_folders())
      for (const auto& entry : fs::directory_iterator(folder)) {
        const int library = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
        if (library < 0) return 3;
        ::close(library);
      }
    return ::open(path("other").c_str(), O_RDONLY) < 0 ? 0 : 4;
  });
  EXPECT_EQ(end.code, 0) << end.line;
  EXPECT_TRUE(fs::exists(mark)) << "the driver was not started while it had the rights";
  fs::remove(mark);
  ::unsetenv("FAKE_DRIVER_MARK");
}

TEST_F(Sandbox, NodesOfEveryKindOfGpuAreADevices) {
  for (const char* node : {"nvidia0", "nvidiactl", "nvidia-uvm", "dxg", "null", "sda"})
    write_text(path(node), "");
  fs::create_directory(path("nvidia-caps"));
  std::set<std::string> found;
  for (const std::string& node : device_nodes(folder_.path()))
    found.insert(fs::path(node).filename());
  EXPECT_EQ(found,
            (std::set<std::string>{"nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps", "dxg"}));
}

TEST_F(Sandbox, KeepsNothingThatWasOpen) {
  const int secret = ::open(path("other").c_str(), O_RDWR);
  struct stat own {};
  ASSERT_EQ(::fstat(secret, &own), 0);
  EXPECT_EQ(run([&] {
              struct stat there {};
              return !::fstat(secret, &there) && there.st_ino == own.st_ino ? 1 : 0;
            }).code,
            0);
  ::close(secret);
}

TEST_F(Sandbox, ComputesOnAsManyThreadsAsAnyProcess) {
  const auto threads_seen = [] {
    std::mutex mutex;
    std::set<int> seen;
    run_parallel(2, 8, [&](int thread, int) {
      ::usleep(20'000);
      const std::lock_guard lock(mutex);
      seen.insert(thread);
    });
    return static_cast<int>(seen.size());
  };
  EXPECT_EQ(run(threads_seen).code, 2);
}

TEST_F(Sandbox, FilesAreMadeOutsideAndAppearWhole) {
  const auto write = [&](const std::string& name, bool commit) {
    return run([&, commit] {
      PartFile file(path(name));
      file.write("all of it", 9);
      if (commit) file.commit();
      return 0;
    });
  };
  EXPECT_EQ(write("result", false).code, 0);
  EXPECT_FALSE(fs::exists(path("result")));
  EXPECT_EQ(write("result", true).code, 0);
  EXPECT_EQ(content("result"), "all of it");
  EXPECT_EQ(write("result", true).code, 0);  // in place of an older one
  EXPECT_EQ(files(), (std::set<std::string>{"named", "other", "result"}));
  fs::remove(path("result"));
  // What was not said before is no right.
  EXPECT_EQ(write("other", true).code, 5);
  EXPECT_EQ(content("other"), "other");
}

TEST_F(Sandbox, CheckpointsAreMadeInTheirFolderAlone) {
  policy_.checkpoints = {folder_.path().string()};
  const auto made = [&](const std::string& file) {
    return run([&] {
             PartFile(file).commit();
             return 0;
           }).code == 0;
  };
  EXPECT_TRUE(made(path("model-07.safetensors")));
  EXPECT_FALSE(made(path("other.safetensors")));
  EXPECT_FALSE(made(path("model-07.sh")));
  EXPECT_FALSE(made(path("../model-07.safetensors")));
  EXPECT_FALSE(made(path("sub/model-07.safetensors")));
}

TEST_F(Sandbox, WhatWasNamedAloneIsRemoved) {
  fs::create_directories(path("best/deep"));
  write_text(path("best/deep/file"), "old");
  policy_.remove = {path("best"), path("result")};
  const auto removed = [&](const std::string& file) {
    return run([&] {
             places().remove(file);
             return 0;
           }).code == 0;
  };
  EXPECT_TRUE(removed(path("best")));
  EXPECT_FALSE(fs::exists(path("best")));
  EXPECT_TRUE(removed(path("result")));  // is not there
  for (const char* file : {"named", "other", "best/..", "best/", ""})
    EXPECT_FALSE(removed(path(file))) << file;
  EXPECT_EQ(content("other"), "other");
}

TEST_F(Sandbox, OfALogThatIsAFolderTheFilesOfModelsAlone) {
  policy_.log = path("log/");
  const auto made = [&](const std::string& folder, const std::string& file) {
    return run([&] {
             if (!folder.empty()) places().folder(folder);
             if (!file.empty()) PartFile(file).commit();
             return 0;
           }).code == 0;
  };
  const std::string name = "/events.out.tfevents.workbench";
  EXPECT_TRUE(made(path("log/model-0007"), path("log/model-0007") + name));
  EXPECT_TRUE(made(path("log/model-12345"), path("log/model-12345") + name));
  EXPECT_EQ(run([&] {
              places().append(path("log/model-0007") + name, "a line");
              return 0;
            }).code,
            0);
  for (const char* folder :
       {"log", "log/", "log/model-", "log/model-7", "log/model-00007", "log/model--001",
        "log/model-+007", "log/model-0007/", "log/model-0007/sub", "log/model-0007/../../sub",
        "log/../model-0007", "log//model-0007", "sub/model-0007", "log/model-0007.sh",
        "log/model-99999999999999999999"})
    EXPECT_FALSE(made(path(folder), "")) << folder;
  for (const std::string& file :
       {std::string("log/model-0007/other"), "log/model-0007/.." + name,
        "log/model-0007/../.." + name, "log/model-0007/." + name, "log/model-0007/" + name,
        "log" + name, "log/model-7" + name, "other" + name, std::string("other"),
        "log/model-0007" + name + ".sh"}) {
    EXPECT_FALSE(made("", path(file))) << file;
    EXPECT_NE(run([&] {
                places().append(path(file), "a line");
                return 0;
              }).code,
              0)
        << file;
  }
  EXPECT_EQ(content("other"), "other");
  EXPECT_EQ(content("log/model-0007" + name), "a line");
}

TEST_F(Sandbox, ACrashIsOneLine) {
  fails("[net.pt2] sandbox: got SIGABRT (Aborted)", [] {
    std::fprintf(stderr, "a line of a library\nand another\n");
    std::abort();
    return 0;
  });
  // The sanitizers turn these two into an exit of their own.
  fails("[net.pt2] sandbox: got ", [] {
    ::raise(SIGSEGV);
    return 0;
  });
  fails("[net.pt2] sandbox: got SIGKILL (Killed), expected it to finish; try again", [] {
    ::raise(SIGKILL);
    return 0;
  });
  fails(
      "[net.pt2] sandbox: got exit code 0 before its work was done, expected it to finish; "
      "try another file\n",
      [] {
        ::_exit(0);
        return 0;
      });
}

TEST_F(Sandbox, ACrashWithoutAFileIsNotAFilesFault) {
  policy_.what = "gpu-report";
  policy_.read.clear();
  fails(
      "[gpu-report] sandbox: got exit code 0 before its work was done, expected it to "
      "finish; try --trust for fuse and train, which then use the device outside it\n",
      [] {
        ::_exit(0);
        return 0;
      });
}

TEST_F(Sandbox, AStackThatOverflowsIsACrash) {
  fails("[net.pt2] sandbox: got ", [] {
    const std::function<int(int)> deeper = [&](int depth) {
      volatile char much[4096] = {};
      return deeper(depth + 1) + much[static_cast<size_t>(depth) % sizeof much];
    };
    return deeper(0);
  });
}

TEST_F(Sandbox, AFileCutWhileItIsReadIsACrash) {
  std::ofstream(path("named"), std::ios::trunc) << std::string(1 << 16, 'x');
  std::thread cut([&] {
    while (!fs::exists(path("result"))) ::usleep(1000);
    EXPECT_EQ(::truncate(path("named").c_str(), 0), 0);
  });
  const End end = run([&] {
    const int fd = ::open(path("named").c_str(), O_RDONLY);
    const auto* bytes =
        static_cast<volatile const char*>(::mmap(nullptr, 1 << 16, PROT_READ, MAP_PRIVATE, fd, 0));
    PartFile(path("result")).commit();  // says that it is mapped
    struct stat status {};
    do ::fstat(fd, &status);
    while (status.st_size);
    return int{bytes[1 << 15]};
  });
  cut.join();
  EXPECT_EQ(end.code, 5);
  EXPECT_NE(end.line.find("sandbox: got "), std::string::npos) << end.line;
}

TEST_F(Sandbox, MemoryHasAnEnd) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's operator new ends the process instead of throwing";
#endif
  policy_.timeout_s = 60;
  const End end = run([] {
    // Mapped and never touched: it is the limit that counts, not the machine.
    for (;;) {
      char* block = new char[size_t{1} << 30];
      *static_cast<volatile char*>(block) = 1;
    }
    return 0;
  });
  EXPECT_EQ(end.code, 5);
  EXPECT_NE(end.line.find("memory: got "), std::string::npos) << end.line;
}

TEST_F(Sandbox, SilenceIsAHangAndLifeIsNot) {
  policy_.timeout_s = 0.5;
  fails("[net.pt2] sandbox: got no heartbeat for 0.", [] {
    for (;;) ::pause();
    return 0;
  });
  fails("[net.pt2] sandbox: got no heartbeat for 0.", [] {
    for (;; ::usleep(1000)) std::puts("noise"), std::fflush(stdout);  // is no heartbeat
    return 0;
  });
  EXPECT_EQ(run([] {
              for (int i = 0; i < 10; ++i) {
                ::usleep(100'000);
                heartbeat();
              }
              return 0;
            }).code,
            0);
}

TEST_F(Sandbox, GarbageOnItsChannelEndsIt) {
  fails("[net.pt2] sandbox: got a request that it has no right to", [] {
    const uint32_t longer_than_any[2] = {0xffffffff, 0};
    if (::write(3, longer_than_any, sizeof longer_than_any) < 0) return 1;
    ::pause();
    return 0;
  });
  fails("[net.pt2] sandbox: got a request that it has no right to", [] {
    std::string deep(4 + 100'000, '\x81');  // arrays of one array
    const uint32_t length = 100'000;
    std::memcpy(deep.data(), &length, 4);
    if (::write(3, deep.data(), deep.size()) < 0) return 1;
    ::pause();
    return 0;
  });
}

TEST_F(Sandbox, IsCancelledAndDiesWithWhoOpenedIt) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t outside = fork();
    if (outside == 0) {
      const int quiet = ::open("/dev/null", O_WRONLY);
      dup2(quiet, STDERR_FILENO);
      dup2(told[1], STDOUT_FILENO);
      _exit(exit_code_of([&] {
        return run_in_sandbox(policy_, [] {
          std::printf("%d\n", ::getpid());
          std::fflush(stdout);
          for (;;) ::pause();
          return 0;
        });
      }));
    }
    ::close(told[1]);
    char text[32] = {};
    ASSERT_GT(::read(told[0], text, sizeof text - 1), 0);
    const pid_t sandbox = std::atoi(text);
    ::kill(outside, signal);
    int status = 0;
    waitpid(outside, &status, 0);
    EXPECT_EQ(status, signal == SIGKILL ? SIGKILL : 130 << 8) << signal;
    // Its end of the pipe is gone as soon as it is.
    for (int waited = 0; ::kill(sandbox, 0) == 0 && waited < 5000; waited += 5) ::usleep(5000);
    EXPECT_NE(::kill(sandbox, 0), 0) << signal;
    ::close(told[0]);
  }
}

TEST_F(Sandbox, WhatTheKernelLacksIsNamed) {
  EXPECT_EQ(sandbox_lacks().size(),
            (landlock_version() == 0 ? 1u : 0u) + (has_seccomp() ? 0u : 1u));
}

}  // namespace
}  // namespace wide::sandbox_test
