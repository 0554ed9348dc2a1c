#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace wide {

/// A request of another process to a running run, which reads it at its next evaluation.
struct RunRequest {
  int64_t id = 0;
  std::string what;     // stop, set, copy, or go (continue a run that waits)
  int64_t model = -1;   // -1: the whole run, all models
  std::string key;      // of set: a hyperparameter
  double value = 0;     // of set: its new value
  int64_t source = -1;  // of copy: the model whose weights and moments `model` takes
};

/// JSON, for the messages between processes.
nlohmann::ordered_json to_json(const std::vector<RunRequest>& requests);
/// Throws nlohmann's exception for anything else.
std::vector<RunRequest> run_requests_of(const nlohmann::ordered_json& json);

}  // namespace wide
