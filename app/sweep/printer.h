#pragma once
#include <set>

#include "app/sweep/session.h"

namespace wide {

/// Prints a sweep's progress with rate and time left, and the table of each target once all of its
/// cases are done, in any order. On a terminal progress rewrites its line; elsewhere there is a
/// plain line for each case.
class SweepPrinter : public SweepObserver {
 public:
  SweepPrinter(SweepSession& session, bool quiet);
  void on_begin(const SweepCase& planned) override;
  void on_stage(const std::string& what, const std::string& trial) override;
  void on_case(const SweepCase& planned, const Case& result) override;
  void on_known(const SweepCase& planned, const Case& result) override;
  void on_lost(const std::string& what) override;
  void on_end(const std::string& state) override;

 private:
  struct Group {
    size_t left = 0;              // cases still to run
    std::map<size_t, Case> done;  // by position in the list of cases
    std::string machine = {};     // with --each-machine: whose table this is
  };
  void add(const SweepCase& planned, const Case& result);
  void print(Group& group);
  void show(const std::string& doing);
  void clear();

  SweepSession& session_;
  double start_s_;
  std::set<size_t> begun_;  // positions in the list of cases; a case of a lost worker begins again
  size_t run_ = 0;          // number of cases run, without those known from a resume
  bool quiet_, terminal_;
  std::string line_;
  std::vector<size_t> group_of_;  // by case: index in `groups_`
  std::vector<Group> groups_;     // one table each
};

}  // namespace wide
