#include "app/cli.h"
#include "engine/cuda/open.h"

int main(int argc, char** argv) { return wide::run_cli(argc, argv, &wide::open_cuda); }
