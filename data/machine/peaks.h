#pragma once
#include "data/machine/environment.h"
#include "engine/measure/peaks.h"

namespace wide {

/// What this machine reaches at most with so many threads (0: all of LibTorch's): measured once
/// and kept in the cache folder (`peaks.json`), by processor, device and number of threads;
/// `again` measures anew. What other programs disturbed serves for ten minutes. A file that cannot
/// be read or written is no error: it is measured then.
Peaks machine_peaks(c10::Device device, int threads, bool again = false);

/// Into what is stored with a sweep.
void add_peaks(Environment& environment, const Peaks& peaks);

/// `${XDG_CACHE_HOME:-~/.cache}/workbench`: what can be made again. Empty without a home.
std::string cache_folder();
/// In it: what `machine_peaks` keeps.
std::string peaks_file();

}  // namespace wide
