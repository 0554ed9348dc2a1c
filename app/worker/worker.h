#pragma once

namespace wide {

/// The worker's side of a sweep: runs the cases that come in on standard input and answers on
/// kReplyFd, until its input is closed. Returns the exit code.
int serve_worker();

}  // namespace wide
