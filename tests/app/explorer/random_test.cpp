// Random events from a seed: resize, keys, clicks, wheel, another store. Nothing may crash, OpenGL
// has no error, and at the end every control can be reached. WORKBENCH_RANDOM_SEQUENCES says how
// many sequences are driven; each failure names its seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "engine/machine/clock.h"
#include "tests/app/explorer/opengl_platform.h"
#include "tests/app/explorer/stored.h"
#include "tests/data/store/stored_run.h"

namespace wide::random_test {
namespace {

namespace fs = std::filesystem;

/// What starts a process, writes a file or ends the window: not at random.
bool left_alone(const ScreenItem& item) {
  static const std::set<std::string> kAlone = {"Start",
                                               "Resume",
                                               "Fuse",
                                               "Programs",
                                               "Save",
                                               "Measure those again",
                                               "Export",
                                               "Quit",
                                               "Stop run",
                                               "Stop model",
                                               "Start the sweep",
                                               "Open",
                                               "Replace"};
  return kAlone.count(item.label) != 0 || item.label.rfind("Run the quick sweep", 0) == 0 ||
         !item.enabled;
}

class RandomDriver {
 public:
  RandomDriver(Screen& screen, std::string store, uint64_t seed)
      : screen_(screen), store_(std::move(store)), random_(seed) {}

  void events(int count) {
    for (int i = 0; i < count; ++i) {
      switch (random_() % 12) {
        case 0:
          screen_.platform().resize(static_cast<int>(320 + random_() % 2300),
                                    static_cast<int>(220 + random_() % 1300));
          break;
        case 1:
        case 2:
          press();
          break;
        case 3:
          screen_.input.wheel_y = static_cast<float>(static_cast<int>(random_() % 9) - 4);
          break;
        case 4:
          replace();
          break;
        case 5:
          type();
          break;
        case 6:
          drag();
          break;
        default:
          click();
      }
      for (uint64_t frames = 1 + random_() % 3; frames > 0; --frames) screen_.frame();
    }
  }

 private:
  void press() {
    // Without Enter and space, which would press what has the focus, and without Ctrl+R and Ctrl+Q.
    static constexpr int kSingle[] = {key::kTab,  key::kEscape, key::kUp,       key::kDown,
                                      key::kLeft, key::kRight,  key::kPageDown, key::kHome,
                                      key::kEnd,  key::kF5,     key::kDelete,   key::kBackspace};
    static constexpr int kWithControl[] = {key::kP,     key::kD,     key::kZ, key::kY,
                                           key::kEqual, key::kMinus, key::k0, key::kA};
    using Kind = InputEvent::Kind;
    std::vector<int> keys;
    if (random_() % 2)
      keys = {key::kControl, kWithControl[random_() % std::size(kWithControl)]};
    else
      keys = {kSingle[random_() % std::size(kSingle)]};
    for (const int k : keys) screen_.input.queue.push_back({Kind::key, k, true});
    for (const int k : keys) screen_.input.queue.push_back({Kind::key, k, false});
  }

  void type() {
    static constexpr const char* kTexts[] = {"n>=8",     "linear", "?",       "-vmap", "speedup<1",
                                             "\xC3\xBC", "1e400",  "target:", "32",    "x=2:f32"};
    for (const char* c = kTexts[random_() % std::size(kTexts)]; *c; ++c)
      screen_.input.queue.push_back({InputEvent::Kind::character, 0, false, 0, 0,
                                     static_cast<char32_t>(static_cast<unsigned char>(*c))});
  }

  /// Onto something that is there, or anywhere.
  bool aim() {
    const std::vector<ScreenItem>& items = screen_.ui().items.last();
    double x = static_cast<double>(random_() % 2500), y = static_cast<double>(random_() % 1400);
    if (!items.empty() && random_() % 4) {
      const ScreenItem& item = items[random_() % items.size()];
      x = item.box.x + item.box.width * static_cast<double>(random_() % 100) / 100;
      y = item.box.y + item.box.height * static_cast<double>(random_() % 100) / 100;
    }
    for (const ScreenItem& item : items)
      if (x >= item.box.x && x <= item.box.right() && y >= item.box.y && y <= item.box.bottom() &&
          left_alone(item))
        return false;
    screen_.input.queue.push_back(
        {InputEvent::Kind::move, 0, false, static_cast<float>(x), static_cast<float>(y)});
    return true;
  }

  void click() {
    if (!aim()) return;
    const int button = random_() % 6 == 0 ? 1 : 0;
    const int times = random_() % 5 == 0 ? 2 : 1;
    for (int i = 0; i < times; ++i)
      for (const bool down : {true, false})
        screen_.input.queue.push_back({InputEvent::Kind::button, button, down});
  }

  void drag() {
    if (!aim()) return;
    screen_.input.queue.push_back({InputEvent::Kind::button, 0, true});
    for (int i = 0; i < 4; ++i) {
      aim();
      screen_.frame();
    }
    screen_.input.queue.push_back({InputEvent::Kind::button, 0, false});
  }

  /// Another store under the same name, none, or what is no store.
  void replace() {
    for (const char* log : {"-wal", "-shm"}) fs::remove(store_ + log);
    const uint64_t which = random_() % 4;
    if (which == 0) {
      fs::remove(store_);
    } else if (which == 1) {
      std::ofstream(store_ + ".new") << "no database at all, but long enough to look like one";
      fs::rename(store_ + ".new", store_);
    } else {
      fs::copy_file(store_ + (which == 2 ? ".a" : ".b"), store_ + ".new",
                    fs::copy_options::overwrite_existing);
      fs::rename(store_ + ".new", store_);
    }
  }

  Screen& screen_;
  std::string store_;
  std::mt19937_64 random_;
};

/// A store in one file, without a log beside it.
void make_store(const std::string& path, const std::vector<std::string>& targets) {
  store_sweep(path, targets, {2, 8, 32});
  store_sweep(path, targets, {2, 8});
  Store::create(path).add_fuse(fuse_document(shown_fusion()));
  store_run(path, 7, 9);
}

/// Closes what lies over the panels, and takes the window as it is at the first start.
void come_to_rest(Screen& screen, Driver& driver, const std::string& store) {
  for (const char* log : {"-wal", "-shm"}) fs::remove(store + log);
  fs::copy_file(store + ".a", store, fs::copy_options::overwrite_existing);
  screen.input = Input{};
  screen.platform().resize(1280, 800);
  for (int i = 0; i < 3; ++i) driver.press("Escape");
  screen.explorer().settings.scale = 1;
  // The window has to notice first that its store is another one once more.
  const double end = now_s() + 1;
  while (now_s() < end) {
    screen.frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  driver.press("F5");
  driver.settle();
  driver.press("Ctrl+P");
  driver.type("reset layout");
  driver.press("Enter");
  driver.settle();
}

TEST(ExplorerRandom, NothingCrashesAndEveryControlIsReachedAtTheEnd) {
  const char* asked = std::getenv("WORKBENCH_RANDOM_SEQUENCES");
  const uint64_t sequences = asked ? std::strtoull(asked, nullptr, 10) : 4;
  const StoreFile file;
  const std::string store = file.path();
  make_store(store + ".a", {"linear", "conv2d"});
  make_store(store + ".b", {"bmm"});
  for (uint64_t seed = 1; seed <= sequences; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    fs::copy_file(store + ".a", store, fs::copy_options::overwrite_existing);
    Settings settings;
    settings.scale = 1;
    // Every third one on OpenGL.
    auto platform = seed % 3 == 0 ? opengl_platform(1280, 800) : null_platform(1280, 800);
    Screen screen(std::move(platform), store, settings);
    Driver driver(screen);
    driver.settle();
    RandomDriver(screen, store, seed).events(80);
    EXPECT_EQ(screen.platform().gl_errors(), 0);
    EXPECT_FALSE(screen.explorer().quit);
    EXPECT_FALSE(screen.explorer().run.active());
    come_to_rest(screen, driver, store);
    for (const PanelInfo& info : panels()) {
      driver.click(info.title);  // its tab
      driver.settle();
      EXPECT_EQ(screen.explorer().shown(info.place), info.name);
      std::set<std::string> controls;
      for (const ScreenItem& item : screen.ui().items.last())
        if (item.kind == ItemKind::button || item.kind == ItemKind::toggle ||
            item.kind == ItemKind::choice || item.kind == ItemKind::field)
          controls.insert(item.label);
      for (const std::string& control : controls) driver.hover(control);
    }
    for (const std::string& fault : layout_faults(screen.ui().items.last(), 1280, 800))
      ADD_FAILURE() << fault;
  }
}

}  // namespace
}  // namespace wide::random_test
