#pragma once
#include <cstdint>
#include <map>
#include <string>

/// Parts of TensorBoard's event files, to be written one after the other: TFRecords of its Event
/// messages. `wall_s`: seconds since 1970.
namespace wide {

/// Its name in a run's folder; TensorBoard finds it by a part of it.
inline constexpr const char* kEventFile = "events.out.tfevents.workbench";

/// Of one model in a log "DIR/": "DIR/model-0007".
std::string event_folder(const std::string& log, uint64_t model);
std::string event_file(const std::string& log, uint64_t model);

/// What such a file begins with.
std::string event_file_head(double wall_s);
/// One Event with a scalar for each name.
std::string event_scalars(double wall_s, int64_t step, const std::map<std::string, double>& values);
/// A run's hyperparameters, for TensorBoard's HPARAMS page.
std::string event_hyperparameters(double wall_s, const std::map<std::string, double>& numbers,
                                  const std::map<std::string, std::string>& texts);

}  // namespace wide
