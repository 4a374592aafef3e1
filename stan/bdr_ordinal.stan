// bdr_ordinal: K ordered categories, given the true mean embeddings of bags.
//   P(y_i <= k) = logit^-1(c_k - h_i),   c = 0, gap_1, gap_1 + gap_2, ...
//   h_i = known_part_i + intercept + (s_i .* z_i)' w + x_i' gamma
//         + sqrt(nu_i) u_i,   u_i ~ normal(0, 1)
//   s_ik = eta / (eta + lambda_k / size_i), nu_i = eta sum_k (1 - s_ik) w_k^2
// Source: Law et al. (2018), section 3.3, with ordered logistic labels.
functions {
  matrix shrinkage(vector size, vector lambda, real eta) {
    return inv(1 + inv(size) * lambda' / eta);
  }
}
data {
  int<lower=0> N, N_new, D, Q, J, K;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size, known_part;  vector[N_new] size_new, known_part_new;
  array[N] int y;  array[N_new] int y_at;              // 1 to K
  vector[J] node, log_weight;                          // of u, for log_lik
  vector[D] lambda;  matrix[D, D] prior_factor;        // within-bag variances
  real intercept_location, intercept_scale;  vector[K - 2] gap_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;  vector[Q] gamma_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[Q] gamma;
  real<lower=0> rho, eta;  vector<lower=0>[K - 2] gap;  vector[N] u;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  gap ~ normal(0, gap_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  u ~ std_normal();
  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] sd = sqrt(eta * (1 - s) * w ^ 2 + 1e-30);  // sqrt(0) has no slope
  vector[N] h = known_part + intercept + (s .* z) * w + x * gamma + sd .* u;
  y ~ ordered_logistic(h, cumulative_sum(append_row(0, gap)));
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] sd = sqrt(eta * (1 - s) * w ^ 2);
    vector[N_new] mean = known_part_new + intercept + (s .* z_new) * w
                         + x_new * gamma;
    vector[K - 1] c = cumulative_sum(append_row(0, gap)); // thresholds
    for (i in 1 : N_new) {
      real h = normal_rng(mean[i], sd[i] + 1e-30);
      vector[J] g = mean[i] + sd[i] * node, at;
      y_new[i] = 1 + rank(append_row(c, logistic_rng(h, 1)), K);
      for (j in 1 : J)
        at[j] = ordered_logistic_lpmf(y_at[i] | g[j], c);
      log_lik[i] = log_sum_exp(at + log_weight);
    }
  }
}
