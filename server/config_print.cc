// SPDX-License-Identifier: Apache-2.0
// The texts made from the table of keys.
#include "server/config.h"

namespace redsum::server {
namespace {

constexpr std::size_t kWidth = 100;

std::string_view section_of(const Key& key) noexcept {
  const std::size_t dot = key.name.find('.');
  return dot == std::string_view::npos ? std::string_view() : key.name.substr(0, dot);
}

std::string_view last_part(const Key& key) noexcept {
  const std::size_t dot = key.name.find('.');
  return dot == std::string_view::npos ? key.name : key.name.substr(dot + 1);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr char kHex[] = "0123456789ABCDEF";
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_value(const Key& key, const std::string& text) {
  switch (key.type) {
    case KeyType::boolean:
      return parse_boolean(text).value_or(false) ? "true" : "false";
    case KeyType::integer: {
      const auto value = parse_integer(text);
      return value ? std::to_string(*value) : quoted(text);
    }
    case KeyType::list: {
      std::string out = "[";
      for (const std::string& part : split_list(text)) out += (out.size() > 1 ? ", " : "") + quoted(part);
      return out + "]";
    }
    default:
      return quoted(text);
  }
}

// Cuts a text into lines of a comment.
std::string comment(std::string_view text) {
  std::string out, line = "#";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (line.size() + 1 + end > kWidth) {
      out += line + "\n";
      line = "#";
    }
    line += " " + std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + line + "\n";
}

std::string source_text(const Setting& setting) {
  switch (setting.source) {
    case Source::built_in:
      return "default";
    case Source::file:
      return "file " + setting.where;
    case Source::environment:
      return "environment " + setting.where;
    case Source::flag:
      return "flag " + setting.where;
  }
  return {};
}

std::string shown_default(const Key& key) {
  const std::string_view meaning = default_meaning(key);
  const std::string text(key.default_text);
  if (meaning.empty()) return text.empty() ? "empty" : text;
  if (text.empty()) return std::string(meaning);
  return meaning.substr(0, text.size() + 1) == text + ":" ? std::string(meaning) : text + ": " + std::string(meaning);
}

std::string in_table(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string print_config(const Settings& settings) {
  std::string out = "# The settings of redsumd as they are in effect, each with its source.\n";
  std::string_view section;
  for (std::size_t i = 0; i < keys().size(); ++i) {
    const Key& key = keys()[i];
    if (section_of(key) != section) out += "\n[" + std::string(section = section_of(key)) + "]\n";
    out += std::string(last_part(key)) + " = " + toml_value(key, settings.at(i).text) + "  # " +
           source_text(settings.at(i)) + "\n";
  }
  return out;
}

std::string print_example() {
  std::string out =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Configuration of redsumd. Made by `redsumd --print-example`: every setting with its default, commented out.\n"
      "# Use: redsumd --config FILE; look at the outcome: redsumd --config FILE --print-config.\n"
      "# Precedence, rising: default, this file, environment (REDSUM_SECTION_KEY), flag (--section.key).\n"
      "# Sizes take KiB, MiB, GiB; times take us, ms, s, m, h, a bare number is seconds.\n";
  std::string_view section;
  for (const Key& key : keys()) {
    if (section_of(key) != section) out += "\n[" + std::string(section = section_of(key)) + "]\n";
    out += "\n" + comment(key.description) + comment(type_text(key) + ". Default: " + shown_default(key) + ".");
    out += "# " + std::string(last_part(key)) + " = " + toml_value(key, std::string(key.default_text)) + "\n";
  }
  return out;
}

std::string print_reference() {
  std::string out =
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<!-- Made by `redsumd --print-reference`; do not edit. A test compares. -->\n"
      "# Configuration of redsumd\n\n"
      "Each setting is a key of the TOML file (`--config FILE` or `REDSUM_CONFIG`), an environment variable and a "
      "flag.\n"
      "Precedence, rising: default, file, environment, flag. An unknown key, a wrong type or a value out of range is "
      "an error\n"
      "that names the line and the limit. `--print-config` shows the values in effect and where each came from;\n"
      "`--check-config` only checks and exits with 0 or 1. A wrong flag ends with exit code 2.\n\n"
      "Sizes take `KiB`, `MiB`, `GiB`, `TiB`; times take `us`, `ms`, `s`, `m`, `h`, a bare number is seconds. An "
      "empty\n"
      "variable counts as not set.\n";
  std::string_view section = "-";
  for (const Key& key : keys()) {
    if (section_of(key) != section) {
      section = section_of(key);
      out += "\n## " + (section.empty() ? std::string("Process") : "[" + std::string(section) + "]") + "\n\n";
      out += "| key | environment | flag | value | default | meaning |\n|---|---|---|---|---|---|\n";
    }
    const std::string flag =
        "`--" + std::string(key.name) + "`" + (key.alias.empty() ? "" : ", `--" + std::string(key.alias) + "`");
    const std::string variable =
        "`" + environment_name(key) + "`" + (key.env_alias.empty() ? "" : ", `" + std::string(key.env_alias) + "`");
    out += "| `" + std::string(key.name) + "` | " + variable + " | " + flag + " | " + in_table(type_text(key)) + " | " +
           in_table(shown_default(key)) + " | " + in_table(std::string(key.description)) + " |\n";
  }
  return out;
}

}  // namespace redsum::server
