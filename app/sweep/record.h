#pragma once
#include <set>

#include "app/sweep/runner.h"
#include "data/store/store.h"

namespace wide {

/// What a sweep is to do anew of one that was run before.
enum class Resume {
  no,         // it is a new one
  missing,    // continues an unfinished one: what has no result yet
  disturbed,  // continues any: also what other programs disturbed
};

/// What a sweep is asked to do, as the store remembers it.
SweepPlan store_plan(const std::string& name, const std::vector<PlannedCase>& cases,
                     const SweepSettings& settings, const Environment& environment);
/// The cases that a stored sweep has planned, and its settings, to be resumed. Throws Error where
/// its targets are not registered here.
std::vector<PlannedCase> planned_again(const SweepPlan& plan, SweepSettings* settings);

/// Puts a sweep into the store as it goes: what has been told to it is on disk.
class SweepRecorder : public SweepObserver {
 public:
  /// Begins a sweep, or continues the one that was asked the same.
  SweepRecorder(Store store, const SweepPlan& plan, Resume resume);
  /// What has not ended is interrupted: this process may live on.
  ~SweepRecorder() override;
  SweepRecorder(const SweepRecorder&) = delete;
  SweepRecorder& operator=(const SweepRecorder&) = delete;
  /// Has `runner` leave out what is done, and tell of the rest. Once, before it runs.
  void attach(SweepRunner& runner);

  void on_begin(const PlannedCase& planned) override;
  void on_case(const PlannedCase& planned, const Case& result) override;
  void on_end(const std::string& state) override;

  /// Cases are measured on this machine too.
  void add_machine(const Environment& machine) { store_.add_machine(id_, machine); }
  /// After the end: how the environment changed while the sweep ran.
  void add_changes(const std::vector<std::string>& changes) { store_.add_changes(id_, changes); }

  /// What the store has of the sweep by now.
  SweepReport stored() { return store_.load(id_); }
  int64_t id() const { return id_; }
  const std::string& network() const { return store_.network(); }
  size_t done_before() const { return done_.size(); }

 private:
  int64_t position(const PlannedCase& planned) const;

  Store store_;
  int64_t id_;
  std::map<int64_t, Case> done_;
  const SweepRunner* runner_ = nullptr;
  bool ended_ = false;
};

}  // namespace wide
