// blr: Bayesian linear regression on the empirical mean embeddings.
//
// Bag i has the label y_i; its mean embedding, minus the mean of all bags',
// has coordinates z_i in the principal axes of the training embeddings. The
// embedding is taken as exact, whatever the number of points in the bag.
//
//   y_i ~ normal(intercept + z_i' w, sigma)
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)
//   sigma ~ half-normal(0, sigma_scale)        noise standard deviation
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//
// The rows [z_i, 1, y_i] of all bags are replaced by the triangular factor of
// their QR decomposition: the same likelihood in at most D + 2 rows.
// The sampler moves in t: whitened_weights() turns it into w. Whatever the
// whitening's data, the posterior is the same.
// Units: y, intercept, sigma, w, rho in units of y; z has none.
// Data: bdr_stan/models/blr.py, blr_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/compressed_normal.stanfunctions
}
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=1> T;                        // rows
  matrix[T, D + 2] rows;                 // [z, 1, y], compressed
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] pull;                        // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D] intercept_slope;             // its change with w
  real<lower=0> intercept_unit;          // its change with t
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> sigma_scale;             // prior scale of sigma
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  int bad = first_row_not_finite(rows);
  array[5] real positive = {intercept_unit, intercept_scale, sigma_scale,
                            rho_median, rho_log_sd};
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, sigma_scale, rho_median and",
           " rho_log_sd must be > 0, found ", positive);
  }
  if (T > N) {
    reject("T must be at most N = ", N, ", the number of bags, found ", T);
  }
  if (bad > 0) {
    reject("row ", bad, " of rows must hold finite numbers, found ", rows[bad]);
  }
}
parameters {
  vector[D + 1] t;                       // whitened [w; intercept]
  real<lower=0> sigma;
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
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  if (use_likelihood) {
    vector[T] e = rows * append_row(w, [intercept, -1]');
    target += compressed_normal_lpdf(e | N, square(sigma));
  }
}
