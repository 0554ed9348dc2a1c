#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/machine/environment.h"
#include "engine/measure/peaks.h"

namespace wide {

/// The machine's peak rates with this many threads (0: all of LibTorch's), measured once and cached
/// in `peaks.json` by processor, device and number of threads; `again` measures anew. Peaks
/// measured while other programs used over 10 % of the cores are kept for ten minutes. If the file
/// cannot be written, each process measures once.
Peaks machine_peaks(c10::Device device, int threads, bool again = false);

/// Sets what `machine_peaks` returns in this process from now on. The workers of a sweep call it
/// with the peaks in the sweep's report, so that all shares in that report are relative to the same
/// peaks, even if the cache file changes meanwhile.
void use_peaks(c10::Device device, int threads, const Peaks& peaks);

nlohmann::json peaks_json(const Peaks& peaks);
/// Peaks from JSON. Throws nlohmann's exception for anything else.
Peaks peaks_of(const nlohmann::json& json);

/// Adds the peaks to an environment, which is stored with a sweep.
void add_peaks(Environment& environment, const Peaks& peaks);

/// `${XDG_CACHE_HOME:-~/.cache}/workbench`: files that can be made again. "" without a home folder.
std::string cache_folder();
/// The cache file of `machine_peaks`.
std::string peaks_file();

}  // namespace wide
