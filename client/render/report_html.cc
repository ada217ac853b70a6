#include "client/render/report_html.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

namespace coat {
namespace {

// Length of the well-formed UTF-8 sequence at `at`; 0 when there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool outside = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return outside ? 0 : length;
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string html;
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    const char c = text[at];
    if (length == 0) {
      html += "\xEF\xBF\xBD";
    } else if (length > 1) {
      html += text.substr(at, length);
    } else if (c == '&') {
      html += "&amp;";
    } else if (c == '<') {
      html += "&lt;";
    } else if (c == '>') {
      html += "&gt;";
    } else if (c == '"') {
      html += "&quot;";
    } else if (c == '\'') {
      html += "&#39;";
    } else {
      const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
      html += control ? '?' : c;
    }
    at += length == 0 ? 1 : length;
  }
  return html;
}

std::string Element(const std::string& name, const std::string& attributes,
                    const std::string& inner) {
  return "<" + name + (attributes.empty() ? "" : " " + attributes) + ">" + inner + "</" + name +
         ">";
}

std::string ScrollTable(const HtmlTable& table) {
  std::string head, body;
  for (const std::string& cell : table.heads) {
    head += Element("th", "scope=\"col\"", Escape(cell));
  }
  for (const auto& row : table.rows) {
    std::string cells;
    for (size_t i = 0; i < row.size(); ++i) {
      cells += i == 0 ? Element("th", "scope=\"row\"", Escape(row[i]))
                      : Element("td", "", Escape(row[i]));
    }
    body += Element("tr", "", cells) + "\n";
  }
  const std::string caption = Element("caption", "", Escape(table.caption));
  return Element("div",
                 "class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                     Escape(table.caption) + "\"",
                 Element("table", "",
                         caption + Element("thead", "", Element("tr", "", head)) + "\n" +
                             Element("tbody", "", body))) +
         "\n";
}

std::string FoldedTable(const std::string& summary, const HtmlTable& table) {
  return Element("details", "", Element("summary", "", Escape(summary)) + ScrollTable(table)) +
         "\n";
}

std::string Section(const std::string& id, const std::string& heading, const std::string& inner) {
  return Element("section", "id=\"" + id + "\" aria-labelledby=\"" + id + "-h\"",
                 Element("h2", "id=\"" + id + "-h\"", Escape(heading)) + "\n" + inner) +
         "\n";
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "0";
  const auto hundredths =
      static_cast<int64_t>(std::llround(std::fmin(1e9, std::fabs(value)) * 100));
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%02lld", value < 0 && hundredths > 0 ? "-" : "",
                static_cast<long long>(hundredths / 100), static_cast<long long>(hundredths % 100));
  return text;
}

}  // namespace coat
