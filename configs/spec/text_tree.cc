#include "configs/spec/text_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "configs/base/units.h"
#include "configs/spec/reader.h"

namespace coat {
namespace {

constexpr int kMaxNodes = 100'000;

struct Fault {
  int line;
  const char* description;
  const char* suggestion;
};

int LineOf(const YAML::Mark& mark) { return mark.line < 0 ? 1 : mark.line + 1; }

// Builds the tree from the parser's events, so that anchors, tags and repeated keys are seen.
class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      throw Fault{LineOf(mark), "a second document begins here",
                  "keep one document in a file; remove '---' and what follows"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Plain(mark, "", anchor);
    Add(TextNode{.kind = TextNode::Kind::kNull, .line = LineOf(mark), .text = "", .items = {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Fault{LineOf(mark), "an alias (*name) is used",
                "write the value out, or in quotes if a text was meant"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Plain(mark, tag, anchor);
    Add(TextNode{.kind = TextNode::Kind::kScalar,
                 .line = LineOf(mark),
                 .quoted = tag == "!",
                 .text = value,
                 .items = {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, TextNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, TextNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  TextNode Take() { return std::move(root_); }

 private:
  static void Plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Fault{LineOf(mark), "an anchor (&name) is used", "write the value out where needed"};
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Fault{LineOf(mark), "a tag (!name) is used", "remove the tag"};
    }
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            TextNode::Kind kind) {
    Plain(mark, tag, anchor);
    if (open_.size() >= kMaxSpecDepth) {
      throw Fault{LineOf(mark), "nested deeper than 16 levels", "no setting needs that"};
    }
    open_.push_back(TextNode{.kind = kind, .line = LineOf(mark), .text = "", .items = {}});
  }

  void Close() {
    TextNode node = std::move(open_.back());
    open_.pop_back();
    Add(std::move(node));
  }

  void Add(TextNode node) {
    if (++nodes_ > kMaxNodes) {
      throw Fault{node.line, "more than 100,000 values", "shorten the lists"};
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    TextNode& parent = open_.back();
    const bool is_value = parent.kind == TextNode::Kind::kMap && parent.items.size() % 2 == 1;
    // The parser notices a missing value only at the next line.
    if (is_value && node.kind == TextNode::Kind::kNull) node.line = parent.items.back().line;
    parent.items.push_back(std::move(node));
  }

  TextNode root_;
  std::vector<TextNode> open_;
  int documents_ = 0;
  int nodes_ = 0;
};

// Bytes of the UTF-8 sequence at text[i]; 0 when it is none, or one that YAML does not allow.
size_t SequenceLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char first = byte(i);
  if (first < 0x80) {
    const bool allowed =
        first >= 0x20 ? first != 0x7F : (first == '\n' || first == '\r' || first == '\t');
    return allowed ? 1 : 0;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(i + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// Line of the first byte that is not allowed text; 0 when all is well.
int FirstBadLine(std::string_view text) {
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    if (length == 0) return line;
    if (text[i] == '\n') ++line;
    i += length;
  }
  return 0;
}

TextTree Failed(const std::string& file_name, int line, std::string description,
                std::string suggestion) {
  TextTree tree;
  tree.faults.push_back({.field = "",
                         .description = std::move(description),
                         .suggestion = std::move(suggestion),
                         .place = PlaceOf(file_name, line)});
  return tree;
}

}  // namespace

std::string PlaceOf(const std::string& file_name, int line) {
  return file_name.empty() ? "" : file_name + ":" + std::to_string(line);
}

TextTree ParseText(std::string_view text, const std::string& file_name) {
  if (text.size() > static_cast<size_t>(kMaxSpecBytes)) {
    return Failed(file_name, 1, "is " + FormatBytes(static_cast<int64_t>(text.size())) + " long",
                  "at most 1 MiB is read");
  }
  if (const int line = FirstBadLine(text); line != 0) {
    return Failed(file_name, line, "holds bytes that are not UTF-8 text", "save it as UTF-8");
  }
  std::istringstream stream{std::string(text)};
  TreeBuilder builder;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Fault& fault) {
    return Failed(file_name, fault.line, fault.description, fault.suggestion);
  } catch (const YAML::Exception& error) {
    return Failed(file_name, LineOf(error.mark), "is not valid YAML: " + error.msg,
                  "check indentation, quotes and brackets near this line");
  } catch (const std::exception& error) {
    return Failed(file_name, 1, std::string("is not valid YAML: ") + error.what(),
                  "check indentation, quotes and brackets");
  }
  TextTree tree;
  tree.root = builder.Take();
  return tree;
}

}  // namespace coat
