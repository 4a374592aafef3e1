// blr: Bayesian linear regression on the mean embeddings of bags, which are
// taken as exact, whatever the size of a bag.
//
//   y_i ~ normal(intercept + z_i' w + x_i' gamma, sd_i)
//   sd_i = sqrt(sigma^2 + label_sd_i^2)
//
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1.
data {
  int<lower=0> N, N_new, D, Q;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  vector[N] label_sd;  vector[N_new] label_sd_new;     // known label errors
  vector[N] y;  vector[N_new] y_at;                    // log_lik is at y_at
  real intercept_location, intercept_scale, sigma_scale;
  vector[Q] gamma_scale;
  real rho_median, rho_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  vector[Q] gamma;
  real<lower=0> sigma, rho;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);

  vector[N] mean = intercept + z * w + x * gamma;
  vector[N] sd = sqrt(sigma ^ 2 + label_sd ^ 2);
  y ~ normal(mean, sd);
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    vector[N_new] mean = intercept + z_new * w + x_new * gamma;
    vector[N_new] sd = sqrt(sigma ^ 2 + label_sd_new ^ 2);
    y_new = normal_rng(mean, sd);
    for (i in 1 : N_new) {
      log_lik[i] = normal_lpdf(y_at[i] | mean[i], sd[i]);
    }
  }
}
