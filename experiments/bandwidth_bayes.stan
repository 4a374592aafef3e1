// blr: Bayesian linear regression on the mean embeddings of bags, which are
// taken as exact. All bags have n points; the bandwidth of the kernel, an RBF
// of landmarks, has a lognormal prior.
//
//   y_i ~ normal(intercept + (z_i - average z)' w + x_i' gamma, sd_i)
//   z_ik = average of exp(-squares_jik / (2 bandwidth^2)) over the points j
//   sd_i = sqrt(sigma^2 + label_sd_i^2)
//
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1.
data {
  int<lower=0> N, N_new, D, Q;
  int<lower=1> n;  array[n] matrix[N, D] squares;      // of distances
  real bandwidth_median, bandwidth_log_sd;
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
  real<lower=0> sigma, rho, bandwidth;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  bandwidth ~ lognormal(log(bandwidth_median), bandwidth_log_sd);

  matrix[N, D] z = rep_matrix(0, N, D);
  for (j in 1 : n) z += exp(-squares[j] / (2 * square(bandwidth))) / n;
  z -= rep_matrix(rep_row_vector(inv(N), N) * z, N);
  vector[N] mean = intercept + z * w + x * gamma;
  vector[N] sd = sqrt(sigma ^ 2 + label_sd ^ 2);
  y ~ normal(mean, sd);
}
