// The single models of the registry mean what torch.nn means, numbers side by side.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/properties/harness.h"
#include "tests/scratch.h"

namespace wide::testing::torch_test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const Tensor& tensor) {
  const Tensor t = tensor.contiguous();
  std::ofstream out(path, std::ios::binary);
  out << (t.is_floating_point() ? "f" : "i");
  for (const int64_t size : t.sizes()) out << ' ' << size;
  out << '\n';
  out.write(static_cast<const char*>(t.const_data_ptr()),
            static_cast<std::streamsize>(t.numel() * 8));
}

Tensor read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line, kind;
  std::getline(in, line);
  std::istringstream head(line);
  head >> kind;
  Sizes sizes;
  for (int64_t size = 0; head >> size;) sizes.push_back(size);
  Tensor t = at::empty(sizes, at::kDouble);
  in.read(static_cast<char*>(t.mutable_data_ptr()), static_cast<std::streamsize>(t.numel() * 8));
  return t;
}

/// What the target's oracle is asked: every axis that the target has, null where it has no number.
nlohmann::json question(const Subject& subject) {
  nlohmann::json axes = nlohmann::json::object();
  for (const Axis& axis : subject.target->axes) {
    axes[axis.name] = nullptr;
    if (axis.otherwise) axes[axis.name] = *axis.otherwise;
    if (subject.shape.has(axis.name)) axes[axis.name] = subject.shape[axis.name];
  }
  return {{"target", subject.target->name}, {"axes", axes}, {"oracle", subject.target->oracle}};
}

struct Case {
  Subject subject;
  Tensors expected;
};

TEST(AgainstTorch, SingleModelsMeanWhatTorchMeans) {
  const char* python = std::getenv("WORKBENCH_TEST_PYTHON");
  const char* source = std::getenv("WORKBENCH_SOURCE");
  if (python == nullptr || source == nullptr) GTEST_SKIP() << "no Python to ask";
  const at::NoGradGuard guard;
  const Scratch scratch;
  const fs::path& root = scratch.path();
  std::vector<Case> cases;
  for (const Target* target : targets()) {
    if (target->kind == Kind::model) continue;
    for (const Subject& subject : subjects(target->name)) {
      const Network network = subject.network();
      if (network.random) continue;
      EXPECT_FALSE(target->oracle.empty()) << target->name;
      const Tensors model = generate(network, 2, at::kDouble, at::kCPU, 29).model(1);
      const fs::path folder = root / fmt::format("{:03}", cases.size());
      fs::create_directories(folder);
      std::ofstream(folder / "case") << question(subject);
      Tensors own;
      for (size_t k = 0; k < model.size(); ++k) {
        write(folder / fmt::format("{}.{}", k, network.tensors[k].name), model[k]);
        own.push_back(model[k].clone());
      }
      Tensors results = network.forward(own);
      if (network.training)
        for (size_t k = 0; k < own.size(); ++k)
          if (network.tensors[k].role == Role::buffer) results.push_back(own[k]);
      cases.push_back({subject, results});
    }
  }
  ASSERT_GE(cases.size(), 30u);
  const std::string command =
      fmt::format("{} {}/tests/primitives/oracle.py {}", python, source, root.string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].subject.text());
    Tensors got, expected;
    for (size_t k = 0; k < cases[i].expected.size(); ++k) {
      const fs::path file = root / fmt::format("{:03}", i) / fmt::format("out.{}", k);
      ASSERT_TRUE(fs::exists(file));
      expected.push_back(read(file).unsqueeze(0));
      got.push_back(cases[i].expected[k].unsqueeze(0));
    }
    EXPECT_LT(relative_error(got, expected), 1e-12);
  }
}

}  // namespace
}  // namespace wide::testing::torch_test
