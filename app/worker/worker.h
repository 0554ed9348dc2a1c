#pragma once

namespace wide {

/// The worker's side of a sweep (`workbench worker`, which WorkerProcess starts): runs the cases
/// that come in on standard input and answers on kReplyFd, until its input is closed. Returns the
/// exit code. What fails in a case is an answer; a broken device ends the process. Throws Error if
/// the process was not started by a sweep.
int serve_worker();

}  // namespace wide
