// bdr: Bayesian distribution regression, weights and embeddings uncertain.
//
// Bag i has N_i points, Q covariates x_i and the label y_i. In the joint basis,
// centred at the average of all bags, its true mean embedding has the prior
// N(0, eta I) and its empirical one, z_i, the sampling variance lambda / N_i.
// With the true embedding integrated out,
//
//   y_i ~ normal(intercept + (s_i .* w)' z_i + x_i' gamma + b_i, sqrt(nu_i))
//   s_ik = eta / (eta + lambda_k / N_i)                     shrinkage factors
//   nu_i = eta * sum_k w_k^2 (1 - s_ik) + sigma^2 + sigma_point^2 / N_i + v_i
//
// v_i is the known variance of the label's error, b_i the effect of groups and
// smooth functions (functions/terms.stanfunctions). sigma_point is the noise of
// one point, if a label is an average over points (size_noise = 1).
// Bags of equal N_i and v_i form a group. Its rows [z_i, x_i, 1, y_i] are
// replaced by the triangular factor of their QR decomposition, which has the
// same likelihood in at most D + Q + 2 rows. If sizes are many, groups at a
// few sizes, some subtracted, replace them with the same likelihood to rounding.
// NUTS samples t, whitened coordinates of theta = [w; gamma; intercept]: there
// the posterior is nearly standard normal, and theta has the same posterior.
// stanc: --O1
// Units: as y; eta, z, x and term_length have none.
// Data: bdr_stan/models/bdr.py, bdr_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/terms.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/group_normal.stanfunctions
}
data {
  // Bags
  int<lower=1> D;                        // coordinates (landmarks)
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal N and v
  int<lower=1> T;                        // rows of all groups
  vector<lower=0>[G] bag_size;           // N, points per bag
  vector<lower=0>[G] n_bags;             // bags per group
  vector<lower=-1, upper=1>[G] sign;     // -1: the group is subtracted
  array[G] int<lower=1, upper=T> start;  // first row of the group
  array[G] int<lower=1> length;          // rows of the group
  matrix[T, D + Q + 2] rows;             // [z, x, 1, y], compressed
  vector<lower=0>[G] known_variance;     // v of each group
  vector<lower=0>[D] lambda;             // within-bag variances
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior

  // Groups and smooth functions: see functions/terms.stanfunctions
  int<lower=0> B;                        // terms
  int<lower=0> U;                        // effects of all terms
  int<lower=0> L;                        // columns of smooth functions
  array[B] int<lower=1> n_effects;       // effects of each term
  array[B] int<lower=0, upper=2> n_columns;        // of smooths; 0: groups
  matrix<lower=0>[U, 2] squared_frequency;         // of the sines of smooths
  matrix[T, U] term_columns;              // indicators of groups, sines

  // Priors
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  matrix[D, D] prior_factor;             // of w, identity if R = K
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  real<lower=0> eta_median;              // prior median of eta
  real<lower=0> eta_log_sd;              // prior sd of log(eta)
  real<lower=0> sigma_scale;             // prior scale of sigma
  int<lower=0, upper=1> size_noise;      // 1: the labels have sigma_point
  real<lower=0> sigma_point_scale;       // prior scale of sigma_point
  vector[B] term_sd_location;            // normal priors of term_sd, above 0
  vector<lower=0>[B] term_sd_scale;
  vector<lower=0>[L] term_length_median; // lognormal priors of term_length
  vector<lower=0>[L] term_length_log_sd;

  // Whitening: see functions/whitening.stanfunctions
  vector<lower=0>[D] information;        // precision of w by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  vector[Q] gamma_centre;                // gamma at w = 0, t = 0
  matrix[Q, D] gamma_slope;              // its change with w
  matrix[Q, Q] gamma_unit;               // its change with t, triangular
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D + Q] intercept_slope;         // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector<lower=0>[2 + size_noise] scale_at_mode;   // sigma, eta, sigma_point
  matrix[D + Q + 1, 2 + size_noise] mode_shift;    // change of t with these
  matrix[U, U] effect_information;       // whitening: see whitened_terms()
  vector[U] effect_linear_term;
  matrix[U, D + Q + 1] cross_theta;
  matrix[U, U] effect_cross;
  real<lower=0> intercept_share;         // of intercept_unit^2 if all sd are 0
  vector<lower=0>[B] intercept_by_term;  // its increase per term_sd^2
}
transformed data {
  int P = D + Q + 1;                     // entries of theta
  matrix[P, T] x = rows[, 1 : P]';       // a group's rows are consecutive
  vector[T] y = rows[, P + 1];
  // lambda_k / N_g; 0 for covariates and intercept, which do not shrink.
  matrix[P, G] within = append_row(lambda * inv(bag_size)',
                                   rep_matrix(0, Q + 1, G));
  vector[P] joint_linear_term = append_row(linear_term, rep_vector(0, Q + 1));
  matrix[P, P] joint_axes = axes_of_theta(axes, gamma_slope, gamma_unit,
                                          intercept_slope, intercept_unit);
  vector[P] centre = centre_of_theta(gamma_centre, intercept_centre,
                                     intercept_slope);
  array[9] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            sigma_scale, sigma_point_scale, rho_median,
                            rho_log_sd, eta_median, eta_log_sd};
  int bad = first_row_not_finite(rows);
  array[T] int group = group_of_rows(T, start, length, bag_size,
                                     known_variance); // rejects bad groups
  array[U] int term = term_of_effects(n_effects);
  // Rows of each group up to the last that has z, x or 1: of triangular ones,
  // the other U + 1 have only columns of terms and labels.
  array[G] int n_with_x = zeros_int_array(G);
  for (i in 1 : T) {
    if (max(abs(x[, i])) > 0) {
      n_with_x[group[i]] = i - start[group[i]] + 1;
    }
  }
  array[2] int checked = {check_prior_factor(prior_factor),
                          check_gamma_unit(gamma_unit)};
  if (bad > 0) {
    reject("row ", bad, " of rows must hold finite numbers, found ", rows[bad]);
  }
  if (!(min(positive) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, sigma_scale,",
           " sigma_point_scale, rho_median, rho_log_sd, eta_median and",
           " eta_log_sd must be > 0, found ", positive);
  }
}
parameters {
  vector[P] t;                           // whitened [w; gamma; intercept]
  real<lower=0> sigma;                   // noise sd
  vector<lower=0>[size_noise] sigma_point;         // noise sd of one point
  real<lower=0> rho;                     // scale of the weights
  real<lower=0> eta;                     // variance of embeddings between bags
  vector[U] t_effect;                    // whitened term_effect
  vector<lower=0>[B] term_sd;            // standard deviation of each term
  vector<lower=0>[L] term_length;        // length scales of smooths
}
transformed parameters {
  // The mode of theta moves with the scales of the labels; t follows it by a
  // shear with Jacobian 1.
  vector[2 + size_noise] scale_change = append_row(
    [0.5 * (square(sigma / scale_at_mode[1]) - 1),
     log(eta / scale_at_mode[2])]',
    0.5 * (square(sigma_point ./ tail(scale_at_mode, size_noise)) - 1));
  // As whitened_weights(), which --O1 would differentiate entry by entry.
  // If groups differ more, the intercept is less certain.
  real share = intercept_share
               + dot_product(intercept_by_term, square(term_sd));
  vector[P] precision = append_row(information + inv_square(rho),
                                   append_row(rep_vector(1, Q), inv(share)));
  vector[P] theta = centre + joint_axes
                    * (joint_linear_term ./ precision
                       + (t + mode_shift * scale_change) ./ sqrt(precision));
  vector[D] w = theta[1 : D];
  vector[Q] gamma = theta[D + 1 : D + Q];
  real intercept = theta[P];
  vector[U] effect_sd = term_sd[term]
    .* effect_amplitudes(n_effects, n_columns, squared_frequency, term_length);
  // One by one, so no function of ours has theta, for the same reason.
  array[U] real by_theta;
  for (j in 1 : U) {
    by_theta[j] = dot_product(cross_theta[j], theta);
  }
  vector[U + 1] found = whitened_terms(t_effect, by_theta, effect_sd,
                                       effect_information, effect_linear_term,
                                       effect_cross, n_effects, n_columns);
  vector[U] term_effect = found[1 : U];
}
model {
  // Priors
  intercept ~ normal(intercept_location, intercept_scale);
  gamma ~ normal(0, gamma_scale);
  prior_factor * w ~ normal(0, rho);     // linear in w: no Jacobian
  target += -0.5 * sum(log(precision));  // Jacobian of t -> theta
  sigma ~ normal(0, sigma_scale);
  sigma_point ~ normal(0, sigma_point_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  term_effect ~ normal(0, effect_sd);
  target += found[U + 1];                // Jacobian of t_effect -> term_effect
  term_sd ~ normal(term_sd_location, term_sd_scale);
  term_length ~ lognormal(log(term_length_median), term_length_log_sd);

  // Labels
  if (use_likelihood) {
    // theta .* s, a column per group. eta + 0 * theta is eta as a vector of
    // parameters: --O1 then differentiates the matrix as a whole, twice as fast
    // as entry by entry. A scalar eta, our own functions that return vectors,
    // append_row() and loops over entries would undo that.
    vector[P] etas = eta + 0 * theta;
    matrix[P, G] shrunk = diag_pre_multiply(theta,
                            inv(1 + diag_pre_multiply(inv(etas), within)));
    vector[T] by_terms = term_columns * term_effect;
    for (g in 1 : G) {
      int a = start[g];
      int b = a + length[g] - 1;
      // eta (1 - s) = s .* within
      real nu = dot_product(theta, shrunk[, g] .* within[, g])
                + square(sigma) + known_variance[g];
      if (size_noise) {
        nu += square(sigma_point[1]) / bag_size[g];
      }
      if (U > 0) {
        int k = n_with_x[g];
        vector[length[g]] e = y[a : b] - by_terms[a : b];
        target += sign[g] * (group_normal_lupdf(head(e, k) |
                                                x[, a : a + k - 1]',
                                                shrunk[, g], nu, n_bags[g])
                             - 0.5 * dot_self(tail(e, length[g] - k)) / nu);
      } else {
        target += sign[g] * group_normal_lupdf(y[a : b] | x[, a : b]',
                                               shrunk[, g], nu, n_bags[g]);
      }
    }
  }
}
