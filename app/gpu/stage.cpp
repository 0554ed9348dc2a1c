#include "app/gpu/stage.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/one_line.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/machine/clock.h"
#include "engine/program/registry.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

void say(const Json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

}  // namespace

void Steps::step(const std::string& name, const std::function<Json()>& work) {
  say({{"step", name}});
  const double begun = now_s();
  Json done = {{"step", name}, {"ok", true}, {"reason", ""}};
  try {
    const Json data = work();
    synchronize(device_);
    if (!data.is_null()) done["data"] = data;
  } catch (const std::exception& e) {
    done["ok"] = false;
    done["reason"] = printable(one_line(e), 400);
  }
  done["seconds"] = now_s() - begun;
  say(done);
  expect_working(device_);
}

bool add_gpu_stage(GpuStage stage) { return enter(std::move(stage), &GpuStage::order); }
const std::vector<GpuStage>& gpu_stages() { return registry<GpuStage>(); }

GpuStage find_gpu_stage(const std::string& name) {
  for (const GpuStage& stage : gpu_stages())
    if (stage.name == name) return stage;
  const std::vector<std::string> names = names_of(gpu_stages());
  fail("[--stage] stage: got {}, expected one of {}; try {}", printable(name), listing(names, 99),
       names.empty() ? "none" : names.front());
}

}  // namespace wide
