// bdr_glm: labels of any family, weights and mean embeddings uncertain.
//
// Bag i has N_i points, Q covariates x_i, a known part o_i (log exposure) and
// the label y_i. In the joint basis, centred at the average of all bags, its
// true mean embedding has the prior N(0, eta I) and its empirical one, z_i, the
// sampling variance lambda / N_i. With u_i ~ N(0, 1),
//
//   y_i ~ family(mean link^-1(h_i), scales)
//   h_i = o_i + intercept + (s_i .* w)' z_i + x_i' gamma + b_i + sqrt(nu_i) u_i
//   s_ik = eta / (eta + lambda_k / N_i)                     shrinkage factors
//   nu_i = eta * sum_k w_k^2 (1 - s_ik)
//
// b_i is the effect of groups and smooth functions, see
// functions/terms.stanfunctions, and the families are in
// functions/family.stanfunctions; of normal labels (family 10) u is integrated
// out, of Poisson and binomial ones (1, 5) by K > 0 nodes of quadrature. Times
// (11, 12) may be censored or left-truncated: functions/times.stanfunctions.
// uncertain = 0 means exact embeddings: then s = 1, without eta and u.
// Bags may have M samples, e.g. residents and houses. Each has its own
// coordinates, N_i, eta and rho; a bag that lacks one has N_i = 0, thus s = 0.
// NUTS samples t and e, whitened coordinates of theta = [w; gamma; intercept]
// and of u: there the posterior is nearly standard normal. Whatever the
// whitening's data, the posterior is the same.
// stanc: --O1
// Units: intercept, gamma, w and rho on the scale of the linear predictor;
// eta, z and x have none.
// Data: bdr_stan/models/bdr_glm.py, bdr_glm_data().
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3, with another
// likelihood.
functions {
  #include functions/finite.stanfunctions
  #include functions/whitening.stanfunctions
  #include functions/terms.stanfunctions
  #include functions/groups.stanfunctions
  #include functions/aggregate.stanfunctions
  #include functions/family.stanfunctions
  #include functions/times.stanfunctions
}
data {
  // Bags
  int<lower=1> N;                        // bags
  int<lower=1> M;                        // samples per bag
  int<lower=1> D;                        // coordinates (landmarks)
  array[D] int<lower=1, upper=M> sample; // of each coordinate
  int<lower=0> Q;                        // covariates
  int<lower=1> G;                        // groups of bags of equal sizes
  matrix<lower=0>[M, G] bag_size;        // points per bag
  array[G] int<lower=1, upper=N> start;  // first bag of the group
  array[G] int<lower=1> length;          // bags of the group
  matrix[N, D] z;                        // embeddings of the bags
  matrix[N, Q] x;                        // their covariates, standardised
  vector[N] known_part;                  // offset plus log exposure, else 0
  vector[N] y;                           // labels
  array[N] int<lower=0> trials;          // of counts out of trials, else 0
  vector<lower=0, upper=1>[N] event;     // of times, 0 if censored, else 1
  vector<lower=0>[N] entry;              // of times, 0 if not truncated
  int<lower=1> family;                   // its number
  int<lower=0> n_scales;                 // its scales
  int<lower=0, upper=1> uncertain;       // 0: embeddings are exact
  vector<lower=0>[D] lambda;             // within-bag variances
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
  int<lower=0> K;                        // nodes of u, 0: u is a parameter
  vector[K] node;                        // of Gauss and Hermite, for N(0, 1)
  vector[K] log_node_weight;             // their weights sum to 1

  // Groups and smooth functions: see functions/terms.stanfunctions
  int<lower=0> B;                        // terms
  int<lower=0> U;                        // effects of all terms
  int<lower=0> L;                        // columns of smooth functions
  array[B] int<lower=1> n_effects;       // effects of each term
  array[B] int<lower=0, upper=2> n_columns;        // of smooths; 0: groups
  matrix<lower=0>[U, 2] squared_frequency;         // of the sines of smooths
  matrix[N, U] term_columns;              // indicators of groups, sines

  // Priors
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> gamma_scale;             // prior sd of each gamma
  matrix[D, D] prior_factor;             // of w, identity if R = K
  vector<lower=0>[M] rho_median;         // prior medians of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  vector<lower=0>[M] eta_median;         // prior medians of eta
  vector<lower=0>[M] eta_log_sd;         // prior sds of log(eta)
  vector[n_scales] scale_location;       // normal priors of the family's
  vector<lower=0>[n_scales] scale_prior; // scales, above 0
  vector[B] term_sd_location;            // normal priors of term_sd, above 0
  vector<lower=0>[B] term_sd_scale;
  vector<lower=0>[L] term_length_median; // lognormal priors of term_length
  vector<lower=0>[L] term_length_log_sd;

  // Whitening: see functions/whitening.stanfunctions; of u, see below
  vector<lower=0>[D] information;        // precision of w by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  matrix[D, D] block_cross;              // see given_earlier_blocks()
  vector[Q] gamma_centre;                // gamma at w = 0, t = 0
  matrix[Q, D] gamma_slope;              // its change with w
  matrix[Q, Q] gamma_unit;               // its change with t, triangular
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D + Q] intercept_slope;         // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector<lower=0>[N] label_information;  // of each label on its predictor
  vector<lower=0>[N] label_variance;     // added to its inverse per scale[1]^2
  vector[N] label_centre;                // predictor where the label has it
  matrix[U, U] effect_information;       // whitening: see whitened_terms()
  vector[U] effect_linear_term;
  matrix[U, D + Q + 1] cross_theta;
  matrix[U, U] effect_cross;
  real<lower=0> intercept_share;         // of intercept_unit^2 if all sd are 0
  vector<lower=0>[B] intercept_by_term;  // its increase per term_sd^2
}
transformed data {
  int is_normal = family == 10;
  int P = D + Q + 1;                     // entries of theta
  matrix[P, N] columns = append_row(append_row(z', x'), rep_row_vector(1, N));
  // lambda_k / N, practically infinite if a bag lacks the sample; 0 for
  // covariates and intercept, which do not shrink.
  matrix[P, G] within = rep_matrix(0, P, G);
  matrix[P, M] of_sample = rep_matrix(0, P, M);    // sample of each coordinate
  vector[P] joint_linear_term = append_row(linear_term, rep_vector(0, Q + 1));
  matrix[P, P] joint_cross = rep_matrix(0, P, P);
  matrix[P, P] joint_axes = axes_of_theta(axes, gamma_slope, gamma_unit,
                                          intercept_slope, intercept_unit);
  vector[P] centre = centre_of_theta(gamma_centre, intercept_centre,
                                     intercept_slope);
  array[N] int group = group_of_rows(N, start, length,
                                     bag_size' * ones_vector(M),
                                     zeros_vector(G));
  array[N] int count = zeros_int_array(N);
  vector[N] real_trials = to_vector(trials);
  real constant = 0;
  array[7] real positive = {intercept_unit, intercept_scale, gamma_scale,
                            min(rho_median), rho_log_sd, min(eta_median),
                            min(eta_log_sd)};
  int bad_z = first_row_not_finite(z);
  int bad_x = first_row_not_finite(x);
  int bad_known = first_row_not_finite(to_matrix(known_part));
  array[U] int term = term_of_effects(n_effects);
  joint_cross[1 : D, 1 : D] = block_cross;
  for (k in 1 : D) {
    of_sample[k, sample[k]] = 1;
    for (g in 1 : G) {
      real points = bag_size[sample[k], g];
      within[k, g] = points > 0 ? lambda[k] / points : 1e30;
    }
  }
  of_sample[D + 1 : P, 1] = rep_vector(1, Q + 1);  // of no consequence
  array[3] int checked = {check_prior_factor(prior_factor),
                          check_gamma_unit(gamma_unit),
                          check_family(family, n_scales)};
  if (bad_z > 0) {
    reject("row ", bad_z, " of z must hold finite numbers, found ", z[bad_z]);
  }
  if (bad_x > 0) {
    reject("row ", bad_x, " of x must hold finite numbers, found ", x[bad_x]);
  }
  if (bad_known > 0) {
    reject("known_part[", bad_known, "] must be finite, found ",
           known_part[bad_known]);
  }
  if (!(min(append_array(positive, to_array_1d(scale_prior))) > 0)) {
    reject("intercept_unit, intercept_scale, gamma_scale, rho_median,",
           " rho_log_sd, eta_median, eta_log_sd and scale_prior must be > 0,",
           " found ", positive, " and ", scale_prior);
  }
  if (K > 0) {
    if (family != 1 && family != 5) {
      reject("K must be 0 where family is not 1 or 5, found ", K);
    }
    constant = log_constant_of_counts(y, real_trials, family);
  }
  if (is_family_of_counts(family)) {
    count = as_counts(y + (family == 9));  // categories from 1
  }
}
parameters {
  vector[P] t;                           // whitened [w; gamma; intercept]
  vector<lower=0>[M] rho;                // scale of the weights
  vector<lower=0>[uncertain * M] eta;    // variance of embeddings between bags
  vector<lower=0>[n_scales] scale;       // of the family
  vector[K > 0 ? 0 : uncertain * !is_normal * N] e;  // whitened u
  vector[U] t_effect;                    // whitened term_effect
  vector<lower=0>[B] term_sd;            // standard deviation of each term
  vector<lower=0>[L] term_length;        // length scales of smooths
}
transformed parameters {
  // If groups differ more, the intercept is less certain.
  real share = intercept_share
               + dot_product(intercept_by_term, square(term_sd));
  vector[P] precision = append_row(information + inv_square(rho[sample]),
                                   append_row(rep_vector(1, Q), inv(share)));
  // Along the axes; each sample's weights given the earlier samples' weights.
  vector[P] alone = joint_linear_term ./ precision + t ./ sqrt(precision);
  vector[P] along = alone;
  for (m in 2 : M) {
    along = alone + (joint_cross * along) ./ precision;
  }
  vector[P] theta = centre + joint_axes * along;
  vector[D] w = theta[1 : D];
  vector[Q] gamma = theta[D + 1 : D + Q];
  real intercept = theta[P];
  vector[U] effect_sd = term_sd[term]
    .* effect_amplitudes(n_effects, n_columns, squared_frequency, term_length);
  // One by one, so no function of ours has theta, which --O1 would then
  // differentiate entry by entry.
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
  prior_factor * w ~ normal(0, rho[sample]);       // linear in w: no Jacobian
  target += -0.5 * sum(log(precision));  // Jacobian of t -> theta
  rho ~ lognormal(log(rho_median), rho_log_sd);
  if (uncertain) {
    eta ~ lognormal(log(eta_median), eta_log_sd);
  }
  scale ~ normal(scale_location, scale_prior);
  term_effect ~ normal(0, effect_sd);
  target += found[U + 1];                // Jacobian of t_effect -> term_effect
  term_sd ~ normal(term_sd_location, term_sd_scale);
  term_length ~ lognormal(log(term_length_median), term_length_log_sd);

  // Labels
  // theta .* s, a column per group, in operations on whole matrices, which
  // --O1 differentiates as such; loops over groups and bags make numbers of it.
  matrix[P, G] shrunk = rep_matrix(theta, G);
  if (uncertain) {
    vector[P] etas = of_sample * eta;
    shrunk = diag_pre_multiply(theta,
                               inv(1 + diag_pre_multiply(inv(etas), within)));
  }
  if (K > 0) {
    if (use_likelihood) {
      array[U] real effect = to_array_1d(term_effect);
      target += constant;
      for (g in 1 : G) {  // names of the other branch would undo --O1's work
        int first = start[g];
        int last = start[g] + length[g] - 1;
        real sd_g = sqrt(dot_product(theta, shrunk[, g] .* within[, g]));
        vector[length[g]] h_g = known_part[first : last]
                                + columns[, first : last]' * shrunk[, g];
        for (j in 1 : U) {
          h_g += rep_vector(effect[j], length[g])
                 .* term_columns[first : last, j];
        }
        target += integrated_log_density(y[first : last],
                                         real_trials[first : last], h_g, sd_g,
                                         label_information[first : last],
                                         label_centre[first : last], node,
                                         log_node_weight, family);
      }
    }
  } else {
    array[N] real by_points;
    vector[N] nu = zeros_vector(N);
    for (i in 1 : N) {
      by_points[i] = dot_product(shrunk[, group[i]], columns[, i]);
    }
    if (uncertain) {
      array[G] real nu_of_group;
      for (g in 1 : G) {                 // eta (1 - s) = s .* within
        nu_of_group[g] = dot_product(theta, shrunk[, g] .* within[, g]);
      }
      nu = to_vector(nu_of_group[group]);
    }
    vector[N] h = known_part + term_columns * term_effect
                  + to_vector(by_points);
    if (is_normal) {
      if (use_likelihood) {
        target += normal_lpdf(y | h, sqrt(nu + square(scale[1])));
      }
    } else if (!uncertain) {
      if (use_likelihood) {
        if (family > 10) {
          target += times_log_density(y, h, event, entry, family, scale[1]);
        } else {
          target += family_log_density(y, count, trials, h, family, scale);
        }
      }
    } else {
      // u given the label is nearly normal, with precision 1 + nu information
      // and the mean that draws h to label_centre; e is u in these units.
      real dispersion = n_scales > 0 ? square(scale[1]) : 0;
      vector[N] known = label_information
                        ./ (1 + rep_vector(dispersion, N)
                                .* (label_information .* label_variance));
      vector[N] u_sd = inv_sqrt(1 + nu .* known);
      vector[N] u_mean = sqrt(nu) .* known .* (label_centre - h)
                         .* square(u_sd);
      vector[N] u = u_mean + u_sd .* e;
      u ~ std_normal();
      target += sum(log(u_sd));          // Jacobian of e -> u
      if (use_likelihood) {
        vector[N] h_at = h + sqrt(nu) .* u;
        if (family > 10) {
          target += times_log_density(y, h_at, event, entry, family, scale[1]);
        } else {
          target += family_log_density(y, count, trials, h_at, family, scale);
        }
      }
    }
  }
}
