#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace wide {

/// A command of the program. One file each under app/commands, registered by itself.
class Command {
 public:
  virtual ~Command() = default;
  /// Declares the options, bound to members.
  virtual void declare(CLI::App& app) = 0;
  /// Does the work; returns the exit code. Errors are thrown.
  virtual int run() = 0;
};

struct CommandInfo {
  std::string name, summary;
  std::function<std::unique_ptr<Command>()> make;
  bool hidden = false;  // only the program itself starts it, so it is not listed
};
bool add_command(CommandInfo info);
template <class C>
bool add_command(const std::string& name, const std::string& summary, bool hidden = false) {
  return add_command({name, summary, [] { return std::make_unique<C>(); }, hidden});
}

/// A problem with the result of a command that has done its work (wrong, slower): an exit code and
/// a line. Code 0: no problem.
struct Complaint {
  int exit_code = 0;
  std::string line;
};
/// Prints the lines of the most severe exit code (4, 5, 3, 1) on standard error and returns that
/// code; 0 if there are no complaints.
int complain(const std::vector<Complaint>& complaints);

/// Prints lines that may hold text from files or a store, without its terminal escape sequences.
void print_plain(std::string_view lines);

/// Runs `work` and returns its exit code; an exception becomes one line on standard error.
int exit_code_of(const std::function<int()>& work);

/// The command line as it was typed, for reports.
const std::string& typed_command();

/// Loads what GPUs need unless all `names` are cpu. A command calls it with the devices that it may
/// use, "auto" among them, before it computes anything: LibTorch looks for devices once, and where
/// it has a GPU's libraries even a backward pass on the CPU calls the driver, which a sandbox
/// without a GPU forbids.
void open_devices(const std::vector<std::string>& names);

/// `open`: loads what GPUs need; may be called again.
int run_cli(int argc, char** argv, std::function<void()> open = {});

}  // namespace wide
