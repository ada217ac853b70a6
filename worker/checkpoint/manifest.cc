#include <algorithm>
#include <nlohmann/json.hpp>

#include "configs/base/error.h"
#include "worker/checkpoint/format.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "coatrack-checkpoint/1";
constexpr char kOpening[] = "{\"manifest\":";
constexpr char kMiddle[] = ",\"sha256\":\"";
constexpr char kClosing[] = "\"}\n";
constexpr size_t kHashChars = 64;

[[noreturn]] void Corrupt(const std::string& where, const std::string& what) {
  throw Error(Code::kDataLoss, where + ": " + what);
}

json PartToJson(const FilePart& part) {
  return {{"file", part.file},   {"entry", part.entry},   {"first", part.first},
          {"count", part.count}, {"offset", part.offset}, {"sha256", part.sha256}};
}

json ToJson(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  json object = {{"format", kFormat},
                 {"step", info.step},
                 {"attempt", info.attempt},
                 {"time_ms", info.time_ms},
                 {"finite", info.finite},
                 {"spec_hash", info.spec_hash},
                 {"weights_hash", info.weights_hash},
                 {"state", info.state},
                 {"files", json::array()},
                 {"tensors", json::object()}};
  for (const FileRecord& file : manifest.files) {
    object["files"].push_back({{"name", file.name},
                               {"bytes", file.bytes},
                               {"header_bytes", file.header_bytes},
                               {"header_sha256", file.header_sha256}});
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    json parts = json::array();
    for (const FilePart& part : tensor.parts) parts.push_back(PartToJson(part));
    object["tensors"][name] = {
        {"dtype", DTypeName(tensor.dtype)}, {"shape", tensor.shape}, {"parts", std::move(parts)}};
  }
  return object;
}

// Reads fields of exactly the expected kind; anything else is corrupt.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Corrupt(where_, "is not an object");
  }

  const json& At(const char* name) const {
    auto found = object_.find(name);
    if (found == object_.end()) Corrupt(where_, std::string("no `") + name + "`");
    return *found;
  }
  std::string Text(const char* name) const {
    if (!At(name).is_string()) Corrupt(where_, std::string("`") + name + "` is not a text");
    return At(name).get<std::string>();
  }
  int64_t Size(const char* name, int64_t largest = INT64_MAX) const {
    return AsSize(At(name), name, largest);
  }
  bool Bool(const char* name) const {
    if (!At(name).is_boolean()) Corrupt(where_, std::string("`") + name + "` is not a boolean");
    return At(name).get<bool>();
  }
  const json& List(const char* name) const {
    if (!At(name).is_array()) Corrupt(where_, std::string("`") + name + "` is not a list");
    return At(name);
  }
  const json& Map(const char* name) const {
    if (!At(name).is_object()) Corrupt(where_, std::string("`") + name + "` is not an object");
    return At(name);
  }
  int64_t AsSize(const json& value, const char* name, int64_t largest = INT64_MAX) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(largest)) {
      Corrupt(where_, std::string("`") + name + "` is not a whole number in range");
    }
    return value.get<int64_t>();
  }

 private:
  const json& object_;
  std::string where_;
};

TensorRecord TensorFromJson(const json& object, const std::vector<FileRecord>& files,
                            const std::string& where) {
  Fields fields(object, where);
  TensorRecord tensor;
  if (!ParseDType(fields.Text("dtype"), &tensor.dtype)) Corrupt(where, "unknown element type");
  for (const json& dimension : fields.List("shape")) {
    tensor.shape.push_back(fields.AsSize(dimension, "shape"));
  }
  int64_t elements = ShapeElements(tensor.shape, where);
  for (const json& value : fields.List("parts")) {
    Fields part_fields(value, where);
    FilePart part;
    int64_t index = part_fields.Size("file", INT32_MAX);
    if (index >= static_cast<int64_t>(files.size())) Corrupt(where, "a part names no file");
    part.file = static_cast<int>(index);
    part.entry = part_fields.Text("entry");
    part.first = part_fields.Size("first", elements);
    part.count = part_fields.Size("count", elements - part.first);
    const FileRecord& file = files[static_cast<size_t>(part.file)];
    part.offset = part_fields.Size("offset", file.bytes);
    part.sha256 = part_fields.Text("sha256");
    if (part.offset < file.header_bytes ||
        part.count > (file.bytes - part.offset) / ElementBytes(tensor.dtype)) {
      Corrupt(where, "a part lies outside " + file.name);
    }
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
}

Manifest FromJson(const json& object, const std::string& where) {
  Fields fields(object, where);
  if (fields.Text("format") != kFormat) {
    Corrupt(where, "format `" + fields.Text("format") + "` is not " + kFormat);
  }
  Manifest manifest;
  CheckpointInfo& info = manifest.info;
  info.step = fields.Size("step");
  info.attempt = static_cast<int32_t>(fields.Size("attempt", INT32_MAX));
  info.time_ms = fields.Size("time_ms");
  info.finite = fields.Bool("finite");
  info.spec_hash = fields.Text("spec_hash");
  info.weights_hash = fields.Text("weights_hash");
  for (const auto& [key, value] : fields.Map("state").items()) {
    if (!value.is_string()) Corrupt(where, "state `" + key + "` is not a text");
    info.state[key] = value.get<std::string>();
  }
  for (const json& value : fields.List("files")) {
    Fields file_fields(value, where);
    FileRecord file;
    file.name = file_fields.Text("name");
    file.bytes = file_fields.Size("bytes");
    file.header_bytes = file_fields.Size("header_bytes", file.bytes);
    file.header_sha256 = file_fields.Text("header_sha256");
    if (file.name.empty() || file.name[0] == '.' || file.name.find('/') != std::string::npos) {
      Corrupt(where, "file name `" + file.name + "`");
    }
    if (__builtin_add_overflow(info.bytes, file.bytes, &info.bytes)) {
      Corrupt(where, "the sum of the files' bytes overflows");
    }
    manifest.files.push_back(std::move(file));
  }
  for (const auto& [name, value] : fields.Map("tensors").items()) {
    manifest.tensors[name] =
        TensorFromJson(value, manifest.files, where + ": tensor `" + name + "`");
  }
  return manifest;
}

}  // namespace

std::string WriteManifest(const Manifest& manifest) {
  std::string text;
  try {
    text = ToJson(manifest).dump();
  } catch (const json::type_error&) {
    throw Error(Code::kInvalidArgument, "a name or state value of the checkpoint is not UTF-8");
  }
  return kOpening + text + kMiddle + Sha256Hex(text) + kClosing;
}

Manifest ParseShardRecord(const std::string& record, const std::string& where) {
  std::string_view text = record;
  const std::string_view opening = kOpening, middle = kMiddle, closing = kClosing;
  size_t tail = middle.size() + kHashChars + closing.size();
  if (text.size() < opening.size() + tail || text.substr(0, opening.size()) != opening ||
      text.substr(text.size() - closing.size()) != closing ||
      text.substr(text.size() - tail, middle.size()) != middle) {
    Corrupt(where,
            "torn: its beginning or end is missing (" + std::to_string(text.size()) + " bytes)");
  }
  std::string_view body = text.substr(opening.size(), text.size() - opening.size() - tail);
  if (Sha256Hex(body) != text.substr(text.size() - closing.size() - kHashChars, kHashChars)) {
    Corrupt(where, "corrupt: the SHA-256 of its content is another");
  }
  try {
    return FromJson(json::parse(body.begin(), body.end()), where);
  } catch (const json::exception& error) {
    Corrupt(where, error.what());
  }
}

int64_t ShapeElements(const std::vector<int64_t>& shape, const std::string& where) {
  int64_t elements = 1;
  for (int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(elements, dimension, &elements)) {
      Corrupt(where, "the shape is negative or overflows");
    }
  }
  return elements;
}

void SortAndCheckCoverage(Manifest* manifest, Code code, const std::string& where) {
  for (auto& [name, tensor] : manifest->tensors) {
    std::string place = where + ": tensor `" + name + "`";
    std::sort(tensor.parts.begin(), tensor.parts.end(), [](const FilePart& a, const FilePart& b) {
      return a.first != b.first ? a.first < b.first : a.count < b.count;
    });
    int64_t elements = ShapeElements(tensor.shape, place);
    int64_t at = 0;
    for (const FilePart& part : tensor.parts) {
      if (part.first != at) {
        throw Error(code, place + ": " + (part.first > at ? "no" : "more than one") +
                              " part holds element " + std::to_string(std::min(part.first, at)));
      }
      at += part.count;
    }
    if (at != elements || tensor.parts.empty()) {
      throw Error(code, place + ": the parts hold " + std::to_string(at) + " of " +
                            std::to_string(elements) + " elements");
    }
  }
}

Manifest ParseManifest(const std::string& text, const std::string& where) {
  Manifest manifest = ParseShardRecord(text, where);
  SortAndCheckCoverage(&manifest, Code::kDataLoss, where);
  return manifest;
}

}  // namespace coat
