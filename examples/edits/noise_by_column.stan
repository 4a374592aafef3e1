// bdr: a label depends on the true mean embedding of its bag, of which the
// points are a sample. Small bags shrink towards 0, the average bag.
//
//   y_i  ~ normal(intercept + (s_i .* z_i)' w + x_i' gamma, sd_i)
//   s_ik = eta / (eta + lambda_k / size_i)
//   sd_i = sqrt(noise_i^2 + label_sd_i^2 + eta * sum_k (1 - s_ik) w_k^2)
//   noise_i = sigma * exp(effect * urban_i)
//
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
functions {
  matrix shrinkage(vector size, vector lambda, real eta) {
    return inv(1 + inv(size) * lambda' / eta);
  }
}
data {
  int<lower=0> N, N_new, D, Q;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] size;  vector[N_new] size_new;             // points of each bag
  vector[N] label_sd;  vector[N_new] label_sd_new;     // known label errors
  vector[N] y;  vector[N_new] y_at;                    // log_lik is at y_at
  vector[N] urban;  vector[N_new] urban_new;           // 1 urban, 0 rural
  vector[D] lambda;                                    // within-bag variances
  matrix[D, D] prior_factor;
  real intercept_location, intercept_scale, sigma_scale;
  vector[Q] gamma_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  vector[Q] gamma;
  real<lower=0> sigma, rho, eta;
  real effect;                                         // on the log noise
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  sigma ~ normal(0, sigma_scale);
  effect ~ normal(0, 1);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);

  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] mean = intercept + (s .* z) * w + x * gamma;
  vector[N] noise = sigma * exp(effect * urban);
  vector[N] sd = sqrt(noise ^ 2 + label_sd ^ 2 + eta * (1 - s) * w ^ 2);
  y ~ normal(mean, sd);
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] mean = intercept + (s .* z_new) * w + x_new * gamma;
    vector[N_new] noise = sigma * exp(effect * urban_new);
    vector[N_new] sd = sqrt(noise ^ 2 + label_sd_new ^ 2
                            + eta * (1 - s) * w ^ 2);
    y_new = normal_rng(mean, sd);
    for (i in 1 : N_new) {
      log_lik[i] = normal_lpdf(y_at[i] | mean[i], sd[i]);
    }
  }
}
