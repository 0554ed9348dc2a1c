#include <gtest/gtest.h>

#include <cmath>

#include "app/train/models/configurations.h"
#include "app/train/models/values.h"
#include "tests/data/python.h"

namespace wide::configurations_test {
namespace {

std::vector<double> spread(const std::string& text, int64_t count, uint64_t seed = 0) {
  return parse_values("lr", text).spread(count, "lr", seed);
}

TEST(TrainValues, RangesHaveTheirEndsAndDrawsLieBetween) {
  EXPECT_EQ(spread("0.5", 3), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(spread("1,2,3", 3), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(spread("0..4", 5), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(spread("lin:0..0.1", 3), (std::vector<double>{0, 0.05, 0.1}));
  const std::vector<double> logs = spread("log:1e-4..1e-1", 4);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(std::log10(logs[i]), -4 + double(i), 1e-12);
  EXPECT_EQ(logs.front(), 1e-4);
  EXPECT_EQ(logs.back(), 1e-1);
  EXPECT_EQ(spread("log:1e-4..1e-1", 1), (std::vector<double>{1e-4}));
  const std::vector<double> drawn = spread("loguniform:1e-4..1e-1", 1000);
  double below = 0;
  for (const double x : drawn) {
    EXPECT_TRUE(x >= 1e-4 && x <= 1e-1);
    below += x < std::sqrt(1e-5);
  }
  EXPECT_NEAR(below / 1000, 0.5, 0.06);
  EXPECT_EQ(drawn, spread("loguniform:1e-4..1e-1", 1000));
  EXPECT_NE(drawn, spread("loguniform:1e-4..1e-1", 1000, 1));
}

TEST(TrainConfigurations, ConfigurationsTimesSeedsTimesFolds) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.grid = {"lr=1,2", "weight_decay=0,0.1,0.2"};
  options.seeds = 2;
  options.seed = 10;
  const Configurations made = configure_models(options, {}, 3);
  ASSERT_EQ(made.models.size(), 2u * 3 * 2 * 3);
  EXPECT_EQ(made.configs.size(), 6u);
  EXPECT_EQ(made.varied, (std::vector<std::string>{"lr", "weight_decay"}));
  for (size_t i = 0; i < made.models.size(); ++i) {
    const ModelSettings& m = made.models[i];
    EXPECT_EQ(m.fold, int64_t(i % 3));
    EXPECT_EQ(m.config, int64_t(i / 6));
    EXPECT_EQ(m.seed_init, 10 + i);
    EXPECT_EQ(m.hyper.at("lr"), i < 18 ? 1 : 2);
    EXPECT_EQ(m.hyper.at("weight_decay"), std::vector<double>({0, 0.1, 0.2})[i / 6 % 3]);
  }
}

TEST(TrainConfigurations, TablesOfModelsKeepWhatTheyDoNotKnow) {
  const Scratch scratch;
  write_text(scratch / "m.csv", "lr,seed,note,name\n0.1,7,\"a, b\",first\n0.2,7,c,second\n");
  TrainOptions options;
  options.optimizer = "adamw";
  options.models = scratch / "m.csv";
  options.set = {"seed.order=3"};
  const Configurations made = configure_models(options, {}, 0);
  ASSERT_EQ(made.models.size(), 2u);
  EXPECT_EQ(made.models[0].labels.at("note"), "a, b");
  EXPECT_EQ(made.models[1].name, "second");
  EXPECT_EQ(made.models[1].hyper.at("lr"), 0.2);
  EXPECT_EQ(made.models[1].seed_dropout, 7u);
  EXPECT_EQ(made.models[1].seed_order, 3u);
  write_text(scratch / "m.csv", "lr,batch\n0.1,7\n");
  EXPECT_NE(error_of([&] { configure_models(options, {}, 0); })
                .find("] batch: got a key that changes the program, expected one that models may "
                      "differ in; try one run for each batch"),
            std::string::npos);
  write_text(scratch / "m.csv", "lr\n0.1\nfast\n");
  EXPECT_NE(error_of([&] { configure_models(options, {}, 0); }).find("line 3, column lr: got fast"),
            std::string::npos);
}

TEST(TrainConfigurations, RangesThatSayHowManyAreLists) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.grid = {"lr=log:1e-4..1e-1:4"};
  options.seeds = 3;
  const Configurations made = configure_models(options, {}, 0);
  ASSERT_EQ(made.models.size(), 12u);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(made.models[i].hyper.at("lr") / std::pow(10.0, double(i / 3) - 4), 1, 1e-12) << i;
  options.grid = {"lr=lin:0..1:3", "weight_decay=0,0.5"};
  EXPECT_EQ(configure_models(options, {}, 0).models.size(), 18u);
  EXPECT_EQ(configure_models(options, {}, 0).models[9].hyper.at("lr"), 0.5);
  options.grid = {"lr=log:1e-4..1e-1"};
  EXPECT_EQ(error_of([&] { configure_models(options, {}, 0); }),
            "[--grid] lr: got log:1e-4..1e-1, expected a list, or a range that says how many; try "
            "lr=log:1e-4..1e-1:8");
  options.grid.clear();
  options.seeds = 0;
  options.lr = "log:1e-4..1e-1:5";
  EXPECT_EQ(configure_models(options, {}, 0).models.size(), 5u);
  options.lr = "log:1e-4..1e-1:0";
  EXPECT_EQ(error_of([&] { configure_models(options, {}, 0); }),
            "[lr] range: got 0 values, expected a whole number from 1 on; try log:1e-4..1e-1:8");
}

TEST(TrainConfigurations, NThatIsNoMultipleOfSeedsSaysWhatNIs) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.n = 8;
  options.seeds = 32;
  options.lr = "log:1e-4..1e-1";
  EXPECT_EQ(error_of([&] { configure_models(options, {}, 0); }),
            "[-n] models: got 8, expected a multiple of 32 (32 seeds), as -n counts all models; "
            "try -n 256");
  options.n = 256;
  const Configurations made = configure_models(options, {}, 0);
  EXPECT_EQ(made.configs.size(), 8u);
  options.n = 7;
  options.seeds = 2;
  options.grid = {"weight_decay=0,0.1"};
  EXPECT_EQ(error_of([&] { configure_models(options, {}, 0); }),
            "[-n] models: got 7, expected a multiple of 4 (2 of --grid × 2 seeds), as -n counts "
            "all models; try -n 28");
}

TEST(TrainConfigurations, CountsThatDisagreeAreRefused) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.n = 4;
  options.lr = "1,2,3";
  EXPECT_EQ(error_of([&] { configure_models(options, {}, 0); }),
            "[models] count: got 4 from -n and 3 from the list of lr, expected them to agree; try "
            "to leave one out");
  options.lr = "log:1e-3..1e-1";
  EXPECT_EQ(configure_models(options, {{"--weights", 4}}, 0).models.size(), 4u);
  EXPECT_NE(error_of([&] { configure_models(options, {{"--weights", 5}}, 0); }), "");
  options.lr = "-1";
  EXPECT_NE(error_of([&] {
              configure_models(options, {}, 0);
            }).find("[lr] value: got -1, expected a finite number from 0 on"),
            std::string::npos);
}

}  // namespace
}  // namespace wide::configurations_test
