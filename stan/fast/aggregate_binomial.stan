// aggregate_binomial: proportions at points, learned from surveys of bags.
//
// Point j of bag a has the weight p_j (its population), the features psi_j of
// a kernel and the log odds f_j. Of the trials_a people asked in the bag, each
// drawn in proportion to the weights, y_a are positive:
//
//   y_a ~ binomial(trials_a, sum_j p_j inv_logit(f_j) / sum_j p_j)
//   f_j = intercept + psi_j' w + effect_a
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)        makes f a Gaussian process, variance rho^2 k
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//   effect_a ~ normal(0, tau), tau ~ half-normal(0, tau_scale), or no effects
//
// Every point is a row [psi_j', 1].
// The sampler moves in t and t_effect: whitened_weights() turns t into w,
// whitened_effects() the other into effects. Whatever the whitening's data,
// the posterior is the same.
// Units: intercept, w, rho, tau, effects on the scale of log odds; p as given.
// Data: bdr_stan/models/aggregate.py, aggregate_data().
// Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018),
// section 3, with binomial labels.
functions {
  #include functions/whitening.stanfunctions
  #include functions/finite.stanfunctions
  #include functions/aggregate.stanfunctions
  #include functions/effects.stanfunctions
  /**
   * Mean of inv_logit over the points of each bag.
   * @param f log odds at the points
   * @param effect of each bag, added to f
   * @param share of each point in its bag, summing to 1
   * @param start, end first and last point of each bag
   */
  vector mean_rates(vector f, vector effect, vector share,
                    array[] int start, array[] int end) {
    int n = size(start);
    vector[n] means;
    for (a in 1 : n) {
      means[a] = dot_product(share[start[a] : end[a]],
                             inv_logit(f[start[a] : end[a]] + effect[a]));
    }
    return means;
  }
}
data {
  int<lower=1> A;                        // bags
  int<lower=1> D;                        // weights (landmarks)
  int<lower=1> T;                        // points of all bags
  matrix[T, D + 1] rows;                 // their rows [psi, 1]
  vector<lower=0>[T] weight;             // p_j, > 0 somewhere in each bag
  array[A] int<lower=1, upper=T> start;  // first point of the bag
  array[A] int<lower=1> length;          // points of the bag
  array[A] int<lower=0> trials;          // people asked
  array[A] int<lower=0> y;               // labels, <= trials
  int<lower=0, upper=1> has_effects;     // 1: an effect of each bag
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D] intercept_slope;             // its change with w
  real<lower=0> intercept_unit;          // its change with t
  vector<lower=0>[has_effects * A] effect_information;  // of labels on effects
  vector[has_effects * A] effect_target;  // log odds of each label
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  real<lower=0> tau_scale;               // prior scale of tau
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  array[A] int end;                      // last point of the bag
  vector[T] share = weight;              // p_j / sum_j p_j
  array[5] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd, tau_scale};
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median, rho_log_sd and",
           " tau_scale must be > 0, found ", positive);
  }
  array[2] int checked = {check_effects(effect_information, use_likelihood),
                          check_rows(rows, start, length)};
  for (a in 1 : A) {
    end[a] = start[a] + length[a] - 1;
    if (sum(weight[start[a] : end[a]]) == 0) {
      reject("the weights of bag ", a, " must not all be 0");
    }
    share[start[a] : end[a]] /= sum(weight[start[a] : end[a]]);
    if (y[a] > trials[a]) {
      reject("y[", a, "] must be <= trials, found ", y[a], " > ", trials[a]);
    }
  }
}
parameters {
  vector[D + 1] t;                       // whitened [w; intercept]
  real<lower=0> rho;
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
  tau ~ normal(0, tau_scale);
  if (use_likelihood) {
    vector[T] f = rows * append_row(w, intercept);
    vector[A] effect = zeros_vector(A);
    if (has_effects) {
      vector[A] odds = logit(mean_rates(f, effect, share, start, end));
      effect = whitened_effects(t_effect, odds, effect_information,
                                effect_target, tau[1]);
      target += effects_log_density(effect, effect_information, tau[1]);
    }
    y ~ binomial(trials, mean_rates(f, effect, share, start, end));
  } else {
    t_effect ~ std_normal();
  }
}
generated quantities {
  vector[has_effects * A] effect;
  if (has_effects) {
    vector[T] f = rows * append_row(w, intercept);
    vector[A] odds = logit(mean_rates(f, zeros_vector(A), share, start, end));
    effect = whitened_effects(t_effect, odds, effect_information,
                              effect_target, tau[1]);
  }
}
