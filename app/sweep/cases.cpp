#include "app/sweep/cases.h"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

#include "app/options.h"
#include "app/sweep/user_network.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// Words that stand for all registered targets of a kind.
const std::map<std::string, Kind>& target_groups() {
  static const std::map<std::string, Kind> groups = {
      {"primitives", Kind::primitive}, {"blocks", Kind::block}, {"models", Kind::model}};
  return groups;
}

/// Throws Error if the name of a network's file, which becomes its target's name, is taken already.
void check_own_name(const Preset& preset, const std::string& name) {
  const bool registered =
      std::ranges::any_of(targets(), [&](const Target* t) { return t->name == name; });
  if (registered || target_groups().count(name))
    fail("[{}] targets: got a file of the name {}, which is {}, expected another; try {}.pt2",
         printable(preset.name), printable(name),
         registered ? "a registered target's" : "that of a group of targets", printable(name));
}

/// Turns names and groups (primitives, blocks, models) into targets, each once, in the order given.
std::vector<const Target*> find_targets(const std::vector<std::string>& names) {
  const std::map<std::string, Kind>& groups = target_groups();
  std::vector<const Target*> found;
  const auto add = [&](const Target* t) {
    if (std::ranges::find(found, t) == found.end()) found.push_back(t);
  };
  for (const std::string& name : names) {
    const auto group = groups.find(name);
    if (group == groups.end()) {
      const Target& named = find_sweep_target(name);
      if (user_network(named)) add(&named);
      for (const Target* t : targets())
        if (t->name == named.name) add(t);
    } else {
      for (const Target* t : targets())
        if (t->kind == group->second) add(t);
    }
  }
  return found;
}

using Axes = std::map<std::string, std::map<std::string, std::vector<int64_t>>>;

/// Parses an option such as "linear.D=256,512".
void parse_axis(const std::string& text, Axes* axes) {
  const size_t dot = text.find('.'), equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals)
    fail("[--axis] axis: got {}, expected TARGET.AXIS=SIZES; try linear.D=256,512",
         printable(text));
  std::vector<int64_t> sizes;
  for (const std::string& part : split(text.substr(equals + 1))) try {
      size_t read = 0;
      sizes.push_back(std::stoll(part, &read));
      if (read < part.size()) throw std::invalid_argument(part);
    } catch (const std::exception&) {
      fail("[--axis] sizes: got {}, expected numbers; try linear.D=256,512", printable(part));
    }
  if (sizes.empty())
    fail("[--axis] sizes: got none for {}, expected numbers; try linear.D=256,512",
         printable(text.substr(0, equals)));
  auto& of_target = (*axes)[text.substr(0, dot)];
  if (!of_target.emplace(text.substr(dot + 1, equals - dot - 1), sizes).second)
    fail("[--axis] axis: got {} twice, expected it once; try all sizes behind one =, as 256,512",
         printable(text.substr(0, equals)));
}

/// Refuses an axis that the target does not have.
void check_axis(const Target& target, const std::string& axis) {
  const std::vector<std::string> known = names_of(target.axes);
  if (std::ranges::find(known, axis) != known.end()) return;
  fail("[{}] axis: got {}, expected one of {}; try {}.{}=...", target.name, printable(axis),
       listing(known, 99), target.name, nearest(axis, known, known.empty() ? "" : known.front()));
}

/// Refuses axes for which the target has no valid shape, with the target's own reason.
void check_shapes(const Target& target, const std::vector<Shape>& shapes) {
  std::exception_ptr why;
  for (const Shape& shape : shapes) {
    try {
      target.network(shape);
      return;
    } catch (const Error&) {
      if (!why) why = std::current_exception();
    }
  }
  if (why) std::rethrow_exception(why);
}

constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();

std::vector<Shape> shapes_of(const Target& target, const Sweep& sweep, const Axes& axes) {
  std::vector<Shape> shapes = sweep.shapes;
  const auto mine = axes.find(target.name);
  if (mine == axes.end()) return shapes;
  for (const auto& [axis, sizes] : mine->second) {
    std::vector<Shape> replaced;
    check_axis(target, axis);
    std::set<std::string> seen;
    for (const Shape& shape : shapes)
      for (const int64_t size : sizes) {
        if (size > kLargestSize)
          fail("[{}] {}: got {}, expected at most {}; try {}=256", target.name, axis, size,
               kLargestSize, axis);
        const Shape next = Shape(shape).set(axis, size);
        if (seen.insert(next.text()).second) replaced.push_back(next);
      }
    shapes = std::move(replaced);
  }
  check_shapes(target, shapes);
  return shapes;
}

std::vector<std::string> strategies_of(const Target& target, const Preset& preset,
                                       const std::map<std::string, std::string>& forced) {
  for (const std::string& key : {target.name, std::string("*")})
    if (const auto it = forced.find(key); it != forced.end()) return {it->second};
  const std::vector<std::string> own = strategy_names(target);
  std::vector<std::string> wanted;
  for (const std::string& name : own)
    if (std::ranges::count(preset.strategies, name)) wanted.push_back(name);
  return wanted.empty() ? own : wanted;
}

/// Refuses a strategy of the preset that no registered target and no network of its own has.
void check_strategies(const Preset& preset) {
  std::set<std::string> known;
  const auto add = [&](const Target& target) {
    const std::vector<std::string> names = strategy_names(target);
    known.insert(names.begin(), names.end());
  };
  for (const Target* target : targets()) add(*target);
  for (const PresetNetwork& network : preset.networks) add(user_target(network));
  for (const std::string& name : preset.strategies)
    if (!known.count(name))
      fail("[{}] strategies: got {}, expected one that a target has; try {}",
           printable(preset.name), printable(name),
           nearest(name, {known.begin(), known.end()}, "vmap"));
}

/// A target's shapes and Ns in a preset. In a preset with published figures: the target's
/// `published` shape, if it has one, and every N that has a figure.
std::vector<Sweep> sweeps_of(const Target& target, const Preset& preset) {
  const auto own = target.sweeps.find(preset.sweep);
  if (preset.published.empty())
    return own == target.sweeps.end() ? std::vector<Sweep>{} : std::vector<Sweep>{own->second};
  const auto figures = preset.published.find(target.name);
  if (figures == preset.published.end()) return {};
  const auto published = target.sweeps.find("published");
  std::vector<Sweep> rows;
  for (const auto& [n, speedup] : figures->second) {
    const bool at = published != target.sweeps.end() && published->second.n == std::vector{n};
    if (!at && own == target.sweeps.end()) continue;
    rows.push_back({{n}, at ? published->second.shapes : own->second.shapes});
  }
  return rows;
}

template <class T>
const T& either(const T& chosen, const T& preset) {
  return chosen.empty() ? preset : chosen;
}

}  // namespace

std::vector<std::string> strategy_names(const Target& target) {
  std::vector<std::string> names = names_of(target.strategies);
  if (names.empty()) names.push_back(kChosen);
  for (const auto& [name, unused] : target.parts) names.push_back(name);
  names.insert(names.end(), {"vmap", "per_model"});
  return names;
}

std::vector<SweepCase> sweep_cases(const Preset& preset, const SweepChoices& choices) {
  Axes axes = preset.axes, typed;
  for (const auto& [name, unused] : axes) find_target(name);  // throws for a misspelt name
  for (const std::string& text : choices.axes) parse_axis(text, &typed);
  const auto forced = parse_strategies(choices.strategies);
  std::vector<std::string> names = preset.targets;
  for (const PresetNetwork& network : preset.networks) {
    const Target& target = user_target(network);
    check_own_name(preset, target.name);
    if (std::ranges::count(names, target.name))
      fail("[{}] targets: got two files of the name {}, expected one; try another name for a copy",
           printable(preset.name), printable(target.name));
    names.push_back(target.name);
  }
  check_strategies(preset);
  const auto chosen = find_targets(either(choices.targets, names));
  for (const auto& [name, sizes] : typed) {
    if (std::ranges::none_of(chosen, [&name = name](const Target* t) { return t->name == name; }))
      fail("[--axis] target: got {}, expected one of the sweep's; try --targets {}",
           printable(name), printable(name));
    for (const auto& [axis, values] : sizes) axes[name][axis] = values;
  }
  const std::vector<std::string>& phases = either(choices.phases, preset.phases);
  for (const std::string& phase : phases)
    if (phase != "forward" && phase != "backward" && phase != "step")
      fail("[--phase] phase: got {}, expected forward, backward or step; try --phase forward",
           printable(phase));

  std::vector<SweepCase> cases;
  std::set<std::string> seen;
  const auto add = [&](SweepCase next) {  // drops repeated cases
    const Case c = empty_case(next);
    if (seen.insert(fmt::format("{}|{}|{}|{}|{}|{}|{}", c.target, c.shape, c.n, c.dtype, c.device,
                                c.mode, c.phase))
            .second)
      cases.push_back(std::move(next));
  };
  for (const Target* target : chosen) {
    for (const Sweep& sweep : sweeps_of(*target, preset)) {
      std::vector<int64_t> ns = either(preset.n, sweep.n);
      if (!choices.n.empty()) ns = parse_ns(choices.n);
      for (const std::string& device : expand_devices(either(choices.devices, preset.devices)))
        for (const std::string& mode : either(choices.modes, preset.modes))
          for (const std::string& phase : phases)
            for (const std::string& dtype : either(choices.dtypes, preset.dtypes))
              for (const Shape& shape : shapes_of(*target, sweep, axes))
                for (const int64_t n : ns)
                  add({target, shape, n, parse_float_dtype(dtype), parse_device(device),
                       parse_mode(mode), phase, strategies_of(*target, preset, forced)});
    }
  }
  if (cases.empty())
    fail("[{}] targets: got none with a {} sweep, expected at least one; try --targets linear",
         printable(preset.name), preset.sweep);
  return cases;
}

Case empty_case(const SweepCase& planned) {
  Case c;
  c.target = planned.target->name;
  c.shape = planned.shape.text();
  c.dtype = short_name(planned.dtype);
  c.device = planned.device.str();
  c.mode = to_string(planned.mode);
  c.phase = planned.phase;
  c.n = planned.n;
  c.machine = planned.machine;
  for (const std::string& strategy : planned.strategies) {
    Trial& trial = c.trials.emplace_back();
    trial.strategy = trial.timing.name = strategy;
    trial.timing.kind = "candidate";
  }
  return c;
}

void keep_asked(const SweepChoices& choices, const std::vector<SweepCase>& cases,
                SweepReport* other) {
  std::vector<Case> all;
  std::map<std::string, std::vector<Case>> by_target;
  for (const SweepCase& planned : cases) {
    all.push_back(empty_case(planned));
    by_target[planned.target->name].push_back(all.back());
  }
  std::erase_if(other->cases, [&](const Case& c) {
    const auto own = by_target.find(c.target);
    if (own == by_target.end() && !choices.targets.empty()) return true;
    const std::vector<Case>& near = own == by_target.end() ? all : own->second;
    const auto among = [&](bool chosen, auto field) {
      return !chosen || std::ranges::find(near, c.*field, field) != near.end();
    };
    const bool shaped = std::ranges::any_of(
        choices.axes, [&](const std::string& axis) { return axis.starts_with(c.target + "."); });
    return !among(shaped, &Case::shape) || !among(!choices.n.empty(), &Case::n) ||
           !among(!choices.dtypes.empty(), &Case::dtype) ||
           !among(!choices.devices.empty(), &Case::device) ||
           !among(!choices.modes.empty(), &Case::mode) ||
           !among(!choices.phases.empty(), &Case::phase);
  });
  if (choices.strategies.empty()) return;
  for (Case& c : other->cases)
    if (const auto own = by_target.find(c.target); own != by_target.end())
      std::erase_if(c.trials, [&](const Trial& t) {
        const std::vector<Trial>& trials = own->second.front().trials;
        return std::ranges::find(trials, t.strategy, &Trial::strategy) == trials.end();
      });
}

WidenOptions widen_options(const Target& target, const std::string& strategy,
                           const std::map<std::string, std::string>& forced) {
  WidenOptions options;
  options.force = forced;
  if (strategy == "vmap" || strategy == "per_model")
    options.force = {{"*", strategy}};
  else if (const auto parts = target.parts.find(strategy); parts != target.parts.end())
    for (const auto& [part, way] : parts->second) options.force[part] = way;
  else if (strategy != kChosen || target.strategy(kChosen) != nullptr)
    options.force[target.name] = strategy;
  options.strict = true;
  return options;
}

int64_t count_trials(const std::vector<SweepCase>& cases) {
  int64_t trials = 0;
  for (const SweepCase& c : cases) trials += static_cast<int64_t>(c.strategies.size());
  return trials;
}

namespace {

/// Elements that one model reads or computes, and whether it draws random numbers.
struct Size {
  double elements = 0;
  bool random = false;
};

Size size_of(const SweepCase& planned) {
  Size size;
  try {
    const Network network = planned.target->network(planned.shape);
    size.random = network.random;
    for (const TensorSpec& t : network.tensors)
      size.elements += static_cast<double>(c10::multiply_integers(t.sizes));
  } catch (const std::exception&) {
    // The shape is refused: the case reports that when it runs.
  }
  return size;
}

}  // namespace

double estimate_call_s(const SweepCase& planned) {
  // Speeds of a desktop core on these shapes; the ETA corrects them as cases are done.
  constexpr double kFlopsPerSecond = 8e10, kElementsPerSecond = 1e9, kDrawsPerSecond = 1.2e8;
  const double flops = planned.target->flops ? planned.target->flops(planned.shape) : 0;
  const Size size = size_of(planned);
  return static_cast<double>(planned.n) *
         std::max(flops / kFlopsPerSecond,
                  size.elements / (size.random ? kDrawsPerSecond : kElementsPerSecond));
}

double estimate_seconds(const std::vector<SweepCase>& cases, double budget_s) {
  // Calls that are not samples: timing ranges and layouts, the check and its reference. Random
  // networks are checked by statistics of many calls.
  constexpr double kOtherCalls = 10, kRandomCalls = 60, kMinSamples = 10, kBaselines = 3;
  double seconds = 0;
  for (const SweepCase& c : cases) {
    const double call = estimate_call_s(c);
    const auto trials = static_cast<double>(c.strategies.size());
    const double other = size_of(c).random ? kRandomCalls : kOtherCalls;
    seconds += (kBaselines + trials) * std::max(1.1 * budget_s, kMinSamples * call) +
               trials * (other * call + 0.3);
  }
  return seconds;
}

}  // namespace wide
