// blr: Bayesian linear regression on the empirical mean embeddings.
//
// Bag i has N_i points, Q covariates x_i and the label y_i. z_i is its
// empirical mean embedding in the principal axes of the training embeddings,
// centred at their average; it is treated as exact, whatever N_i.
//
//   y_i ~ normal(intercept + z_i' w + x_i' gamma + b_i, sqrt(nu_i))
//   nu_i = sigma^2 + sigma_point^2 / N_i + v_i
//
// v_i is the known variance of the label's error, b_i the effect of groups and
// smooth functions (functions/terms.stanfunctions). sigma_point is the noise of
// one point, if a label is an average over points (size_noise = 1).
// Bags of equal nu form a group. Its rows [z_i, x_i, 1, y_i] are replaced by
// the triangular factor of their QR decomposition, which has the same
// likelihood in at most D + Q + 2 rows. If nu are many, groups at a few,
// some subtracted, replace them with the same likelihood to rounding.
// NUTS samples t, whitened coordinates of theta = [w; gamma; intercept]: there
// the posterior is nearly standard normal, and theta has the same posterior.
// Units: as y; z, x and term_length have none.
// Data: bdr_stan/models/bdr.py, blr_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/terms.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/compressed_normal.stanfunctions
}
data {
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal nu
  int<lower=1> T;                        // rows of all groups
  vector<lower=0>[G] bag_size;           // points per bag
  vector<lower=0>[G] n_bags;             // bags per group
  vector<lower=-1, upper=1>[G] sign;     // -1: the group is subtracted
  array[G] int<lower=1, upper=T> start;  // first row of the group
  array[G] int<lower=1> length;          // rows of the group
  matrix[T, D + Q + 2] rows;             // [z, x, 1, y], compressed
  vector<lower=0>[G] known_variance;     // v of each group
  int<lower=0, upper=1> size_noise;      // 1: the labels have sigma_point
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
  real<lower=0> sigma_scale;             // prior scale of sigma
  real<lower=0> sigma_point_scale;       // prior scale of sigma_point
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior

  // Groups and smooth functions: see functions/terms.stanfunctions
  int<lower=0> B;                        // terms
  int<lower=0> U;                        // effects of all terms
  int<lower=0> L;                        // columns of smooth functions
  array[B] int<lower=1> n_effects;       // effects of each term
  array[B] int<lower=0, upper=2> n_columns;        // of smooths; 0: groups
  matrix<lower=0>[U, 2] squared_frequency;         // of the sines of smooths
  matrix[T, U] term_columns;              // indicators of groups, sines
  vector[B] term_sd_location;            // normal priors of term_sd, above 0
  vector<lower=0>[B] term_sd_scale;
  vector<lower=0>[L] term_length_median; // lognormal priors of term_length
  vector<lower=0>[L] term_length_log_sd;
  matrix[U, U] effect_information;       // whitening: see whitened_terms()
  vector[U] effect_linear_term;
  matrix[U, D + Q + 1] cross_theta;
  matrix[U, U] effect_cross;
  real<lower=0> intercept_share;         // of intercept_unit^2 if all sd are 0
  vector<lower=0>[B] intercept_by_term;  // its increase per term_sd^2
}
transformed data {
  array[T] int group = group_of_rows(T, start, length, bag_size,
                                     known_variance);
  int bad = first_row_not_finite(rows);
  array[7] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            sigma_scale, sigma_point_scale, rho_median,
                            rho_log_sd};
  array[U] int term = term_of_effects(n_effects);
  int checked = check_gamma_unit(gamma_unit);
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, sigma_scale,",
           " sigma_point_scale, rho_median and rho_log_sd must be > 0, found ",
           positive);
  }
  if (bad > 0) {
    reject("row ", bad, " of rows must hold finite numbers, found ", rows[bad]);
  }
}
parameters {
  vector[D + Q + 1] t;                   // whitened [w; gamma; intercept]
  real<lower=0> sigma;
  vector<lower=0>[size_noise] sigma_point;
  real<lower=0> rho;
  vector[U] t_effect;                    // whitened term_effect
  vector<lower=0>[B] term_sd;            // standard deviation of each term
  vector<lower=0>[L] term_length;        // length scales of smooths
}
transformed parameters {
  vector[D] precision = information + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, linear_term, axes);
  vector[Q] gamma = gamma_centre + gamma_slope * w
                    + gamma_unit * t[D + 1 : D + Q];
  // If groups differ more, the intercept is less certain.
  real share = intercept_share
               + dot_product(intercept_by_term, square(term_sd));
  real intercept = intercept_centre
                   + dot_product(intercept_slope, append_row(w, gamma))
                   + intercept_unit * sqrt(share) * t[D + Q + 1];
  vector[D + Q + 1] theta = append_row(append_row(w, gamma), intercept);
  vector[U] effect_sd = term_sd[term]
    .* effect_amplitudes(n_effects, n_columns, squared_frequency, term_length);
  array[U] real by_theta = to_array_1d(cross_theta * theta);
  vector[U + 1] found = whitened_terms(t_effect, by_theta, effect_sd,
                                       effect_information, effect_linear_term,
                                       effect_cross, n_effects, n_columns);
  vector[U] term_effect = found[1 : U];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  w ~ normal(0, rho);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  target += 0.5 * log(share);            // and of t -> intercept
  sigma ~ normal(0, sigma_scale);
  sigma_point ~ normal(0, sigma_point_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  term_effect ~ normal(0, effect_sd);
  target += found[U + 1];                // Jacobian of t_effect -> term_effect
  term_sd ~ normal(term_sd_location, term_sd_scale);
  term_length ~ lognormal(log(term_length_median), term_length_log_sd);
  if (use_likelihood) {
    vector[T] e = rows * append_row(theta, -1) + term_columns * term_effect;
    vector[G] nu = square(sigma) + known_variance;
    if (size_noise) {
      nu += square(sigma_point[1]) ./ bag_size;
    }
    target += compressed_normal_lpdf(e | sign, n_bags, nu, group);
  }
}
