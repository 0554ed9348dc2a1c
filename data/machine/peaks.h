#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/machine/environment.h"
#include "engine/measure/peaks.h"

namespace wide {

/// What this machine reaches at most with so many threads (0: all of LibTorch's): measured once
/// and kept in the cache folder (`peaks.json`), by processor, device and number of threads;
/// `again` measures anew. What other programs disturbed serves for ten minutes. A file that cannot
/// be read or written is no error: it is measured then.
Peaks machine_peaks(c10::Device device, int threads, bool again = false);

/// Sets what `machine_peaks` returns in this process from now on. A sweep's workers use it, so that
/// all of its shares refer to the peaks in its report, even if the cache changes.
void use_peaks(c10::Device device, int threads, const Peaks& peaks);

nlohmann::json peaks_json(const Peaks& peaks);
/// Throws nlohmann's exception for anything else.
Peaks peaks_of(const nlohmann::json& json);

/// Adds the peaks to an environment, which is stored with a sweep.
void add_peaks(Environment& environment, const Peaks& peaks);

/// `${XDG_CACHE_HOME:-~/.cache}/workbench`: what can be made again. Empty without a home.
std::string cache_folder();
/// In it: what `machine_peaks` keeps.
std::string peaks_file();

}  // namespace wide
