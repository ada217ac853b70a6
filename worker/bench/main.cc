// coat-bench: measures kernels' sums, steps and memory; JSON lines on stdout, tables on stderr.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "configs/base/error.h"
#include "worker/bench/element_ops.h"
#include "worker/bench/gemm.h"
#include "worker/bench/layer.h"
#include "worker/bench/memory.h"
#include "worker/bench/quant.h"
#include "worker/bench/step.h"
#include "worker/bench/update.h"

namespace coat {
namespace {

// Flags of all subcommands, and what each of them does when it is chosen.
struct Flags {
  BenchDevice device;
  QuantOptions quant;
  StepOptions step;  // also those of layer and memory
  GemmOptions products;
  ElementOptions element;
  UpdateOptions update;
  double require_ratio = 0;
};

void AddDevice(CLI::App* app, Flags* flags) {
  app->add_option("--device", flags->device.name, "cpu, or cuda:<index or uuid>")
      ->capture_default_str();
  app->add_option("--threads", flags->device.threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void AddShape(CLI::App* app, BenchShape* shape) {
  app->add_option("--batch", shape->micro_batch, "sequences a microbatch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--sequence", shape->sequence_length, "tokens a sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--accumulate", shape->accumulation, "microbatches a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

CLI::App* AddQuant(CLI::App* app, Flags* flags) {
  CLI::App* quant = app->add_subcommand(
      "quant", "error of the update with moments in FP8, on moments recorded from a training run");
  AddDevice(quant, flags);
  AddShape(quant, &flags->quant.shape);
  quant->add_option("--model", flags->quant.shape.preset, "preset")->capture_default_str();
  quant->add_option("--steps", flags->quant.steps, "training steps")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
  quant->add_option("--data-root", flags->quant.data_root, "folder of the text")
      ->capture_default_str();
  quant->add_option("--text", flags->quant.text, "patterns below the data root")
      ->capture_default_str();
  quant->add_option("--require-ratio", flags->require_ratio,
                    "exit 1 unless expansion divides the error of plain E4M3 by this");
  return quant;
}

CLI::App* AddStepLike(CLI::App* app, const std::string& name, const std::string& description,
                      Flags* flags) {
  CLI::App* step = app->add_subcommand(name, description);
  AddDevice(step, flags);
  AddShape(step, &flags->step.shape);
  step->add_option("--model", flags->step.models, "presets")->delimiter(',')->capture_default_str();
  step->add_option("--recipe", flags->step.recipes, "bf16, fp8, coat; or all")
      ->delimiter(',')
      ->capture_default_str();
  step->add_option("--set", flags->step.settings, "fields of the job, as precision.save=standard");
  step->add_option("--steps", flags->step.steps, "measured steps")
      ->check(name == "memory" ? CLI::NonNegativeNumber : CLI::PositiveNumber)
      ->capture_default_str();
  step->add_option("--warmup", flags->step.warmup, "steps before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  return step;
}

template <typename Options>
CLI::App* AddOperators(CLI::App* app, const std::string& name, const std::string& description,
                       Options* options, Flags* flags) {
  CLI::App* command = app->add_subcommand(name, description);
  AddDevice(command, flags);
  AddShape(command, &options->shape);
  command->add_option("--model", options->models, "presets")->delimiter(',')->capture_default_str();
  command->add_option("--repeats", options->timing.repeats, "batches of calls; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--batch-seconds", options->timing.batch_seconds, "of calls, at least")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return command;
}

CLI::App* AddUpdate(CLI::App* app, Flags* flags) {
  CLI::App* update = app->add_subcommand("optimizer", "time and state of the AdamW update");
  AddDevice(update, flags);
  update->add_option("--parameters", flags->update.parameters, "elements")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  update->add_option("--state", flags->update.states, "fp8_dre, fp8, bf16, fp32")
      ->delimiter(',')
      ->capture_default_str();
  update->add_option("--master", flags->update.master, "fp32 or bf16_sr")->capture_default_str();
  update->add_option("--gradients", flags->update.gradients, "fp32 or bf16")->capture_default_str();
  update->add_option("--formats", flags->update.formats, "e4m3_e4m3 or e4m3_e5m2")
      ->capture_default_str();
  update->add_option("--steps", flags->update.steps, "measured steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  update->add_option("--warmup", flags->update.warmup, "steps before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  return update;
}

Report MakeReport(const std::string& bench, const Flags& flags) {
  return Report(bench, flags.device.name, flags.device.threads, &std::cout, &std::cerr);
}

int RunQuantCommand(Flags* flags) {
  flags->quant.device = flags->device;
  Report report = MakeReport("quant", *flags);
  const double ratio = RunQuant(flags->quant, &report);
  if (ratio >= flags->require_ratio) return 0;
  std::cerr << "coat-bench: expansion divides the error by " << ratio << ", less than the "
            << flags->require_ratio << " required\n";
  return 1;
}

int RunStepLike(const std::string& name, Flags* flags) {
  flags->step.device = flags->device;
  if (flags->step.recipes == std::vector<std::string>{"all"}) {
    flags->step.recipes = StepOptions().recipes;
  }
  Report report = MakeReport(name, *flags);
  if (name == "memory") {
    if (RunMemory(flags->step, &report)) return 0;
    std::cerr << "coat-bench: the arena holds other bytes than the plan says\n";
    return 1;
  }
  if (name == "layer") {
    RunLayer(flags->step, &report);
  } else {
    RunStep(flags->step, &report);
  }
  return 0;
}

int RunGemmCommand(Flags* flags) {
  flags->products.device = flags->device;
  Report report = MakeReport("gemm", *flags);
  RunGemm(flags->products, &report);
  return 0;
}

int RunOpsCommand(Flags* flags) {
  flags->element.device = flags->device;
  Report report = MakeReport("ops", *flags);
  RunElementOps(flags->element, &report);
  return 0;
}

int RunUpdateCommand(Flags* flags) {
  flags->update.device = flags->device;
  Report report = MakeReport("optimizer", *flags);
  RunUpdate(flags->update, &report);
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures Coatrack: a JSON line per row on stdout, a table on stderr.");
  app.set_version_flag("--version", BuildCommit());
  app.require_subcommand(1);
  Flags flags;
  const CLI::App* quant = AddQuant(&app, &flags);
  const CLI::App* gemm =
      AddOperators(&app, "gemm", "the matrix products of a model", &flags.products, &flags);
  const CLI::App* ops = AddOperators(&app, "ops", "every element-wise operator against a copy",
                                     &flags.element, &flags);
  const std::vector<CLI::App*> steps = {
      AddStepLike(&app, "step", "time and memory of training steps", &flags),
      AddStepLike(&app, "layer", "where the time of a step goes, by operator", &flags),
      AddStepLike(&app, "memory", "planned against reserved bytes; --steps 0: the plan alone",
                  &flags)};
  AddUpdate(&app, &flags);
  CLI11_PARSE(app, argc, argv);
  try {
    if (quant->parsed()) return RunQuantCommand(&flags);
    for (const CLI::App* step : steps) {
      if (step->parsed()) return RunStepLike(step->get_name(), &flags);
    }
    if (gemm->parsed()) return RunGemmCommand(&flags);
    if (ops->parsed()) return RunOpsCommand(&flags);
    return RunUpdateCommand(&flags);
  } catch (const Error& error) {
    std::cerr << "coat-bench: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace coat

int main(int argc, char** argv) { return coat::Main(argc, argv); }
