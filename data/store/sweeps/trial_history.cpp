#include "data/store/sweeps/trial_history.h"

#include "data/store/rows.h"

namespace wide {

std::vector<PastTrial> trial_history(const std::string& path, const TrialKey& key) {
  Connection connection(path, StoreOptions{}, Access::read);
  return connection.read([&] {
    std::vector<PastTrial> moments;
    Query query(
        connection,
        "SELECT s.id, k.id, s.name, s.started, e.git, coalesce(k.machine, e.host || ': ' || "
        "e.cpu), t.status, t.verdict, "
        "t.best_baseline, t.vs_best, t.vs_best_low, t.vs_best_high, m.median_ns, "
        "k.more ->> 'disturbed' FROM \"case\" AS k JOIN sweep AS s ON s.id = k.sweep JOIN "
        "environment AS e ON e.id = s.environment JOIN trial AS t ON t.\"case\" = k.id LEFT "
        "JOIN timing AS m ON m.trial = t.id WHERE k.target = ? AND k.shape = ? AND k.dtype "
        "= ? AND k.device = ? AND k.mode = ? AND k.phase = ? AND k.n = ? AND t.strategy = ? "
        "AND (? = '' OR k.machine = ?) AND k.state IN ('done', 'partial') ORDER BY s.id, "
        "k.position",
        key.target, key.shape, key.dtype, key.device, key.mode, key.phase, key.n, key.strategy,
        key.machine, key.machine);
    while (query.step()) {
      PastTrial m;
      query.take(m.sweep, m.case_id, m.name, m.started, m.git, m.machine, m.status, m.verdict,
                 m.best_baseline, m.vs_best, m.low, m.high, m.median_ns, m.disturbed);
      moments.push_back(std::move(m));
    }
    return moments;
  });
}

}  // namespace wide
