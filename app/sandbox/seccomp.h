#pragma once

namespace wide {

/// Whether the kernel filters system calls.
bool has_seccomp();

/// From now on the threads of this process make only the system calls that computing needs: no new
/// program or process, no network, no signal to others, no look into others, and nothing is opened
/// for writing, renamed or removed. All else fails with EPERM. `devices`: with those of drivers (a
/// GPU): they are opened for writing and controlled. Throws Error with exit code 1 where the kernel
/// has filters and refuses this one.
void restrict_calls(bool devices);

}  // namespace wide
