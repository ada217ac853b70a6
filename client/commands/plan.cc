#include "worker/memory/plan.h"

#include <memory>
#include <ostream>

#include "client/commands/verbs.h"
#include "client/render/memory_view.h"
#include "client/render/table.h"
#include "configs/base/units.h"
#include "configs/spec/load.h"
#include "configs/spec/words.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using coatrack::v1::PlanResponse;

struct Options {
  SpecOptions spec;
  OutputFormat format = OutputFormat::kTable;
  std::string device;  // "cpu" or "gpu"; empty: the job's
  bool tensors = false;
};

DeviceType DeviceOf(const JobSpec& spec, const std::string& device) {
  const bool gpu =
      device.empty() ? spec.resources().device() == coatrack::v1::DEVICE_KIND_GPU : device == "gpu";
  return gpu ? DeviceType::kCuda : DeviceType::kCpu;
}

PlanResponse ToResponse(const MemoryPlan& plan, const MemoryPlan& bf16) {
  PlanResponse response;
  for (int i = 0; i < kMemoryKinds; ++i) {
    auto* kind = response.add_kinds();
    kind->set_kind(MemoryKindName(static_cast<MemoryKind>(i)));
    kind->set_bytes(plan.bytes_by_kind[static_cast<size_t>(i)]);
    kind->set_bf16_bytes(bf16.bytes_by_kind[static_cast<size_t>(i)]);
  }
  response.set_total_bytes(plan.total_bytes);
  response.set_bf16_total_bytes(bf16.total_bytes);
  response.set_parameters(plan.parameters);
  return response;
}

// Adds what the coordinator knows; returns whether it answered.
bool AddPlacement(Context& context, const JobSpec& written, PlanResponse* response) {
  const auto client = context.ConnectBriefly();
  if (!client.ok()) {
    context.Fail(client.status());
    return false;
  }
  coatrack::v1::PlanRequest request;
  *request.mutable_spec() = written;
  const auto answer = (*client)->Plan(request);
  if (!answer.ok()) {
    context.Say("No placement: " + answer.status().message());
    return false;
  }
  response->set_fits_now(answer->fits_now());
  response->set_pending_reason(answer->pending_reason());
  response->set_explanation(answer->explanation());
  *response->mutable_placement() = answer->placement();
  return true;
}

std::string MemoryText(const PlanResponse& plan, const JobSpec& spec) {
  KindMap bf16, own;
  for (const auto& kind : plan.kinds()) {
    bf16[kind.kind()] = kind.bf16_bytes();
    own[kind.kind()] = kind.bytes();
  }
  const std::string recipe = EnumWord(spec.precision().recipe());
  if (recipe == "bf16") return MemoryTable({{"BF16", own}}, {});
  std::string head = recipe == "fp8" ? "FP8" : "COAT";
  return MemoryTable({{"BF16", bf16}, {head, own}}, {.saved_of = 1, .saved_against = 0});
}

std::string PlacementText(const PlanResponse& plan) {
  if (!plan.fits_now()) return "Would wait: " + plan.explanation() + "\n";
  std::string text = "Would start now:";
  for (const auto& rank : plan.placement()) {
    text += " rank " + std::to_string(rank.rank()) + " on " + rank.worker() + " " + rank.device() +
            (&rank == &*plan.placement().rbegin() ? "" : ",");
  }
  return text + "\n";
}

std::string TensorText(const MemoryPlan& plan) {
  Table table({{"TENSOR", Align::kLeft}, {"KIND", Align::kLeft}, {"BYTES", Align::kRight}});
  for (const PlannedTensor& tensor : plan.tensors) {
    table.Add({tensor.name, MemoryKindName(tensor.kind), std::to_string(tensor.bytes)});
  }
  return table.ToString();
}

int Plan(Context& context, const Options& options) {
  const auto job = LoadJobFile(options.spec.file, options.spec.overrides);
  if (!job.ok()) return context.Fail(job.status());
  const JobSpec& spec = job->spec;
  const int ranks = spec.resources().ranks();
  const DeviceType device = DeviceOf(spec, options.device);
  const MemoryPlan plan = MakePlan(spec, 0, ranks, device);
  PlanResponse response = ToResponse(plan, MakePlan(Bf16Counterpart(spec), 0, ranks, device));
  const bool placed = context.names_server() && AddPlacement(context, job->written, &response);
  const Zeros zeros = placed ? Zeros::kPrint : Zeros::kOmit;
  switch (options.format) {
    case OutputFormat::kJson:
      context.out() << ToJson(response, JsonStyle::kIndented, zeros) << "\n";
      return kExitOk;
    case OutputFormat::kYaml: context.out() << ToYaml(response, zeros); return kExitOk;
    case OutputFormat::kName: context.out() << response.total_bytes() << "\n"; return kExitOk;
    default: break;
  }
  context.out() << spec.name() << ": " << FormatCount(plan.parameters) << " parameters, " << ranks
                << (ranks == 1 ? " rank" : " ranks") << "; memory of each on "
                << (device == DeviceType::kCuda ? "a GPU" : "the CPU") << ":\n"
                << MemoryText(response, spec)
                << "Saved for backward: " << FormatBytes(plan.activation_bytes_per_layer)
                << " a layer\n";
  if (options.tensors) context.out() << TensorText(plan);
  if (placed) context.out() << PlacementText(response);
  return kExitOk;
}

}  // namespace

void AddPlan(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand(
      "plan", "Show a job's memory and, where a coordinator is named, its placement");
  const auto options = std::make_shared<Options>();
  AddSpecOptions(verb, &options->spec);
  AddOutput(verb, &options->format);
  verb->add_option("--device", options->device, "Plan for this kind of device")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  verb->add_flag("--tensors", options->tensors, "List every tensor");
  verb->callback(
      [=] { *action = [options](Context& context) { return Plan(context, *options); }; });
}

}  // namespace coat
