// method=sample: NUTS, static HMC and fixed parameters.

#ifndef BDR_STAN_DRIVER_SAMPLE_HPP
#define BDR_STAN_DRIVER_SAMPLE_HPP

#include "run.hpp"

#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_diag_e.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>
#include <stan/services/sample/hmc_static_dense_e.hpp>
#include <stan/services/sample/hmc_static_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_static_diag_e.hpp>
#include <stan/services/sample/hmc_static_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_static_unit_e.hpp>
#include <stan/services/sample/hmc_static_unit_e_adapt.hpp>

namespace driver {

// Writers of the n chains, and what they start from.
struct Chains {
  int n;
  std::vector<CsvWriter> outputs;
  std::vector<CsvWriter> diagnostics;
  std::vector<JsonWriter> adapted_metrics;
  std::vector<stan::callbacks::writer> ignored;
  Inits inits;
  Contexts metrics;
};

inline bool static_engine(Run& run) {
  return run.arguments.choice("method/sample/algorithm") == "hmc" &&
         run.arguments.choice("method/sample/algorithm/hmc/engine") == "static";
}

// The metric a sampler starts from; without a file it is the identity.
inline Contexts initial_metrics(Run& run, int n) {
  namespace util = stan::services::util;
  const Options hmc(run, "method/sample/algorithm/hmc");
  if (!hmc.text("metric_file").empty()) return read_contexts(hmc.text("metric_file"), run.id, n);
  const std::size_t size = run.model.num_params_r();
  using stan::io::array_var_context;
  if (hmc.choice("metric") == "dense_e")
    return Contexts(n, std::make_shared<array_var_context>(
                           util::create_unit_e_dense_inv_metric(size)));
  return Contexts(
      n, std::make_shared<array_var_context>(util::create_unit_e_diag_inv_metric(size)));
}

inline int run_fixed_param(Run& run, Chains& chains) {
  const Options sample(run, "method/sample");
  return stan::services::sample::fixed_param(
      run.model, chains.n, chains.inits.contexts, run.seed, run.id, chains.inits.radius,
      sample.integer("num_samples"), sample.integer("thin"), run.refresh, run.interrupt,
      run.logger, chains.ignored, chains.outputs, chains.diagnostics);
}

inline int run_nuts(Run& run, Chains& chains) {
  namespace services = stan::services::sample;
  const Options sample(run, "method/sample"), adapt(run, "method/sample/adapt");
  const Options hmc(run, "method/sample/algorithm/hmc");
  const std::string metric = hmc.choice("metric");

  // The services take their arguments in four stretches: where the chains start, how
  // long they run, how they adapt, and the callbacks.
  const auto sampler = [&](auto service, auto&&... rest) {
    return service(run.seed, run.id, chains.inits.radius, sample.integer("num_warmup"),
                   sample.integer("num_samples"), sample.integer("thin"),
                   sample.flag("save_warmup"), run.refresh, hmc.real("stepsize"),
                   hmc.real("stepsize_jitter"),
                   run.arguments.integer("method/sample/algorithm/hmc/engine/nuts/max_depth"),
                   rest...);
  };
  const auto adapting = [&](auto service, auto... windows) {
    return sampler(
        [&](auto... numbers) {
          return service(numbers..., run.interrupt, run.logger, chains.ignored, chains.outputs,
                         chains.diagnostics, chains.adapted_metrics);
        },
        adapt.real("delta"), adapt.real("gamma"), adapt.real("kappa"), adapt.real("t0"),
        windows...);
  };
  const auto adapting_metric = [&](auto service) {
    return adapting(service, adapt.size("init_buffer"), adapt.size("term_buffer"),
                    adapt.size("window"));
  };
  const auto plain = [&](auto service) {
    return sampler([&](auto... numbers) {
      return service(numbers..., run.interrupt, run.logger, chains.ignored, chains.outputs,
                     chains.diagnostics);
    });
  };

  Model& model = run.model;
  const std::size_t n = chains.n;
  const Contexts &inits = chains.inits.contexts, &metrics = chains.metrics;
  if (adapt.flag("engaged")) {
    if (metric == "dense_e")
      return adapting_metric([&](auto&&... rest) {
        return services::hmc_nuts_dense_e_adapt(model, n, inits, metrics, rest...);
      });
    if (metric == "diag_e")
      return adapting_metric([&](auto&&... rest) {
        return services::hmc_nuts_diag_e_adapt(model, n, inits, metrics, rest...);
      });
    return adapting([&](auto&&... rest) {
      return services::hmc_nuts_unit_e_adapt(model, n, inits, rest...);
    });
  }
  if (metric == "dense_e")
    return plain([&](auto&&... rest) {
      return services::hmc_nuts_dense_e(model, n, inits, metrics, rest...);
    });
  if (metric == "diag_e")
    return plain([&](auto&&... rest) {
      return services::hmc_nuts_diag_e(model, n, inits, metrics, rest...);
    });
  return plain([&](auto&&... rest) {
    return services::hmc_nuts_unit_e(model, n, inits, rest...);
  });
}

inline int run_static(Run& run, Chains& chains) {
  namespace services = stan::services::sample;
  const Options sample(run, "method/sample"), adapt(run, "method/sample/adapt");
  const Options hmc(run, "method/sample/algorithm/hmc");
  const std::string metric = hmc.choice("metric");

  const auto sampler = [&](auto service, auto... rest) {
    return service(run.seed, run.id, chains.inits.radius, sample.integer("num_warmup"),
                   sample.integer("num_samples"), sample.integer("thin"),
                   sample.flag("save_warmup"), run.refresh, hmc.real("stepsize"),
                   hmc.real("stepsize_jitter"),
                   run.arguments.real("method/sample/algorithm/hmc/engine/static/int_time"),
                   rest...);
  };
  const auto plain = [&](auto service, auto... rest) {
    return sampler(
        [&](auto... numbers) {
          return service(numbers..., run.interrupt, run.logger, run.ignored, chains.outputs[0],
                         chains.diagnostics[0]);
        },
        rest...);
  };
  const auto adapting = [&](auto service, auto... windows) {
    return plain(service, adapt.real("delta"), adapt.real("gamma"), adapt.real("kappa"),
                 adapt.real("t0"), windows...);
  };
  const auto adapting_metric = [&](auto service) {
    return adapting(service, adapt.size("init_buffer"), adapt.size("term_buffer"),
                    adapt.size("window"));
  };

  Model& model = run.model;
  const stan::io::var_context &init = *chains.inits.contexts[0], &start = *chains.metrics[0];
  if (adapt.flag("engaged")) {
    if (metric == "dense_e")
      return adapting_metric([&](auto&&... rest) {
        return services::hmc_static_dense_e_adapt(model, init, start, rest...);
      });
    if (metric == "diag_e")
      return adapting_metric([&](auto&&... rest) {
        return services::hmc_static_diag_e_adapt(model, init, start, rest...);
      });
    return adapting([&](auto&&... rest) {
      return services::hmc_static_unit_e_adapt(model, init, rest...);
    });
  }
  if (metric == "dense_e")
    return plain([&](auto&&... rest) {
      return services::hmc_static_dense_e(model, init, start, rest...);
    });
  if (metric == "diag_e")
    return plain([&](auto&&... rest) {
      return services::hmc_static_diag_e(model, init, start, rest...);
    });
  return plain([&](auto&&... rest) {
    return services::hmc_static_unit_e(model, init, rest...);
  });
}

inline int run_sample(Run& run) {
  const Options sample(run, "method/sample"), adapt(run, "method/sample/adapt");
  const bool asked_fixed = sample.choice("algorithm") == "fixed_param";
  const bool fixed = asked_fixed || run.model.num_params_r() == 0;

  Chains chains;
  chains.n = sample.integer("num_chains");
  chains.outputs = run.outputs(chains.n);
  chains.ignored.resize(chains.n);
  for (int i = 0; i < chains.n; ++i) {
    chains.diagnostics.push_back(run.diagnostics(i, chains.n));
    chains.adapted_metrics.push_back(
        adapt.flag("save_metric") && !fixed
            ? run.files.json(json_name(run.output_file(), "_metric" + run.tag(i, chains.n)))
            : OutputFiles::no_json());
  }
  chains.inits = run.inits(chains.n);
  run.write_config();
  for (int i = 0; i < chains.n; ++i) {
    run.write_heading(chains.outputs[i]);
    run.write_diagnostic_heading(chains.diagnostics[i]);
  }

  int code;
  if (fixed) {
    if (!asked_fixed)
      run.logger.info(
          "Model contains no parameters, running fixed_param sampler, "
          "no updates to Markov chain");
    code = run_fixed_param(run, chains);
  } else {
    if (adapt.flag("engaged") && sample.integer("num_warmup") == 0)
      throw std::invalid_argument(
          "The number of warmup samples (num_warmup) must be greater than zero "
          "if adaptation is enabled.");
    chains.metrics = initial_metrics(run, chains.n);
    code = static_engine(run) ? run_static(run, chains) : run_nuts(run, chains);
  }
  run.files.check();
  return code;
}

}  // namespace driver

#endif
