#include "app/cli.h"
#include "engine/cuda/open.h"

int main(int argc, char** argv) {
  return wide::run_cli(argc, argv, [] {
    std::error_code error;
    wide::open_cuda(std::filesystem::read_symlink("/proc/self/exe", error).parent_path());
  });
}
