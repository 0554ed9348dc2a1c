#include "engine/train/choices.h"

#include <nlohmann/json.hpp>

#include "engine/error.h"

namespace wide {

namespace {

/// Parses "12 linear": the call's first node in Program(1) and its rule.
TunedWidening::Call parse_call(const std::string& text) {
  size_t end = 0;
  const int node = std::stoi(text, &end);
  return {node, text.substr(std::min(end + 1, text.size()))};
}

}  // namespace

std::string Choices::text() const {
  nlohmann::json all{{"threads", threads}, {"exact", exact}, {"sizes", nlohmann::json::object()}};
  for (const auto& [size, by_models] : by_size)
    for (const auto& [models, choice] : by_models) {
      nlohmann::json strategies = nlohmann::json::object();
      for (const auto& [call, strategy] : choice.strategies)
        strategies[fmt::format("{} {}", call.first, call.second)] = strategy;
      all["sizes"][size].push_back({{"models", models},
                                    {"models_at_a_time", choice.models_at_a_time},
                                    {"strategies", strategies}});
    }
  return all.dump();
}

Choices Choices::parse(const std::string& text) {
  Choices choices;
  try {
    const nlohmann::json all = nlohmann::json::parse(text);
    choices.threads = all.at("threads").get<int>();
    choices.exact = all.at("exact").get<bool>();
    for (const auto& [size, by_models] : all.at("sizes").items())
      for (const auto& one : by_models) {
        Choice& choice = choices.by_size[size][one.at("models").get<int64_t>()];
        choice.models_at_a_time = one.at("models_at_a_time").get<int64_t>();
        for (const auto& [call, strategy] : one.at("strategies").items())
          choice.strategies[parse_call(call)] = strategy.get<std::string>();
      }
  } catch (const std::exception&) {
    fail("[train] plan: got '{}', expected what plan() gives; try without", text.substr(0, 40));
  }
  return choices;
}

const std::pair<const int64_t, Choice>* Choices::find(const std::string& size, int64_t running,
                                                      bool anew_for_fewer) const {
  constexpr double kFarMore = 4.0 / 3;
  const auto known = by_size.find(size);
  if (known == by_size.end()) return nullptr;
  const auto at = known->second.lower_bound(running);
  if (at == known->second.end()) return nullptr;
  if (anew_for_fewer && double(at->first) >= kFarMore * double(running)) return nullptr;
  return &*at;
}

}  // namespace wide
