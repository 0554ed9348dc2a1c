#include "app/cluster/launch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "data/text.h"

namespace wide {
namespace {

/// Set by `nw.train` for the program that it starts as its rank (nwide/training/ranks.py).
constexpr const char* kRankVariable = "WORKBENCH_RANK";

/// A number in the environment, or `otherwise`.
int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

Launch read() {
  Launch l;
  if (const char* relay = std::getenv(kRankVariable)) {
    char end = 0;
    int bound = 0;
    l.mpi = std::sscanf(relay, "%d,%d,%d,%d,%d,%d%c", &l.rank, &l.size, &l.local, &l.place, &bound,
                        &l.relay, &end) == 6;
    l.bound = bound != 0;
    if (!l.mpi)
      l.refusal = fmt::format(
          "[mpi] {}: got {}, expected RANK,SIZE,LOCAL,PLACE,BOUND,SOCKET; try to unset it",
          kRankVariable, printable(relay));
    return l;
  }
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMIX_RANK")) {
    l.mpi = true;
    // mpirun binds unasked (one or two processes to one core each), so its binding counts as chosen
    // only with one of the settings below; srun's is what the cluster was configured for.
    l.bound = !std::getenv("OMPI_COMM_WORLD_SIZE");
    for (const char* chosen : {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_list",
                               "OMPI_MCA_rmaps_rank_file_path", "OMPI_MCA_orte_rankfile"})
      l.bound |= std::getenv(chosen) != nullptr;
    l.size = number("OMPI_COMM_WORLD_SIZE", number("SLURM_NTASKS", 1));
    l.rank = number("OMPI_COMM_WORLD_RANK", number("PMIX_RANK", 0));
    l.local = number("OMPI_COMM_WORLD_LOCAL_SIZE", number("SLURM_NTASKS_PER_NODE", 1));
    l.place = number("OMPI_COMM_WORLD_LOCAL_RANK", number("SLURM_LOCALID", 0));
    return l;
  }
  // Without MPI each of these processes would take itself for the only one and write the same
  // store.
  if (const int size = number("PMI_SIZE", 1); size > 1) {
    l.size = size;
    l.rank = number("PMI_RANK", 0);
    l.refusal =
        "[mpi] launcher: got one of another MPI, expected Open MPI's; try mpirun.openmpi, or srun "
        "--mpi=pmix";
  } else if (const int tasks = number("SLURM_STEP_NUM_TASKS", 1); tasks > 1) {
    l.size = tasks;
    l.rank = number("SLURM_PROCID", 0);
    l.refusal =
        "[mpi] srun: got several tasks that do not know of each other, expected PMIx; try srun "
        "--mpi=pmix";
  }
  return l;
}

}  // namespace

const Launch& launch() {
  static const Launch known = read();
  return known;
}

bool set_by_launcher(const char* variable) {
  for (const char* prefix : {"OMPI_", "PMIX_", "PMI_", "SLURM_", kRankVariable})
    if (std::strncmp(variable, prefix, std::strlen(prefix)) == 0) return true;
  return false;
}

}  // namespace wide
