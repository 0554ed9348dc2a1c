#include "app/worker/worker.h"

#include <CLI/CLI.hpp>

#include "app/cli.h"

namespace wide::worker_command {
namespace {

/// Hidden: the process that a sweep starts to run its cases.
class WorkerCommand : public Command {
 public:
  void declare(CLI::App& app) override { app.add_flag("--gpu", gpu_, "a case may be of a GPU"); }
  int run() override {
    if (gpu_) open_devices({"auto"});
    return serve_worker();
  }

 private:
  bool gpu_ = false;
};

const bool registered =
    add_command<WorkerCommand>("worker", "run the cases of a sweep", /*hidden=*/true);

}  // namespace
}  // namespace wide::worker_command
