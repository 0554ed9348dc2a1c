#include "engine/train/choices.h"

#include <nlohmann/json.hpp>

#include "engine/error.h"

namespace wide {

std::string Choices::text() const {
  nlohmann::json all{{"threads", threads}, {"exact", exact}, {"sizes", nlohmann::json::object()}};
  for (const auto& [size, choice] : by_size)
    all["sizes"][size] = {{"models_at_a_time", choice.models_at_a_time},
                          {"strategies", choice.strategies}};
  return all.dump();
}

Choices Choices::parse(const std::string& text) {
  Choices choices;
  try {
    const nlohmann::json all = nlohmann::json::parse(text);
    choices.threads = all.at("threads").get<int>();
    choices.exact = all.at("exact").get<bool>();
    for (const auto& [size, one] : all.at("sizes").items())
      choices.by_size[size] = {one.at("models_at_a_time").get<int64_t>(),
                               one.at("strategies").get<std::map<std::string, std::string>>()};
  } catch (const nlohmann::json::exception&) {
    fail("[train] plan: got '{}', expected what plan() gives; try without", text.substr(0, 40));
  }
  return choices;
}

}  // namespace wide
