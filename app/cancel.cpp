#include "app/cancel.h"

#include <unistd.h>

#include <csignal>

namespace wide {
namespace {

volatile std::sig_atomic_t asked = 0;

extern "C" void on_signal(int) {
  if (asked) _exit(130);
  asked = 1;
}

}  // namespace

void catch_cancel() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool cancelled() { return asked != 0; }

void check_cancelled() {
  if (asked) throw Cancelled();
}

}  // namespace wide
