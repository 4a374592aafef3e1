// method=variational: ADVI with independent or fully correlated Gaussians.

#ifndef BDR_STAN_DRIVER_VARIATIONAL_HPP
#define BDR_STAN_DRIVER_VARIATIONAL_HPP

#include "run.hpp"

#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>

namespace driver {

inline int run_variational(Run& run) {
  namespace services = stan::services::experimental::advi;
  const Options options(run, "method/variational"), adapt(run, "method/variational/adapt");
  CsvWriter output = run.output();
  CsvWriter diagnostics = run.diagnostics();
  const Inits inits = run.inits();
  run.write_config();
  run.write_heading(output);
  run.write_diagnostic_heading(diagnostics);

  const auto fit = [&](auto service) {
    return service(run.model, *inits.contexts[0], run.seed, run.id, inits.radius,
                   options.integer("grad_samples"), options.integer("elbo_samples"),
                   options.integer("iter"), options.real("tol_rel_obj"), options.real("eta"),
                   adapt.flag("engaged"), adapt.integer("iter"), options.integer("eval_elbo"),
                   options.integer("output_samples"), run.interrupt, run.logger, run.ignored,
                   output, diagnostics);
  };
  const int code = options.choice("algorithm") == "fullrank"
                       ? fit([](auto&&... rest) { return services::fullrank(rest...); })
                       : fit([](auto&&... rest) { return services::meanfield(rest...); });
  run.files.check();
  return code;
}

}  // namespace driver

#endif
