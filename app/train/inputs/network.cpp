#include "app/train/inputs/network.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <set>

#include "app/fuse/subject.h"
#include "app/options.h"
#include "app/train/inputs/empty_batch.h"
#include "data/text.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/record/record.h"
#include "engine/record/training_form.h"

namespace wide {
namespace {

constexpr int64_t kBatch = 32;

at::ScalarType training_dtype(const std::string& text) {
  const at::ScalarType dtype = parse_float_dtype(text);
  if (dtype == at::kFloat || dtype == at::kDouble) return dtype;
  fail("[--dtype] dtype: got {}, expected f32 or f64, in which training computes; try --dtype f32",
       printable(text));
}

/// A registered network in its training form: its forward checks in each call of dropout and batch
/// norm which form is running.
Network for_training(Network network) {
  network.forward = [forward = network.forward](const Tensors& bound) {
    const TrainingForm form;
    return forward(bound);
  };
  return network;
}

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::vector<RowBatch> even_batches(int64_t rows, int64_t most) {
  const int64_t count = (rows + most - 1) / most;
  std::vector<RowBatch> batches;
  for (int64_t p = 0; p < count; ++p) {
    const int64_t begin = rows * p / count;
    batches.push_back({begin, rows * (p + 1) / count - begin});
  }
  return batches;
}

std::vector<bool> keep_outputs(Program* program, const std::vector<size_t>& outputs) {
  std::vector<ValueId> kept;
  for (const size_t output : outputs) kept.push_back(program->outputs.at(output));
  program->outputs = kept;
  program->remove_dead_nodes();
  ByValue<int32_t> uses = program->uses();
  for (const Region& region : program->regions)  // a primitive may claim a call by its arguments
    for_each_value(region.arguments, [&](ValueId id) { ++uses[id]; });
  for (const Update& update : program->updates) ++uses[update.target];
  std::vector<bool> read;
  for (const ValueId id : program->bound) read.push_back(uses[id] > 0);
  return read;
}

TrainNetwork::TrainNetwork(const TrainOptions& options)
    : name_(printable(options.network)),
      target_(registered_name(options.network)),
      asked_batch_(options.batch) {
  if (target_) {
    const Shape shape = default_shape(*target_);
    const auto at_batch = [target = target_, shape](int64_t batch) {
      Shape s = shape;
      if (s.has("B")) s.set("B", batch);
      return target->network(s);
    };
    eval_source_ = [at_batch](const std::vector<TensorSpec>& inputs) {
      return at_batch(inputs.at(0).sizes.at(0));
    };
    any_batch_ = shape.has("B");
    const Network network = target_->network(shape);
    for (const size_t i : network.indices(true)) asked_.push_back(network.tensors[i]);
    knows_sizes_ = true;
    if (network.derivative)
      fail(
          "[{}] network: got one that already takes its own steps, expected a forward pass; try "
          "another name",
          name_);
    train_source_ = eval_source_;
    if (!options.as_exported) {
      const TrainingForm form;  // counts the network's calls that depend on the form
      recorded(network);
      switched_batch_norm_ = form.asked;
      train_source_ = [source = eval_source_](const std::vector<TensorSpec>& inputs) {
        return for_training(source(inputs));
      };
    }
    if (!options.dtype.empty()) dtype_ = training_dtype(options.dtype);
    return;
  }
  file_ = open_network(options.network, {options.trusted});
  flags_ = file_->forms();
  if (options.trusted)
    notes_.push_back("trusted: the file may call every operator that LibTorch has");
  dtype_ = options.dtype.empty() ? file_->dtype() : training_dtype(options.dtype);
  asked_ = file_->sample_inputs();
  knows_sizes_ = !asked_.empty();
  if (!knows_sizes_)
    for (const std::string& input : file_->input_names()) {
      TensorSpec spec;
      spec.name = input;
      asked_.push_back(spec);
    }
  if (asked_.empty())
    fail("[{}] inputs: got ({}), expected tensors alone; try a forward of plain tensors", name_,
         printable(file_->wanted(), 200));
  choose_forms(options);
}

void TrainNetwork::choose_forms(const TrainOptions& options) {
  std::shared_ptr<const NetworkFile> eval = file_;
  if (!options.eval_model.empty()) {
    eval_file_ = open_network(options.eval_model, {options.trusted});
    eval = eval_file_;
  } else if (!options.as_exported) {
    if (!flags_.bound.empty())
      fail(
          "[{}] forms: got {}, expected calls that can be switched between training and "
          "evaluation; try torch.export or torch.jit.script, or --eval-model FILE",
          name_, printable(flags_.bound));
    train_as_ = Form::train;
    eval_as_ = Form::evaluate;
    const Form other = flags_.exported_for_training ? Form::evaluate : Form::train;
    switched_dropout_ = flags_.switched(other, flags_.dropout);
    switched_batch_norm_ = flags_.switched(other, flags_.batch_norm);
  }
  const auto source = [](std::shared_ptr<const NetworkFile> file, Form form) -> NetworkSource {
    return
        [file, form](const std::vector<TensorSpec>& inputs) { return file->network(inputs, form); };
  };
  train_source_ = source(file_, train_as_);
  eval_source_ = source(eval, eval_as_);
}

std::vector<TensorSpec> TrainNetwork::inputs(int64_t batch) const {
  std::vector<TensorSpec> specs = asked_;
  for (TensorSpec& spec : specs)
    if (!spec.sizes.empty()) spec.sizes[0] = batch;
  return specs;
}

bool TrainNetwork::takes(int64_t batch) const {
  if (batch == batch_) return true;
  if (!any_batch_) return false;
  try {
    train_source_(inputs(batch));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::optional<BatchRange> TrainNetwork::eval_batches() const {
  if (target_) return any_batch_ ? std::optional(BatchRange{}) : std::nullopt;
  return range_around(batch_, [&](int64_t batch) {
    try {
      eval_form(batch);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
}

/// A size right above or below the exported one is tried too, to find out whether the dimension is
/// dynamic.
void TrainNetwork::refuse_batch(int64_t wanted, int64_t nearest, int64_t exported) const {
  if (nearest == exported && !takes(exported + 1) && (exported == 1 || !takes(exported - 1)))
    fail(
        "[{}] --batch: got {}, expected {} as exported; try to export it with a dynamic batch "
        "dimension",
        name_, wanted, exported);
  const std::string expected =
      nearest < wanted ? fmt::format("at most {}", nearest) : fmt::format("{} or more", nearest);
  fail("[{}] --batch: got {}, expected {}, as its dynamic batch dimension was exported; try {}",
       name_, wanted, expected, nearest);
}

void TrainNetwork::settle(const DataParts& data, int64_t rows, bool drop_last) {
  const int64_t exported = knows_sizes_ ? asked_[0].sizes.at(0) : 0;
  if (!knows_sizes_)
    for (size_t i = 0; i < asked_.size(); ++i) {
      TensorSpec& spec = asked_[i];
      spec.sizes = {1};
      for (const int64_t size : data.inputs[i].row_sizes()) spec.sizes.push_back(size);
      const at::ScalarType dtype = data.inputs[i].values.scalar_type();
      const bool real = c10::isFloatingType(dtype) || dtype == at::kByte;
      spec.dtype = real ? at::kFloat : dtype;
    }
  batch_ = asked_batch_ > 0 ? asked_batch_ : std::min(kBatch, rows);
  if (file_ && knows_sizes_) {
    try {
      train_source_(inputs(batch_));
    } catch (const Error&) {
      if (batch_ == exported) throw;
      const int64_t wanted = std::exchange(batch_, exported);
      train_source_(inputs(batch_));
      // The exported size if its batch is fixed.
      const int64_t nearest =
          last_taken(exported, wanted, [&](int64_t batch) { return takes(batch); });
      if (asked_batch_ > 0) refuse_batch(wanted, nearest, exported);
      any_batch_ = false;
      batch_ = nearest;
      if (nearest != exported)
        notes_.push_back(
            fmt::format("batches of {}, not {}: {} are not in the range of the exported batch "
                        "dimension",
                        nearest, wanted, nearest < wanted ? "more" : "fewer"));
    }
  }
  if (target_ && !any_batch_) batch_ = 1;
  if (batch_ > rows && any_batch_ && !drop_last && takes(rows)) {
    notes_.push_back(
        fmt::format("batches of {}, not {}: there are no more rows to learn from", rows, batch_));
    batch_ = rows;  // an epoch is one smaller batch, as PyTorch's DataLoader makes it
  }
  if (batch_ > rows)
    fail("[{}] --batch: got {}, expected at most the {} rows to learn from; try {}", name_, batch_,
         rows, any_batch_ ? "a smaller one" : "more data");
  train_ = train_source_(inputs(batch_));
  eval_ = eval_source_(inputs(batch_));
  notes_.insert(notes_.end(), train_.notes.begin(), train_.notes.end());
  read_evaluation_form();
}

/// Counts what the evaluation form returns. Refuses a train-mode export that would still change
/// buffers in evaluations, as the power iteration of spectral_norm does: only dropout and batch
/// norm can be switched.
void TrainNetwork::read_evaluation_form() {
  const Program program = recorded(eval_);
  for (const ValueId output : program.outputs) {
    const std::vector<int64_t>& sizes = program.value(output).sizes;
    if (!sizes.empty() && sizes[0] == batch_)
      row_outputs_ += c10::multiply_integers(sizes) / batch_;
  }
  if (!file_ || eval_file_ || eval_as_ != Form::evaluate) return;
  for (const Update& update : program.updates) {
    const Value& buffer = program.value(update.target);
    if (buffer.role == Role::buffer && c10::isFloatingType(buffer.dtype))  // not a counter
      fail(
          "[{}] evaluation: got a form that writes buffer {}, as a train-mode export's, expected "
          "one that writes none; try --eval-model FILE, an export of model.eval(), or "
          "--as-exported",
          name_, printable(buffer.name));
  }
}

Tensors TrainNetwork::on_zeros(const Network& form) const {
  Tensors bound(form.tensors.size());
  if (form.initial.empty()) bound = generate(form, 1, dtype_, c10::kCPU, 0).model(0);
  const auto dtype_of = [&](size_t i) { return form.tensors[i].dtype_in(dtype_); };
  for (const size_t i : form.indices(true))
    bound[i] = at::zeros(form.tensors[i].sizes, dtype_of(i));
  const auto weights = form.indices(false);
  for (size_t k = 0; k < form.initial.size(); ++k)
    bound[weights[k]] = form.initial[k].to(dtype_of(weights[k]), false, /*copy=*/true);
  return bound;
}

int64_t TrainNetwork::evaluation_batch(const std::vector<DataPart>& inputs, int64_t rows) const {
  // Metrics take all models' outputs at once, in double precision.
  constexpr int64_t kRows = 1024, kInputs = 1 << 22, kOutputs = 1 << 18;
  if (!any_batch_) return batch_;
  int64_t numbers = 0;  // of a row
  for (const DataPart& part : inputs) numbers += c10::multiply_integers(part.row_sizes());
  const int64_t most = std::min(kInputs / std::max<int64_t>(1, numbers),
                                kOutputs / std::max<int64_t>(1, row_outputs_));
  const int64_t size = std::max<int64_t>(1, std::min({rows, kRows, std::max(batch_, most)}));
  return takes(size) ? size : batch_;
}

bool TrainNetwork::rows_affect_each_other(const Network& form, const Tensors& rows,
                                          const std::set<size_t>& outputs) const {
  const at::NoGradGuard no_grad;
  const auto inputs = form.indices(true);
  const int64_t batch = rows.at(0).size(0);
  Tensors bound = on_zeros(form);
  seed_random(0, c10::kCPU);
  for (size_t i = 0; i < bound.size(); ++i)  // a weight of 0 could hide that rows affect each other
    if (form.tensors[i].role == Role::parameter && bound[i].is_floating_point())
      bound[i].add_(at::randn_like(bound[i]), 0.1);
  const auto answers = [&](bool alone) {
    Tensors own = bound;
    for (size_t k = 0; k < inputs.size(); ++k)
      own[inputs[k]] =
          alone ? rows[k].narrow(0, 0, 1).expand_as(rows[k]).contiguous() : rows[k].contiguous();
    seed_random(0, c10::kCPU);
    return form.forward(own);
  };
  Tensors with_others, alone;
  try {
    with_others = answers(false);
    alone = answers(true);
  } catch (const std::exception&) {
    return false;  // not every network runs on such weights
  }
  for (size_t k = 0; k < alone.size(); ++k) {
    if (!outputs.empty() && !outputs.count(k)) continue;
    if (alone[k].dim() == 0 || alone[k].size(0) != batch) continue;  // not of rows
    const Tensor a = alone[k][0].to(at::kDouble), b = with_others[k][0].to(at::kDouble);
    if (!at::allclose(a, b, 1e-3, 1e-5, /*equal_nan=*/true)) return true;
  }
  return false;
}

Program TrainNetwork::recorded(const Network& form) const {
  const at::NoGradGuard no_grad;
  std::vector<Binding> bindings;
  const Tensors bound = on_zeros(form);
  for (size_t i = 0; i < bound.size(); ++i)
    bindings.push_back({form.tensors[i].name, form.tensors[i].role, bound[i]});
  return record(bindings, form.forward);
}

std::vector<std::set<std::string>> TrainNetwork::read_inputs() const {
  const Network form = eval_source_(asked_);
  const Program all = recorded(form);
  std::vector<std::set<std::string>> inputs(all.outputs.size());
  for (size_t output = 0; output < inputs.size(); ++output) {
    Program program = all;
    const std::vector<bool> read = keep_outputs(&program, {output});
    for (const size_t i : form.indices(true))
      if (read[i]) inputs[output].insert(form.tensors[i].name);
  }
  return inputs;
}

std::vector<TensorSpec> TrainNetwork::tensors() const {
  std::vector<TensorSpec> specs;
  for (const size_t i : train_.indices(false)) specs.push_back(train_.tensors[i]);
  return specs;
}

Forms TrainNetwork::forms() const { return {train_source_, eval_source_, tensors()}; }

std::vector<InputForm> TrainNetwork::input_forms() const {
  std::vector<InputForm> forms;
  for (const TensorSpec& spec : asked_)
    forms.push_back({spec.name, spec.follows_run() ? std::nullopt : std::optional(spec.dtype)});
  return forms;
}

Tensors TrainNetwork::own_inputs(const Batch& batch, int64_t model) const {
  Tensors inputs;
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const PrepareRows& prepare = batch.inputs[i].prepare;
    const Tensor rows = batch_rows(batch.inputs[i], model);
    inputs.push_back((prepare ? prepare(model, rows) : rows).to(asked_[i].dtype_in(dtype_)));
  }
  return inputs;
}

std::vector<std::string> TrainNetwork::output_names() const {
  return file_ ? file_->output_names() : std::vector<std::string>();
}

std::vector<std::string> TrainNetwork::held_output_names() const {
  return eval_file_ ? eval_file_->output_names() : output_names();
}

bool TrainNetwork::has_dropout() const {
  const FormCalls& calls = flags_.dropout;
  if (target_ || flags_.exported_for_training) return target_ || calls.on > 0;
  return calls.all > 0 && (eval_file_ || train_as_ == Form::train);
}

std::string TrainNetwork::switched_text() const {
  std::vector<std::string> parts;
  if (switched_dropout_) parts.push_back(counted(switched_dropout_, "dropout"));
  if (switched_batch_norm_) parts.push_back(counted(switched_batch_norm_, "batch norm"));
  if (parts.empty()) return "";
  return fmt::format("{} switched {}", fmt::join(parts, " and "),
                     flags_.exported_for_training ? "off for evaluation" : "on for training");
}

}  // namespace wide
