// Pieces of HTML. Text becomes HTML only by Escape or by a function here that escapes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coat {

// For text and for attribute values in double quotes; control characters become '?' (line breaks
// and tabs stay), bytes that are not UTF-8 become U+FFFD.
std::string Escape(std::string_view text);

// "<name attributes>inner</name>"; `inner` and `attributes` are HTML.
std::string Element(const std::string& name, const std::string& attributes,
                    const std::string& inner);

struct HtmlTable {
  std::string caption;                         // text
  std::vector<std::string> heads;              // text
  std::vector<std::vector<std::string>> rows;  // text; the first cell heads its row
};
// A table in a frame of its own that scrolls and takes the keyboard's focus.
std::string ScrollTable(const HtmlTable& table);
// The same, folded away under `summary` (text).
std::string FoldedTable(const std::string& summary, const HtmlTable& table);

// A section with a heading; `id` is a plain word.
std::string Section(const std::string& id, const std::string& heading, const std::string& inner);

// "12.5": a number for style and SVG attributes, never localized.
std::string Number(double value);

}  // namespace coat
