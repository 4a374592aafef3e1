// What the run reads: data, initial values, metrics, and draws of earlier runs.

#ifndef BDR_STAN_DRIVER_INPUTS_HPP
#define BDR_STAN_DRIVER_INPUTS_HPP

#include "files.hpp"

#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/stan_csv_reader.hpp>
#include <stan/model/model_base.hpp>
#include <stan/version.hpp>

#include <iostream>
#include <memory>
#include <sstream>

namespace driver {

using Model = stan::model::model_base;
using Context = std::shared_ptr<stan::io::var_context>;
using Contexts = std::vector<Context>;

// JSON by its suffix, R dump otherwise; no name means no variables.
inline Context read_context(const std::string& path) {
  if (path.empty()) return std::make_shared<stan::io::empty_var_context>();
  std::ifstream stream = open_input(path);
  if (ends_with(path, ".json")) return std::make_shared<stan::json::json_data>(stream);
  std::cerr << "Warning: file '" << path << "' is read as R dump, which is deprecated; "
            << "write JSON and name it *.json.\n";
  return std::make_shared<stan::io::dump>(stream);
}

// One context per chain; a file shared by all chains is read once.
inline Contexts read_contexts(const std::string& path, int id, int n) {
  const auto names = input_names(path, id, n, {".json", ".R"});
  Contexts contexts;
  for (std::size_t i = 0; i < names.size(); ++i)
    contexts.push_back(i > 0 && names[i] == names[0] ? contexts[0] : read_context(names[i]));
  return contexts;
}

// Initial values: a radius for random ones, or files (values a file leaves out are
// drawn with radius 2). Only a text that is a number as a whole is a radius.
struct Inits {
  double radius = 2;
  Contexts contexts;
};

inline bool is_number(const std::string& text, double& value) {
  try {
    std::size_t used = 0;
    value = std::stod(text, &used);
    return used == text.size();
  } catch (const std::logic_error&) {
    return false;
  }
}

inline Inits read_inits(const std::string& text, int id, int n) {
  Inits inits;
  double radius;
  if (is_number(text, radius)) {
    inits.radius = radius;
    inits.contexts = Contexts(n, std::make_shared<stan::io::empty_var_context>());
  } else {
    inits.contexts = read_contexts(text, id, n);
  }
  return inits;
}

// ---------------------------------------------------------------- Stan CSV

inline std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  model.constrained_param_names(names, false, false);
  return names;
}

// The column of the first parameter: columns of the algorithm end in "__". False if
// the columns behind them are not the model's parameters.
inline bool find_parameters(const Model& model, const std::vector<std::string>& header,
                            std::size_t& first) {
  first = 0;
  while (first < header.size() && ends_with(header[first], "__")) ++first;
  const auto names = parameter_names(model);
  return header.size() - first >= names.size() &&
         std::equal(names.begin(), names.end(), header.begin() + first);
}

struct Csv {
  std::string comments;  // lines before the column names
  std::vector<std::string> header;
  Eigen::MatrixXd rows;
};

inline Csv read_csv(const std::string& path) {
  using reader = stan::io::stan_csv_reader;
  std::ifstream stream = open_input(path);
  Csv csv;
  while (stream.peek() == '#') {
    std::string line;
    std::getline(stream, line);
    csv.comments += line + "\n";
  }
  std::stringstream messages;
  stan::io::stan_csv_adaptation adaptation;
  stan::io::stan_csv_timing timing;
#if STAN_MINOR > 35
  const bool has_names = reader::read_header(stream, csv.header, false);
  reader::read_adaptation(stream, adaptation);
  const bool has_rows = !stream.good() || reader::read_samples(stream, csv.rows, timing);
#else
  const bool has_names = reader::read_header(stream, csv.header, &messages, false);
  reader::read_adaptation(stream, adaptation, &messages);
  const bool has_rows =
      !stream.good() || reader::read_samples(stream, csv.rows, timing, &messages);
#endif
  if (!has_names)
    throw std::invalid_argument("File \"" + path + "\" has no column names" + messages.str());
  if (!has_rows)
    throw std::invalid_argument("File \"" + path + "\" has a bad row. " + messages.str());
  return csv;
}

// The parameter columns of a CSV file; `mismatch` is thrown when they are not there.
inline Eigen::MatrixXd parameter_columns(const Model& model, const Csv& csv,
                                         const std::string& mismatch) {
  std::size_t first;
  if (!find_parameters(model, csv.header, first)) throw std::invalid_argument(mismatch);
  if (csv.rows.rows() == 0) return Eigen::MatrixXd(0, 0);
  return csv.rows.middleCols(first, parameter_names(model).size());
}

}  // namespace driver

#endif
