#include <ATen/ATen.h>

#include <iostream>

int main() {
  std::cout << at::ones({2, 2}).sum().item<double>() << "\n";
  return 0;
}
