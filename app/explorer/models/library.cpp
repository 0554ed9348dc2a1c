#include "app/explorer/models/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/escape.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Measures one case of one strategy again; "wide" is what the engine chooses by itself. What comes
/// from a store may be anything: it is a word of its option, not an option and not the shell's.
std::string repeat_command(const Case& c, const std::string& strategy, bool baseline) {
  std::string line = "./workbench sweep ci";
  const auto add = [&line](const std::string& option, const std::string& value) {
    line += value.rfind('-', 0) == 0 ? " " + shell_word(option + "=" + value)
                                     : " " + option + " " + shell_word(value);
  };
  add("--targets", c.target);
  add("-n", std::to_string(c.n));
  for (const std::string& axis : split(c.shape, ' ')) {
    const size_t digits = axis.find_first_of("0123456789");
    if (digits != std::string::npos && digits > 0)
      add("--axis", fmt::format("{}.{}={}", c.target, axis.substr(0, digits), axis.substr(digits)));
  }
  if (!baseline && strategy != "wide") add("--strategy", c.target + "=" + strategy);
  add("--dtype", c.dtype);
  add("--device", c.device);
  add("--mode", c.mode);
  add("--phase", c.phase);
  add("--budget", "1.5");
  return line;
}

}  // namespace

const Trial* PointDetail::trial() const {
  if (baseline) return nullptr;
  for (const Trial& t : of.trials)
    if (t.strategy == strategy) return &t;
  return nullptr;
}

const Timing* PointDetail::timing() const {
  if (const Trial* t = trial()) return &t->timing;
  for (const Timing& t : of.baselines)
    if (t.name == strategy) return &t;
  return nullptr;
}

Library::Library(Jobs& jobs, std::string db) : jobs_(jobs), db_(std::move(db)), trials_(jobs) {
  options_.published = true;
}

void Library::refresh() {
  jobs_.start("list", [this, db = db_]() -> Jobs::Result {
    std::vector<SweepRow> sweeps;
    std::vector<FuseRow> fusions;
    if (std::filesystem::exists(db)) {
      Store store = Store::read(db);
      sweeps = store.sweeps(500);
      fusions = store.fusions(500);
    }
    return [this, sweeps, fusions] {
      sweeps_ = sweeps;
      fusions_ = fusions;
      listed_ = true;
      ++version_;
      const bool gone = std::none_of(sweeps_.begin(), sweeps_.end(),
                                     [this](const SweepRow& r) { return r.id == sweep_; });
      if (gone && !sweeps_.empty()) open(sweeps_.front().id);
    };
  });
}

const SweepRow* Library::sweep_row() const {
  for (const SweepRow& row : sweeps_)
    if (row.id == sweep_) return &row;
  return nullptr;
}

void Library::open(int64_t sweep) {
  if (sweep != sweep_ && group_ < groups_.size()) wanted_target_ = groups_[group_].target;
  sweep_ = sweep;
  ++version_;
  jobs_.start("open", [this, db = db_, sweep]() -> Jobs::Result {
    Store store = Store::read(db);
    auto table = std::make_shared<const TrialTable>(store.trials(sweep));
    std::vector<Group> groups = groups_of(*table);
    Overview overview = overview_of(*table, groups);
    return [this, table, groups = std::move(groups), overview = std::move(overview),
            head = store.load_head(sweep)]() mutable {
      head_ = std::move(head);
      take(std::move(table), std::move(groups), std::move(overview));
    };
  });
}

void Library::take(std::shared_ptr<const TrialTable> table, std::vector<Group> groups,
                   Overview overview) {
  const bool same = table_ && table_->sweep == table->sweep;
  const std::optional<Group> before =
      group_ < groups_.size() ? std::optional<Group>(groups_[group_]) : std::nullopt;
  table_ = std::move(table);
  groups_ = std::move(groups);
  overview_ = std::move(overview);
  group_ = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    if (before && groups_[g] == *before) group_ = g;
  if (!same && before && group_ == 0)
    for (const OverviewLine& line : overview_.lines)
      if (line.target == before->target) group_ = line.group;
  if (!same) {
    point_.reset();
    detail_.reset();
  }
  trials_.set_table(table_);
  draw_figure();
  ++version_;
}

void Library::set_group(size_t group) {
  if (group == group_ || group >= groups_.size()) return;
  group_ = group;
  draw_figure();
}

void Library::set_options(const FigureOptions& options) {
  options_ = options;
  draw_figure();
}

void Library::draw_figure() {
  ++version_;
  if (!table_ || group_ >= groups_.size()) {
    figure_.reset();
    return;
  }
  jobs_.start(
      "figure",
      [this, table = table_, group = groups_[group_], options = options_]() -> Jobs::Result {
        std::vector<Figure> figures = figures_of(cases_of(*table, group), options);
        return [this, figures = std::move(figures)]() mutable {
          figure_.reset();
          if (!figures.empty()) figure_ = std::move(figures.front());
          ++version_;
        };
      });
}

void Library::select(const PointKey& key) {
  if (point_ == key) return;
  point_ = key;
  ++version_;
  jobs_.start("point", [this, db = db_, key]() -> Jobs::Result {
    std::optional<Case> found = Store::read(db).load_case(key.case_id);
    return [this, key, found = std::move(found)] {
      detail_.reset();
      ++version_;
      if (!found) return;
      detail_ = PointDetail{*found, key.strategy, key.baseline, ""};
      detail_->command = repeat_command(*found, key.strategy, key.baseline);
    };
  });
}

const PointDetail* Library::glance(const PointKey& key) {
  if (point_ == key) return detail();
  if (glanced_ != key) {
    glanced_ = key;
    glance_.reset();
    jobs_.start("glance", [this, db = db_, key]() -> Jobs::Result {
      std::optional<Case> found = Store::read(db).load_case(key.case_id);
      return [this, key, found = std::move(found)] {
        if (found && glanced_ == key) glance_ = PointDetail{*found, key.strategy, key.baseline, ""};
      };
    });
  }
  return glance_ ? &*glance_ : nullptr;
}

std::optional<PointKey> Library::key_of(uint32_t row) const {
  if (!table_ || row >= table_->rows.size()) return std::nullopt;
  const TrialRow& r = table_->rows[row];
  return PointKey{r.case_id, r.n, table_->word(r.strategy), table_->word(r.mode), r.baseline};
}

void Library::select_row(uint32_t row) {
  const std::optional<PointKey> key = key_of(row);
  if (!key) return;
  const TrialRow& r = table_->rows[row];
  for (size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g].target == table_->word(r.target) && groups_[g].shape == table_->word(r.shape) &&
        groups_[g].dtype == table_->word(r.dtype) && groups_[g].device == table_->word(r.device) &&
        groups_[g].phase == table_->word(r.phase))
      set_group(g);
  select(*key);
}

std::string Library::why() const {
  const Trial* t = detail_ ? detail_->trial() : nullptr;
  if (!t) return "";
  const std::string name = fmt::format("{} at N={}", t->strategy, detail_->of.n);
  if (t->status != Status::ok)
    return fmt::format("{} is {}{}{}", name, to_string(t->status), t->reason.empty() ? "" : ": ",
                       t->reason);
  std::string line = name;
  if (t->timing.bound == "launch")
    line += fmt::format(" is launch-bound: the {} operator calls cost more than their arithmetic",
                        t->timing.steps);
  else if (t->timing.bound == "compute")
    line += fmt::format(" is compute-bound: {:.0f} % of this machine's arithmetic peak",
                        100 * t->timing.flops_share);
  else if (t->timing.bound == "memory")
    line += fmt::format(" is memory-bound: {:.0f} % of this machine's memory bandwidth{}",
                        100 * t->timing.bytes_share,
                        t->timing.bytes_share > 1 ? ", as its data stays in the caches" : "");
  else
    line += " is bound by nothing that was measured";
  if (t->speedup && !(t->speedup->vs_best.value > 1))
    line += fmt::format("; {} does the same in less time", t->speedup->best_baseline);
  return line;
}

}  // namespace wide
