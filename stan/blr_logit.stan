// blr_logit: Bayesian logistic regression on the empirical mean embeddings.
//
// Bag i has the label y_i, 0 or 1; its mean embedding, minus the mean of all
// bags', has coordinates z_i in the principal axes of the training embeddings.
// The embedding is taken as exact, whatever the number of points in the bag.
//
//   y_i ~ bernoulli_logit(intercept + z_i' w)
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//
// The sampler moves in t: whitened_weights() turns it into w. Whatever the
// whitening's data, the posterior is the same.
// Units: intercept, w, rho on the scale of log odds; z has none.
// Data: bdr_stan/models/blr_logit.py, blr_logit_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1, with
// logistic in place of normal labels.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
}
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // coordinates (landmarks)
  matrix[N, D] z;                        // embeddings of the bags
  array[N] int<lower=0, upper=1> y;      // labels
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] pull;                        // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D] intercept_slope;             // its change with w
  real<lower=0> intercept_unit;          // its change with t
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  int bad = first_row_not_finite(z);
  array[4] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd};
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median and rho_log_sd must",
           " be > 0, found ", positive);
  }
  if (bad > 0) {
    reject("row ", bad, " of z must hold finite numbers, found ", z[bad]);
  }
}
parameters {
  vector[D + 1] t;                       // whitened [w; intercept]
  real<lower=0> rho;
}
transformed parameters {
  vector[D] precision = information + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, pull, axes);
  real intercept = intercept_centre + dot_product(intercept_slope, w)
                   + intercept_unit * t[D + 1];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  rho ~ lognormal(log(rho_median), rho_log_sd);
  if (use_likelihood) {
    y ~ bernoulli_logit_glm(z, intercept, w);
  }
}
