// bdr_student_t: labels with outliers, given the true mean embeddings of bags.
//   y_i ~ student_t(2 + df_above_2, top * tanh(h_i / top), sigma)
//   h_i = known_part_i + intercept + (s_i .* z_i)' w + x_i' gamma
//         + sqrt(nu_i) u_i,   u_i ~ normal(0, 1)
//   s_ik = eta / (eta + lambda_k / size_i), nu_i = eta sum_k (1 - s_ik) w_k^2
// Source: Law et al. (2018), section 3.3, with Student's t labels.
functions {
  matrix shrinkage(vector size, vector lambda, real eta) {
    return inv(1 + inv(size) * lambda' / eta);
  }
}
data {
  int<lower=0> N, N_new, D, Q, J;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size, known_part;  vector[N_new] size_new, known_part_new;
  vector[N] y;  vector[N_new] y_at;                    // log_lik is at y_at
  vector[J] node, log_weight;                          // of u, for log_lik
  vector[D] lambda;  matrix[D, D] prior_factor;        // within-bag variances
  real intercept_location, intercept_scale, sigma_scale, df_above_2_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;  vector[Q] gamma_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[Q] gamma;
  real<lower=0> sigma, df_above_2, rho, eta, top;  vector[N] u;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  sigma ~ normal(0, sigma_scale);
  top ~ lognormal(0, 2);                               // units of the labels
  df_above_2 ~ normal(0, df_above_2_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  u ~ std_normal();
  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] sd = sqrt(eta * (1 - s) * w ^ 2 + 1e-30);  // sqrt(0) has no slope
  vector[N] h = known_part + intercept + (s .* z) * w + x * gamma + sd .* u;
  y ~ student_t(2 + df_above_2, top * tanh(h / top), sigma);
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] sd = sqrt(eta * (1 - s) * w ^ 2);
    vector[N_new] mean = known_part_new + intercept + (s .* z_new) * w
                         + x_new * gamma;
    real df = 2 + df_above_2;
    for (i in 1 : N_new) {
      real h = normal_rng(mean[i], sd[i] + 1e-30);
      vector[J] g = top * tanh((mean[i] + sd[i] * node) / top), at;
      y_new[i] = student_t_rng(df, top * tanh(h / top), sigma);
      for (j in 1 : J)
        at[j] = student_t_lpdf(y_at[i] | df, g[j], sigma);
      log_lik[i] = log_sum_exp(at + log_weight);
    }
  }
}
