#include "app/train/models/model_keys.h"

#include <cctype>
#include <map>
#include <set>

#include "engine/error.h"

namespace wide {
namespace {

/// "Batch-Size" and "batch_size" are "batchsize".
std::string plain(const std::string& key) {
  std::string made;
  for (const unsigned char c : key)
    if (std::isalnum(c) || c >= 0x80) made += static_cast<char>(std::tolower(c));
  return made;
}

// Names spelt as `plain` returns them.
const std::set<std::string> kOfTheProgram = {
    "batch",       "batchsize",   "batchsizes", "bs",          "optimizer",    "optimiser",
    "optim",       "steps",       "numsteps",   "maxsteps",    "loss",         "lossfn",
    "criterion",   "schedule",    "scheduler",  "lrschedule",  "warmup",       "warmupsteps",
    "freeze",      "frozen",      "nodecay",    "order",       "dtype",        "precision",
    "device",      "metric",      "metrics",    "monitor",     "patience",     "prune",
    "augment",     "normalize",   "hidden",     "hiddensize",  "hiddensizes",  "hiddendim",
    "hiddendims",  "hiddenunits", "nhidden",    "numhidden",   "units",        "neurons",
    "width",       "widths",      "depth",      "depths",      "layers",       "nlayers",
    "nlayer",      "numlayers",   "size",       "sizes",       "dim",          "dims",
    "dmodel",      "modeldim",    "embeddim",   "embdim",      "embeddingdim", "latentdim",
    "heads",       "nheads",      "nhead",      "numheads",    "channels",     "nchannels",
    "numchannels", "filters",     "kernel",     "kernelsize",  "stride",       "blocks",
    "nblocks",     "numblocks",   "activation", "architecture"};

const std::map<std::string, std::string> kUsual = {
    {"learningrate", "lr"},  {"lrate", "lr"},          {"wd", "weight_decay"},
    {"l2", "weight_decay"},  {"mom", "momentum"},      {"dropoutrate", "dropout"},
    {"dropoutp", "dropout"}, {"pdropout", "dropout"},  {"drop", "dropout"},
    {"gradclip", "clip"},    {"clipnorm", "clip"},     {"gradientclip", "clip"},
    {"maxgradnorm", "clip"}, {"clipgradnorm", "clip"}, {"smoothing", "label_smoothing"},
    {"randomseed", "seed"},  {"beta", "beta1"},        {"epoch", "epochs"},
    {"nepochs", "epochs"},   {"numepochs", "epochs"},  {"maxepochs", "epochs"}};

}  // namespace

bool of_the_program(const std::string& key) { return kOfTheProgram.count(plain(key)) > 0; }

std::string usual_key(const std::string& key) {
  const auto found = kUsual.find(plain(key));
  return found == kUsual.end() ? "" : found->second;
}

std::string near_miss(const std::string& key, const std::vector<std::string>& known) {
  for (const std::string& name : known)
    if (plain(key) == plain(name)) return name;
  // Very short names are near to everything: `id` is no misspelt `lr`.
  return key.size() < 5 ? "" : nearest(key, known);
}

bool of_every_table(const std::string& label) {
  static const std::set<std::string> kColumns = {"model", "config", "status", "at_step",
                                                 "best_step"};
  return kColumns.count(label) || label.starts_with("best.") || label.starts_with("test.");
}

}  // namespace wide
