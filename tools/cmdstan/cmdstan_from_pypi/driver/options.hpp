// Every option of the executable with its default and its range.

#ifndef BDR_STAN_DRIVER_OPTIONS_HPP
#define BDR_STAN_DRIVER_OPTIONS_HPP

#include "arguments.hpp"

#include <cmath>

namespace driver {

// std::vector cannot be built from a list of move-only items directly.
template <typename T, typename... Items>
std::vector<std::unique_ptr<T>> list(Items... items) {
  std::vector<std::unique_ptr<T>> result;
  int in_order[] = {0, (result.push_back(std::move(items)), 0)...};
  (void)in_order;
  return result;
}

template <typename... Items>
std::vector<ArgumentPtr> arguments(Items... items) {
  return list<Argument>(std::move(items)...);
}

template <typename T>
ArgumentPtr option(const std::string& name, const std::string& description, T initial,
                   Range<T> range) {
  return std::make_unique<Value<T>>(name, description, initial, std::move(range));
}

inline ArgumentPtr count(const std::string& name, const std::string& description, int initial) {
  return option<int>(name, description, initial,
                     {[](int v) { return v > 0; }, "0 < " + name});
}

// The bound printed for counts that may be zero is that of CmdStan 2.35.
inline ArgumentPtr count_or_zero(const std::string& name, const std::string& description,
                                 int initial) {
  return option<int>(name, description, initial,
                     {[](int v) { return v >= 0; }, "0 < " + name});
}

inline ArgumentPtr size(const std::string& name, const std::string& description,
                        unsigned initial) {
  return option<unsigned>(name, description, initial,
                          {[](unsigned) { return true; }, "0 <= " + name});
}

inline ArgumentPtr positive(const std::string& name, const std::string& description,
                            double initial) {
  return option<double>(name, description, initial,
                        {[](double v) { return v > 0; }, "0 < " + name});
}

inline ArgumentPtr flag(const std::string& name, const std::string& description, bool initial) {
  return option<bool>(name, description, initial, {[](bool) { return true; }, "[0, 1]"});
}

inline ArgumentPtr text(const std::string& name, const std::string& description,
                        const std::string& initial) {
  return option<std::string>(name, description, initial,
                             {[](const std::string&) { return true; }, ""});
}

template <typename... Items>
ArgumentPtr group(const std::string& name, const std::string& description, Items... items) {
  return std::make_unique<Group>(name, description, arguments(std::move(items)...));
}

// One of the values of a choice: with options of its own, or a plain word.
template <typename... Items>
std::unique_ptr<Group> branch(const std::string& name, const std::string& description,
                              Items... items) {
  return std::make_unique<Group>(name, description, arguments(std::move(items)...));
}

inline std::unique_ptr<Group> word(const std::string& name, const std::string& description) {
  return std::make_unique<Word>(name, description);
}

template <typename... Branches>
ArgumentPtr choice(const std::string& name, const std::string& description,
                   const std::string& initial, Branches... branches) {
  return std::make_unique<Choice>(name, description, initial,
                                  list<Group>(std::move(branches)...));
}

// ---------------------------------------------------------------- methods

inline ArgumentPtr sampler_adaptation() {
  return group(
      "adapt", "Warmup adaptation", flag("engaged", "Whether the sampler adapts", true),
      positive("gamma", "Adaptation regularization scale", 0.05),
      option<double>("delta", "Target acceptance statistic", 0.8,
                     {[](double v) { return v >= 0.1 && v < 1; }, "0.1 <= delta < 1"}),
      positive("kappa", "Adaptation relaxation exponent", 0.75),
      positive("t0", "Adaptation iteration offset", 10),
      size("init_buffer", "Iterations of the first fast adaptation interval", 75),
      size("term_buffer", "Iterations of the last fast adaptation interval", 50),
      size("window", "Iterations of the first slow adaptation interval", 25),
      flag("save_metric", "Save the step size and the metric as JSON", false));
}

inline std::unique_ptr<Group> hmc() {
  auto engine = choice(
      "engine", "How far a trajectory runs", "nuts",
      branch("static", "For a fixed time",
             positive("int_time", "Total integration time", 2 * std::acos(-1.0))),
      branch("nuts", "Until it turns back", count("max_depth", "Maximum tree depth", 10)));
  auto metric = choice("metric", "Geometry of the parameters", "diag_e",
                       word("unit_e", "Identity"), word("diag_e", "Diagonal, estimated in warmup"),
                       word("dense_e", "Dense, estimated in warmup"));
  return branch("hmc", "Hamiltonian Monte Carlo", std::move(engine), std::move(metric),
                text("metric_file", "File with the inverse metric, JSON or R dump", ""),
                positive("stepsize", "Step size of the integrator", 1),
                option<double>("stepsize_jitter", "Random jitter of the step size, relative", 0,
                               {[](double v) { return v >= 0 && v <= 1; },
                                "0 <= stepsize_jitter <= 1"}));
}

inline std::unique_ptr<Group> sample() {
  return branch("sample", "Bayesian inference with Markov Chain Monte Carlo",
                count_or_zero("num_samples", "Sampling iterations", 1000),
                count_or_zero("num_warmup", "Warmup iterations", 1000),
                flag("save_warmup", "Write the warmup draws too", false),
                count("thin", "Write every thin-th draw", 1), sampler_adaptation(),
                choice("algorithm", "Sampling algorithm", "hmc", hmc(),
                       word("fixed_param", "Parameters stay at their initial values")),
                count("num_chains", "Chains run by this process", 1));
}

// optimize and pathfinder share these; pathfinder adds options of its own behind them.
template <typename... More>
std::vector<ArgumentPtr> line_search(More... more) {
  return arguments(
      positive("init_alpha", "Step size of the first line search", 0.001),
      positive("tol_obj", "Convergence: absolute change of the objective", 1e-12),
      positive("tol_rel_obj", "Convergence: relative change of the objective", 1e4),
      positive("tol_grad", "Convergence: norm of the gradient", 1e-8),
      positive("tol_rel_grad", "Convergence: relative norm of the gradient", 1e7),
      positive("tol_param", "Convergence: change of the parameters", 1e-8), std::move(more)...);
}

inline ArgumentPtr history_size() {
  return count("history_size", "Steps the L-BFGS approximation remembers", 5);
}

inline std::unique_ptr<Group> optimize() {
  auto algorithm = choice(
      "algorithm", "Optimization algorithm", "lbfgs",
      std::make_unique<Group>("bfgs", "BFGS with line search", line_search()),
      std::make_unique<Group>("lbfgs", "L-BFGS with line search", line_search(history_size())),
      branch("newton", "Newton's method"));
  return branch("optimize", "Point estimation", std::move(algorithm),
                flag("jacobian", "Maximize on the unconstrained scale", false),
                count("iter", "Maximum number of iterations", 2000),
                flag("save_iterations", "Write every iteration", false));
}

inline std::unique_ptr<Group> variational() {
  auto algorithm = choice("algorithm", "Variational family", "meanfield",
                          branch("meanfield", "Independent Gaussians"),
                          branch("fullrank", "Gaussian with full covariance"));
  return branch(
      "variational", "Variational inference", std::move(algorithm),
      count("iter", "Maximum number of iterations", 10000),
      count("grad_samples", "Monte Carlo draws for the gradient", 1),
      count("elbo_samples", "Monte Carlo draws for the ELBO", 100),
      positive("eta", "Step size scale", 1),
      group("adapt", "Adaptation of eta", flag("engaged", "Whether eta is adapted", true),
            count("iter", "Iterations of the adaptation", 50)),
      positive("tol_rel_obj", "Convergence: relative change of the ELBO", 0.01),
      count("eval_elbo", "Evaluate the ELBO every eval_elbo iterations", 100),
      count("output_samples", "Approximate posterior draws to write", 1000));
}

inline std::unique_ptr<Group> diagnose() {
  auto gradient = branch("gradient", "Compare the gradient with finite differences",
                         positive("epsilon", "Step of the finite differences", 1e-6),
                         positive("error", "Error threshold", 1e-6));
  return branch("diagnose", "Model diagnostics",
                choice("test", "Diagnostic test", "gradient", std::move(gradient)));
}

inline std::unique_ptr<Group> generate_quantities() {
  return branch("generate_quantities", "Generated quantities of existing draws",
                text("fitted_params", "Stan CSV file with the draws", ""),
                count("num_chains", "Files of draws", 1));
}

inline std::unique_ptr<Group> pathfinder() {
  return std::make_unique<Group>(
      "pathfinder", "Pathfinder variational inference",
      line_search(history_size(), count("num_psis_draws", "Draws kept by resampling", 1000),
                  count("num_paths", "Single-path runs", 4),
                  flag("save_single_paths", "Write the draws of each path", false),
                  flag("psis_resample", "Resample with Pareto-smoothed weights", true),
                  flag("calculate_lp", "Compute the log density of each draw", true),
                  count("max_lbfgs_iters", "Maximum number of L-BFGS iterations", 1000),
                  count("num_draws", "Draws of each path", 1000),
                  count("num_elbo_draws", "Draws for the ELBO", 25)));
}

inline std::unique_ptr<Group> log_prob() {
  return branch("log_prob", "Log density and gradient at given parameters",
                text("unconstrained_params", "File with unconstrained parameters", ""),
                text("constrained_params", "File with constrained parameters", ""),
                flag("jacobian", "Include the change of variables", true));
}

inline std::unique_ptr<Group> laplace() {
  return branch("laplace", "Draws from the Laplace approximation",
                text("mode", "File with the mode: CSV of optimize, or JSON", ""),
                flag("jacobian", "Approximate on the unconstrained scale", true),
                count_or_zero("draws", "Draws to write", 1000),
                flag("calculate_lp", "Compute the log density of each draw", true));
}

// ---------------------------------------------------------------- the whole tree

inline ArgumentPtr output() {
  return group("output", "Output options", text("file", "Output file", "output.csv"),
               text("diagnostic_file", "File for diagnostics", ""),
               count_or_zero("refresh", "Iterations between progress lines", 100),
               option<int>("sig_figs", "Significant figures, -1 for the default of 6", -1,
                           {[](int v) { return v >= -1 && v <= 18; },
                            "0 <= sig_figs <= 18 or -1 for default precision"}),
               text("profile_file", "File for profiling times", "profile.csv"),
               flag("save_cmdstan_config", "Save this configuration as JSON", false));
}

inline ArgumentPtr seed() {
  return option<long long>(
      "seed", "Seed of the random number generator; -1 takes one from the clock", -1,
      {[](long long v) { return v >= -1 && v <= 4294967295LL; },
       "non-negative integer < 4294967296 or -1 to generate seed from system time"});
}

inline ArgumentPtr num_threads(int available, bool threaded) {
  if (!threaded)
    return option<int>("num_threads", "Threads; this executable is built without STAN_THREADS", 1,
                       {[](int v) { return v == 1; }, "num_threads = 1"});
  return option<int>("num_threads", "Threads, -1 for all cores", available,
                     {[](int v) { return v > 0 || v == -1; }, "num_threads > 0 || num_threads = -1"});
}

// `available`: threads asked for by the environment; used only in a threaded build.
inline CommandLine command_line(int available, bool threaded) {
  auto methods = list<Group>(sample(), optimize(), variational(), diagnose(),
                             generate_quantities(), pathfinder(), log_prob(), laplace());
  return CommandLine(arguments(
      std::make_unique<Choice>("method", "Analysis method", "sample", std::move(methods), true),
      count_or_zero("id", "Identifier of the process, varies the random numbers", 1),
      group("data", "Input data", text("file", "Data file, JSON or R dump", "")),
      text("init", "A number x for random initial values in (-x, x), or a file", "2"),
      group("random", "Random numbers", seed()), output(), num_threads(available, threaded)));
}

}  // namespace driver

#endif
