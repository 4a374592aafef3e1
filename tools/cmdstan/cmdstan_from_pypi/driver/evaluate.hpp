// The methods that evaluate the model at given parameters: generate_quantities,
// log_prob and diagnose.

#ifndef BDR_STAN_DRIVER_EVALUATE_HPP
#define BDR_STAN_DRIVER_EVALUATE_HPP

#include "run.hpp"

#include <stan/model/log_prob_grad.hpp>
#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/sample/standalone_gqs.hpp>

namespace driver {

inline int run_generate_quantities(Run& run) {
  const Options options(run, "method/generate_quantities");
  const int n = options.integer("num_chains");
  std::vector<CsvWriter> outputs = run.outputs(n), diagnostics;
  for (int i = 0; i < n; ++i) diagnostics.push_back(run.diagnostics(i, n));
  run.write_config();
  for (auto& output : outputs) run.write_heading(output);
  for (auto& diagnostic : diagnostics) run.write_diagnostic_heading(diagnostic);

  std::vector<Eigen::MatrixXd> draws;
  for (const auto& path : input_names(options.text("fitted_params"), run.id, n, {".csv"}))
    draws.push_back(parameter_columns(
        run.model, read_csv(path),
        "Mismatch between model and fitted_parameters csv file \"" + path + "\""));
  const int code = stan::services::standalone_generate(run.model, n, draws, run.seed,
                                                       run.interrupt, run.logger, outputs);
  run.files.check();
  return code;
}

// ---------------------------------------------------------------- log_prob

using Points = std::vector<Eigen::VectorXd>;  // on the unconstrained scale

// Variable params_r: a vector, or an array of vectors.
inline Points read_unconstrained(const Model& model, const std::string& path) {
  const Context context = read_context(path);
  const auto shape = context->dims_r("params_r");
  const std::size_t n = shape.size() == 2 ? shape[0] : 1;
  const std::size_t size = shape.empty() ? 0 : shape.back();
  if (!context->contains_r("params_r") || shape.size() > 2 || size != model.num_params_r())
    throw std::invalid_argument(
        "Variable params_r in \"" + path + "\" must be a vector or an array of vectors with " +
        std::to_string(model.num_params_r()) + " unconstrained parameters each");
  const std::vector<double> values = context->vals_r("params_r");  // first index fastest
  Points points(n, Eigen::VectorXd(size));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < size; ++j) points[i][j] = values[i + j * n];
  return points;
}

inline Points read_constrained(const Model& model, const std::string& path) {
  Points points;
  if (ends_with(path, ".csv")) {
    const Eigen::MatrixXd rows = parameter_columns(
        model, read_csv(path), "Mismatch between model and constrained_params csv file \"" +
                                   path + "\"");
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      points.emplace_back();
      model.unconstrain_array(rows.row(i), points.back(), &std::cout);
    }
  } else {
    points.emplace_back();
    model.transform_inits(*read_context(path), points.back(), &std::cout);
  }
  return points;
}

inline Points read_points(const Model& model, const Options& options) {
  if (!options.text("unconstrained_params").empty())
    return read_unconstrained(model, options.text("unconstrained_params"));
  try {
    return read_constrained(model, options.text("constrained_params"));
  } catch (const std::exception& e) {
    throw std::invalid_argument(std::string(e.what()) +
                                "\nBad or missing parameter values, cannot unconstrain.");
  }
}

template <bool jacobian>
void write_log_densities(Run& run, const Points& points, CsvWriter& output) {
  for (const auto& point : points) {
    std::vector<double> parameters(point.data(), point.data() + point.size());
    std::vector<int> no_integers;
    std::vector<double> row;  // the gradient, then the density in front of it
    const double lp = stan::model::log_prob_grad<true, jacobian>(run.model, parameters,
                                                                 no_integers, row, &std::cout);
    row.insert(row.begin(), lp);
    output(row);
  }
}

inline int run_log_prob(Run& run) {
  const Options options(run, "method/log_prob");
  CsvWriter output = run.output();
  CsvWriter diagnostics = run.diagnostics();
  run.write_config();
  run.write_heading(output);
  run.write_diagnostic_heading(diagnostics);
  const Points points = read_points(run.model, options);

  std::vector<std::string> parameters, names = {"lp__"};
  run.model.unconstrained_param_names(parameters, false, false);
  for (const auto& name : parameters) names.push_back("g_" + name);
  output(names);
  if (options.flag("jacobian"))
    write_log_densities<true>(run, points, output);
  else
    write_log_densities<false>(run, points, output);
  run.files.check();
  return 0;
}

// ---------------------------------------------------------------- diagnose

inline int run_diagnose(Run& run) {
  const Options gradient(run, "method/diagnose/test/gradient");
  CsvWriter output = run.output();
  CsvWriter diagnostics = run.diagnostics();
  const Inits inits = run.inits();
  run.write_config();
  run.write_heading(output);
  run.write_diagnostic_heading(diagnostics);
  const int bad_gradients = stan::services::diagnose::diagnose(
      run.model, *inits.contexts[0], run.seed, run.id, inits.radius, gradient.real("epsilon"),
      gradient.real("error"), run.interrupt, run.logger, run.ignored, output);
  run.files.check();
  return bad_gradients;
}

}  // namespace driver

#endif
