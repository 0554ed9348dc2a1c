#include "app/train/outputs/predict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "app/sandbox/sandbox.h"
#include "app/train/inputs/arrays.h"
#include "app/train/inputs/embedding_check.h"
#include "app/train/inputs/fingerprint.h"
#include "app/train/inputs/network.h"
#include "app/train/metrics/loss_text.h"
#include "app/train/metrics/metric.h"
#include "app/train/models/start.h"
#include "app/train/run/identity.h"
#include "data/bytes/part_file.h"
#include "data/escape.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMean = "normalize.mean.";
constexpr const char* kStd = "normalize.std.";

std::string extension_of(const std::string& path) { return fs::path(path).extension().string(); }

class Predictor {
 public:
  Predictor(const PredictOptions& options, const SavedRun& saved)
      : options_(options),
        saved_(saved),
        network_(saved.options),
        text_(parse_loss(saved.options.loss, saved.options.output, network_.output_names(),
                         network_.held_output_names())) {
    const DataWanted wanted{network_.asked(), network_.knows_sizes(), &text_.loss, network_.dtype(),
                            unread_inputs()};
    TrainOptions columns = saved.options;
    columns.own.clear();
    parts_ = read_parts(columns, options.data, wanted, RowsTo::predict,
                        saved.columns ? &*saved.columns : nullptr);
    network_.settle(parts_, std::numeric_limits<int64_t>::max(), false);
    if (!saved.identity.empty()) {
      const auto note = check_network(saved.identity, network_fingerprint(network_), saved.options);
      if (!note.empty()) parts_.notes.push_back(note);
    }
    check_embeddings(network_, network_.eval_form(), parts_, saved.options.weights.empty());
    choose_models();
    load();
  }

  std::string run() {
    const int64_t size = network_.evaluation_batch(parts_.inputs, parts_.rows);
    const bool even = parts_.rows % size != 0 && rows_affect_each_other(size);
    if (even) expect_even_batches(size);
    for (const auto& [begin, rows] : even ? even_batches(parts_.rows, size) : full(size)) {
      heartbeat();
      take(begin, rows, even ? rows : size);
    }
    write();
    std::string said = fmt::format("{} rows by {} models{}{} -> {}", parts_.rows, models_.size(),
                                   left_out_.empty() ? "" : fmt::format(" ({})", left_out_),
                                   options_.reduce == "none" ? "" : ", " + options_.reduce,
                                   printable(options_.out));
    const auto all = static_cast<int64_t>(saved_.state.models.size());
    if (options_.top > all)
      said += fmt::format("\n  --top {}: the run has {} models", options_.top, all);
    for (const std::string& note : parts_.notes) said += "\n  " + note;
    return said;
  }

 private:
  /// Inputs that the answer is not computed from, as targets of a loss that the network computes;
  /// none if it is computed from none.
  std::set<std::string> unread_inputs() const {
    std::set<std::string> unread;
    if (!network_.knows_sizes() || network_.asked().size() < 2) return unread;
    const std::vector<std::set<std::string>> read = network_.read_inputs();
    if (text_.answer >= read.size() || read[text_.answer].empty()) return unread;
    for (const TensorSpec& spec : network_.asked())
      if (!read[text_.answer].count(spec.name)) unread.insert(spec.name);
    return unread;
  }

  void choose_models() {
    const auto n = static_cast<int64_t>(saved_.state.models.size());
    models_.resize(static_cast<size_t>(n));
    std::iota(models_.begin(), models_.end(), 0);
    if (options_.reduce != "none") {  // "none" gives all models' answers, in their order
      models_ = answering_models(saved_.state.models);
      left_out_ = left_out_text(saved_.state.models);
      if (models_.empty())
        fail(
            "[{}] models: got all {} diverged{}, expected one with a finite value; try --reduce "
            "none",
            printable(options_.folder), n, any_pruned() ? " or pruned" : "");
    }
    if (options_.top > 0 && options_.top < n) {
      if (std::ranges::none_of(saved_.state.models,
                               [](const ModelState& m) { return m.best.has_value(); }))
        fail(
            "[--top] models: got a run without validation rows, expected values to choose by; try "
            "it without --top");
      const auto value = [&](int64_t m) {
        const auto& best = saved_.state.models[static_cast<size_t>(m)].best;
        if (!best) return std::numeric_limits<double>::infinity();
        return saved_.more_is_better ? -*best : *best;
      };
      std::ranges::stable_sort(models_, [&](int64_t a, int64_t b) { return value(a) < value(b); });
      models_.resize(std::min(models_.size(), static_cast<size_t>(options_.top)));
      std::ranges::sort(models_);
    }
  }

  bool any_pruned() const {
    const auto& models = saved_.state.models;
    return std::ranges::any_of(models, [](const ModelState& m) { return m.pruned(); });
  }

  /// Loads the weights of these models (the last ones of a model without a best) and their
  /// normalisation.
  void load() {
    std::map<std::string, Tensor> all;
    for (auto& [name, tensor] : load_tensors((fs::path(options_.folder) / "run.safetensors")))
      all[name] = tensor;
    const Tensor index = at::tensor(models_, at::kLong);
    std::map<std::string, StartTensor> start;
    for (const TensorSpec& spec : network_.tensors()) {
      auto last = all.find("ema." + spec.name);
      if (last == all.end()) last = all.find("weight." + spec.name);
      if (last == all.end())
        fail("[{}] tensor {}: got none, expected it in the run; try another folder",
             printable(options_.folder), printable(spec.name));
      const bool shared = last->second.dim() == static_cast<int64_t>(spec.sizes.size());
      // Repeated for each model: only a frozen tensor may be shared.
      const Tensor made =
          shared ? expanded(static_cast<int64_t>(models_.size()), last->second).contiguous()
                 : last->second.index_select(0, index);
      const auto best = all.find(kBestTensors + spec.name);
      for (size_t i = 0; i < models_.size() && best != all.end() && !shared; ++i)
        if (options_.use == "best" && saved_.state.models[static_cast<size_t>(models_[i])].best)
          made[static_cast<int64_t>(i)].copy_(best->second[models_[i]]);
      start[spec.name] = {made, false};
    }
    for (const auto& [name, tensor] : all)
      if (name.rfind(kMean, 0) == 0) {
        const std::string input = name.substr(std::string_view(kMean).size());
        data_.normalization.push_back({input, tensor, all.at(kStd + input)});
      }
    for (const int64_t m : models_)
      groups_.push_back(m < static_cast<int64_t>(saved_.groups.size())
                            ? saved_.groups[static_cast<size_t>(m)]
                            : m);
    TrainerOptions o;
    o.n = static_cast<int64_t>(models_.size());
    o.loss = text_.loss;
    o.threads = options_.threads;
    o.frozen = matching("--freeze", saved_.options.freeze, network_.tensors());
    trainer_ = std::make_unique<Trainer>(network_.forms(), network_.input_forms(), start, o);
  }

  /// All rows in batches of `size`, and the rest.
  std::vector<RowBatch> full(int64_t size) const {
    std::vector<RowBatch> batches;
    for (int64_t begin = 0; begin < parts_.rows; begin += size)
      batches.push_back({begin, std::min(size, parts_.rows - begin)});
    return batches;
  }

  bool rows_affect_each_other(int64_t size) const {
    const Batch batch = batch_of(at::arange(size, at::kLong).remainder(parts_.rows));
    return network_.rows_affect_each_other(network_.eval_form(size), network_.own_inputs(batch, 0),
                                           {text_.answer});
  }

  /// Refuses rows that make no batches of nearly equal sizes, up to `size`, that the network takes.
  void expect_even_batches(int64_t size) {
    const std::vector<RowBatch> batches = even_batches(parts_.rows, size);
    const int64_t least = batches.front().size, most = batches.back().size;
    if (!network_.takes(least) || !network_.takes(most))
      fail(
          "[predict] rows of a batch: got answers that depend on the other rows, expected each by "
          "itself where {} rows do not fill batches of {}; try a multiple of {} rows",
          parts_.rows, size, size);
    parts_.notes.push_back(fmt::format(
        "rows of a batch affect each other: the rows are answered in {} batches of {}{} rows",
        batches.size(), least, least == most ? "" : fmt::format(" or {}", most)));
  }

  Batch batch_of(const Tensor& rows) const {
    Batch batch;
    const bool same = std::ranges::all_of(
        data_.normalization, [](const Normalization& n) { return n.mean.size(0) == 1; });
    for (const DataPart& part : parts_.inputs) {
      Column column;
      column.values = part.values;
      column.shared = true;
      column.rows = same ? rows : expanded(static_cast<int64_t>(models_.size()), rows).contiguous();
      column.prepare = preparation(data_, part.name, groups_);
      batch.inputs.push_back(std::move(column));
    }
    return batch;
  }

  void take(int64_t begin, int64_t count, int64_t size) {
    // The last batch is filled up by repeating its own rows.
    const Batch batch = batch_of(at::arange(size, at::kLong).clamp_max(count - 1) + begin);
    const Tensors outputs = trainer_->evaluate(batch);
    if (text_.answer >= outputs.size())
      fail("[--output] output: got {}, expected one of forward's {}, from 0; try 0", text_.answer,
           outputs.size());
    const Tensor& answer = outputs[text_.answer];
    if (answer.dim() < 2 || answer.size(1) != size)
      fail(
          "[predict] output {}: got numbers of a whole batch, expected some for each row; try "
          "fuse with --weights {}, or a run with --output 0",
          text_.answer, shell_word((fs::path(options_.folder) / "last").string()));
    put(begin, answer.narrow(1, 0, count));
  }

  Tensor applied(const Tensor& x) const {
    if (options_.apply == "softmax") {
      if (x.dim() < 3)
        fail("[--apply] softmax: got one number a row, expected scores of classes; try sigmoid");
      return at::softmax(x, 2);
    }
    if (options_.apply == "sigmoid") return at::sigmoid(x);
    if (options_.apply == "none") return x;
    return probabilities(text_.loss, x, 2);
  }

  void put(int64_t begin, const Tensor& outputs) {
    Tensor x = applied(outputs);
    const int64_t n = x.size(0);
    if (options_.reduce == "mean")
      x = x.to(at::kDouble).mean(0).to(x.scalar_type());
    else if (options_.reduce == "std")
      x = n > 1 ? x.to(at::kDouble).std(0).to(x.scalar_type()) : at::zeros_like(x[0]);
    else if (options_.reduce == "vote")
      x = voted(x);
    const int64_t dim = options_.reduce == "none" ? 1 : 0;
    if (!result_.defined()) {
      Sizes sizes = x.sizes().vec();
      sizes[static_cast<size_t>(dim)] = parts_.rows;
      result_ = at::empty(sizes, x.options());
    }
    result_.narrow(dim, begin, x.size(dim)).copy_(x);
  }

  /// The class that most models score highest; on a tie the first of them.
  Tensor voted(const Tensor& x) const {
    if (!text_.loss.classifies() && text_.loss.name != "output")
      fail(
          "[--reduce] vote: got outputs of a run with --loss {}, expected scores of classes; try "
          "mean",
          text_.loss.name);
    if (x.dim() < 3 || x.size(2) < 2)
      fail("[--reduce] vote: got one number a row, expected scores of classes; try mean");
    const Tensor said = x.argmax(2);  // [N, S, ...]
    const Tensor votes = at::one_hot(said, x.size(2)).sum(0);
    return votes.argmax(-1);
  }

  void write() const {
    const std::string extension = extension_of(options_.out);
    if (extension == ".npz") return write_npz(options_.out, {{"prediction", result_}});
    if (extension == ".safetensors") return save_tensors(options_.out, {{"prediction", result_}});
    PartFile file(options_.out);
    const auto put = [&](const std::string& text) { file.write(text.data(), text.size()); };
    const bool each = options_.reduce == "none";
    // [S, K]: of each row all numbers, those of model 0 first.
    const Tensor table = (each ? result_.transpose(0, 1) : result_)
                             .reshape({parts_.rows, -1})
                             .to(at::kDouble)
                             .contiguous();
    const int64_t models = each ? result_.size(0) : 1;
    const int64_t numbers = table.size(1) / models;
    std::string head = "row";
    for (int64_t m = 0; m < models; ++m)
      for (int64_t k = 0; k < numbers; ++k)
        head += each ? fmt::format(",model.{}.{}", models_[static_cast<size_t>(m)], k)
                     : fmt::format(",{}", numbers == 1 ? "prediction" : std::to_string(k));
    put(head + "\n");
    const double* data = table.const_data_ptr<double>();
    const bool single = result_.scalar_type() != at::kDouble;
    for (int64_t row = 0; row < parts_.rows; ++row) {
      std::string line = std::to_string(row);
      for (int64_t k = 0; k < table.size(1); ++k) {
        const double number = *data++;
        line += "," + (single ? csv_number(static_cast<float>(number)) : csv_number(number));
      }
      put(line + "\n");
    }
    file.commit();
  }

  const PredictOptions& options_;
  const SavedRun& saved_;
  TrainNetwork network_;
  LossText text_;
  DataParts parts_;
  TrainingData data_;  // only the statistics of normalisation
  std::vector<int64_t> models_, groups_;
  std::string left_out_;  // which models the mean answer leaves out, and why
  std::unique_ptr<Trainer> trainer_;
  Tensor result_;
};

}  // namespace

void check_predict(const PredictOptions& options) {
  const auto one_of = [](const char* option, const std::string& got,
                         const std::vector<std::string>& words) {
    if (std::ranges::find(words, got) == words.end())
      fail("[{}] word: got {}, expected {}; try {}", option, printable(got), fmt::join(words, ", "),
           words[0]);
  };
  one_of("--use", options.use, {"best", "last"});
  one_of("--reduce", options.reduce, {"mean", "std", "vote", "none"});
  if (!options.apply.empty()) one_of("--apply", options.apply, {"softmax", "sigmoid", "none"});
  const std::string extension = extension_of(options.out);
  if (extension != ".csv" && extension != ".npz" && extension != ".safetensors")
    fail("[--out] file: got {}, expected .csv, .npz or .safetensors; try predictions.csv",
         printable(options.out));
}

std::string predict(const PredictOptions& options, const SavedRun& saved) {
  const at::NoGradGuard no_grad;
  return Predictor(options, saved).run();
}

}  // namespace wide
