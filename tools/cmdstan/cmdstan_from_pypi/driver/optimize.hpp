// method=optimize, and method=laplace, which starts from what optimize found.

#ifndef BDR_STAN_DRIVER_OPTIMIZE_HPP
#define BDR_STAN_DRIVER_OPTIMIZE_HPP

#include "run.hpp"

#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>

namespace driver {

template <bool jacobian>
int run_optimizer(Run& run, const Inits& inits, CsvWriter& output) {
  namespace services = stan::services::optimize;
  const Options optimize(run, "method/optimize");
  const std::string algorithm = optimize.choice("algorithm");
  const Options search(run, "method/optimize/algorithm/" + algorithm);
  const stan::io::var_context& init = *inits.contexts[0];
  const int iterations = optimize.integer("iter");
  const bool save = optimize.flag("save_iterations");

  if (algorithm == "newton")
    return services::newton<Model, jacobian>(run.model, init, run.seed, run.id, inits.radius,
                                             iterations, save, run.interrupt, run.logger,
                                             run.ignored, output);
  if (algorithm == "bfgs")
    return services::bfgs<Model, jacobian>(
        run.model, init, run.seed, run.id, inits.radius, search.real("init_alpha"),
        search.real("tol_obj"), search.real("tol_rel_obj"), search.real("tol_grad"),
        search.real("tol_rel_grad"), search.real("tol_param"), iterations, save, run.refresh,
        run.interrupt, run.logger, run.ignored, output);
  return services::lbfgs<Model, jacobian>(
      run.model, init, run.seed, run.id, inits.radius, search.integer("history_size"),
      search.real("init_alpha"), search.real("tol_obj"), search.real("tol_rel_obj"),
      search.real("tol_grad"), search.real("tol_rel_grad"), search.real("tol_param"), iterations,
      save, run.refresh, run.interrupt, run.logger, run.ignored, output);
}

inline int run_optimize(Run& run) {
  CsvWriter output = run.output();
  CsvWriter diagnostics = run.diagnostics();
  const Inits inits = run.inits();
  run.write_config();
  run.write_heading(output);
  run.write_diagnostic_heading(diagnostics);
  const int code = run.arguments.flag("method/optimize/jacobian")
                       ? run_optimizer<true>(run, inits, output)
                       : run_optimizer<false>(run, inits, output);
  run.files.check();
  return code;
}

// ---------------------------------------------------------------- laplace

// The optimum is the last row; the rows before it are saved iterations.
inline Eigen::VectorXd read_mode_csv(const Model& model, const std::string& path) {
  const Csv csv = read_csv(path);
  if (csv.comments.find("method = optimize") == std::string::npos)
    throw std::invalid_argument("CSV file is not output from Stan optimization");
  const Eigen::MatrixXd rows = parameter_columns(
      model, csv, "Mismatch between model and mode csv file \"" + path + "\"");
  if (rows.rows() == 0)
    throw std::invalid_argument("Mode file \"" + path + "\" holds no parameter values");
  Eigen::VectorXd mode;
  model.unconstrain_array(rows.row(rows.rows() - 1), mode, &std::cout);
  return mode;
}

inline Eigen::VectorXd read_mode(const Model& model, const std::string& path) {
  if (ends_with(path, ".csv")) return read_mode_csv(model, path);
  if (!ends_with(path, ".json"))
    throw std::invalid_argument("Mode file must be CSV or JSON, found " + path);
  Eigen::VectorXd mode;
  model.transform_inits(*read_context(path), mode, &std::cout);
  return mode;
}

inline int run_laplace(Run& run) {
  namespace services = stan::services;
  const Options laplace(run, "method/laplace");
  CsvWriter output = run.output();
  JsonWriter hessian = run.diagnostics_json();
  run.write_config();
  run.write_heading(output);
  const Eigen::VectorXd mode = read_mode(run.model, laplace.text("mode"));
  const auto draw = [&](auto service) {
    return service(run.model, mode, laplace.integer("draws"), laplace.flag("calculate_lp"),
                   run.seed, run.refresh, run.interrupt, run.logger, output, hessian);
  };
  const int code =
      laplace.flag("jacobian")
          ? draw([](auto&&... rest) { return services::laplace_sample<true>(rest...); })
          : draw([](auto&&... rest) { return services::laplace_sample<false>(rest...); });
  run.files.check();
  return code;
}

}  // namespace driver

#endif
