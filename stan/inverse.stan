// inverse: the mean embedding of a bag follows a curve as its label y changes,
// and Bayes' rule predicts labels. B(y) are J functions of the label: 1, then
// S linear ones, then splines. NUTS needs adapt_delta = 0.99.
//
//   z_ik ~ normal(sum_j curve_kj B_j(y_i), sqrt(tau_k^2 + lambda_k / size_i))
//   curve_k1 ~ normal(0, level_scale)
//   curve_kj ~ normal(0, amplitude_k smooth_j), splines: times curvature
//   p(y | z) is in proportion to p(y) prod_k p(z_k | y)^power
//
// Of classes the log odds are r / (1 + r) correction more, r the variance by
// label relative to the rest. Sources: Cook (2007), Adragni and Cook (2009).
data {
  int<lower=0> N, N_new, D, J, S, M;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  vector[N] size;  vector[N_new] size_new;             // points of each bag
  matrix[N, J] B;                                      // functions of y
  vector[M] label, log_prior, correction;              // labels to choose from
  matrix[M, J] B_label;                                // functions of these
  vector[N_new] label_sd_new;                          // errors of new labels
  matrix[N_new, M] y_at_given;             // density of y_at given each label
  vector[D] lambda;  vector[J] smooth;                 // within-bag variances
  real level_scale, tau_scale, amplitude_median, amplitude_log_sd;
  real curvature_median, curvature_log_sd, power;
}
parameters {
  vector<lower=0>[D] tau, amplitude;
  real<lower=0> curvature;
  matrix[D, J] t;
}
transformed parameters {
  matrix[D, J] curve = diag_pre_multiply(amplitude, diag_post_multiply(t,
    append_row(head(smooth, S + 1), curvature * tail(smooth, J - S - 1))));
  curve[, 1] = level_scale * t[, 1];
}
model {
  tau ~ rayleigh(tau_scale);
  amplitude ~ lognormal(log(amplitude_median), amplitude_log_sd);
  curvature ~ lognormal(log(curvature_median), curvature_log_sd);
  to_vector(t) ~ std_normal();

  matrix[N, D] variance = rep_matrix(tau' ^ 2, N) + inv(size) * lambda';
  to_vector(z) ~ normal(to_vector(B * curve'), to_vector(sqrt(variance)));
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    matrix[M, D] path = B_label * curve';
    for (i in 1 : N_new) {
      vector[D] precision = inv(tau ^ 2 + lambda / size_new[i]);
      real r = dot_product(rows_dot_self(curve[, 2 : J]), precision);
      vector[M] p = softmax(log_prior + r / (1 + r) * correction + power
        * (path * (z_new[i]' .* precision) - 0.5 * square(path) * precision));
      int m = categorical_rng(p);
      y_new[i] = label[m] + label_sd_new[i] * normal_rng(0, 1);
      log_lik[i] = log(y_at_given[i] * p);
    }
  }
}
