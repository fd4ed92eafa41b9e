// SPDX-License-Identifier: Apache-2.0
// The TOML file. The only user of toml++.
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "server/config.h"

namespace redsum::server {
namespace {

constexpr std::size_t kMaxErrors = 20;

struct FileReader {
  const std::string& path;
  Settings& settings;
  std::vector<std::string> errors;

  std::string where(const toml::source_region& region) const { return path + ":" + std::to_string(region.begin.line); }
  void wrong(const toml::source_region& region, const std::string& text) {
    if (errors.size() < kMaxErrors) errors.push_back(where(region) + ": " + text);
  }
};

// The value as a text, if its TOML type is one that the key takes.
std::optional<std::string> text_of(const Key& key, const toml::node& node) {
  const bool word = !key.words.empty() && node.is_string();
  switch (key.type) {
    case KeyType::boolean:
      if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
      return std::nullopt;
    case KeyType::integer:
      if (const auto* value = node.as_integer()) return std::to_string(value->get());
      break;
    case KeyType::bytes:
      if (const auto* value = node.as_integer()) return std::to_string(value->get());
      if (node.is_string()) return node.as_string()->get();
      break;
    case KeyType::duration:
      if (const auto* value = node.as_integer()) return std::to_string(value->get());
      if (const auto* value = node.as_floating_point()) {
        char text[64];
        std::snprintf(text, sizeof text, "%.9f", value->get());
        return text;
      }
      if (node.is_string()) return node.as_string()->get();
      break;
    case KeyType::list:
      if (const toml::array* items = node.as_array()) {
        std::string text;
        for (const toml::node& item : *items) {
          if (!item.is_string()) return std::nullopt;
          text += (text.empty() ? "" : ",") + item.as_string()->get();
        }
        return text;
      }
      [[fallthrough]];
    case KeyType::text:
    case KeyType::address:
    case KeyType::choice:
      if (node.is_string()) return node.as_string()->get();
      break;
  }
  return word ? std::optional<std::string>(node.as_string()->get()) : std::nullopt;
}

std::string node_kind(const toml::node& node) {
  std::ostringstream text;
  text << node.type();
  return text.str();
}

void unknown_key(FileReader& file, const toml::key& at, const std::string& name, bool is_table) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    const std::size_t dot = key.name.find('.');
    if (!is_table) names.emplace_back(key.name);
    if (is_table && dot != std::string_view::npos) names.emplace_back(key.name.substr(0, dot));
  }
  std::string near = nearest(name, names);
  // "shards" under no section, or under the wrong one: the same last word elsewhere is what was meant.
  const std::string last = "." + name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  for (const std::string& known : names)
    if (near.empty() && known.size() > last.size() && known.compare(known.size() - last.size(), last.size(), last) == 0)
      near = known;
  file.wrong(at.source(), std::string("unknown ") + (is_table ? "section [" : "key '") + name + (is_table ? "]" : "'") +
                              (near.empty() ? "" : "; did you mean '" + near + "'?") +
                              " (redsumd --print-reference lists all)");
}

void read_table(FileReader& file, const toml::table& table, const std::string& prefix) {
  for (const auto& [at, node] : table) {
    const std::string name = prefix + std::string(at.str());
    const Key* key = find_key(name);
    if (key) {
      const auto text = text_of(*key, node);
      if (!text) {
        file.wrong(at.source(), name + " is of type " + node_kind(node) + "; " + type_text(*key) + " is needed");
      } else if (const Status set = file.settings.set(*key, {*text, Source::file, file.where(at.source())}); !set) {
        if (file.errors.size() < kMaxErrors) file.errors.push_back(set.text());
      }
      continue;
    }
    const toml::table* inner = node.as_table();
    const bool section = inner && prefix.empty() && std::any_of(keys().begin(), keys().end(), [&](const Key& k) {
                           return k.name.substr(0, name.size() + 1) == name + ".";
                         });
    if (section) read_table(file, *inner, name + ".");
    if (!section) unknown_key(file, at, name, inner != nullptr);
  }
}

}  // namespace

Status read_config_file(const std::string& path, Settings& settings) {
  FileReader file{path, settings, {}};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return {Code::invalid_argument, path + ": it is a folder, not a TOML file"};
  try {
    const toml::table table = toml::parse_file(path);
    read_table(file, table, "");
  } catch (const toml::parse_error& error) {  // also when the file cannot be opened: line 0
    const auto line = error.source().begin.line;
    const std::string place =
        line == 0 ? path : path + ":" + std::to_string(line) + ":" + std::to_string(error.source().begin.column);
    return {Code::invalid_argument, place + ": " + std::string(error.description())};
  }
  if (file.errors.empty()) return {};
  std::string text;
  for (const std::string& error : file.errors) text += (text.empty() ? "" : "\n") + error;
  return {Code::invalid_argument, text};
}

}  // namespace redsum::server
