// bdr_plain: twin of bdr.stan for the tests, the model as the paper has it.
//   y_n ~ normal(intercept + alpha' (M_n - m0), sqrt(alpha' C_n alpha + sigma^2))
//   M_n = m0 + eta R (eta R + Sigma / N_n)^-1 (mu_n - m0)
//   C_n = eta R - eta R (eta R + Sigma / N_n)^-1 eta R
//   alpha ~ multi_normal(0, rho^2 K^-1)
// with one term a bag, dense matrices in landmark coordinates and no whitening.
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // landmarks
  array[N] vector[D] mu;                 // empirical mean embeddings
  vector<lower=0>[N] bag_size;           // points per bag
  vector[N] y;                           // bag labels
  vector[D] m0;                          // prior mean of the embeddings
  cov_matrix[D] Sigma;                   // covariance within bags
  cov_matrix[D] R;                       // prior covariance at eta = 1
  cov_matrix[D] K;                       // kernel matrix of the landmarks
  real intercept_location;
  real<lower=0> intercept_scale;
  real<lower=0> sigma_scale;
  real<lower=0> rho_median;
  real<lower=0> rho_log_sd;
  real<lower=0> eta_median;
  real<lower=0> eta_log_sd;
}
parameters {
  real intercept;
  vector[D] alpha;
  real<lower=0> sigma;
  real<lower=0> rho;
  real<lower=0> eta;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  alpha ~ multi_normal_prec(rep_vector(0, D), K / square(rho));
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  for (n in 1 : N) {
    matrix[D, D] gain = eta * R / (eta * R + Sigma / bag_size[n]);
    vector[D] shift = gain * (mu[n] - m0);
    matrix[D, D] C = eta * R - gain * (eta * R);
    y[n] ~ normal(intercept + dot_product(alpha, shift),
                  sqrt(quad_form(C, alpha) + square(sigma)));
  }
}
