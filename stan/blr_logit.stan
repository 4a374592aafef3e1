// blr_logit: Bayesian logistic regression on the mean embeddings of bags, which
// are treated as exact, whatever the size of a bag.
//
//   y_i ~ bernoulli(logit^-1(intercept + z_i' w + x_i' gamma))
//
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.1, with
// logistic instead of normal labels.
data {
  int<lower=0> N, N_new, D, Q;
  matrix[N, D] z;  matrix[N_new, D] z_new;             // mean embeddings
  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  real intercept_location, intercept_scale;
  vector[Q] gamma_scale;
  real rho_median, rho_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  vector[Q] gamma;
  real<lower=0> rho;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);

  vector[N] h = intercept + z * w + x * gamma;
  y ~ bernoulli_logit(h);
}
generated quantities {
  array[N_new] int y_new;
  array[N_new] real log_lik;
  {
    vector[N_new] h = intercept + z_new * w + x_new * gamma;
    y_new = bernoulli_logit_rng(h);
    for (i in 1 : N_new) {
      log_lik[i] = bernoulli_logit_lpmf(y_at[i] | h[i]);
    }
  }
}
