#pragma once
#include "app/sweep/runner.h"
#include "data/store/store.h"

namespace wide {

/// Which cases of an earlier sweep run again.
enum class Resume {
  no,         // a new sweep
  missing,    // continue an unfinished sweep: cases without a result
  disturbed,  // continue any sweep: also cases that other programs disturbed
};

/// A sweep's cases and settings in the form in which the store keeps it.
StoredCases cases_to_store(const std::string& name, const std::vector<SweepCase>& cases,
                           const SweepSettings& settings, const Environment& environment);
/// Cases and settings of a stored sweep, to be resumed. Throws Error if a target is not registered
/// in this build.
std::vector<SweepCase> cases_again(const StoredCases& stored, SweepSettings* settings);

/// Writes a running sweep to the store. When a call returns, the result is on disk.
class SweepRecorder : public SweepObserver {
 public:
  /// Begins a sweep, or continues the stored one that has the same cases and settings.
  SweepRecorder(Store store, const StoredCases& stored, Resume resume);
  /// Marks a sweep that has not ended as interrupted, as the process may go on (the explorer).
  ~SweepRecorder() override;
  SweepRecorder(const SweepRecorder&) = delete;
  SweepRecorder& operator=(const SweepRecorder&) = delete;
  /// Makes `runner` skip finished cases and report the others to this object. To be called once,
  /// before it runs.
  void attach(SweepRunner& runner);

  void on_begin(const SweepCase& planned) override;
  void on_case(const SweepCase& planned, const Case& result) override;
  void on_end(const std::string& state) override;

  /// Adds a machine on which cases are measured.
  void add_machine(const Environment& machine) { store_.add_machine(id_, machine); }
  /// After the end: how the environment changed while the sweep ran.
  void add_changes(const std::vector<std::string>& changes) { store_.add_changes(id_, changes); }

  /// The sweep's report as stored by now.
  SweepReport stored() { return store_.load(id_); }
  int64_t id() const { return id_; }
  const std::string& network() const { return store_.network(); }
  size_t done_before() const { return done_.size(); }

 private:
  int64_t position(const SweepCase& planned) const;

  Store store_;
  int64_t id_;
  std::map<int64_t, Case> done_;
  const SweepRunner* runner_ = nullptr;
  bool ended_ = false;
};

}  // namespace wide
