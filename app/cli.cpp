#include "app/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <system_error>
#include <vector>

#include "app/cancel.h"
#include "app/cluster/launch.h"
#include "app/version.h"
#include "data/escape.h"
#include "data/machine/environment.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
namespace {

std::string typed;
std::function<void()> open_gpus;

int say(const std::string& line, int exit_code) {
  // If several ranks find the same error, only rank 0 prints it; an error of one rank alone reaches
  // rank 0 as a message.
  if (launch().rank > 0) return exit_code;
  // Always one line, since scripts read the last line of stderr, and without escape sequences,
  // since names from files may contain some.
  std::string flat = clean_text(line);
  while (!flat.empty() && flat.back() == ' ') flat.pop_back();
  std::fflush(stdout);
  write_stderr(flat + "\n");
  return exit_code;
}

/// `workbench --sweep quick ...` is `workbench sweep quick ...`; no command, or options alone, is
/// `workbench explorer ...`.
std::vector<std::string> normalise(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return {"explorer"};
  std::string& first = arguments.front();
  if (first == "--sweep") {
    first = "sweep";
  } else if (first.rfind("--sweep=", 0) == 0) {
    const std::string value = first.substr(8);
    first = "sweep";
    arguments.insert(arguments.begin() + 1, value);
  } else if (first.rfind("--", 0) == 0 && first != "--help" && first != "--version") {
    arguments.insert(arguments.begin(), "explorer");
  }
  return arguments;
}

int dispatch(int argc, char** argv) {
  std::vector<std::string> arguments = normalise(argc, argv);
  CLI::App app(
      "Fuses N networks of one architecture into one wide program, proves it right and "
      "measures it.",
      "workbench");
  app.set_version_flag("--version", version_line());
  app.require_subcommand(1);
  app.footer(
      "`workbench` alone opens the explorer; `workbench --sweep SWEEP` is the same as `workbench "
      "sweep SWEEP`.\n"
      "Exit codes: 0 ok, 1 environment, 2 usage or bad input, 3 regression, 4 incorrect,\n"
      "5 a trial crashed, hung or ran out of memory, 6 no such device or display, 130 cancelled.\n"
      "Every error is one line.");
  std::map<std::string, std::unique_ptr<Command>> commands;
  std::vector<std::string> names;
  for (const CommandInfo& info : registry<CommandInfo>()) {
    CLI::App& sub = *app.add_subcommand(info.name, info.summary);
    commands[info.name] = info.make();
    commands[info.name]->declare(sub);
    if (info.hidden)
      sub.group("");
    else
      names.push_back(info.name);
  }

  const std::string& first = arguments.front();
  if (first.front() != '-' && !commands.count(first)) {
    const std::string near = nearest(first, names);
    fail("[workbench] command: got {}, expected one of {}; try {}", printable(first),
         listing(names, 99), near.empty() ? "workbench --help" : "workbench " + near);
  }

  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects reversed arguments
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // for --help and --version
    const auto chosen = app.get_subcommands();
    const std::string thing = chosen.empty() ? "workbench" : "workbench " + chosen[0]->get_name();
    return say(fmt::format("[{}] usage: {}; try {} --help", thing, e.what(), thing), 2);
  }
  return commands.at(app.get_subcommands().at(0)->get_name())->run();
}

/// Buffered output that could not be written is an error of a command that ended well.
int with_all_written(int exit_code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
  // Where an earlier write has failed, one more says why.
  if (!written && !errno && ::write(STDOUT_FILENO, "\n", 1) == 1) errno = EIO;
  if (written || errno == EPIPE) return exit_code;  // who closes a pipe has read enough
  const std::string why = std::strerror(errno);
  const int code = exit_code ? exit_code : 1;
  return say(fmt::format("[stdout] writing: got {}, expected to write all; try another place", why),
             code);
}

}  // namespace

int complain(const std::vector<Complaint>& complaints) {
  for (const int code : {4, 5, 3, 1}) {
    bool said = false;
    for (const Complaint& c : complaints)
      if (c.exit_code == code) said = say(c.line, code) == code;
    if (said) return code;
  }
  return 0;
}

void print_plain(std::string_view lines) {
  const std::string text = clean_text(lines, true);
  std::fwrite(text.data(), 1, text.size(), stdout);  // with_all_written looks for errors
}

bool add_command(CommandInfo info) { return enter(std::move(info), &CommandInfo::name); }

const std::string& typed_command() { return typed; }

int exit_code_of(const std::function<int()>& work) {
  try {
    return work();
  } catch (const Cancelled&) {
    return say("[workbench] cancelled", 130);
  } catch (const Error& e) {
    return say(e.what(), e.exit_code());
  } catch (const std::bad_alloc&) {
    return say("[workbench] memory: got none left, expected more; try fewer models", 5);
  } catch (const std::exception& e) {
    if (!is_out_of_memory(e)) return say("[workbench] " + one_line(e), 1);
    return say(
        fmt::format("[workbench] memory: got {}, expected less; try smaller inputs", one_line(e)),
        5);
  }
}

void open_devices(const std::vector<std::string>& names) {
  const bool any = std::ranges::any_of(names, [](const std::string& n) { return n != "cpu"; });
  if (any && open_gpus) open_gpus();
}

int run_cli(int argc, char** argv, std::function<void()> open) {
  open_gpus = std::move(open);
  typed = command_line(argc, argv);
  return exit_code_of([&] {
    try {
      return with_all_written(dispatch(argc, argv));
    } catch (const std::system_error&) {  // of fmt::print, where stdout could not be written
      if (!std::ferror(stdout)) throw;
      return with_all_written(0);
    }
  });
}

}  // namespace wide
