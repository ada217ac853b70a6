#include <cctype>
#include <nlohmann/json.hpp>

#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using Json = nlohmann::ordered_json;
using Kind = RankMessage::Kind;

constexpr const char* kKindNames[] = {"hello", "put", "get", "value", "stop"};
constexpr const char* kStopNames[] = {"checkpoint", "now"};

std::string ToHex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool FromHex(const std::string& hex, std::string* bytes) {
  if (hex.size() % 2 != 0) return false;
  bytes->clear();
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexDigit(hex[i]);
    const int low = HexDigit(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    *bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

Status BadField(const char* field) {
  return Status(Code::kInvalidArgument,
                std::string("rank message: field '") + field + "' is missing or of a wrong form");
}

Status ReadString(const Json& json, const char* field, std::string* value) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_string()) return BadField(field);
  *value = it->get<std::string>();
  return Status();
}

Status ReadNumber(const Json& json, const char* field, int* value) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_number_integer()) return BadField(field);
  const auto number = it->get<int64_t>();
  if (number < 0 || number > INT32_MAX) return BadField(field);
  *value = static_cast<int>(number);
  return Status();
}

template <typename E, size_t n>
Status ReadName(const Json& json, const char* field, const char* const (&names)[n], E* value) {
  std::string text;
  RETURN_IF_ERROR(ReadString(json, field, &text));
  for (size_t i = 0; i < n; ++i) {
    if (text == names[i]) {
      *value = static_cast<E>(i);
      return Status();
    }
  }
  return BadField(field);
}

}  // namespace

std::string FormatRankMessage(const RankMessage& message) {
  Json json;
  json["kind"] = kKindNames[static_cast<int>(message.kind)];
  if (message.kind == Kind::kHello) {
    json["job_id"] = message.job_id;
    json["attempt"] = message.attempt;
    json["rank"] = message.rank;
  } else if (message.kind == Kind::kStop) {
    json["mode"] = kStopNames[static_cast<int>(message.stop)];
  } else {
    json["key"] = message.key;
    if (message.kind != Kind::kGet) json["value"] = ToHex(message.value);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<RankMessage> ParseRankMessage(std::string_view line) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_object()) {
    return Status(Code::kInvalidArgument, "rank message: the line is not a JSON object");
  }
  RankMessage message;
  RETURN_IF_ERROR(ReadName(json, "kind", kKindNames, &message.kind));
  if (message.kind == Kind::kHello) {
    RETURN_IF_ERROR(ReadString(json, "job_id", &message.job_id));
    RETURN_IF_ERROR(ReadNumber(json, "attempt", &message.attempt));
    RETURN_IF_ERROR(ReadNumber(json, "rank", &message.rank));
  } else if (message.kind == Kind::kStop) {
    RETURN_IF_ERROR(ReadName(json, "mode", kStopNames, &message.stop));
  } else {
    RETURN_IF_ERROR(ReadString(json, "key", &message.key));
    if (message.kind == Kind::kGet) return message;
    std::string hex;
    RETURN_IF_ERROR(ReadString(json, "value", &hex));
    if (!FromHex(hex, &message.value)) return BadField("value");
  }
  return message;
}

}  // namespace coat
