// blr_logit: Bayesian logistic regression on the empirical mean embeddings.
//
// Bag i has Q covariates x_i and the label y_i, 0 or 1. z_i is its empirical
// mean embedding in the principal axes of the training embeddings, centred at
// their average; it is treated as exact, whatever the bag's size.
//
//   y_i ~ bernoulli_logit(intercept + z_i' w + x_i' gamma)
//
// NUTS samples t, whitened coordinates of theta = [w; gamma; intercept]: there
// the posterior is nearly standard normal, and theta has the same posterior.
// Units: intercept, gamma, w, rho on the scale of log odds; z and x have none.
// Data: bdr_stan/models/two_classes.py, blr_logit_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1, with
// logistic instead of normal labels.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
}
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  matrix[N, D] z;                        // embeddings of the bags
  matrix[N, Q] x;                        // their covariates, standardised
  array[N] int<lower=0, upper=1> y;      // labels
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D + Q] intercept_slope;         // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector[Q] gamma_centre;                // gamma at w = 0, t = 0
  matrix[Q, D] gamma_slope;              // its change with w
  matrix[Q, Q] gamma_unit;               // its change with t, triangular
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  int bad = first_row_not_finite(z);
  int bad_x = first_row_not_finite(x);
  matrix[N, D + Q] zx = append_col(z, x);
  array[5] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            rho_median, rho_log_sd};
  int checked = check_gamma_unit(gamma_unit);
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, rho_median and",
           " rho_log_sd must be > 0, found ", positive);
  }
  if (bad > 0) {
    reject("row ", bad, " of z must hold finite numbers, found ", z[bad]);
  }
  if (bad_x > 0) {
    reject("row ", bad_x, " of x must hold finite numbers, found ", x[bad_x]);
  }
}
parameters {
  vector[D + Q + 1] t;                   // whitened [w; gamma; intercept]
  real<lower=0> rho;
}
transformed parameters {
  vector[D] precision = information + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, linear_term, axes);
  vector[Q] gamma = gamma_centre + gamma_slope * w
                    + gamma_unit * t[D + 1 : D + Q];
  real intercept = intercept_centre
                   + dot_product(intercept_slope, append_row(w, gamma))
                   + intercept_unit * t[D + Q + 1];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  w ~ normal(0, rho);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  rho ~ lognormal(log(rho_median), rho_log_sd);
  if (use_likelihood) {
    y ~ bernoulli_logit_glm(zx, intercept, append_row(w, gamma));
  }
}
