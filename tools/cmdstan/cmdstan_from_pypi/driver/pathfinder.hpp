// method=pathfinder: one path, or several with importance resampling.

#ifndef BDR_STAN_DRIVER_PATHFINDER_HPP
#define BDR_STAN_DRIVER_PATHFINDER_HPP

#include "run.hpp"

#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>

namespace driver {

// The diagnostics of the paths are called like the output unless they have a name.
inline const std::string& path_diagnostics_file(const Run& run) {
  return run.diagnostic_file().empty() ? run.output_file() : run.diagnostic_file();
}

inline int run_single_path(Run& run, const Options& options) {
  CsvWriter output = run.output();
  const bool save = options.flag("save_single_paths") || !run.diagnostic_file().empty();
  JsonWriter diagnostics = save ? run.files.json(json_name(path_diagnostics_file(run)))
                                : OutputFiles::no_json();
  const Inits inits = run.inits();
  run.write_config();
  run.write_heading(output);
  const int code = stan::services::pathfinder::pathfinder_lbfgs_single<false>(
      run.model, *inits.contexts[0], run.seed, run.id, inits.radius,
      options.integer("history_size"), options.real("init_alpha"), options.real("tol_obj"),
      options.real("tol_rel_obj"), options.real("tol_grad"), options.real("tol_rel_grad"),
      options.real("tol_param"), options.integer("max_lbfgs_iters"),
      options.integer("num_elbo_draws"), options.integer("num_draws"), save, run.refresh,
      run.interrupt, run.logger, run.ignored, output, diagnostics, options.flag("calculate_lp"));
  run.files.check();
  return code;
}

inline int run_several_paths(Run& run, const Options& options, int n) {
  const bool save = options.flag("save_single_paths");
  const bool files = save || !run.diagnostic_file().empty();
  CsvWriter output = run.output();
  std::vector<CsvWriter> path_outputs;
  std::vector<JsonWriter> path_diagnostics;
  for (int i = 0; i < n; ++i) {
    const std::string tag = "_path" + numbered(run.id + i);
    path_outputs.push_back(files ? run.files.csv(csv_name(run.output_file(), tag))
                                 : OutputFiles::no_csv());
    path_diagnostics.push_back(
        files ? run.files.json(json_name(path_diagnostics_file(run), tag))
              : OutputFiles::no_json());
  }
  const Inits inits = run.inits(n);
  std::vector<stan::callbacks::writer> ignored(n);
  JsonWriter no_diagnostics;
  run.write_config();
  run.write_heading(output);
  if (files)
    for (auto& path_output : path_outputs) run.write_heading(path_output);
  const int code = stan::services::pathfinder::pathfinder_lbfgs_multi(
      run.model, inits.contexts, run.seed, run.id, inits.radius, options.integer("history_size"),
      options.real("init_alpha"), options.real("tol_obj"), options.real("tol_rel_obj"),
      options.real("tol_grad"), options.real("tol_rel_grad"), options.real("tol_param"),
      options.integer("max_lbfgs_iters"), options.integer("num_elbo_draws"),
      options.integer("num_draws"), options.integer("num_psis_draws"), n, save, run.refresh,
      run.interrupt, run.logger, ignored, path_outputs, path_diagnostics, output, no_diagnostics,
      options.flag("calculate_lp"), options.flag("psis_resample"));
  run.files.check();
  return code;
}

inline int run_pathfinder(Run& run) {
  if (run.model.num_params_r() == 0)
    throw std::invalid_argument("Model has 0 parameters, cannot run Pathfinder.");
  const Options options(run, "method/pathfinder");
  const int n = options.integer("num_paths");
  const long long drawn = static_cast<long long>(n) * options.integer("num_draws");
  if (options.integer("num_psis_draws") > drawn)
    run.logger.warn(
        "Warning: Number of PSIS draws is larger than the total number of draws returned by "
        "the single Pathfinders. "
        "This is likely unintentional and leads to re-sampling from the same draws.");
  return n == 1 ? run_single_path(run, options) : run_several_paths(run, options, n);
}

}  // namespace driver

#endif
