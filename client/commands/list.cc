#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include "client/commands/verbs.h"
#include "client/render/job_view.h"
#include "configs/spec/words.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

constexpr int kLargestPage = 1000;

struct Options {
  OutputFormat format = OutputFormat::kTable;
  int limit = 100;
  bool all = false;
  std::vector<std::string> states;
  std::vector<std::string> labels;
};

Result<ListRequest> MakeRequest(const Options& options) {
  ListRequest request;
  request.set_active_only(!options.all && options.states.empty());
  for (const std::string& word : options.states) {
    const auto* state = FindEnumWord(*JobState_descriptor(), word);
    if (state == nullptr) {
      return Status(Code::kInvalidArgument,
                    "--state: '" + word + "' is not known; " +
                        SuggestWord(word, EnumWords(*JobState_descriptor())));
    }
    request.add_states(static_cast<JobState>(state->number()));
  }
  for (const std::string& label : options.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status(Code::kInvalidArgument,
                    "--label: '" + label + "' is not key=value; write it like team=vision");
    }
    (*request.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return request;
}

// Up to `limit` jobs over as many pages as it takes; next_page_token stays set when more exist.
Result<ListResponse> ListAll(JobClient* client, ListRequest request, int limit) {
  ListResponse all;
  do {
    request.set_page_size(std::min(limit - all.jobs_size(), kLargestPage));
    ASSIGN_OR_RETURN(const ListResponse page, client->List(request));
    all.mutable_jobs()->MergeFrom(page.jobs());
    all.set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!all.next_page_token().empty() && all.jobs_size() < limit);
  return all;
}

int List(Context& context, const Options& options) {
  const auto client = context.Connect();
  if (!client.ok()) return context.Fail(client.status());
  const auto request = MakeRequest(options);
  if (!request.ok()) {
    context.Fail(request.status());
    return kExitUsage;
  }
  const auto all = ListAll(*client, *request, options.limit);
  if (!all.ok()) return context.Fail(all.status());
  switch (options.format) {
    case OutputFormat::kName:
      for (const Job& job : all->jobs()) context.out() << job.id() << "\n";
      break;
    case OutputFormat::kJson:
      context.out() << ToJson(*all, JsonStyle::kIndented, Zeros::kPrint) << "\n";
      break;
    case OutputFormat::kYaml: context.out() << ToYaml(*all, Zeros::kPrint); break;
    default:
      context.out() << JobTable({all->jobs().begin(), all->jobs().end()}, options.format,
                                context.now_s());
  }
  if (all->jobs_size() == 0) {
    context.Say(options.all ? "No jobs." : "No active jobs; 'coat list -a' shows ended ones, too.");
  }
  if (!all->next_page_token().empty()) {
    context.Say("Only the newest " + std::to_string(all->jobs_size()) + "; more with -n.");
  }
  return kExitOk;
}

}  // namespace

void AddList(CLI::App* app, Action* action) {
  CLI::App* verb = app->add_subcommand("list", "List jobs, newest first");
  verb->alias("ls")->alias("ps");
  const auto options = std::make_shared<Options>();
  AddOutput(verb, &options->format);
  verb->add_flag("-a,--all", options->all, "Ended jobs, too");
  verb->add_option("-n,--limit", options->limit, "At most this many (100)")
      ->check(CLI::Range(1, 1'000'000));
  verb->add_option("--state", options->states, "Only jobs in this state, such as running")
      ->allow_extra_args(false);
  verb->add_option("--label", options->labels, "Only jobs with this label")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->callback(
      [=] { *action = [options](Context& context) { return List(context, *options); }; });
}

}  // namespace coat
