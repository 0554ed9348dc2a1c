#pragma once
#include "app/sweep/session.h"

namespace wide {

/// What the terminal shows of a sweep as it goes: progress with rate and time left, and the table
/// of each target once all of its cases are done, in whatever order that is. On a terminal the
/// progress rewrites its line; elsewhere it is a plain line a case.
class SweepPrinter : public SweepObserver {
 public:
  SweepPrinter(SweepSession& session, bool quiet);
  void on_begin(const PlannedCase& planned) override;
  void on_stage(const std::string& what, const std::string& trial) override;
  void on_case(const PlannedCase& planned, const Case& result) override;
  void on_known(const PlannedCase& planned, const Case& result) override;
  void on_end(const std::string& state) override;

 private:
  struct Group {
    size_t left = 0;              // cases that are to come
    std::map<size_t, Case> done;  // by their places in the plan
    std::string machine = {};     // of a plan whose cases each machine measures
  };
  void add(const PlannedCase& planned, const Case& result);
  void print(Group& group);
  void show(const std::string& doing);
  void clear();

  SweepSession& session_;
  double start_s_;
  size_t begun_ = 0, run_ = 0;  // cases; `run_` without those that were done before
  bool quiet_, terminal_;
  std::string line_;
  std::vector<size_t> group_of_;  // of every case of the plan
  std::vector<Group> groups_;     // one table each
};

}  // namespace wide
