#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/commands/verbs.h"

namespace coat {
namespace {

int Version(Context& context, OutputFormat format) {
  std::string server;
  if (const auto client = context.ConnectBriefly(); !client.ok()) {
    context.Say("coat: " + client.status().message());
  } else if (const auto info = (*client)->GetServerInfo({}); info.ok()) {
    server = info->version();
  } else if (context.names_server()) {
    context.Say("coat: " + info.status().message());
  }
  if (format == OutputFormat::kJson) {
    nlohmann::ordered_json json = {{"client", COAT_VERSION}};
    json["server"] = server.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(server);
    context.out() << json.dump(2) << "\n";
    return kExitOk;
  }
  context.out() << "coat " << COAT_VERSION << "\n";
  if (!server.empty()) context.out() << "coat-server " << server << "\n";
  return kExitOk;
}

}  // namespace

void AddVersion(CLI::App* app, Action* action) {
  CLI::App* verb =
      app->add_subcommand("version", "Print this program's and the coordinator's version");
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  AddOutput(verb, format.get());
  verb->callback(
      [=] { *action = [format](Context& context) { return Version(context, *format); }; });
}

}  // namespace coat
