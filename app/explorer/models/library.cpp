#include "app/explorer/models/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "app/explorer/models/training/run_command.h"
#include "data/escape.h"
#include "data/one_line.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

/// The command that measures one case and strategy again ("wide": the engine chooses) as the sweep
/// did. Texts from a store may be anything: they are quoted, so that neither the shell nor the
/// option parser interprets them.
std::string repeat_command(const SweepReport& sweep, const Case& c, const PointKey& key) {
  const std::vector<const Target*>& all = targets();
  const bool registered =
      std::any_of(all.begin(), all.end(), [&](const Target* t) { return t->name == c.target; });
  // Networks from files are targets of their preset alone.
  const std::string preset = registered ? "" : option_value(sweep.command, "sweep");
  std::string line = "./workbench sweep ";
  line += preset.empty() || preset[0] == '-' ? "ci" : shell_word(preset);
  const auto add = [&line](const std::string& option, const std::string& value) {
    line += value.rfind('-', 0) == 0 ? " " + shell_word(option + "=" + value)
                                     : " " + option + " " + shell_word(value);
  };
  add("--targets", c.target);
  add("-n", std::to_string(c.n));
  for (const std::string& axis : registered ? split(c.shape, ' ') : std::vector<std::string>()) {
    const size_t digits = axis.find_first_of("0123456789");
    if (digits != std::string::npos && digits > 0)
      add("--axis", fmt::format("{}.{}={}", c.target, axis.substr(0, digits), axis.substr(digits)));
  }
  if (!key.baseline && key.strategy != "wide") add("--strategy", c.target + "=" + key.strategy);
  add("--dtype", c.dtype);
  add("--device", c.device);
  add("--mode", c.mode);
  add("--phase", c.phase);
  add("--budget", "1.5");
  for (const char* option : {"--baselines", "--threads", "--seed", "--tf32"})
    if (const std::string value = option_value(sweep.command, option); !value.empty())
      add(option, value);
  return line;
}

constexpr int64_t kMostListed = 500;  // sweeps, and fusions

std::vector<Group> groups_along(const TrialTable& table, const std::vector<TableAxis>& axes,
                                const std::string& axis) {
  return groups_of(table, axis.empty() ? plot_axis(axes) : axis);
}

}  // namespace

const Trial* PointDetail::trial() const {
  if (key.baseline) return nullptr;
  for (const Trial& t : of.trials)
    if (t.strategy == key.strategy) return &t;
  return nullptr;
}

const Timing* PointDetail::timing() const {
  if (const Trial* t = trial()) return &t->timing;
  for (const Timing& t : of.baselines)
    if (t.name == key.strategy) return &t;
  return nullptr;
}

const MissingBaseline* PointDetail::missing() const {
  if (!key.baseline) return nullptr;
  for (const MissingBaseline& m : of.missing)
    if (m.name == key.strategy) return &m;
  return nullptr;
}

std::string arithmetic_text(const Timing& timing) {
  const double percent = 100 * timing.flops_share;
  if (timing.computed_share > 0 && timing.flops_share > 0)
    return fmt::format(
        "{:.0f} % of this machine's arithmetic peak by the operations that the definition counts; "
        "its kernels compute {:.0f} % as many, which is {:.0f} % of the peak",
        percent, 100 * timing.computed_share / timing.flops_share, 100 * timing.computed_share);
  if (timing.flops_share <= 1)
    return fmt::format("{:.0f} % of this machine's arithmetic peak", percent);
  return fmt::format(
      "as fast as {:.0f} % of this machine's arithmetic peak would be; its kernel computes at most "
      "{:.0f} % of the operations that the definition counts",
      percent, 100 / timing.flops_share);
}

Library::Library(Jobs& jobs, std::string db)
    : jobs_(jobs),
      db_(std::move(db)),
      axes_(std::make_shared<const std::vector<TableAxis>>()),
      trials_(jobs) {
  options_.published = true;
}

void Library::forget() {
  sweeps_.clear();
  fusions_.clear();
  listed_ = false;
  not_listed_.clear();
  asked_ = 0;
  trials_.set_filter("");
  // Drops the result of a job that read the previous store.
  jobs_.start("list", []() -> Jobs::Result { return {}; });
  close();
}

void Library::close() {
  not_opened_.clear();
  sweep_ = 0;
  head_ = {};
  table_.reset();
  axes_ = std::make_shared<const std::vector<TableAxis>>();
  groups_.clear();
  group_ = 0;
  overview_ = {};
  overview_options_.held.clear();
  figure_.reset();
  point_.reset();
  detail_.reset();
  glanced_.reset();
  glance_.reset();
  trials_.set_table(nullptr);
  // Drops the results of jobs that read the sweep.
  for (const char* key : {"open", "overview", "groups", "figure", "point", "glance"})
    jobs_.start(key, []() -> Jobs::Result { return {}; });
  ++version_;
}

void Library::note_news(const std::vector<SweepRow>& sweeps, size_t fusions) {
  std::string news;
  for (const SweepRow& row : sweeps) {
    const auto before = std::find_if(sweeps_.begin(), sweeps_.end(),
                                     [&](const SweepRow& r) { return r.id == row.id; });
    const bool known = before != sweeps_.end();
    if (known && before->done == row.done && before->state == row.state) continue;
    if (known && row.id == sweep_) open(sweep_);
    if (news.empty())
      news = fmt::format("{}sweep {} · {}: {} of {} cases, {}", known ? "" : "new ", row.id,
                         row.name, row.done, row.cases, row.state);
  }
  if (news.empty() && sweeps.size() < sweeps_.size()) news = "a sweep was deleted";
  if (news.empty() && fusions != fusions_.size() && !fusing_) news = "the list of fusions changed";
  if (!news.empty()) told("another program wrote to the store: " + news);
}

void Library::read_again() {
  ++read_agains_;
  ++changes_;
  refresh();
  if (sweep_ > 0) open(sweep_);
}

void Library::refresh(bool by_others) {
  jobs_.start("list", [this, db = db_, by_others]() -> Jobs::Result {
    std::vector<SweepRow> sweeps;
    std::vector<FuseRow> fusions;
    try {
      std::error_code error;
      if (std::filesystem::exists(db, error) || error) {
        Store store = Store::read(db);
        sweeps = store.sweeps(kMostListed);
        fusions = store.fusions(kMostListed);
      }
    } catch (const std::exception& e) {
      return unread(&Library::not_listed_, one_line(e));
    }
    return [this, sweeps, fusions, by_others] {
      not_listed_.clear();
      if (by_others) note_news(sweeps, fusions.size());
      if (std::exchange(fused_, false)) fusing_ = false;
      const auto same_sweep = [](const SweepRow& a, const SweepRow& b) {
        return a.id == b.id && a.done == b.done && a.state == b.state;
      };
      const auto same_fusion = [](const FuseRow& a, const FuseRow& b) { return a.id == b.id; };
      if (!std::equal(sweeps_.begin(), sweeps_.end(), sweeps.begin(), sweeps.end(), same_sweep) ||
          !std::equal(fusions_.begin(), fusions_.end(), fusions.begin(), fusions.end(),
                      same_fusion))
        ++changes_;
      sweeps_ = sweeps;
      fusions_ = fusions;
      listed_ = true;
      ++version_;
      // An open sweep that is older than all in a full list may still exist.
      const bool older =
          std::ssize(sweeps_) == kMostListed && sweep_ > 0 && sweep_ < sweeps_.back().id;
      const bool gone =
          !older && std::none_of(sweeps_.begin(), sweeps_.end(),
                                 [this](const SweepRow& r) { return r.id == sweep_; });
      if (gone) not_opened_.clear();
      if (!gone) return;
      if (sweeps_.empty()) {
        if (sweep_ > 0) close();
        return;
      }
      const auto filled = std::find_if(sweeps_.begin(), sweeps_.end(),
                                       [](const SweepRow& r) { return r.done > 0; });
      open(filled == sweeps_.end() ? sweeps_.front().id : filled->id);
    };
  });
}

const SweepRow* Library::sweep_row() const {
  for (const SweepRow& row : sweeps_)
    if (row.id == sweep_) return &row;
  return nullptr;
}

void Library::open(int64_t sweep) {
  if (sweep != sweep_) {
    overview_options_.held.clear();
    not_opened_.clear();
  }
  sweep_ = sweep;
  ++version_;
  jobs_.start("open",
              [this, db = db_, sweep, axis = axis_, options = overview_options_]() -> Jobs::Result {
                Opened made;
                try {
                  Store store = Store::read(db);
                  made.head = store.load_head(sweep);
                  made.table = std::make_shared<const TrialTable>(store.trials(sweep));
                } catch (const std::exception& e) {
                  return unread(&Library::not_opened_, one_line(e));
                }
                made.axes = std::make_shared<const std::vector<TableAxis>>(axes_of(*made.table));
                made.axis = axis;
                made.groups = groups_along(*made.table, *made.axes, axis);
                made.options = options;
                made.overview = overview_of(*made.table, *made.axes, options);
                return [this, made = std::move(made)]() mutable { take(std::move(made)); };
              });
}

Jobs::Result Library::unread(std::string Library::*what, const std::string& why) {
  return [this, what, why] {
    this->*what = why;
    ++version_;
    jobs_.failed(why);
  };
}

void Library::take(Opened opened) {
  not_opened_.clear();
  const bool same = table_ && table_->sweep == opened.table->sweep;
  ++version_;
  head_ = std::move(opened.head);
  table_ = std::move(opened.table);
  axes_ = std::move(opened.axes);
  overview_ = std::move(opened.overview);
  if (!same) {
    point_.reset();
    detail_.reset();
  }
  glanced_.reset();
  glance_.reset();
  if (point_) read_point();  // a case may have been measured again
  trials_.set_table(table_);
  take_groups(std::move(opened.groups));
  // The user may have chosen another axis meanwhile.
  if (opened.axis != axis_) draw_groups();
  if (opened.options != overview_options_) draw_overview();
}

void Library::take_groups(std::vector<Group> groups) {
  const std::optional<Group> before =
      group_ < groups_.size() ? std::optional<Group>(groups_[group_]) : std::nullopt;
  groups_ = std::move(groups);
  group_ = 0;
  // Selects the same group again, else the first of the same target.
  for (size_t g = groups_.size(); before && g-- > 0;)
    if (groups_[g].target == before->target) group_ = g;
  for (size_t g = 0; before && g < groups_.size(); ++g)
    if (groups_[g] == *before) group_ = g;
  draw_figure();
}

void Library::set_overview(const OverviewOptions& options) {
  if (options == overview_options_) return;
  overview_options_ = options;
  draw_overview();
}

void Library::follow_filter() {
  if (overview_options_.filter == trials_.applied()) return;
  overview_options_.filter = trials_.applied();
  draw_overview();
}

void Library::draw_overview() {
  ++version_;
  if (!table_) return;
  jobs_.start("overview",
              [this, table = table_, axes = axes_, options = overview_options_]() -> Jobs::Result {
                Overview overview = overview_of(*table, *axes, options);
                return [this, table, overview = std::move(overview)]() mutable {
                  if (table != table_) return;
                  overview_ = std::move(overview);
                  ++version_;
                };
              });
}

void Library::set_axis(const std::string& axis) {
  if (axis == axis_) return;
  axis_ = axis;
  draw_groups();
}

void Library::draw_groups() {
  if (!table_) return;
  jobs_.start("groups", [this, table = table_, axes = axes_, axis = axis_]() -> Jobs::Result {
    return [this, table, groups = groups_along(*table, *axes, axis)]() mutable {
      if (table != table_) return;
      // Keeps the selected trial, else takes the first of the group.
      std::optional<uint32_t> row;
      if (group_ < groups_.size())
        for (const uint32_t index : groups_[group_].rows)
          if (!row || (point_ && key_of(index) == point_)) row = index;
      take_groups(std::move(groups));
      if (row) set_group_of(*row);
    };
  });
}

bool Library::select_target(const std::string& target) {
  if (!table_) return false;
  const int32_t word = table_->words.find(target), ok = table_->words.find("ok");
  std::optional<uint32_t> first, best;
  for (uint32_t i = 0; i < table_->rows.size(); ++i) {
    const TrialRow& row = table_->rows[i];
    if (row.target != word || row.baseline) continue;
    if (!first) first = i;
    if (row.status != ok || std::isnan(row.vs_best)) continue;
    const TrialRow* other = best ? &table_->rows[*best] : nullptr;
    if (!other || row.n > other->n || (row.n == other->n && row.vs_best > other->vs_best)) best = i;
  }
  if (!first) return false;
  set_group_of(best.value_or(*first));
  if (best) select_row(*best);
  return true;
}

void Library::set_group(size_t group) {
  if (group == group_ || group >= groups_.size()) return;
  group_ = group;
  draw_figure();
}

void Library::choose_group(size_t group) {
  if (group >= groups_.size()) return;
  set_group(group);
  const int32_t ok = table_->words.find("ok");
  const TrialRow* best = nullptr;
  std::optional<uint32_t> row;
  for (const uint32_t index : groups_[group].rows) {
    const TrialRow& r = table_->rows[index];
    if (r.baseline || r.status != ok || std::isnan(r.vs_best)) continue;
    if (best && (r.n < best->n || (r.n == best->n && r.vs_best <= best->vs_best))) continue;
    best = &r;
    row = index;
  }
  if (row) select(*key_of(*row));
}

std::optional<uint32_t> Library::selected_row() const {
  if (row_version_ == version_) return selected_row_;
  row_version_ = version_;
  selected_row_.reset();
  for (uint32_t i = 0; point_ && table_ && i < table_->rows.size() && !selected_row_; ++i)
    if (table_->rows[i].case_id == point_->case_id && key_of(i) == point_) selected_row_ = i;
  return selected_row_;
}

void Library::set_group_of(uint32_t row) { set_group(group_with(groups_, row)); }

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
        FigureOptions along = options;
        along.axis = group.axis == "N" ? "" : group.axis;
        std::vector<Figure> figures = figures_of(cases_of(*table, group), along);
        return [this, figures = std::move(figures)]() mutable {
          figure_.reset();
          if (!figures.empty()) figure_ = std::move(figures.front());
          ++version_;
        };
      });
}

std::vector<std::string> Library::group_names() const {
  std::vector<std::string> names;
  for (const Group& g : groups_) names.push_back(g.target + " · " + g.text());
  return names;
}

void Library::select(const PointKey& key) {
  if (point_ == key) return;
  point_ = key;
  ++version_;
  read_point();
}

void Library::read_point() {
  jobs_.start("point", [this, db = db_, key = *point_]() -> Jobs::Result {
    std::optional<Case> found = Store::read(db).load_case(key.case_id);
    return [this, key, found = std::move(found)] {
      if (point_ != key) return;
      detail_.reset();
      ++version_;
      if (found) detail_ = PointDetail{*found, key, repeat_command(head_, *found, key)};
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
        if (found && glanced_ == key) glance_ = PointDetail{*found, key, ""};
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
  set_group_of(row);
  select(*key);
}

std::string Library::why() const {
  const PointDetail* d = detail();
  if (const MissingBaseline* m = d ? d->missing() : nullptr)
    return fmt::format("baseline {} is {}: {}", m->name, to_string(m->status), m->reason);
  const Trial* t = d ? d->trial() : nullptr;
  if (!t) return "";
  const std::string name = fmt::format("{} at N={}", t->strategy, d->of.n);
  if (t->status != Status::ok)
    return fmt::format("{} is {}{}{}", name, to_string(t->status), t->reason.empty() ? "" : ": ",
                       t->reason);
  std::string line = name;
  if (t->timing.bound == "launch")
    line += fmt::format(" is launch-bound: the {} operator calls cost more than their arithmetic",
                        t->timing.steps);
  else if (t->timing.bound == "compute")
    line += " is compute-bound: " + arithmetic_text(t->timing);
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
