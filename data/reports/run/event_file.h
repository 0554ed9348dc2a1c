#pragma once
#include <cstdint>
#include <map>
#include <string>

/// Parts of a TensorBoard event file, in the order of writing: TFRecords of Event messages.
/// `wall_s`: seconds since 1970.
namespace wide {

/// Name of the file in a model's folder; TensorBoard looks for "tfevents" in it.
inline constexpr const char* kEventFile = "events.out.tfevents.workbench";

/// A model's folder in a log "DIR/": "DIR/model-0007".
std::string event_folder(const std::string& log, uint64_t model);
std::string event_file(const std::string& log, uint64_t model);

/// The first record of an event file.
std::string event_file_head(double wall_s);
/// One Event with a scalar for each name.
std::string event_scalars(double wall_s, int64_t step, const std::map<std::string, double>& values);
/// A run's hyperparameters, for TensorBoard's HPARAMS page.
std::string event_hyperparameters(double wall_s, const std::map<std::string, double>& numbers,
                                  const std::map<std::string, std::string>& texts);

}  // namespace wide
