#include "data/reports/sweep/summary_rows.h"

#include <algorithm>

#include "data/reports/apart.h"

namespace wide {
namespace {

const Trial* best_of(const Case& c) {
  const Trial* best = nullptr;
  for (const Trial& t : c.trials)
    if (t.status == Status::ok && t.speedup &&
        (!best || t.speedup->vs_best.value > best->speedup->vs_best.value))
      best = &t;
  return best;
}

void choose_shown(SummaryRow* row) {
  int64_t largest = 0;
  for (const Case* c : row->cases) largest = std::max(largest, c->n);
  for (const Case* c : row->cases) {
    if (c->n < largest) continue;
    const Trial* best = best_of(*c);
    const bool first = row->shown == nullptr || row->best == nullptr;
    if (first || (best && best->speedup->vs_best.value < row->best->speedup->vs_best.value)) {
      row->shown = c;
      row->best = best;
    }
  }
}

}  // namespace

bool same_table(const Case& a, const Case& b) {
  return a.target == b.target && a.mode == b.mode && a.device == b.device && a.dtype == b.dtype &&
         a.phase == b.phase;
}

std::vector<SummaryRow> summary_rows(const std::vector<Case>& cases,
                                     const std::function<bool(const Case&, const Case&)>& also) {
  std::vector<SummaryRow> rows;
  const Apart apart(cases);
  for (const Case& c : cases) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const SummaryRow& r) {
      const Case& first = *r.cases.front();
      return same_table(first, c) && apart.number(first) == apart.number(c) &&
             (!also || also(first, c));
    });
    if (row == rows.end()) row = rows.insert(rows.end(), SummaryRow{});
    row->cases.push_back(&c);
  }
  for (SummaryRow& row : rows) choose_shown(&row);
  return rows;
}

}  // namespace wide
