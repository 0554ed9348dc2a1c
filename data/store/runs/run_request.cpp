#include "data/store/runs/run_request.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace wide {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<RunRequest>& requests) {
  Json all = Json::array();
  for (const RunRequest& r : requests)
    all.push_back({{"id", r.id},
                   {"what", r.what},
                   {"model", r.model},
                   {"key", r.key},
                   {"value", r.value},
                   {"source", r.source}});
  return all;
}

std::vector<RunRequest> run_requests_of(const Json& json) {
  std::vector<RunRequest> all;
  for (const Json& r : json)
    all.push_back({r.at("id"), r.at("what"), r.at("model"), r.at("key"),
                   r.at("value").is_number() ? r.at("value").get<double>() : std::nan(""),
                   r.at("source")});
  return all;
}

}  // namespace wide
