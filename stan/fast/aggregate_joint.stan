// aggregate_joint: rates at points, from totals of bags and from G surveys.
//
// All depend on one function f of a point's features psi. Totals are as in
// aggregate_exp, with the log rate f:
//
//   y_a ~ a likelihood of mean exp(effect_a) sum_j p_j exp(f_j)
//   f_j = intercept + psi_j' w
//
// Of the examined_s people of place s of survey g, positives_s are positive. A
// share share_j of them is at point j, where the log odds of a positive are a
// line in the log rate, that of the survey:
//
//   positives_s ~ family(examined_s, sum_j share_j inv_logit(h_j))
//   h_j = survey_intercept_g + survey_slope_g (f_j - overall)
//
//   intercept ~ normal(intercept_location, intercept_scale)
//   w_k ~ normal(0, rho)        makes f a Gaussian process, variance rho^2 k
//   rho ~ lognormal(log(rho_median), rho_log_sd)
//   survey_intercept_g ~ normal(survey_intercept_location_g,
//                               survey_intercept_scale_g)
//   survey_slope_g ~ normal(survey_slope_location, survey_slope_scale), of
//                    either sign: near 0 or below it survey and totals disagree
//   scale_k ~ normal(scale_location_k, scale_prior_k), above 0   scales of the
//             totals' likelihood; label errors add error_variance_a to its square
//   survey_dispersion_g ~ normal(survey_dispersion_location_g,
//                                survey_dispersion_scale_g), above 0, of
//                  beta-binomial surveys: places differ by more than f
//   effect_a ~ normal(0, tau), tau ~ half-normal(0, tau_scale), or no effects
//
// The families are in functions/family.stanfunctions: 5 binomial,
// 6 beta-binomial. reduce_sum shares the bags among threads.
// The sampler moves in t and t_effect: t is the whitened theta = [w; gamma;
// intercept], gamma what the G survey_intercept and the G survey_slope are above
// their prior means. Whatever the whitening's data, the posterior is the same.
// Units: y and p as given, exp(intercept) in units of y per p; w, rho, tau,
// effects and overall on the scale of log rates, survey_intercept of log odds.
// Data: bdr_stan/models/joint.py, JointModel.program_data().
// Source: Lucas, Nandi, Chestnutt et al. (2021), "Mapping malaria by sharing
// spatial information between incidence and prevalence data sets", with a line
// as the link between the two.
functions {
  #include functions/whitening.stanfunctions
  #include functions/finite.stanfunctions
  #include functions/aggregate.stanfunctions
  #include functions/effects.stanfunctions
  #include functions/log_totals.stanfunctions
  #include functions/family.stanfunctions
  /**
   * Log odds of the mean probability of each place.
   * @param h log odds at the points of all places
   * @param log_share logarithms of the points' shares, adding up to 1 per place
   * @param start first point of each place
   * @param length number of its points
   */
  vector mean_log_odds(vector h, vector log_share, array[] int start,
                       array[] int length) {
    int n = size(start);
    vector[n] log_odds;
    for (s in 1 : n) {
      int end = start[s] + length[s] - 1;
      vector[length[s]] own = h[start[s] : end];
      vector[length[s]] part = log_share[start[s] : end];
      log_odds[s] = log_sum_exp(part + log_inv_logit(own))
                    - log_sum_exp(part + log_inv_logit(-own));
    }
    return log_odds;
  }
}
data {
  // Totals
  int<lower=1> A;                        // bags
  int<lower=1> D;                        // weights (landmarks)
  int<lower=1> T;                        // points of all bags
  matrix[T, D + 1] rows;                 // their rows [psi, 1]
  vector<lower=0>[T] weight;             // p_j, > 0
  array[A] int<lower=1, upper=T> start;  // first point of the bag
  array[A] int<lower=1> length;          // points of the bag
  vector<lower=0>[A] y;                  // labels
  vector<lower=0>[A] error_variance;     // of labels, relative to them
  int<lower=1> likelihood;               // its number
  int<lower=0> n_scales;                 // its scales
  int<lower=0, upper=1> has_effects;     // 1: an effect of each bag
  int<lower=1> grainsize;                // bags per task of a thread

  // Surveys
  int<lower=1> G;                        // surveys
  int<lower=1> S;                        // places of all surveys
  array[G] int<lower=1> n_places;        // of each survey, consecutive
  int<lower=1> V;                        // points of all places
  matrix[V, D + 1] survey_rows;          // their rows [psi, 1]
  vector<lower=0>[V] survey_weight;      // weights of the points, > 0
  array[S] int<lower=1, upper=V> survey_start;  // first point of the place
  array[S] int<lower=1> survey_length;   // points of the place
  vector<lower=0>[S] positives;          // people who are positive
  array[S] int<lower=1> examined;        // people examined
  int<lower=5, upper=6> survey_family;   // 5 binomial, 6 beta-binomial
  real overall;                          // log of the totals' overall rate

  // Whitening: see functions/whitening.stanfunctions
  vector<lower=0>[D] information;        // precision of w by the labels
  vector[D] linear_term;                 // mode of the weights, times precision
  matrix[D, D] axes;                     // weights per unit along each axis
  vector[2 * G] gamma_centre;            // gamma at w = 0, t = 0
  matrix[2 * G, D] gamma_slope;          // its change with w
  matrix[2 * G, 2 * G] gamma_unit;       // its change with t, triangular
  real intercept_centre;                 // intercept at w = 0, t = 0
  vector[D + 2 * G] intercept_slope;     // its change with w and gamma
  real<lower=0> intercept_unit;          // its change with t
  vector<lower=0>[has_effects * A] effect_information;  // of labels on effects
  vector[has_effects * A] effect_target;   // log of each label

  // Priors
  real intercept_location;               // prior mean of intercept
  real<lower=0> intercept_scale;         // prior sd of intercept
  real<lower=0> rho_median;              // prior median of rho
  real<lower=0> rho_log_sd;              // prior sd of log(rho)
  vector[n_scales] scale_location;       // normal priors of its scales, above 0
  vector<lower=0>[n_scales] scale_prior;
  real<lower=0> tau_scale;               // prior scale of tau
  vector[G] survey_intercept_location;   // prior means of survey_intercept
  vector<lower=0>[G] survey_intercept_scale;  // its prior sds
  real survey_slope_location;            // prior mean of survey_slope
  real<lower=0> survey_slope_scale;      // its prior sd
  vector[G] survey_dispersion_location;  // normal prior of survey_dispersion,
  vector<lower=0>[G] survey_dispersion_scale;  // above 0
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  matrix[D + 1, T] phi = rows';          // a bag's points are consecutive
  vector[T] log_weight = log(weight);
  vector[V] log_share = log(survey_weight);
  array[A] int count = zeros_int_array(A);
  array[S] int n_positive = as_counts(positives);
  array[V] int survey_of_point;
  vector[n_scales + 2 * G] of_scales
    = append_row(scale_prior, append_row(survey_intercept_scale,
                                         survey_dispersion_scale));
  array[6] real positive = {intercept_unit, intercept_scale, rho_median,
                            rho_log_sd, tau_scale, survey_slope_scale};
  if (!(min(append_array(positive, to_array_1d(of_scales))) > 0)) {
    reject("intercept_unit, intercept_scale, rho_median, rho_log_sd,",
           " tau_scale, survey_slope_scale, scale_prior,",
           " survey_intercept_scale and survey_dispersion_scale must be > 0,",
           " found ", positive, " and ", of_scales);
  }
  array[5] int checked = {check_gamma_unit(gamma_unit),
                          check_likelihood(likelihood, n_scales,
                                           error_variance),
                          check_effects(effect_information, use_likelihood),
                          check_rows(rows, start, length),
                          check_rows(survey_rows, survey_start, survey_length)};
  if (min(weight) == 0 || min(survey_weight) == 0) {
    reject("weight and survey_weight must be > 0, found 0: leave these points",
           " out");
  }
  if (is_of_counts(likelihood)) {
    count = as_counts(y);
  }
  if (sum(n_places) != S) {
    reject("n_places must add up to S, found ", sum(n_places), " and ", S);
  }
  for (s in 1 : S) {
    int end = survey_start[s] + survey_length[s] - 1;
    log_share[survey_start[s] : end]
      -= log_sum_exp(log_share[survey_start[s] : end]);
    if (n_positive[s] > examined[s]) {
      reject("positives[", s, "] must be <= examined, found ", n_positive[s],
             " > ", examined[s]);
    }
  }
  {
    int last = 0;                        // place of the surveys before
    for (g in 1 : G) {
      int from = survey_start[last + 1];
      last += n_places[g];
      int to = survey_start[last] + survey_length[last] - 1;
      survey_of_point[from : to] = rep_array(g, to - from + 1);
    }
  }
}
parameters {
  vector[D + 2 * G + 1] t;               // whitened [w; gamma; intercept]
  real<lower=0> rho;
  vector<lower=0>[n_scales] scale;       // of the totals' likelihood
  vector<lower=0>[G * (survey_family == 6)] survey_dispersion;
  array[has_effects] real<lower=0> tau;
  vector[has_effects * A] t_effect;      // whitened effects
}
transformed parameters {
  vector[D] precision = information + inv_square(rho);
  vector[D] w = whitened_weights(t[1 : D], precision, linear_term, axes);
  vector[2 * G] gamma = gamma_centre + gamma_slope * w
                        + gamma_unit * t[D + 1 : D + 2 * G];
  real intercept = intercept_centre
                   + dot_product(intercept_slope, append_row(w, gamma))
                   + intercept_unit * t[D + 2 * G + 1];
  vector[G] survey_intercept = survey_intercept_location + gamma[1 : G];
  vector[G] survey_slope = survey_slope_location + gamma[G + 1 : 2 * G];
}
model {
  vector[D + 1] theta = append_row(w, intercept);
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  gamma[1 : G] ~ normal(0, survey_intercept_scale);
  gamma[G + 1 : 2 * G] ~ normal(0, survey_slope_scale);
  target += -0.5 * sum(log(precision));  // Jacobian of t -> w at given rho
  rho ~ lognormal(log(rho_median), rho_log_sd);
  scale ~ normal(scale_location, scale_prior);
  if (survey_family == 6) {
    survey_dispersion ~ normal(survey_dispersion_location,
                               survey_dispersion_scale);
  }
  tau ~ normal(0, tau_scale);
  if (use_likelihood) {
    vector[V] h = survey_intercept[survey_of_point]
                  + survey_slope[survey_of_point]
                    .* (survey_rows * theta - overall);
    vector[S] log_odds = mean_log_odds(h, log_share, survey_start,
                                       survey_length);
    int last = 0;                        // place of the surveys before
    // static: the sum does not depend on the number of threads
    target += reduce_sum_static(bags_log_density, start, grainsize, length,
                                phi, log_weight, y, count, likelihood,
                                effect_information, effect_target, theta,
                                t_effect, tau, scale, error_variance);
    for (g in 1 : G) {
      int from = last + 1;
      last += n_places[g];
      target += family_log_density(positives[from : last],
                                   n_positive[from : last],
                                   examined[from : last], log_odds[from : last],
                                   survey_family,
                                   survey_family == 6
                                   ? survey_dispersion[g : g]
                                   : rep_vector(0, 0));
    }
  } else {
    t_effect ~ std_normal();
  }
}
generated quantities {
  vector[has_effects * A] effect;
  if (has_effects) {
    vector[A] log_lambda = log_means(append_row(w, intercept), start, length,
                                     phi, log_weight);
    effect = whitened_effects(t_effect, log_lambda, effect_information,
                              effect_target, tau[1]);
  }
}
