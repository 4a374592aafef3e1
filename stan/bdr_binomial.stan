// bdr_binomial: a count out of trials depends on the true mean embedding of its
// bag. Small bags shrink towards 0, the average bag.
//
//   y_i ~ binomial(trials_i, logit^-1(h_i))
//   h_i = known_part_i + intercept + (s_i .* z_i)' w + x_i' gamma
//         + sqrt(nu_i) u_i,   u_i ~ normal(0, 1)
//   s_ik = eta / (eta + lambda_k / size_i), nu_i = eta sum_k (1 - s_ik) w_k^2
//
// Source: Law et al. (2018), section 3.3, with binomial labels.
functions {
  // within: sampling variance of z. sqrt(0) has no derivative, thus 1e-30.
  vector by_embedding(matrix z, matrix within, real eta, vector w, vector u) {
    matrix[rows(z), cols(z)] s = inv(1 + within / eta);
    return (s .* z) * w + sqrt(eta * (1 - s) * w ^ 2 + 1e-30) .* u;
  }
}
data {
  int<lower=0> N, N_new, D, Q;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size;  vector[N_new] size_new;             // points of each bag
  vector[N] known_part;  vector[N_new] known_part_new; // offset
  array[N] int y, trials;  array[N_new] int y_at, trials_new;  // log_lik: y_at
  vector[D] lambda;  matrix[D, D] prior_factor;        // within-bag variances
  real intercept_location, intercept_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;  vector[Q] gamma_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[Q] gamma;
  real<lower=0> rho, eta;
  vector[N] u;                                         // deviations
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  u ~ std_normal();
  vector[N] h = known_part + intercept + x * gamma
                + by_embedding(z, inv(size) * lambda', eta, w, u);
  y ~ binomial_logit(trials, h);
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;  // log_lik given u_new
  {
    vector[N_new] u_new = to_vector(normal_rng(zeros_vector(N_new),
                                               ones_vector(N_new)));
    vector[N_new] h = known_part_new + intercept + x_new * gamma
      + by_embedding(z_new, inv(size_new) * lambda', eta, w, u_new);
    for (i in 1 : N_new) {
      y_new[i] = binomial_rng(trials_new[i], inv_logit(h[i]));
      log_lik[i] = binomial_logit_lpmf(y_at[i] | trials_new[i], h[i]);
    }
  }
}
