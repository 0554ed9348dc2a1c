#include "app/train/prepare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/options.h"
#include "app/sandbox/group.h"
#include "app/train/inputs/embedding_check.h"
#include "app/train/models/values.h"
#include "app/train/run/identity.h"
#include "data/bytes/csv.h"
#include "data/checkpoints/checkpoint_search.h"
#include "data/machine/environment.h"
#include "data/store/sweeps/part.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

constexpr int64_t kEpochs = 10;

int64_t warmup_steps(const std::string& text, int64_t steps) {
  double number = 0;
  const bool share = text.ends_with("%");
  if (!parse_number(share ? std::string_view(text).substr(0, text.size() - 1) : text, &number) ||
      number < 0 || (share ? number > 100 : number != std::floor(number)))
    fail("[--warmup] steps: got {}, expected a number of steps or a share; try 100 or 5%",
         printable(text));
  return static_cast<int64_t>(share ? std::llround(number / 100 * double(steps)) : number);
}

/// The number of rows that limits the batch size: that of the smallest training set (of all folds).
/// Where each model has rows of its own (`--rows`), that of the largest, as the batches of models
/// with fewer rows are filled up.
int64_t rows_for_a_batch(const TrainingData& data) {
  size_t least = SIZE_MAX;
  size_t most = 0;
  for (const Rows& rows : data.train_rows) {
    least = std::min(least, rows.size());
    most = std::max(most, rows.size());
  }
  return static_cast<int64_t>(data.by_model ? most : least);
}

Halving parse_halving(const std::string& text) {
  std::vector<int64_t> numbers;
  for (const std::string& part : listed(text)) numbers.push_back(whole_number(part).value_or(0));
  if (numbers.size() == 1) numbers.push_back(1);
  if (numbers.size() != 2 || numbers[0] < 2 || numbers[1] < 1)
    fail(
        "[--prune] halving: got {}, expected FACTOR of at least 2 and GRACE, the number of the "
        "first evaluation that prunes; try 3,1",
        printable(text));
  return {numbers[0], numbers[1]};
}

bool has_rows(const Tensor& output, int64_t batch) {
  return output.dim() > 0 && output.size(0) == batch;
}

}  // namespace

Prepared::Prepared(const TrainOptions& asked) : options(asked), network(options) {
  if (options.optimizer.empty())
    defaults["optimizer"] = options.optimizer = TrainerOptions().optimizer;
  choose_loss();
  const DataWanted wanted{network.asked(), network.knows_sizes(), &loss.loss, network.dtype()};
  data = read_training_data(options, wanted);
  for (const auto* file : {&data.validation_file, &data.test_file})
    if (*file) notes.insert(notes.end(), (*file)->notes.begin(), (*file)->notes.end());
  int64_t weights = 0;
  if (!options.weights.empty())
    weights = static_cast<int64_t>(find_checkpoints(options.weights).files.size());
  fingerprint = wide::fingerprint(data);
  configurations = configure_models(
      options,
      {{"--weights", weights},
       {"--rows", data.by_model ? static_cast<int64_t>(data.train_rows.size()) : 0}},
      data.folds, loss.label_smoothing);
  check_settings();
  network.settle(data.train, rows_for_a_batch(data), options.drop_last);
  if (options.batch == 0) defaults["batch"] = std::to_string(network.batch());
  frozen = matching("--freeze", options.freeze, network.tensors());
  no_decay = matching("--no-decay", options.no_decay, network.tensors());
  check_data();
  const uint64_t first_order = configurations.models[0].seed_order;
  take_part();
  feed =
      std::make_unique<Feed>(options, data, network, loss.loss, configurations.models, first_order);
  if (feed->left_out())
    notes.push_back(
        fmt::format("only full batches of {} are used: {} of {} rows are left out of each epoch",
                    network.batch(), feed->left_out(), feed->rows()));
  choose_metrics();
  count_steps();
  check_outputs();
  check_smallest_batch();
  check_filled_batches();
  check_filled_evaluations();
  network_fingerprint = wide::network_fingerprint(network);
  identity = identity_text(*this);
  if (loss.balanced)
    loss.loss.weight =
        balanced_weights(data, configurations.models, data.classes, loss.loss.ignore_index)
            .to(network.dtype());
  for (Tensor* weight : {&loss.loss.weight, &loss.loss.pos_weight})
    if (weight->defined()) *weight = weight->to(network.dtype());
  for (const auto& [key, value] : configurations.models[0].hyper)
    if ((key == "lr" || key == "weight_decay") && !configurations.said.count(key))
      defaults[key] = fmt::format("{}", value);
}

/// Refuses keys that would have no effect, or another one than the user expects.
void Prepared::check_settings() {
  const auto any = [&](const char* key) {
    return std::ranges::any_of(configurations.models, [&](const ModelSettings& m) {
      return m.hyper.count(key) && m.hyper.at(key) > 0;
    });
  };
  if (loss.loss.name != "cross_entropy" && any("label_smoothing"))
    fail(
        "[label_smoothing] loss: got {}, expected cross_entropy, which alone is smoothed; try to "
        "leave it out",
        loss.loss.name);
  if (!network.has_dropout() && any("dropout"))
    fail(
        "[dropout] network: got {}, which has no dropout in training, expected one that has; try "
        "to leave it out",
        printable(options.network));
  const std::vector<double>& folds = data.train.fold_values;
  const bool counted =
      folds.empty() || (folds.front() == 0 && folds.back() + 1 == double(folds.size()));
  if (counted) return;
  if (configurations.said.count("fold"))
    fail(
        "[fold] column {}: got {} to {}, expected folds counted from 0 to {} as the key has them; "
        "try to number them so",
        printable(options.fold), folds.front(), folds.back(), folds.size() - 1);
  notes.push_back(fmt::format("folds 0 to {} are the values {} of column {}", folds.size() - 1,
                              fmt::join(folds, ", "), printable(options.fold)));
}

void Prepared::choose_loss() {
  if (!options.loss.empty()) {
    loss = parse_loss(options.loss, options.output, network.output_names(),
                      network.held_output_names());
    return;
  }
  Loss any;  // a stand-in while none is chosen yet
  any.name = "mse";
  const DataWanted wanted{network.asked(), network.knows_sizes(), &any, network.dtype()};
  const DataParts parts = read_parts(options, options.data, wanted, RowsTo::learn, nullptr);
  options.loss = parts.target->whole ? "cross_entropy" : "mse";
  defaults["loss"] = options.loss;
  loss =
      parse_loss(options.loss, options.output, network.output_names(), network.held_output_names());
}

void Prepared::check_data() {
  for (const DataParts* parts : data.files())
    for (const DataPart* p : all_parts(*parts))
      if (p->own && p->values.size(0) != n())
        fail("[{}] column {}: got {} models, expected {}; try {}", parts->file, p->columns,
             p->values.size(0), n(),
             p->values.size(0) > 0 ? fmt::format("-n {}", p->values.size(0)) : "other data");
  const auto look_up = [&](const Network& form, const DataParts& parts) {
    check_embeddings(network, form, parts, /*known_buffers=*/options.weights.empty());
  };
  look_up(network.train_form(), data.train);
  if (data.validation_file) look_up(network.eval_form(), *data.validation_file);
  if (data.test_file) look_up(network.eval_form(), *data.test_file);
  const auto with_rows = static_cast<int64_t>(data.train_rows.size());
  if (data.by_model && with_rows != n())
    fail("[{}] model: got rows of {} models, expected {}; try -n {}", printable(options.rows),
         with_rows, n(), with_rows);
}

/// Keeps only the models of `--part`, and their slices of columns that are [N, S, ...].
void Prepared::take_part() {
  const int64_t all = n();
  everyone = configurations.models;
  data.all_models = all;
  if (options.part.empty()) return;
  const bool own_epochs = std::ranges::any_of(configurations.models,
                                              [](const ModelSettings& m) { return m.epochs > 0; });
  if ((data.by_model || own_epochs) && !rank_group())
    fail(
        "[--part] models: got rows or epochs of their own, expected the same for all models, so "
        "that all parts end at one step; try it without --part");
  const Part part = parse_part(options.part);
  if (part.count > all && rank_group())
    fail("[train] ranks: got {} for {} models, expected no more than there are; try mpirun -n {}",
         part.count, all, all);
  if (part.count > all)
    fail("[--part] parts: got {} of {} models, expected no more than there are; try 1/{}",
         part.count, all, all);
  const int64_t first = first_model = part.first(all), last = part.last(all);
  configurations.models = {configurations.models.begin() + first,
                           configurations.models.begin() + last};
  data.take_models(first, last - first);
}

/// Refuses a last batch of one row where a batch norm would compute the variance of a single
/// number: its running statistics would be NaN from then on.
void Prepared::check_smallest_batch() const {
  if (feed->fills_up_training()) return;  // all are of one size
  const int64_t last = feed->rows() - (feed->steps_per_epoch() - 1) * network.batch();
  if (std::min(last, network.batch()) != 1 || steps < feed->steps_per_epoch()) return;
  const at::NoGradGuard no_grad;
  const Network net = network.forms().train(network.inputs(1));
  const Tensors bound = network.on_zeros(net);
  const char* instead = network.batch() > 1 ? "--drop-last" : "a larger --batch";
  try {
    net.forward(bound);
  } catch (const std::exception&) {  // TorchScript keeps PyTorch's check of batch norm
    fail("[{}] last batch: got one row, expected more, as forward refuses it in training; try {}",
         printable(options.network), instead);
  }
  for (size_t i = 0; i < bound.size(); ++i)
    if (net.tensors[i].role == Role::buffer && !bound[i].isfinite().all().item<bool>())
      fail("[{}] last batch: got one row, expected more for the statistics of {}; try {}",
           printable(options.network), printable(net.tensors[i].name), instead);
}

/// Refuses a network in which rows of a batch affect each other, as in a batch norm, where batches
/// are filled up: there rows that only fill up would change the others although their weight is 0.
void Prepared::check_filled_batches() const {
  if (!feed->fills_up_training()) return;
  const Tensors rows = network.own_inputs(feed->training(0), 0);
  if (network.rows_affect_each_other(network.train_form(), rows))
    fail(
        "[{}] rows of a batch: got answers that depend on the other rows (batch norm), expected "
        "each by itself where models have different numbers of rows; try --drop-last",
        printable(options.network));
}

/// Where rows of a batch affect each other in evaluations, no batch of those is filled up.
void Prepared::check_filled_evaluations() {
  const std::vector<RowSet> sets = held_sets();
  const int64_t size = std::max<int64_t>(network.batch(), 2);
  if (sets.empty() || !network.takes(size)) return;  // batches of one row alone
  Tensors rows = network.own_inputs(feed->held({&data.train, &data.train_rows}, 0).batch, 0);
  for (Tensor& input : rows)
    input = input.index_select(0, at::arange(size, at::kLong).remainder(input.size(0)));
  std::set<size_t> read{loss.held_output, loss.answer};
  for (const WantedMetric& metric : metrics)
    if (metric.output) read.insert(*metric.output);
  if (!network.rows_affect_each_other(network.eval_form(size), rows, read)) return;
  feed->never_fill_up(
      fmt::format("[{}] rows of a batch: got answers that depend on the other rows in evaluations, "
                  "expected each by itself",
                  printable(options.network)),
      sets);
  notes.push_back(
      "rows of a batch affect each other in evaluations: no batch of those is filled up, and what "
      "is measured depends on their sizes");
}

/// Runs the network on zeros, and checks that the loss fits its output and classes are in range.
void Prepared::check_outputs() {
  const at::NoGradGuard no_grad;
  const Network& net = network.eval_form();
  const Tensors outputs = net.forward(network.on_zeros(net));
  const auto check = [&](const std::string& option, size_t number) {
    if (number >= outputs.size())
      fail("[{}] output: got {}, expected one of forward's {}, from 0; try {}", option, number,
           outputs.size(), option == "--loss" ? "output.0" : "0");
  };
  check(loss.loss.name == "output" ? "--loss" : "--output", loss.held_output);
  check("--output", loss.answer);
  for (const WantedMetric& metric : metrics)
    if (metric.output) check(&metric == &monitor() ? "--monitor" : "--metric", *metric.output);
  answers_rows = has_rows(outputs[loss.answer], network.batch());
  check_output_of_loss(outputs.size());
  const Tensor& output = outputs[loss.held_output];
  if (defaults.count("loss") && loss.loss.classifies() && (output.dim() < 2 || output.size(1) == 1))
    fail(
        "[--loss] loss: got none, expected one, as whole numbers as target and one output a row "
        "fit "
        "several; try --loss mse, or --loss bce_with_logits");
  LossInputs in;
  in.output = output;
  if (loss.loss.needs_target()) {
    if (!loss.loss.classifies() && output.dim() == 2 && output.size(1) == 1) shape_single_column();
    const DataPart& target = *data.train.target;
    Sizes sizes = target.row_sizes();
    sizes.insert(sizes.begin(), network.batch());
    in.target = at::zeros(sizes, loss.loss.target_dtype(network.dtype()));
  }
  if (feed->fills_up_training() && !has_rows(output, network.batch()))
    fail(
        "[--loss] {}: got one number a batch, expected one a row where models have different "
        "numbers of rows; try a loss of each row (reduction='none'), or --drop-last",
        printable(options.loss));
  if (data.train.weight || feed->fills_up_training())
    in.row_weight = at::ones({network.batch()}, output.options());
  loss_sums(loss.loss, in);
  const Tensor& positive = loss.loss.pos_weight;
  const int64_t labels = output.dim() > 1 ? output.size(-1) : 1;
  if (positive.defined() && positive.dim() > 0 && positive.numel() != labels)
    fail("[--loss] pos_weight: got {} numbers, expected one, or one for each of {} labels; try one",
         positive.numel(), labels);
  check_batch_numbers(outputs);
  if (!loss.loss.classifies()) return;
  data.classes = output.size(1);
  check_classes();
}

/// Refuses an evaluation form from another file, with `count` outputs, of which it is not known
/// which one the training form learns by. The first of each is taken, and said.
void Prepared::check_output_of_loss(size_t count) {
  if (!network.has_eval_file()) return;
  const std::vector<std::string> names = network.output_names(), held = network.held_output_names();
  const size_t at = loss.loss.output, held_at = loss.held_output;
  if (at < names.size() && held_at < held.size()) {
    if (names[at] != held[held_at]) {
      const bool common = std::ranges::any_of(
          names, [&](const auto& n) { return std::ranges::count(held, n) > 0; });
      fail("[--eval-model] output {}: got {} of {}, expected {} as in training; try {}", held_at,
           printable(held[held_at]), listing(held, 9), printable(names[at]),
           common ? "--output with a name that both have"
                  : "exports of a forward that gives a dict");
    }
    if (!whole_number(names[at])) return;  // found by its name
  }
  const Network& net = network.train_form();
  const size_t learned = names.empty() ? net.forward(network.on_zeros(net)).size() : names.size();
  if (learned == count) return;
  if (at != 0)
    fail(
        "[--eval-model] outputs: got {}, expected {} as in training, or names by which one is "
        "found; try exports of a forward that gives a dict",
        count, learned);
  notes.push_back(
      fmt::format("the loss is of the first of forward's {} outputs in training, and of the first "
                  "of {} in evaluations",
                  learned, count));
}

/// A single column of a table is [S]. Makes it [S, 1] if the network's output is, since a CSV file
/// cannot say that.
void Prepared::shape_single_column() {
  for (DataParts* parts : data.files())
    if (parts->columns.table && parts->target->values.dim() == 1)
      parts->target->values = parts->target->values.unsqueeze(1);
}

/// For losses and metrics that are one number for a batch: batches must not be filled up, and rows
/// must have equal weights.
void Prepared::check_batch_numbers(const Tensors& outputs) {
  std::vector<std::string> whose;
  if (loss.loss.name == "output" && outputs[loss.held_output].dim() == 0)
    whose.push_back("[--loss] " + printable(options.loss));
  for (const WantedMetric& metric : metrics) {
    if (!metric.output || has_rows(outputs[*metric.output], network.batch())) continue;
    whose.push_back((&metric == &monitor() ? "[--monitor] " : "[--metric] ") +
                    printable(metric.name));
    if (data.train.weight)
      fail(
          "{}: got one number a batch, expected one a row to weigh it by --sample-weight; try to "
          "leave one of them out",
          whose.back());
  }
  if (whose.empty()) return;
  feed->never_fill_up(whose.front() + ": got one number a batch, expected one a row", held_sets());
}

std::vector<RowSet> Prepared::held_sets() const {
  std::vector<RowSet> sets;
  if (data.has_validation()) sets.push_back(validation());
  if (!data.test.empty()) sets.push_back({&data.test_parts(), &data.test});
  return sets;
}

void Prepared::check_classes() {
  if (loss.loss.weight.defined() && loss.loss.weight.size(-1) != data.classes)
    fail("[--loss] weight: got {} numbers, expected one for each of {} classes; try balanced",
         loss.loss.weight.size(-1), data.classes);
  for (const DataParts* parts : data.files()) {
    const Tensor& of = parts->target->values;
    const Tensor bad =
        (of.lt(0).logical_or(of.ge(data.classes))).logical_and(of.ne(loss.loss.ignore_index));
    if (!bad.any().item<bool>()) continue;
    const Tensor at = bad.nonzero()[0];
    const Tensor value = of.masked_select(bad)[0];
    fail(
        "[{}] target {}: got class {} in row {}, expected 0 to {} as the network has {} outputs; "
        "try other labels",
        parts->file, parts->target->columns, value.item<int64_t>(),
        at[parts->target->own ? 1 : 0].item<int64_t>(), data.classes - 1, data.classes);
  }
}

void Prepared::choose_metrics() {
  std::vector<std::string> names{options.monitor};
  for (const std::string& text : options.metrics)
    for (const std::string& name : split(text))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  if (std::ranges::find(names, "loss") == names.end()) names.push_back("loss");
  for (const std::string& name : names)
    metrics.push_back(find_metric(name == options.monitor ? "--monitor" : "--metric", name,
                                  loss.loss, network.held_output_names()));
  if (!options.prune.empty()) halving = parse_halving(options.prune);
  if (data.has_validation()) return;
  const auto refuse = [](const char* option) {
    fail("[{}] rows: got no validation rows, expected some to look at; try --validation 0.2",
         option);
  };
  if (options.patience > 0) refuse("--patience");
  if (!options.prune.empty()) refuse("--prune");
  if (options.min_delta > 0) refuse("--min-delta");
  if (options.keep > 0 && options.keep < n()) refuse("--keep");
  if (options.monitor != "loss") refuse("--monitor");
  if (names.size() > 1 && data.test.empty()) refuse("--metric");
}

void Prepared::count_steps() {
  if (options.epochs > 0 && options.steps > 0)
    fail("[--epochs] length: got --steps too, expected one of them; try to leave one out");
  if (options.epochs < 0 || options.steps < 0)
    fail("[--epochs] length: got {}, expected above 0; try --epochs 10",
         std::min(options.epochs, options.steps));
  const bool all_own =
      std::ranges::all_of(everyone, [](const ModelSettings& m) { return m.epochs > 0; });
  if (all_own && options.epochs > 0)
    fail("[--epochs] length: got the key epochs too, expected one of them; try to leave one out");
  if (options.epochs == 0 && options.steps == 0 && !all_own)
    defaults["epochs"] = std::to_string(options.epochs = kEpochs);
  for (size_t i = 0; i < everyone.size(); ++i) {
    const int64_t own = everyone[i].epochs;
    if (options.steps > 0 && own > 0)
      fail("[epochs] length: got --steps too, expected one of them; try to leave one out");
    const auto rows =
        data.by_model ? static_cast<int64_t>(data.train_rows[i].size()) : feed->rows();
    ends_of_all.push_back(options.steps > 0
                              ? options.steps
                              : (own > 0 ? own : options.epochs) * feed->steps_of(rows));
  }
  ends = {ends_of_all.begin() + first_model, ends_of_all.begin() + first_model + n()};
  steps = *std::ranges::max_element(ends_of_all);
  const std::string schedule = options.schedule.substr(0, options.schedule.find(':'));
  const bool own =
      std::ranges::any_of(everyone, [](const ModelSettings& m) { return m.epochs > 0; });
  const bool one_end = *std::ranges::min_element(ends_of_all) == steps;
  if (!one_end && (schedule == "cosine" || schedule == "linear" || schedule == "onecycle"))
    fail(
        "[--schedule] {}: got models with different numbers of steps, expected one number, as it "
        "runs "
        "to the last step; try constant{}",
        schedule, own ? "" : fmt::format(", or --steps {}", steps));
  eval_every = options.eval_every > 0 ? options.eval_every : feed->steps_per_epoch();
}

Trainer Prepared::trainer(const Start& start, const std::string& plan_text) const {
  TrainerOptions o;
  o.n = n();
  o.loss = loss.loss;
  o.optimizer = options.optimizer;
  for (const auto& [key, value] : configurations.models[0].hyper)
    for (const ModelSettings& m : configurations.models)
      if (key != kOwnEpochs) o.hyperparameters[key].push_back(m.hyper.at(key));
  o.schedule = parse_schedule(options.schedule, warmup_steps(options.warmup, steps), steps);
  o.no_decay = no_decay;
  o.frozen = frozen;
  for (const ModelSettings& m : configurations.models) o.seeds.push_back(m.seed_dropout);
  o.exact = options.exact;
  o.threads = options.threads;
  o.plan = plan_text;
  o.device = parse_device(options.device);
  if (o.device.is_cpu()) o.memory_limit = available_memory() / 2;  // the rest: models and data
  return Trainer(network.forms(), network.input_forms(), start.tensors, o);
}

}  // namespace wide
