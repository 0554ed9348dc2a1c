#include "app/worker/worker.h"

#include "app/cli.h"

namespace wide::worker_command {
namespace {

/// Hidden: the process that a sweep starts to run its cases.
class WorkerCommand : public Command {
 public:
  void declare(CLI::App&) override {}
  int run() override { return serve_worker(); }
};

const bool registered =
    add_command<WorkerCommand>("worker", "run the cases of a sweep", /*hidden=*/true);

}  // namespace
}  // namespace wide::worker_command
