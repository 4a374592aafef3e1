// bdr_plain: Bayesian distribution regression as the paper's text has it, one
// term a bag, eta fixed: posterior moments of the embeddings are data.
//   y_n ~ normal(intercept + (M_n - m0)' alpha,
//                sqrt(alpha' C_n alpha + sigma^2))
//   alpha ~ multi_normal(0, rho^2 K^-1)
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
data {
  int<lower=1> N;                  // bags
  int<lower=1> D;                  // landmarks
  matrix[N, D] m;                  // posterior mean embedding minus m0
  array[N] matrix[D, D] C;         // its covariance
  vector[N] y;
  matrix[D, D] K_factor;           // K = K_factor' K_factor
  real intercept_location;
  real<lower=0> intercept_scale;
  real<lower=0> sigma_scale;
  real<lower=0> rho_median;
  real<lower=0> rho_log_sd;
}
parameters {
  real intercept;
  vector[D] alpha;
  real<lower=0> sigma;
  real<lower=0> rho;
}
model {
  vector[N] sd_y;
  intercept ~ normal(intercept_location, intercept_scale);
  K_factor * alpha ~ normal(0, rho);  // linear in alpha: no Jacobian
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  for (n in 1 : N) {
    sd_y[n] = sqrt(quad_form_sym(C[n], alpha) + square(sigma));
  }
  y ~ normal(intercept + m * alpha, sd_y);
}
