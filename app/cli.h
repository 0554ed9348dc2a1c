#pragma once
#include <functional>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace wide {

/// A command of the program. One file each under app/commands, registered by itself.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  /// Not for people: works, but is not listed.
  virtual bool hidden() const { return false; }
  /// Declares options bound to members. Only what works may be declared.
  virtual void declare(CLI::App& app) = 0;
  /// Does the work; returns the exit code. Errors are thrown.
  virtual int run() = 0;
};

using MakeCommand = std::function<std::unique_ptr<Command>()>;
bool add_command(MakeCommand make);

/// The command line as it was typed, for reports.
const std::string& typed_command();

int run_cli(int argc, char** argv);

}  // namespace wide
