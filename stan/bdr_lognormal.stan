// bdr_lognormal: times to events, given the true mean embeddings of bags.
//   log y_i = h_i + sigma e_i, e_i ~ normal(0, 1); y_i > entry_i
//   h_i = known_part_i + intercept + (s_i .* z_i)' w + x_i' gamma
//         + sqrt(nu_i) u_i,   u_i ~ normal(0, 1)
//   s_ik = eta / (eta + lambda_k / size_i), nu_i = eta sum_k (1 - s_ik) w_k^2
// A time with event_i = 0 is censored, and has P(y > y_i) as its density.
// Source: Law et al. (2018), section 3.3, with times to events.
functions {
  matrix shrinkage(vector size, vector lambda, real eta) {
    return inv(1 + inv(size) * lambda' / eta);
  }
  real log_density(real y, real event, real entry, real h, real sigma) {
    real before = entry > 0 ? std_normal_lcdf((h - log(entry)) / sigma | ) : 0;
    return (event > 0 ? lognormal_lpdf(y | h, sigma)
            : std_normal_lcdf((h - log(y)) / sigma | )) - before;
  }
}
data {
  int<lower=0> N, N_new, D, Q, J;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size, known_part;  vector[N_new] size_new, known_part_new;
  vector[N] y, event, entry;  vector[N_new] y_at, event_new, entry_new;
  vector[J] node, log_weight;                          // of u, for log_lik
  vector[D] lambda;  matrix[D, D] prior_factor;        // within-bag variances
  real intercept_location, intercept_scale, sigma_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;  vector[Q] gamma_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[Q] gamma;
  real<lower=0> sigma, rho, eta;  vector[N] u;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);  u ~ std_normal();
  eta ~ lognormal(log(eta_median), eta_log_sd);
  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] sd = sqrt(eta * (1 - s) * w ^ 2 + 1e-30);  // sqrt(0) has no slope
  vector[N] h = known_part + intercept + (s .* z) * w + x * gamma + sd .* u;
  for (i in 1 : N) target += log_density(y[i], event[i], entry[i], h[i], sigma);
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] sd = sqrt(eta * (1 - s) * w ^ 2);
    vector[N_new] mean = known_part_new + intercept + x_new * gamma
                         + (s .* z_new) * w;
    for (i in 1 : N_new) {
      real h = normal_rng(mean[i], sd[i] + 1e-30);
      vector[J] g = mean[i] + sd[i] * node, at;
      y_new[i] = lognormal_rng(h, sigma);
      for (j in 1 : J)
        at[j] = log_density(y_at[i], event_new[i], entry_new[i], g[j], sigma);
      log_lik[i] = log_sum_exp(at + log_weight);
    }
  }
}
