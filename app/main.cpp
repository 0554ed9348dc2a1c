#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "app/cli.h"
#include "engine/cuda/open.h"

namespace {

/// Keeps the numbers 0, 1 and 2 from files that are opened later, which would get what is printed.
/// Writing to a closed stdout stays an error.
void hold_standard_numbers() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) == -1) open("/dev/null", O_RDONLY);  // gets the lowest free number
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_numbers();
  // A write beyond `ulimit -f`, or to a pipe that nobody reads, is an error, as on a full disk.
  for (const int signal : {SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_IGN);
  return wide::run_cli(argc, argv, [] {
    std::error_code error;
    wide::open_cuda(std::filesystem::read_symlink("/proc/self/exe", error).parent_path());
  });
}
