// aggregate_identity: normal totals with rates that differ in each bag.
//
// Point j of bag a has the weight p_j, the features psi_j of a kernel and K
// columns g_j, the first of them 1. Its outcome is normal(f_j + g_j' c_a, sigma),
// and the bag's label y_a is the sum of the outcomes, times p_j, with an error
// of the known variance v_a. The bag's effects c_a are integrated out:
//
//   y_a ~ normal(sum_j p_j f_j, sqrt(nu_a))
//   f_j = intercept + psi_j' w
//   nu_a = G_a' Sigma G_a + sigma^2 sum_j p_j^2 + v_a,    G_a = sum_j p_j g_j
//   c_a ~ normal(0, Sigma),  Sigma = diag(effect_sd) Omega diag(effect_sd)
//   Omega ~ LKJ(effect_correlation_shape)
//   effect_sd_k ~ half-normal(0, effect_sd_scale)
//   sigma ~ half-normal(0, sigma_scale)
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho),  rho ~ lognormal(log(rho_median), rho_log_sd)
//
// NUTS samples t, whitened coordinates of [w; intercept], with the same posterior.
// Units: y and p as given; rho in units of f, all others of y per p.
// Data: bdr_stan/models/totals.py, totals_with_effects_data().
// Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018),
// section 3, with effects as in Goldstein (1995), Multilevel Statistical Models.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
}
data {
  int<lower=1> A;                        // bags
  int<lower=1> D;                        // weights (landmarks)
  int<lower=1> K;                        // effects of each bag
  matrix[A, D + 2] rows;                 // [sum_j p_j psi_j, sum_j p_j, y]
  matrix[A, K] effect_columns;           // G_a
  vector<lower=0>[A] squared_weights;    // sum_j p_j^2
  vector<lower=0>[A] known_variance;     // v_a of the error of each label
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D] intercept_slope;             // its change with w
  real<lower=0> intercept_unit;          // its change with t
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  real<lower=0> sigma_scale;             // prior scale of sigma
  real<lower=0> effect_sd_scale;         // prior scale of each effect_sd
  real<lower=0> effect_correlation_shape;  // of LKJ, 1: uniform
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  matrix[A, D + 1] x = rows[, 1 : D + 1];
  vector[A] y = rows[, D + 2];
  array[7] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd, sigma_scale, effect_sd_scale,
                            effect_correlation_shape};
  int bad = first_row_not_finite(append_col(append_col(rows, effect_columns),
                                            known_variance));
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median, rho_log_sd,",
           " sigma_scale, effect_sd_scale and effect_correlation_shape must be",
           " > 0, found ", positive);
  }
  if (bad > 0) {
    reject("row ", bad, " of rows, effect_columns and known_variance must hold",
           " finite numbers, found ", rows[bad], ", ", effect_columns[bad], " and ",
           known_variance[bad]);
  }
  if (!(min(squared_weights) > 0)) {
    reject("squared_weights must be > 0, found ", min(squared_weights));
  }
}
parameters {
  vector[D + 1] t;                       // whitened [w; intercept]
  real<lower=0> rho;
  real<lower=0> sigma;
  vector<lower=0>[K] effect_sd;
  cholesky_factor_corr[K] effect_factor; // of Omega
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
  sigma ~ normal(0, sigma_scale);
  effect_sd ~ normal(0, effect_sd_scale);
  effect_factor ~ lkj_corr_cholesky(effect_correlation_shape);
  if (use_likelihood) {
    // Rows G_a' F, where F F' = Sigma.
    matrix[A, K] spread = effect_columns
                          * diag_pre_multiply(effect_sd, effect_factor);
    y ~ normal(x * append_row(w, intercept),
               sqrt(rows_dot_self(spread) + square(sigma) * squared_weights
                    + known_variance));
  }
}
generated quantities {
  matrix[K, K] effect_correlation
    = multiply_lower_tri_self_transpose(effect_factor);
}
