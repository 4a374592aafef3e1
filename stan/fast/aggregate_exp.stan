// aggregate_exp: rates at points, learned from totals of bags; rate exp(f).
//
// Point j of bag a has the weight p_j (its population), the features psi_j of
// a kernel and the rate exp(f_j). The bag's label y_a has the mean
//
//   lambda_a = exp(effect_a) sum_j p_j exp(f_j),   f_j = intercept + psi_j' w
//
//   y_a ~ a likelihood of mean lambda_a, possibly with scales; those that there
//         are, and their numbers, are in functions/aggregate.stanfunctions
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)        makes f a Gaussian process, variance rho^2 k
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//   scale_k ~ normal(scale_location_k, scale_prior_k), above 0   scales of the
//             likelihood; label errors add error_variance_a to its square
//   effect_a ~ normal(0, tau), tau ~ half-normal(0, tau_scale), or no effects
//
// Every point is a row [psi_j', 1]; reduce_sum shares the bags among threads.
// The sampler moves in t and t_effect: whitened_weights() turns t into w,
// whitened_effects() the other into effects. Whatever the whitening's data,
// the posterior is the same.
// Units: y and p as given, exp(intercept) in units of y per p; w, rho, tau and
// the effects on the scale of log rates.
// Data: bdr_stan/models/aggregate.py, aggregate_data().
// Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018),
// section 3, with the posterior instead of its variational approximation.
functions {
  #include functions/whitening.stanfunctions
  #include functions/finite.stanfunctions
  #include functions/aggregate.stanfunctions
  #include functions/effects.stanfunctions
  #include functions/log_totals.stanfunctions
}
data {
  int<lower=1> A;                        // bags
  int<lower=1> D;                        // weights (landmarks)
  int<lower=1> T;                        // points of all bags
  matrix[T, D + 1] rows;                 // their rows [psi, 1]
  vector<lower=0>[T] weight;             // p_j, > 0
  array[A] int<lower=1, upper=T> start;  // first point of the bag
  array[A] int<lower=1> length;          // points of the bag
  vector<lower=0>[A] y;                  // labels
  vector<lower=0>[A] error_variance;     // of labels, relative to them
  int<lower=1> likelihood;               // its number
  int<lower=0> n_scales;                 // its scales
  int<lower=0, upper=1> has_effects;     // 1: an effect of each bag
  int<lower=1> grainsize;                // bags per task of a thread
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D] intercept_slope;             // its change with w
  real<lower=0> intercept_unit;          // its change with t
  vector<lower=0>[has_effects * A] effect_information;  // of labels on effects
  vector[has_effects * A] effect_target;   // log of each label
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  vector[n_scales] scale_location;       // normal priors of its scales, above 0
  vector<lower=0>[n_scales] scale_prior;
  real<lower=0> tau_scale;               // prior scale of tau
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  matrix[D + 1, T] phi = rows';          // a bag's points are consecutive
  vector[T] log_weight = log(weight);
  array[A] int count = zeros_int_array(A);
  array[5] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd, tau_scale};
  if (!(min(append_array(positive, to_array_1d(scale_prior))) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median, rho_log_sd,",
           " tau_scale and scale_prior must be > 0, found ", positive,
           " and ", scale_prior);
  }
  array[3] int checked = {check_likelihood(likelihood, n_scales,
                                           error_variance),
                          check_effects(effect_information, use_likelihood),
                          check_rows(rows, start, length)};
  for (j in 1 : T) {
    if (weight[j] == 0) {
      reject("weight[", j, "] must be > 0, found 0: leave the point out");
    }
  }
  if (is_of_counts(likelihood)) {
    count = as_counts(y);
  }
}
parameters {
  vector[D + 1] t;                       // whitened [w; intercept]
  real<lower=0> rho;
  vector<lower=0>[n_scales] scale;       // of the likelihood
  array[has_effects] real<lower=0> tau;
  vector[has_effects * A] t_effect;      // whitened effects
}
transformed parameters {
  vector[D] precision = information + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, linear_term, axes);
  real intercept = intercept_centre + dot_product(intercept_slope, w)
                   + intercept_unit * t[D + 1];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  rho ~ lognormal(log(rho_median), rho_log_sd);
  scale ~ normal(scale_location, scale_prior);
  tau ~ normal(0, tau_scale);
  if (use_likelihood) {
    // static: the sum does not depend on the number of threads
    target += reduce_sum_static(bags_log_density, start, grainsize, length,
                                phi, log_weight, y, count, likelihood,
                                effect_information, effect_target,
                                append_row(w, intercept), t_effect, tau,
                                scale, error_variance);
  } else {
    t_effect ~ std_normal();
  }
}
generated quantities {
  vector[has_effects * A] effect;
  if (has_effects) {
    vector[A] log_lambda = log_means(append_row(w, intercept), start, length,
                                     phi, log_weight);
    effect = whitened_effects(t_effect, log_lambda, effect_information,
                              effect_target, tau[1]);
  }
}
