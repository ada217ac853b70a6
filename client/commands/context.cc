#include "client/commands/context.h"

#include <algorithm>
#include <filesystem>
#include <istream>
#include <ostream>

#include "configs/base/units.h"
#include "configs/spec/load.h"

namespace coat {

Result<std::string> Context::ServerAddress() const {
  if (!options_->server.empty()) return options_->server;
  if (!host_.server.empty()) return host_.server;
  std::error_code ignored;
  const bool exists = std::filesystem::exists(host_.config_path, ignored);
  ASSIGN_OR_RETURN(const auto config, LoadClientConfig(exists ? host_.config_path : ""));
  return config.server();
}

bool Context::names_server() const {
  std::error_code ignored;
  return !options_->server.empty() || !host_.server.empty() ||
         std::filesystem::exists(host_.config_path, ignored);
}

Result<JobClient*> Context::Connect() {
  if (client_ == nullptr) {
    JobClientOptions options;
    ASSIGN_OR_RETURN(options.address, ServerAddress());
    if (timeout().has_value()) options.call_timeout = std::min(options.call_timeout, *timeout());
    options.retry = host_.retry;
    client_ = std::make_unique<JobClient>(options);
  }
  return client_.get();
}

Result<std::unique_ptr<JobClient>> Context::ConnectBriefly() const {
  JobClientOptions options;
  ASSIGN_OR_RETURN(options.address, ServerAddress());
  options.call_timeout = std::chrono::seconds(2);
  options.retry.call_attempts = 1;
  return std::make_unique<JobClient>(options);
}

std::optional<std::chrono::milliseconds> Context::timeout() const {
  if (options_->timeout.empty()) return std::nullopt;
  const auto parsed = ParseDurationMs(options_->timeout);  // checked when the flag was read
  return std::chrono::milliseconds(parsed.ok() ? *parsed : 0);
}

std::optional<std::chrono::steady_clock::time_point> Context::Until() const {
  const auto limit = timeout();
  if (!limit.has_value()) return std::nullopt;
  return std::chrono::steady_clock::now() + *limit;
}

int Context::Fail(const Status& status) {
  Say("coat: " + status.message());
  return status.code() == Code::kDeadlineExceeded ? kExitTimeout : kExitError;
}

void Context::Say(const std::string& line) { err() << line << std::endl; }

bool Context::Confirm(const std::string& question, bool yes) {
  const bool can_ask = host_.in_kind == Terminal::Kind::kScreen && host_.err_terminal.is_screen();
  if (yes || !can_ask) return true;
  err() << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(*host_.in, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace coat
