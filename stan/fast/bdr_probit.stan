// bdr_probit: classes of bags, weights and mean embeddings both uncertain.
//
// Bag i has N_i points, Q covariates x_i and the label y_i, 0 or 1. In the
// joint basis, centred at the average of all bags, its true mean embedding has
// the prior N(0, eta I) and its empirical one, z_i, the sampling variance
// lambda / N_i. The label is 1 if the latent function at the true embedding
// plus x_i' gamma plus N(0, 1) is positive. With the true embedding integrated
// out,
//
//   P(y_i = 1) = Phi(xi_i / sqrt(1 + nu_i))
//   xi_i = intercept + (s_i .* w)' z_i + x_i' gamma
//   s_ik = eta / (eta + lambda_k / N_i)                     shrinkage factors
//   nu_i = eta * sum_k w_k^2 (1 - s_ik)
//
// Bags are sorted by size: bags of one group share s and nu.
// NUTS samples t, whitened coordinates of theta = [w; gamma; intercept]: there
// the posterior is nearly standard normal, and theta has the same posterior.
// The labels identify theta in units of sqrt(1 + nu), which grows with rho, so
// the unit of t also does.
// Units: intercept, gamma, w, rho in sds of the latent noise; eta, z and x have
// none.
// Data: bdr_stan/models/two_classes.py, bdr_probit_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), appendix B.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/shrinkage.stanfunctions
}
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal size
  vector<lower=0>[G] bag_size;           // points per bag
  array[G] int<lower=1, upper=N> start;  // first bag of the group
  array[G] int<lower=1> length;          // bags of the group
  matrix[N, D] z;                        // embeddings of the bags
  matrix[N, Q] x;                        // their covariates, standardised
  array[N] int<lower=0, upper=1> y;      // labels
  vector<lower=0>[D] lambda;             // within-bag variances
  matrix[D, D] prior_factor;             // P, identity if R = K
  real<lower=0> latent_spread;           // whitening: typical nu / rho^2
  vector<lower=0>[D] information;        // precision by the labels, unit 1
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0, unit 1
  vector[D + Q] intercept_slope;         // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t, unit 1
  vector[Q] gamma_centre;                // gamma at w = 0, t = 0, unit 1
  matrix[Q, D] gamma_slope;              // its change with w
  matrix[Q, Q] gamma_unit;               // its change with t, unit 1
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  real<lower=0> eta_median;              // prior median of eta
  real<lower=0> eta_log_sd;              // prior sd of log(eta)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  matrix[D, N] zt = z';                  // a group's bags are consecutive
  vector[N] sign = 2 * to_vector(y) - 1;
  array[N] int group = group_of_rows(N, start, length, bag_size,
                                     zeros_vector(G)); // of each bag
  int bad = first_row_not_finite(z);
  int bad_x = first_row_not_finite(x);
  array[7] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            rho_median, rho_log_sd, eta_median, eta_log_sd};
  if (bad > 0) {
    reject("row ", bad, " of z must hold finite numbers, found ", z[bad]);
  }
  if (bad_x > 0) {
    reject("row ", bad_x, " of x must hold finite numbers, found ", x[bad_x]);
  }
  array[2] int checked = {check_prior_factor(prior_factor),
                          check_gamma_unit(gamma_unit)};
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, rho_median,",
           " rho_log_sd, eta_median and eta_log_sd must be > 0, found ",
           positive);
  }
}
parameters {
  vector[D + Q + 1] t;                   // whitened [w; gamma; intercept]
  real<lower=0> rho;
  real<lower=0> eta;
}
transformed parameters {
  real unit = sqrt(1 + latent_spread * square(rho));
  vector[D] precision = information / square(unit) + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, linear_term / unit, axes);
  vector[Q] gamma = gamma_slope * w
                    + unit * (gamma_centre + gamma_unit * t[D + 1 : D + Q]);
  real intercept = dot_product(intercept_slope, append_row(w, gamma))
                   + unit * (intercept_centre + intercept_unit * t[D + Q + 1]);
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  prior_factor * w ~ normal(0, rho);     // linear in w: no Jacobian
  // Jacobian of t -> [w; gamma; intercept] at given rho
  target += -0.5 * sum(log(precision)) + (Q + 1) * log(unit);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  if (use_likelihood) {
    matrix[D, G] s = shrinkage_factors(lambda, bag_size, eta);
    vector[G] sd = sqrt(predictive_variance(w, s, eta, 1)); // latent noise: 1
    matrix[D, G] sw = diag_pre_multiply(w, s);
    vector[N] xi = rep_vector(intercept, N);
    for (g in 1 : G) {
      int last = start[g] + length[g] - 1;
      xi[start[g] : last] += (sw[, g]' * zt[, start[g] : last])';
    }
    if (Q > 0) {
      xi += x * gamma;
    }
    target += std_normal_lcdf(sign .* xi ./ sd[group]);
  }
}
