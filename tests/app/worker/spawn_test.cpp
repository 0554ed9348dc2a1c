// Processes of this program: one that cannot be started, one whose starter dies, and two at once.
#include "app/worker/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "app/explorer/models/child.h"
#include "engine/error.h"

namespace wide::spawn_test {
namespace {

using std::chrono::milliseconds;

/// Runs `work` in a copy of this process, and returns its number.
pid_t in_a_copy(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = work();
    } catch (...) {
    }
    _exit(code);
  }
  return pid;
}

int exit_code(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// No process can be forked any more: to root the limit does not apply.
void forbid_forks() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_NPROC, &none);
  if (geteuid() == 0 && setuid(65534)) _exit(98);
}

const std::string kRefused = "process: got Resource temporarily unavailable, expected a new one";

TEST(Spawn, AForkThatFailsIsAnError) {
  const pid_t pid = in_a_copy([] {
    forbid_forks();
    try {
      const Spawned none("worker", {"worker"}, {});
      return 1;
    } catch (const Error& e) {
      return std::string(e.what()).find("[worker] " + kRefused) == 0 && e.exit_code() == 1 ? 0 : 2;
    }
  });
  EXPECT_EQ(exit_code(pid), 0);
}

TEST(Spawn, AForkThatFailsLeavesTheExplorerAsItWas) {
  const pid_t pid = in_a_copy([] {
    Spawned other("worker", {"sweep", "--no-such-option"}, {});
    other.await();
    forbid_forks();
    Child child;
    try {
      child.start({"fuse", "--help"});
      return 1;
    } catch (const Error& e) {
      if (std::string(e.what()).find("[explorer] " + kRefused) != 0) return 2;
    }
    if (child.running() || child.code() != -1) return 3;
    // Whatever ended meanwhile is its owner's to reap.
    const int status = other.reap();
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? 0 : 4;
  });
  EXPECT_EQ(exit_code(pid), 0);
}

TEST(Spawn, EachReapsItsOwn) {
  Spawned worker("worker", {"sweep", "--no-such-option"}, {});
  worker.await();
  Child child;
  child.start({"fuse", "--no-such-option"});
  while (child.running()) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(child.code(), 2);
  EXPECT_TRUE(worker.ended());
  const int status = worker.reap();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
}

TEST(Spawn, AFusionDiesWithTheExplorer) {
  // The fusion's input is an end of a pair that nobody else holds once the explorer is gone.
  int pair[2], started[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  ASSERT_EQ(pipe(started), 0);
  const pid_t explorer = in_a_copy([&] {
    dup2(pair[1], STDIN_FILENO);
    ::close(pair[0]);
    ::close(pair[1]);
    Child child;
    child.start({"fuse", "resnet18", "-n", "32", "--budget", "600", "--no-store"});
    std::this_thread::sleep_for(milliseconds(500));
    const char running = child.running() ? 'y' : 'n';
    if (write(started[1], &running, 1) != 1) return 1;
    pause();
    return 0;
  });
  ::close(pair[1]);
  char running = 0;
  ASSERT_EQ(read(started[0], &running, 1), 1);
  EXPECT_EQ(running, 'y');
  kill(explorer, SIGKILL);
  EXPECT_EQ(exit_code(explorer), 1000 + SIGKILL);
  pollfd other{pair[0], POLLIN, 0};
  EXPECT_EQ(poll(&other, 1, 20'000), 1) << "the fusion lives on";
  char byte = 0;
  EXPECT_EQ(read(pair[0], &byte, 1), 0);
  for (const int fd : {pair[0], started[0], started[1]}) ::close(fd);
}

TEST(Spawn, ANumberThatIsInUseHereIsLostToNobody) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  // The first takes the number of the end that the others are given.
  Spawned child("worker", {"sweep", "--no-such-option"},
                {{ends[0], ends[1]}, {ends[1], STDOUT_FILENO}, {ends[1], STDERR_FILENO}});
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  EXPECT_NE(said.find("[workbench sweep] usage"), std::string::npos) << said;
}

}  // namespace
}  // namespace wide::spawn_test
