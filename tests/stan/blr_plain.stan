// blr_plain: twin of blr.stan for the tests, the model as a textbook has it.
//   y_n ~ normal(intercept + x_n' beta, sigma)
// with one row a bag, landmark coordinates and no whitening.
data {
  int<lower=1> N;                        // bags
  int<lower=1> D;                        // landmarks
  matrix[N, D] x;                        // mean embeddings minus their average
  vector[N] y;                           // bag labels
  real intercept_location;
  real<lower=0> intercept_scale;
  real<lower=0> sigma_scale;
  real<lower=0> rho_median;
  real<lower=0> rho_log_sd;
}
parameters {
  real intercept;
  vector[D] beta;
  real<lower=0> sigma;
  real<lower=0> rho;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  beta ~ normal(0, rho);
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  y ~ normal(intercept + x * beta, sigma);
}
