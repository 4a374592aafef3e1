// nonlinear: distribution regression with a curve of the leading coordinates.
//
// Bag i has N_i points, Q covariates x_i and the label y_i. In the joint basis,
// centred at the average of all bags, its true mean embedding mu_i has the
// prior N(0, I) and its empirical one, z_i, the sampling variance lambda / N_i.
//
//   mu_i ~ normal(s_i .* z_i, sqrt(1 - s_i)),   s_ik = 1 / (1 + lambda_k / N_i)
//   y_i ~ normal(intercept + w' mu_i + g(mu_i[1 : K]) + x_i' gamma, sigma)
//   g(u) = sum_b c_b prod_k sin(omega_bk (u_k + half_width)) / sqrt(half_width)
//   c_b = kappa sqrt(spectral density of ell at omega_b) v_b
//
// g is a Gaussian process of sd rho kappa and length scale ell (data) on the
// box [-half_width, half_width]^K, and 0 beyond it. The K leading coordinates
// of mu_i are integrated out over M points e_m that represent a standard
// normal, the others exactly:
//
//   p(y_i) = 1/M sum_m normal(y_i | m_i(u_im), sqrt(nu_i))
//   u_im = (s_i .* z_i)[1 : K] + sqrt(1 - s_i)[1 : K] .* e_m
//   m_i(u) = intercept + w[1 : K]' u + g(u) + sum_{k > K} w_k s_ik z_ik
//            + x_i' gamma
//   nu_i = sum_{k > K} w_k^2 (1 - s_ik) + sigma^2
//
// NUTS samples t, whitened coordinates of [w; v; gamma; intercept]: there the
// posterior is nearly standard normal, and these have the same posterior.
// Units: y, intercept, gamma, sigma, w, c, rho in units of y; ell in prior sds
// of a coordinate; kappa, z and x have none.
// Data: bdr_stan/models/nonlinear.py, nonlinear_data().
// Source: Solin and Sarkka (2020) and Riutort-Mayol et al. (2023) for g; Law,
// Sutherland, Sejdinovic, Flaxman (2018), section 3.3, for all else.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/shrinkage.stanfunctions
  #include functions/curve.stanfunctions
}
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal size
  int<lower=0, upper=D> K;               // leading coordinates
  int<lower=1> M;                        // points
  int<lower=0> B;                        // basis functions
  vector<lower=0>[G] bag_size;           // points per bag
  array[G] int<lower=1, upper=N> start;  // first bag of the group
  array[G] int<lower=1> length;          // bags of the group
  matrix[N, D + Q + 2] rows;             // [z, x, 1, y]
  vector<lower=0>[D] lambda;             // within-bag variances
  matrix[D, D] prior_factor;             // P
  matrix[M, K] points;                   // e_m
  matrix[B, K] frequencies;              // omega
  real<lower=0> half_width;              // of the box
  real<lower=0> kappa;                   // sd of g in units of rho
  real<lower=0> ell;                     // its length scale
  vector<lower=0>[D + B] information;    // whitening: precision by the labels
  vector[D + B] linear_term;             // mode of the weights, times precision
  matrix[D + B, D + B] axes;             // weights per unit along each axis
  real intercept_centre;                 // intercept at w = 0, v = 0, t = 0
  vector[D + B + Q] intercept_slope;     // its change with w, v and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector[Q] gamma_centre;                // gamma at w = 0, v = 0, t = 0
  matrix[Q, D + B] gamma_slope;          // its change with w and v
  matrix[Q, Q] gamma_unit;               // its change with t, triangular
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  real<lower=0> sigma_scale;             // prior scale of sigma
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  matrix[N, D] z = rows[, 1 : D];
  matrix[N, Q] x = rows[, D + 1 : D + Q];
  vector[N] ones = rows[, D + Q + 1];
  vector[N] y = rows[, D + Q + 2];
  matrix[D, G] s = shrinkage_factors(lambda, bag_size, 1);
  matrix[D, G] lost = 1 - s;             // adds to nu; leading ones 0
  matrix[N, D] rest;                     // shrunk coordinates, leading ones 0
  matrix[N * M, K] u;                    // leading ones at a bag's points
  matrix[N * M, K + B] point_design;     // of w[1 : K] and v there
  vector[B] amplitude = kappa * spectral_sd(frequencies, ell);
  array[N] int group = group_of_rows(N, start, length, bag_size,
                                     zeros_vector(G)); // of each bag
  int bad = first_row_not_finite(rows);
  int bad_point = first_row_not_finite(points);
  int bad_frequency = first_row_not_finite(frequencies);
  array[9] real positive = {half_width, kappa, ell, intercept_unit,
                            intercept_scale, gamma_scale, sigma_scale,
                            rho_median, rho_log_sd};
  if (bad > 0) {
    reject("row ", bad, " of rows must hold finite numbers, found ", rows[bad]);
  }
  if (bad_point > 0) {
    reject("row ", bad_point, " of points must hold finite numbers, found ",
           points[bad_point]);
  }
  if (bad_frequency > 0) {
    reject("row ", bad_frequency, " of frequencies must hold finite numbers,",
           " found ", frequencies[bad_frequency]);
  }
  array[2] int checked = {check_prior_factor(prior_factor),
                          check_gamma_unit(gamma_unit)};
  if (!(min(positive) > 0)) {
    reject("half_width, kappa, ell, intercept_unit, intercept_scale,",
           " gamma_scale, sigma_scale, rho_median and rho_log_sd must be > 0,",
           " found ", positive);
  }
  for (i in 1 : N) {
    int first = (i - 1) * M + 1;
    rest[i] = z[i] .* s[, group[i]]';
    for (k in 1 : K) {
      u[first : first + M - 1, k] = rest[i, k]
                                    + sqrt(lost[k, group[i]]) * points[, k];
    }
  }
  point_design = append_col(u, diag_post_multiply(
                                 basis_functions(u, frequencies, half_width),
                                 amplitude));
  rest[, 1 : K] = rep_matrix(0, N, K);
  lost[1 : K] = rep_matrix(0, K, G);
}
parameters {
  vector[D + B + Q + 1] t;               // whitened [w; v; gamma; intercept]
  real<lower=0> sigma;
  real<lower=0> rho;
}
transformed parameters {
  vector[D + B] precision = information + inv_square(rho);
  vector[D + B] weights = whitened_weights(t[1 : D + B], precision,
                                           linear_term, axes);
  vector[D] w = head(weights, D);
  vector[B] c = amplitude .* tail(weights, B);
  vector[Q] gamma = gamma_centre + gamma_slope * weights
                    + gamma_unit * t[D + B + 1 : D + B + Q];
  real intercept = intercept_centre
                   + dot_product(intercept_slope, append_row(weights, gamma))
                   + intercept_unit * t[D + B + Q + 1];
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  prior_factor * w ~ normal(0, rho);     // linear in w: no Jacobian
  tail(weights, B) ~ normal(0, rho);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> weights given rho
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  if (use_likelihood) {
    vector[G] nu = lost' * square(w) + square(sigma);
    vector[N] e = rest * w + ones * intercept - y;  // without the terms in u
    vector[N * M] point_term = point_design
                               * append_row(w[1 : K], tail(weights, B));
    if (Q > 0) {
      e += x * gamma;
    }
    target += averaged_normal_lpdf(point_term | e, nu[group]);
  }
}
