#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/machine/environment.h"
#include "engine/measure/peaks.h"

namespace wide {

/// The machine's peak rates with this many threads (0: all of LibTorch's), measured once and cached
/// in `peaks.json` by processor, device and number of threads; `again` measures anew. Peaks
/// disturbed by other programs are used for ten minutes. Without a usable file, each process
/// measures.
Peaks machine_peaks(c10::Device device, int threads, bool again = false);

/// Sets what `machine_peaks` returns in this process from now on. A sweep's workers use it, so that
/// all of its shares refer to the peaks in its report, even if the cache changes.
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
