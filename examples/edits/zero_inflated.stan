// bdr_poisson: counts, given the true mean embeddings of bags.
//   y_i ~ 0 with probability zero, otherwise poisson(exp(h_i))
//   h_i = known_part_i + intercept + (s_i .* z_i)' w + x_i' gamma
//         + sqrt(nu_i) u_i,   u_i ~ normal(0, 1)
//   s_ik = eta / (eta + lambda_k / size_i), nu_i = eta sum_k (1 - s_ik) w_k^2
// Source: Law et al. (2018), section 3.3, with Poisson labels.
functions {
  matrix shrinkage(vector size, vector lambda, real eta) {
    return inv(1 + inv(size) * lambda' / eta);
  }
  real inflated_lpmf(int y, real h, real zero) {
    real counted = log1m(zero) + poisson_log_lpmf(y | h);
    return y == 0 ? log_sum_exp(log(zero), counted) : counted;
  }
  int inflated_rng(real h, real zero) {
    return bernoulli_rng(1 - zero) * poisson_log_rng(h);
  }
}
data {
  int<lower=0> N, N_new, D, Q, J;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size, known_part;  vector[N_new] size_new, known_part_new;
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  vector[J] node, log_weight;                          // of u, for log_lik
  vector[D] lambda;  matrix[D, D] prior_factor;        // within-bag variances
  real intercept_location, intercept_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;  vector[Q] gamma_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[Q] gamma;
  real<lower=0> rho, eta;  vector[N] u;
  real<lower=0, upper=1> zero;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  u ~ std_normal();
  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] sd = sqrt(eta * (1 - s) * w ^ 2 + 1e-30);  // sqrt(0) has no slope
  vector[N] h = known_part + intercept + (s .* z) * w + x * gamma + sd .* u;
  for (i in 1 : N) y[i] ~ inflated(h[i], zero);
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] sd = sqrt(eta * (1 - s) * w ^ 2);
    vector[N_new] mean = known_part_new + intercept + (s .* z_new) * w
                         + x_new * gamma;
    for (i in 1 : N_new) {
      real h = normal_rng(mean[i], sd[i] + 1e-30);
      vector[J] g = mean[i] + sd[i] * node, at;
      y_new[i] = inflated_rng(h, zero);
      for (j in 1 : J)
        at[j] = inflated_lpmf(y_at[i] | g[j], zero);
      log_lik[i] = log_sum_exp(at + log_weight);
    }
  }
}
