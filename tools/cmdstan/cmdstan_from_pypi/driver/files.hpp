// File names: which file of a family a chain reads, and how output files are called.

#ifndef BDR_STAN_DRIVER_FILES_HPP
#define BDR_STAN_DRIVER_FILES_HPP

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace driver {

inline bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// "dir/a.b.csv" -> {"dir/a.b", ".csv"}; a leading dot of the base name is no suffix.
inline std::pair<std::string, std::string> split_suffix(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = path.find_last_of('.');
  if (dot == std::string::npos || dot <= base) return {path, ""};
  return {path.substr(0, dot), path.substr(dot)};
}

// CSV files keep the suffix the user gave; anything else gets its own.
inline std::string csv_name(const std::string& path, const std::string& tag = "") {
  const auto parts = split_suffix(path);
  return parts.first + tag + (parts.second.empty() ? ".csv" : parts.second);
}

inline std::string json_name(const std::string& path, const std::string& tag = "") {
  return split_suffix(path).first + tag + ".json";
}

inline std::string numbered(int id) { return "_" + std::to_string(id); }

// Whether the last part of a path cannot be the name of a file ("", "dir/", "dir/..").
inline bool names_folder(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.empty() || name == "." || name == "..";
}

// Whether writing to one path would change what is read from the other: the same name,
// or another name of the same file. A device (/dev/null) takes what comes.
inline bool same_file(const std::string& one, const std::string& other) {
  std::error_code trouble;  // a file that is not there is no other file
  if (std::filesystem::is_regular_file(one, trouble))
    return std::filesystem::equivalent(one, other, trouble);
  return !std::filesystem::exists(one, trouble) && one == other;
}

inline std::ifstream open_input(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::invalid_argument("Can't open specified file, \"" + path + "\"");
  return stream;
}

inline bool exists(const std::string& path) { return std::ifstream(path).good(); }

// The files of n chains. One chain reads the file as named. Several read BASE_<id>.EXT
// each if the first of them is there, else all of them read BASE.EXT.
inline std::vector<std::string> input_names(const std::string& path, int id, int n,
                                            const std::vector<std::string>& suffixes) {
  if (n == 1 || path.empty()) return std::vector<std::string>(n, path);
  const auto parts = split_suffix(path);
  bool known = false;
  for (const auto& suffix : suffixes) known = known || parts.second == suffix;
  if (!known)
    throw std::invalid_argument("File \"" + path + "\" must end in " + suffixes.front() +
                                (suffixes.size() > 1 ? " or " + suffixes.back() : "") +
                                " when it is read for several chains");
  if (!exists(parts.first + numbered(id) + parts.second)) return std::vector<std::string>(n, path);
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i)
    names.push_back(parts.first + numbered(id + i) + parts.second);
  return names;
}

}  // namespace driver

#endif
