#include "app/worker/worker.h"

#include "app/cli.h"

namespace wide::worker_command {
namespace {

/// Hidden: the process that a sweep starts to run its cases.
class WorkerCommand : public Command {
 public:
  std::string name() const override { return "worker"; }
  std::string summary() const override { return "run the cases of a sweep"; }
  bool hidden() const override { return true; }
  void declare(CLI::App&) override {}
  int run() override { return serve_worker(); }
};

const bool registered = add_command([] { return std::make_unique<WorkerCommand>(); });

}  // namespace
}  // namespace wide::worker_command
