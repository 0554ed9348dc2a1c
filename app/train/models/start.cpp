#include "app/train/models/start.h"

#include <ATen/ATen.h>
#include <fnmatch.h>

#include <algorithm>

#include "app/train/prepare.h"
#include "data/checkpoints/checkpoint.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/datasets/draws.h"
#include "data/text.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "primitives/init/starting_values.h"

namespace wide {
namespace {

bool is_constant(const Tensor& t) {
  return t.numel() == 0 || t.reshape({-1})[0].isnan().any().item<bool>() ||
         t.eq(t.reshape({-1})[0]).all().item<bool>();
}

class Starter {
 public:
  explicit Starter(const Prepared& run)
      : run_(run), options_(run.options), network_(run.network), everyone_(run.everyone) {}

  Start start() {
    std::vector<std::string> files = options_.weights;
    for (const ModelSettings& m : everyone_)
      if (!m.weights.empty()) files.push_back(m.weights);
    if (!files.empty() && files.size() != options_.weights.size() && !options_.weights.empty())
      fail(
          "[--weights] weights: got --models' column too, expected one of them; try to leave one "
          "out");
    if (!options_.init.empty() && options_.init != "fresh" && options_.init != "file")
      fail("[--init] start: got {}, expected fresh or file; try fresh", printable(options_.init));
    if (!files.empty() && !options_.init.empty())
      fail("[--init] start: got --weights too, expected one of them; try to leave one out");
    if (!files.empty())
      load(files);
    else if (options_.init == "file")
      from_file();
    else
      fresh();
    return std::move(start_);
  }

 private:
  const Network& net() const { return network_.train_form(); }
  Tensor own(size_t k, const TensorSpec& spec) const {
    const Tensor& t = net().initial.at(k);
    return spec.follows_run() ? t.to(network_.dtype()) : t;
  }

  void load(const std::vector<std::string>& arguments) {
    start_.how = "weights";
    FoundCheckpoints found = find_checkpoints(arguments);
    start_.notes = found.notes;
    if (found.files.size() != everyone_.size())
      fail(
          "[--weights] checkpoints: got {}, expected one for each of {} models; try --init file "
          "for one start",
          found.files.size(), everyone_.size());
    // Whether a frozen parameter is equal in all models is known only after all checkpoints.
    const bool all = !run_.frozen.empty();
    const int64_t first = run_.first_model, end = first + run_.n();
    if (!all) found.files = {found.files.begin() + first, found.files.begin() + end};
    LoadedWeights loaded = load_checkpoints(net(), found.files, network_.dtype(), true);
    std::erase(loaded.notes, loaded.equal_note);  // of models that are not trained
    start_.notes.insert(start_.notes.end(), loaded.notes.begin(), loaded.notes.end());
    const auto specs = network_.tensors();
    size_t equal = 0, shared = 0;
    for (size_t k = 0; k < specs.size(); ++k) {
      const bool others = all && !loaded.shared[k];
      put(specs[k].name, others ? loaded.tensors[k].slice(0, first, end) : loaded.tensors[k],
          loaded.shared[k]);
      equal += loaded.shared[k];
      shared += loaded.shared[k] && run_.frozen.count(specs[k].name);
    }
    if (equal == 0 || found.files.size() < 2) return;
    start_.notes.push_back(
        fmt::format("{} of {} weights begin equal in all models", equal, specs.size()) +
        (shared > 0 ? fmt::format("; frozen and therefore shared: {}", shared) : ""));
  }

  /// Gives all models one value; a frozen parameter is stored only once.
  void put(const std::string& name, const Tensor& values, bool shared) {
    if (!shared || run_.frozen.count(name))
      start_.tensors[name] = {values, shared};
    else
      start_.tensors[name] = {expanded(run_.n(), values).clone(), false};
  }

  void from_file() {
    start_.how = "file";
    if (net().initial.empty())
      fail(
          "[{}] --init file: got a registered network, expected a file with values; try --init "
          "fresh",
          printable(options_.network));
    const auto specs = network_.tensors();
    for (size_t k = 0; k < specs.size(); ++k) put(specs[k].name, own(k, specs[k]), true);
  }

  void fresh() {
    start_.how = "fresh";
    const at::NoGradGuard no_grad;
    const bool said = options_.init == "fresh";
    const Tensors one = network_.on_zeros(net());
    const auto rules =
        starting_values(record_single(net(), {1, one, std::vector<bool>(one.size(), true)}));
    const auto specs = network_.tensors();
    for (size_t k = 0; k < specs.size(); ++k) {
      const TensorSpec& spec = specs[k];
      const auto known = rules.find(spec.name);
      if (net().initial.empty()) {
        registered(spec, known == rules.end() ? nullptr : &known->second[0], k);
      } else if (spec.role != Role::parameter) {
        check_statistics(spec.name, net().initial[k], said);
        const bool statistics = is_statistics(spec.name);
        const Tensor values = own(k, spec);
        put(spec.name,
            !statistics                          ? values
            : spec.name.ends_with("running_var") ? at::ones_like(values)
                                                 : at::zeros_like(values),
            true);
      } else {
        parameter(spec, own(k, spec), known == rules.end() ? nullptr : &known->second, k, said);
      }
    }
  }

  static bool is_statistics(const std::string& name) {
    return name.ends_with("running_mean") || name.ends_with("running_var") ||
           name.ends_with("num_batches_tracked");
  }

  void check_statistics(const std::string& name, const Tensor& values, bool said) const {
    if (said || !is_statistics(name)) return;
    const double fresh = name.ends_with("running_var") ? 1 : 0;
    if (!values.eq(fresh).all().item<bool>())
      refuse(name, fmt::format("statistics other than {}", fresh));
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& got) const {
    fail(
        "[{}] tensor {}: got {}, expected PyTorch's default of its layer, as no start was said; "
        "try --init file, --init fresh or --weights",
        printable(options_.network), printable(name), got);
  }

  void parameter(const TensorSpec& spec, const Tensor& values,
                 const std::vector<StartingValues>* rules, size_t k, bool said) {
    const StartingValues* chosen = nullptr;
    if (rules)
      for (const StartingValues& rule : *rules)
        if (!chosen && looks_like(rule, values)) chosen = &rule;
    if (!chosen && !rules && is_constant(values)) return put(spec.name, values, true);
    if (!chosen && !said)
      refuse(spec.name,
             rules ? fmt::format("values unlike those of a new torch.nn.{}", rules->front().layer)
                   : "values of no layer that has a default");
    if (!chosen && !rules)
      fail(
          "[{}] tensor {}: got values of no layer that has a default, expected one to draw anew; "
          "try --init file or --weights",
          printable(options_.network), printable(spec.name));
    draw_all(spec, values, chosen ? *chosen : rules->front(), k);
  }

  void draw_all(const TensorSpec& spec, const Tensor& like, const StartingValues& rule, size_t k) {
    const auto own = [&](const ModelSettings& m) {
      return draw(rule, like, draw_bits(m.seed_init, "init", k));
    };
    const std::vector<ModelSettings>& models = run_.configurations.models;
    const bool same = std::ranges::all_of(
        everyone_, [&](const ModelSettings& m) { return m.seed_init == models[0].seed_init; });
    if (same) return put(spec.name, own(models[0]), true);
    Tensors all;
    for (const ModelSettings& m : models) all.push_back(own(m));
    start_.tensors[spec.name] = {at::stack(all), false};
  }

  /// Refuses to start a registered network from its own values, as it has none.
  void registered(const TensorSpec& spec, const StartingValues* rule, size_t k) {
    const Tensor like = at::empty(spec.sizes, spec.dtype_in(network_.dtype()));
    if (rule) return draw_all(spec, like, *rule, k);
    const bool one = spec.fill == Fill::near_one || spec.fill == Fill::positive;
    if (spec.role == Role::parameter && spec.fill != Fill::zeros && !one) {
      const StartingValues normal{StartingValues::Kind::normal, spec.scale, spec.name};
      return draw_all(spec, like, normal, k);
    }
    put(spec.name, at::full_like(like, one ? 1 : 0), true);
  }

  const Prepared& run_;
  const TrainOptions& options_;
  const TrainNetwork& network_;
  const std::vector<ModelSettings>& everyone_;
  Start start_;
};

}  // namespace

std::set<std::string> matching(const std::string& option, const std::vector<std::string>& globs,
                               const std::vector<TensorSpec>& tensors) {
  std::set<std::string> names;
  for (const std::string& text : globs)
    for (const std::string& glob : split(text)) {
      bool any = false;
      for (const TensorSpec& spec : tensors)
        if (spec.role == Role::parameter && !fnmatch(glob.c_str(), spec.name.c_str(), 0))
          any = names.insert(spec.name).second || any || names.count(spec.name);
      if (any) continue;
      std::vector<std::string> known;
      for (const TensorSpec& spec : tensors)
        if (spec.role == Role::parameter) known.push_back(printable(spec.name));
      fail("[{}] glob: got {}, which no parameter matches, expected one of {}; try '{}*'", option,
           printable(glob), listing(known, 6), known.empty() ? "" : known[0].substr(0, 4));
    }
  return names;
}

Start start_models(const Prepared& run) { return Starter(run).start(); }

}  // namespace wide
