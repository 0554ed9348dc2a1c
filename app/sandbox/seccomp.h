#pragma once

namespace wide {

/// Whether the kernel can filter system calls.
bool has_seccomp();

/// From now on the threads of this process make only the system calls that computing needs: no new
/// program or process, no network, no signal to others, no look into others, and nothing is opened
/// for writing, renamed or removed. All else fails with EPERM. `devices` also allows the calls of
/// GPU drivers, which open files for writing and use ioctl. Does nothing if the kernel has no
/// filters; throws Error with exit code 1 if it has and refuses this one.
void restrict_calls(bool devices);

}  // namespace wide
