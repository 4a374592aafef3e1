// bdr: Bayesian distribution regression, weights and embeddings uncertain.
//
// Bag i has N_i points and the label y_i. Its mean embedding, minus the mean
// of all bags', has coordinates z_i in the joint basis; the prior of the true
// embedding is N(0, eta I) there, its empirical estimate has variance
// lambda / N_i. x_i are the bag's Q covariates, standardised, if it has any.
// With the embedding integrated out,
//
//   y_i ~ normal(intercept + (s_i .* w)' z_i + x_i' gamma, sqrt(nu_i))
//   s_ik = eta / (eta + lambda_k / N_i)
//   nu_i = eta * sum_k w_k^2 (1 - s_ik) + sigma^2 + sigma_point^2 / N_i + v_i
//
// sigma_point is there if size_noise = 1: what one point adds to the noise of
// a label that is an average over the bag's points. v_i is the variance of the
// label's error where that is known, else 0.
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   gamma_j ~ normal(0, gamma_scale)           weights of the covariates
//   w ~ multi_normal(0, rho^2 (P' P)^-1)       P = prior_factor
//   sigma ~ half-normal(0, sigma_scale)        noise standard deviation
//   sigma_point ~ half-normal(0, sigma_point_scale)
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//   eta ~ lognormal(log(eta_median), eta_log_sd)
//
// Bags of equal size and v share s and nu, so the rows [z_i, x_i, 1, y_i] of
// such a group are replaced by the triangular factor of their QR decomposition:
// the same likelihood, at most D + Q + 2 rows a group.
// The sampler moves in t, which is turned into theta = [w; gamma; intercept]:
//
//   w = axes (pull / precision + u_w / sqrt(precision)),    u = t + drift moved
//   precision = information + 1 / rho^2
//
// so gamma follows w, and the intercept both: as whitened_weights() of
// functions/whitening.stanfunctions, but in one linear map. moved says how far
// sigma, eta and sigma_point are from where the whitening was computed, and
// drift how the most probable weights go with them. Whatever the whitening's
// data, the posterior is the same.
// stanc: --O1
// With it, autodiff keeps vectors and matrices of parameters as such instead of
// entry by entry, unless one is handed to a function that returns such, joined
// to others, or read entry by entry in a loop: twice as fast.
// Units: y, intercept, gamma, sigma, sigma_point, w, rho in units of y; eta, z
// and x have none.
// Data: bdr_stan/models/bdr.py, bdr_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
functions {
  #include functions/finite.stanfunctions
  #include functions/covariates.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/group_normal.stanfunctions
}
data {
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal size and v
  int<lower=1> T;                        // rows of all groups
  vector<lower=0>[G] bag_size;           // points per bag
  array[G] int<lower=1> n_bags;          // bags per group
  array[G] int<lower=1, upper=T> start;  // first row of the group
  array[G] int<lower=1> length;          // rows of the group
  matrix[T, D + Q + 2] rows;             // [z, x, 1, y], compressed
  vector<lower=0>[G] known_variance;     // v of each group
  int<lower=0, upper=1> size_noise;      // 1: the labels have sigma_point
  vector<lower=0>[D] lambda;             // within-bag variances
  matrix[D, D] prior_factor;             // P, identity if R = K
  vector<lower=0>[D] information;        // whitening: precision by the labels
  vector[D] pull;                        // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D + Q] intercept_slope;         // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector[Q] gamma_centre;                // gamma at w = 0, t = 0
  matrix[Q, D] gamma_slope;              // its change with w
  matrix[Q, Q] gamma_unit;               // its change with t, triangular
  vector<lower=0>[2 + size_noise] middle;         // sigma, eta, sigma_point
  matrix[D + Q + 1, 2 + size_noise] drift;        // change of t with these
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  real<lower=0> sigma_scale;             // prior scale of sigma
  real<lower=0> sigma_point_scale;       // prior scale of sigma_point
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  real<lower=0> eta_median;              // prior median of eta
  real<lower=0> eta_log_sd;              // prior sd of log(eta)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  int P = D + Q + 1;                     // entries of theta
  matrix[P, T] x = rows[, 1 : P]';       // a group's rows lie together
  vector[T] y = rows[, P + 1];
  array[T] int group = group_of_rows(T, start, length, n_bags, bag_size,
                                     known_variance);
  // What covariates and intercept multiply is known: it does not shrink.
  matrix[P, G] within = append_row(lambda * inv(bag_size)',
                                   rep_matrix(0, Q + 1, G));
  vector[P] pull_of_theta = append_row(pull, rep_vector(0, Q + 1));
  vector[P] centre = rep_vector(0, P);
  matrix[P, P] axes_of_theta = rep_matrix(0, P, P);
  int bad = first_row_not_finite(rows);
  array[9] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            sigma_scale, sigma_point_scale, rho_median,
                            rho_log_sd, eta_median, eta_log_sd};
  if (bad > 0) {
    reject("row ", bad, " of rows must hold finite numbers, found ", rows[bad]);
  }
  for (k in 1 : D) {
    real squares = dot_self(prior_factor[, k]);
    if (!(squares > 0 && squares < positive_infinity())) {
      reject("column ", k, " of prior_factor must hold finite numbers, not all",
             " of them 0, found ", prior_factor[, k]);
    }
  }
  check_gamma_unit(gamma_unit);
  axes_of_theta[1 : D, 1 : D] = axes;
  axes_of_theta[D + 1 : D + Q, 1 : D] = gamma_slope * axes;
  axes_of_theta[D + 1 : D + Q, D + 1 : D + Q] = gamma_unit;
  axes_of_theta[P] = intercept_slope' * axes_of_theta[1 : D + Q];
  axes_of_theta[P, P] = intercept_unit;
  centre[D + 1 : D + Q] = gamma_centre;
  centre[P] = intercept_centre
              + dot_product(intercept_slope, centre[1 : D + Q]);
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, sigma_scale,",
           " sigma_point_scale, rho_median, rho_log_sd, eta_median and",
           " eta_log_sd must be > 0, found ", positive);
  }
}
parameters {
  vector[D + Q + 1] t;                   // whitened [w; gamma; intercept]
  real<lower=0> sigma;
  vector<lower=0>[size_noise] sigma_point;
  real<lower=0> rho;
  real<lower=0> eta;
}
transformed parameters {
  vector[P] precision = append_row(information + inv_square(rho),
                                   rep_vector(1, Q + 1));
  vector[2 + size_noise] moved = append_row(
    [0.5 * (square(sigma / middle[1]) - 1), log(eta / middle[2])]',
    0.5 * (square(sigma_point ./ tail(middle, size_noise)) - 1));
  vector[P] theta = centre + axes_of_theta
                    * (pull_of_theta ./ precision
                       + (t + drift * moved) ./ sqrt(precision));
  vector[D] w = theta[1 : D];
  vector[Q] gamma = theta[D + 1 : D + Q];
  real intercept = theta[P];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  prior_factor * w ~ normal(0, rho);     // linear in w: no Jacobian
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  sigma ~ normal(0, sigma_scale);
  sigma_point ~ normal(0, sigma_point_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  if (use_likelihood) {
    vector[P] scale = eta + 0 * theta;   // eta, as a vector of parameters
    matrix[P, G] shrunk = diag_pre_multiply(theta,
                            inv(1 + diag_pre_multiply(inv(scale), within)));
    for (g in 1 : G) {
      int a = start[g];
      int b = a + length[g] - 1;
      int n = n_bags[g];
      // eta (1 - s) = s .* within, shrunk = theta .* s
      real nu = dot_product(theta, shrunk[, g] .* within[, g])
                + square(sigma) + known_variance[g];
      if (size_noise) {
        nu += square(sigma_point[1]) / bag_size[g];
      }
      target += group_normal_lupdf(y[a : b] | x[, a : b]', shrunk[, g], nu, n);
    }
  }
}
