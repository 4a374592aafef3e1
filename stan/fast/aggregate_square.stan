// aggregate_square: rates at points, learned from totals of bags; rate f^2.
//
// Point j of bag a has the weight p_j (its population), the features psi_j of
// a kernel and the rate f_j^2. The bag's label y_a has the mean lambda_a under
// a likelihood of functions/aggregate.stanfunctions, possibly with scales.
//
//   lambda_a = exp(effect_a) (sum_j p_j f_j^2 + rho^2 residual_a)
//   f_j = intercept + psi_j' w
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)        makes f a Gaussian process, variance rho^2 k
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//   scale_k ~ normal(scale_location_k, scale_prior_k), above 0   scales of the
//             likelihood; label errors add error_variance_a to its square
//   effect_a ~ normal(0, tau), tau ~ half-normal(0, tau_scale), or no effects
//
// The prior of the intercept, well above zero, identifies the sign of f.
// residual_a = sum_j p_j (k(x_j, x_j) - |psi_j|^2), of f outside psi.
// sum_j p_j f_j^2 = |Q_a [w; intercept]|^2 with Q_a a triangular factor of the
// rows sqrt(p_j) [psi_j', 1]. If smaller, the triangle of Q_a' Q_a is given
// instead, packed to one row per bag, off-diagonal entries doubled.
// NUTS samples t and t_effect, which whitened_weights() and whitened_effects()
// map to w and effects; these have the same posterior.
// Units: y and p as given, f^2, intercept^2 and rho^2 in units of y per p.
// Data: bdr_stan/models/aggregate.py, aggregate_data().
// Source: Law, Sejdinovic, Cameron, Lucas, Flaxman, Battle, Fukumizu (2018),
// section 3, with the posterior instead of its variational approximation.
functions {
  #include functions/whitening.stanfunctions
  #include functions/finite.stanfunctions
  #include functions/aggregate.stanfunctions
  #include functions/effects.stanfunctions
  #include functions/squares.stanfunctions
  /**
   * Logarithms of the bags' means without effects, |Q_a theta|^2 + rho^2 c_a.
   * @param residual_variance c_a, variance of f outside the basis
   * @param x rows of the bags, if there are any
   * Further arguments: as in data.
   */
  vector log_means(vector theta, real rho, vector residual_variance, matrix x,
                   array[] int start, array[] int length, matrix packed) {
    vector[size(residual_variance)] rest = square(rho) * residual_variance;
    if (rows(packed) > 0) {
      return log(packed * products_of_pairs(theta) + rest);
    }
    return log(sums_of_squares(x * theta, start, length) + rest);
  }
}
data {
  int<lower=1> A;                        // bags
  int<lower=1> D;                        // weights (landmarks)
  int<lower=0> T;                        // rows of all bags, 0 if packed
  matrix[T, D + 1] rows;                 // factors Q_a, [psi, 1]
  array[T > 0 ? A : 0] int<lower=1> start;   // first row of the bag
  array[T > 0 ? A : 0] int<lower=1> length;  // rows of the bag
  int<lower=0> P;                        // (D + 1) (D + 2) / 2 if packed, or 0
  matrix[P > 0 ? A : 0, P] packed;       // triangles of Q_a' Q_a
  vector<lower=0>[A] residual_variance;  // of f outside the basis
  vector<lower=0>[A] y;                  // labels
  vector<lower=0>[A] error_variance;     // of labels, relative to them
  int<lower=1> likelihood;               // its number
  int<lower=0> n_scales;                 // its scales
  int<lower=0, upper=1> has_effects;     // 1: an effect of each bag
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
  array[A] int count = zeros_int_array(A);
  array[5] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd, tau_scale};
  if (!(min(append_array(positive, to_array_1d(scale_prior))) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median, rho_log_sd,",
           " tau_scale and scale_prior must be > 0, found ", positive,
           " and ", scale_prior);
  }
  array[2] int checked = {check_likelihood(likelihood, n_scales,
                                           error_variance),
                          check_effects(effect_information, use_likelihood)};
  if ((T > 0) == (P > 0)) {
    reject("the bags must be given either as rows (T > 0) or packed (P > 0), ",
           "found T = ", T, " and P = ", P);
  }
  if (P > 0 && P != ((D + 1) * (D + 2)) %/% 2) {
    reject("P must be ", ((D + 1) * (D + 2)) %/% 2, ", the entries of a ",
           "triangle of D + 1 columns, found ", P);
  }
  if (T > 0) {
    int rows_checked = check_rows(rows, start, length);
  } else if (first_row_not_finite(packed) > 0) {
    int bad = first_row_not_finite(packed);
    reject("row ", bad, " of packed must hold finite numbers, found ",
           packed[bad]);
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
    vector[A] log_lambda = log_means(append_row(w, intercept), rho, residual_variance,
                                     rows, start, length, packed);
    if (has_effects) {
      vector[A] effect = whitened_effects(t_effect, log_lambda,
                                          effect_information, effect_target,
                                          tau[1]);
      target += effects_log_density(effect, effect_information, tau[1]);
      log_lambda += effect;
    }
    target += log_density_with_errors(y, count, log_lambda, likelihood, scale,
                                      error_variance);
  } else {
    t_effect ~ std_normal();
  }
}
generated quantities {
  vector[has_effects * A] effect;
  if (has_effects) {
    vector[A] log_lambda = log_means(append_row(w, intercept), rho, residual_variance,
                                     rows, start, length, packed);
    effect = whitened_effects(t_effect, log_lambda, effect_information,
                              effect_target, tau[1]);
  }
}
