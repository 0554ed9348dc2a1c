#include "app/train/inputs/feed.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "app/train/inputs/embedding_check.h"
#include "data/tensors.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

bool is_image(const DataPart& part) { return part.row_sizes().size() == 3; }

int64_t longest(const std::vector<Rows>& rows) {
  size_t most = 0;
  for (const Rows& r : rows) most = std::max(most, r.size());
  return static_cast<int64_t>(most);
}

}  // namespace

Feed::Feed(const TrainOptions& options, const TrainingData& data, const TrainNetwork& network,
           const Loss& loss, const std::vector<ModelSettings>& models, uint64_t first_order)
    : options_(options),
      data_(data),
      network_(network),
      loss_(loss),
      models_(models),
      first_order_(first_order) {
  if (options.order != "shuffled" && options.order != "sequential")
    fail("[--order] order: got {}, expected shuffled or sequential; try shuffled", options.order);
  same_order_ = options.same_order || options.order == "sequential" ||
                std::ranges::all_of(models, [&](const ModelSettings& m) {
                  return m.seed_order == models[0].seed_order;
                });
  augmentation_ = parse_augmentation(options.augment);
  const auto& inputs = data.train.inputs;
  if (augmentation_.any() && std::ranges::none_of(inputs, is_image))
    fail(
        "[--augment] inputs: got none of [C, H, W], expected images; try what other rows need in "
        "the network's train form");
  for (const DataPart& part : inputs)
    if (is_image(part))
      for (const auto& [name, size] :
           {std::pair("cutout", augmentation_.cutout), std::pair("crop", augmentation_.crop)}) {
        const Sizes image = part.row_sizes();
        const int64_t most = std::min(image[1], image[2]);
        if (size > most)
          fail("[--augment] {}: got {}, expected at most {}, as images of {} have; try {}:{}", name,
               size, most, printable(part.name), name, std::max<int64_t>(1, most / 4));
      }
  for (size_t i = 0; i < models.size(); ++i)
    group_.push_back(data.folds > 0 ? models[i].fold : static_cast<int64_t>(i));
  count_rows();
  if (mixed_ && !options.epoch_data.empty())
    fail(
        "[--epoch-data] rows: got models with different numbers of rows, whose epochs are of "
        "different lengths, expected one length; try as many rows for each");
}

const Rows& Feed::rows_to_learn(int64_t model) const {
  return data_.train_rows[data_.group_of(models_, model)];
}

/// Sets the length of epochs. With folds it is the size of the smallest training set, for all
/// models; models with rows of their own each have an epoch of their own length.
void Feed::count_rows() {
  int64_t least = INT64_MAX, most = 0;
  const auto look = [&](const Rows& rows) {
    least = std::min(least, static_cast<int64_t>(rows.size()));
    most = std::max(most, static_cast<int64_t>(rows.size()));
  };
  for (const Rows& rows : data_.train_rows) look(rows);
  rows_ = data_.by_model ? most : least;
  rows_of_.assign(models_.size(), rows_);
  for (size_t m = 0; m < models_.size() && data_.by_model; ++m)
    rows_of_[m] = static_cast<int64_t>(rows_to_learn(static_cast<int64_t>(m)).size());
  mixed_ = data_.by_model && least != most;
  const int64_t batch = network_.batch(), ragged = rows_ % batch;
  drop_ = options_.drop_last || (!mixed_ && ragged && !network_.takes(ragged));
  if (drop_ && !options_.drop_last) left_out_ = ragged;
  if (mixed_ && drop_ && least < batch)
    fail("[--drop-last] rows: got {} of a model, expected at least a batch of {}; try --batch {}",
         least, batch, least);
}

int64_t Feed::steps_of(int64_t rows) const {
  return rows / network_.batch() + (rows % network_.batch() && !drop_ ? 1 : 0);
}

Rows Feed::order_of(int64_t model, int64_t epoch) const {
  const Rows& own = rows_to_learn(model);
  const auto rows = static_cast<size_t>(rows_of(model));
  if (options_.order == "sequential")
    return {own.begin(), own.begin() + static_cast<ptrdiff_t>(rows)};
  const uint64_t seed =
      options_.same_order ? first_order_ : models_[static_cast<size_t>(model)].seed_order;
  Rows order = shuffled(static_cast<int64_t>(own.size()), seed, epoch);
  order.resize(rows);
  for (int64_t& row : order) row = own[static_cast<size_t>(row)];
  return order;
}

DataParts Feed::read_rows(int64_t epoch) const {
  const std::string path = fmt::format("{}/{}.safetensors", options_.epoch_data, epoch);
  const DataWanted wanted{network_.asked(), network_.knows_sizes(), &loss_, network_.dtype()};
  DataParts parts = read_parts(options_, path, wanted, RowsTo::hold, &data_.train.columns);
  const auto check = [&](const DataPart& own, const DataPart& first) {
    Sizes sizes = first.values.sizes().vec();
    if (first.own) sizes.at(0) = data_.all_models;
    if (own.values.sizes() == at::IntArrayRef(sizes)) return;
    fail("[{}] column {}: got {}, expected {} as the first epoch has; try the same rows in each",
         parts.file, own.columns, sizes_text(own.values.sizes()), sizes_text(sizes));
  };
  for (size_t i = 0; i < parts.inputs.size(); ++i) check(parts.inputs[i], data_.train.inputs[i]);
  if (parts.target) {
    check(*parts.target, *data_.train.target);
    const Tensor& of = parts.target->values;
    const bool known = data_.classes == 0 || of.lt(data_.classes)
                                                 .logical_and(of.ge(0))
                                                 .logical_or(of.eq(loss_.ignore_index))
                                                 .all()
                                                 .item<bool>();
    if (!known)
      fail(
          "[{}] target {}: got a class that is none of 0 to {}, expected those of the first epoch; "
          "try other labels",
          parts.file, parts.target->columns, data_.classes - 1);
  }
  check_embeddings(network_, network_.train_form(), parts, options_.weights.empty());
  take_models(&parts, data_.first_model, static_cast<int64_t>(models_.size()));
  return parts;
}

void Feed::begin_epoch(int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  of_epoch_.reset();  // first, so that only one epoch's rows are in memory
  if (!options_.epoch_data.empty()) of_epoch_ = read_rows(epoch);
  const auto n = static_cast<int64_t>(models_.size());
  if (same_rows()) {
    order_ = at::tensor(order_of(0, epoch), at::kLong);
    return;
  }
  order_ = at::empty({n, rows_}, at::kLong);
  for (int64_t i = 0; i < n; ++i) {
    const Rows order = order_of(i, epoch);
    std::copy(order.begin(), order.end(), order_.mutable_data_ptr<int64_t>() + i * rows_);
  }
}

const Rows& Feed::own_order(int64_t model, int64_t epoch) {
  own_orders_.resize(models_.size(), {-1, {}});
  auto& [known, order] = own_orders_[static_cast<size_t>(model)];
  if (known != epoch) order = order_of(model, epoch);
  known = epoch;
  return order;
}

Column Feed::column(const DataPart& part, const Tensor& rows, int64_t step) const {
  Column column;
  column.values = part.values;
  column.shared = !part.own;
  column.rows = rows;
  column.prepare = preparation(data_, part.name, group_);
  if (step < 0 || !augmentation_.any() || !is_image(part)) return column;
  column.prepare = [this, step, then = column.prepare](int64_t model, const Tensor& images) {
    augment(augmentation_, models_[static_cast<size_t>(model)].seed_dropout, step, images);
    return then ? then(model, images) : images;
  };
  return column;
}

Batch Feed::make_batch(const DataParts& parts, const Tensor& rows, int64_t step) const {
  Batch batch;
  for (const DataPart& part : parts.inputs) batch.inputs.push_back(column(part, rows, step));
  if (parts.target) batch.target = column(*parts.target, rows);
  if (parts.weight) batch.weight = column(*parts.weight, rows);
  return batch;
}

/// A batch for models with different numbers of rows. All get the same batch size; where a model
/// has too few rows left, its first row of the batch is repeated with weight 0.
Batch Feed::own_training(int64_t step) {
  const auto n = static_cast<int64_t>(models_.size());
  const int64_t batch = network_.batch();
  const Tensor rows = at::empty({n, batch}, at::kLong);
  const Tensor weight = at::zeros({n, batch}, at::kDouble);
  for (int64_t m = 0; m < n; ++m) {
    const int64_t steps = steps_per_epoch(m), begin = step % steps * batch;
    const Rows& order = own_order(m, step / steps);
    const int64_t count = std::min(batch, rows_of(m) - begin);
    auto* own = rows.mutable_data_ptr<int64_t>() + m * batch;
    std::fill(own, own + batch, order[static_cast<size_t>(begin)]);
    std::copy_n(order.begin() + begin, count, own);
    weight[m].narrow(0, 0, count).fill_(1);
  }
  Batch made = make_batch(data_.train, rows, step);
  if (!fills_up_training()) return made;
  if (const auto& part = data_.train.weight) {
    for (int64_t m = 0; m < n; ++m)
      weight[m].mul_((part->own ? part->values[m] : part->values).index_select(0, rows[m]));
  }
  made.weight = {.values = weight};
  return made;
}

Batch Feed::training(int64_t step) {
  if (mixed_) return own_training(step);
  begin_epoch(step / steps_per_epoch());
  const int64_t begin = step % steps_per_epoch() * network_.batch();
  const int64_t size = std::min(network_.batch(), rows_ - begin);
  Tensor rows = order_.narrow(-1, begin, size);
  // Each model draws its own augmentation, even of the same rows.
  if (augmentation_.any() && rows.dim() == 1)
    rows = rows.expand({static_cast<int64_t>(models_.size()), size});
  return make_batch(of_epoch_ ? *of_epoch_ : data_.train, rows.contiguous(), step);
}

std::vector<Feed::HeldPart> Feed::held_parts(const RowSet& set) const {
  const int64_t size = network_.evaluation_batch(set.parts->inputs, longest(*set.rows));
  std::vector<HeldPart> parts;
  if (fills_up_) {
    for (int64_t begin = 0; begin < longest(*set.rows); begin += size)
      parts.push_back({begin, size});
    return parts;
  }
  // Folds with equally many rows are taken together, in batches of nearly equal size.
  std::set<int64_t> counts;
  for (const Rows& rows : *set.rows) counts.insert(static_cast<int64_t>(rows.size()));
  for (const int64_t rows : counts) {
    const int64_t of = counts.size() > 1 ? rows : -1;
    for (const RowBatch& batch : even_batches(rows, size))
      parts.push_back({batch.begin, batch.size, of});
  }
  return parts;
}

void Feed::never_fill_up(const std::string& why, const std::vector<RowSet>& sets) {
  fills_up_ = false;
  for (const RowSet& set : sets)
    for (const HeldPart& part : held_parts(set))
      if (!network_.takes(part.size))
        fail(
            "{} where {} rows to evaluate do not fill batches that the network takes; try an "
            "export with a dynamic batch dimension",
            why, part.of < 0 ? longest(*set.rows) : part.of);
}

int64_t Feed::held_batches(const RowSet& set) const {
  return static_cast<int64_t>(held_parts(set).size());
}

HeldBatch Feed::held(const RowSet& set, int64_t index) const {
  const HeldPart part = held_parts(set).at(static_cast<size_t>(index));
  const int64_t size = part.size;
  HeldBatch held;
  held.first = part.begin;
  // If statistics differ between folds or models, a normalised row is not the same for all.
  const bool by_model =
      set.rows->size() > 1 || data_.folds > 0 || (data_.by_model && !data_.normalization.empty());
  const int64_t models = by_model ? static_cast<int64_t>(models_.size()) : 1;
  held.rows = at::zeros({models, size}, at::kLong);
  held.present = at::zeros({models, size}, at::kDouble);
  for (int64_t m = 0; m < models; ++m) {
    const Rows& own = (*set.rows)[set.rows->size() > 1 ? data_.group_of(models_, m) : 0];
    for (int64_t k = 0; k < size; ++k) {
      const auto at = static_cast<size_t>(held.first + k);
      const bool there =
          at < own.size() && (part.of < 0 || part.of == static_cast<int64_t>(own.size()));
      held.rows.mutable_data_ptr<int64_t>()[m * size + k] = there ? own[at] : own.at(0);
      held.present.mutable_data_ptr<double>()[m * size + k] = there ? 1 : 0;
    }
  }
  if (!by_model) {
    held.rows = held.rows[0];
    held.present = held.present[0];
  }
  held.batch = make_batch(*set.parts, held.rows);
  return held;
}

void Feed::add_targets(const RowSet& set, const HeldBatch& held, const std::vector<int64_t>& models,
                       AnsweredRows* answers) const {
  const Tensor index = at::tensor(models, at::kLong);
  const auto count = static_cast<int64_t>(models.size());
  const auto taken = [&](const DataPart& part) {
    if (!part.own && held.rows.dim() == 1)
      return expanded(count, part.values.index_select(0, held.rows));
    Tensors all;
    for (const int64_t m : models)
      all.push_back((part.own ? part.values[m] : part.values)
                        .index_select(0, held.rows.dim() == 1 ? held.rows : held.rows[m]));
    return at::stack(all);
  };
  answers->weight =
      held.present.dim() == 1 ? expanded(count, held.present) : held.present.index_select(0, index);
  if (set.parts->weight) answers->weight = answers->weight * taken(*set.parts->weight);
  if (set.parts->target) answers->target = taken(*set.parts->target);
}

}  // namespace wide
