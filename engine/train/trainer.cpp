#include "engine/train/trainer.h"

#include "engine/error.h"

namespace wide {

struct Trainer::Impl {};

Trainer::Trainer(Forms, std::vector<InputForm>, std::map<std::string, StartTensor>,
                 TrainerOptions) {
  WIDE_ASSERT(false, "training has no implementation");
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;
StepResult Trainer::step(const Batch&) {
  WIDE_ASSERT(false, "");
  return {};
}
std::map<std::string, Tensor> Trainer::gradients(const Batch&, Tensor*) { return {}; }
Tensors Trainer::evaluate(const Batch&) { return {}; }
StepCheck Trainer::check(const Batch&, int64_t) { return {}; }
int64_t Trainer::n() const { return 0; }
int64_t Trainer::steps() const { return 0; }
const std::vector<int64_t>& Trainer::running() const {
  static const std::vector<int64_t> none;
  return none;
}
double Trainer::hyperparameter(const std::string&, int64_t) const { return 0; }
void Trainer::set_hyperparameter(const std::string&, int64_t, double) {}
void Trainer::stop(int64_t) {}
void Trainer::copy(int64_t, int64_t) {}
std::map<std::string, Tensor> Trainer::weights() const { return {}; }
std::map<std::string, Tensor> Trainer::weights(int64_t) const { return {}; }
TrainerState Trainer::state() const { return {}; }
void Trainer::load_state(const TrainerState&) {}
std::string Trainer::plan() const { return ""; }
TrainerMemory Trainer::memory() const { return {}; }
int64_t Trainer::recordings() const { return 0; }
std::vector<std::string> Trainer::trained() const { return {}; }

const std::vector<Hyperparameter>& trainer_hyperparameters() {
  static const std::vector<Hyperparameter> all{
      {"clip", 0, 0, 1e300, "largest norm of a model's gradient; 0: none"},
      {"label_smoothing", 0, 0, 1, "of cross_entropy: share spread over all classes"},
      {"dropout", -1, -1, 1, "every p that the network has; -1: as the network has it"},
      {"ema", 0, 0, 1, "decay of averaged weights; 0: none"}};
  return all;
}

}  // namespace wide
