#include "app/cli.h"

int main(int argc, char** argv) { return wide::run_cli(argc, argv); }
