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

/// What a command that has done its work says against the result: an exit code and its line. Code 0
/// says nothing.
struct Complaint {
  int exit_code = 0;
  std::string line;
};
/// Says on standard error, a line each, those of the code that counts most (4 before 5 before 3
/// before 1), and returns it; 0 where there is none.
int complain(const std::vector<Complaint>& complaints);

/// Prints lines that may hold names from files, or what a store holds: no terminal obeys them.
void print_plain(std::string_view lines);

/// Runs `work`; says on standard error what it throws, in one line, and returns its exit code.
int exit_code_of(const std::function<int()>& work);

/// The command line as it was typed, for reports.
const std::string& typed_command();

int run_cli(int argc, char** argv);

}  // namespace wide
