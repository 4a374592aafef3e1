// bdr_probit: a class, 0 or 1, depends on the true mean embedding of its bag,
// of which the points are a sample. Small bags shrink towards 0, the average
// bag.
//
//   P(y_i = 1) = Phi(h_i)
//   h_i  = (intercept + (s_i .* z_i)' w + x_i' gamma) / sd_i
//   s_ik = eta / (eta + lambda_k / size_i)
//   sd_i = sqrt(1 + eta * sum_k (1 - s_ik) w_k^2)
//
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), appendix B.
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
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  vector[D] lambda;                                    // within-bag variances
  matrix[D, D] prior_factor;
  real intercept_location, intercept_scale;
  vector[Q] gamma_scale;
  real rho_median, rho_log_sd, eta_median, eta_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  vector[Q] gamma;
  real<lower=0> rho, eta;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);

  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] sd = sqrt(1 + eta * (1 - s) * w ^ 2);
  vector[N] h = (intercept + (s .* z) * w + x * gamma) ./ sd;
  target += std_normal_lcdf((2 * to_vector(y) - 1) .* h);
}
generated quantities {
  array[N_new] int y_new;
  array[N_new] real log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] sd = sqrt(1 + eta * (1 - s) * w ^ 2);
    vector[N_new] h = (intercept + (s .* z_new) * w + x_new * gamma) ./ sd;
    y_new = bernoulli_rng(Phi(h));
    for (i in 1 : N_new) {
      log_lik[i] = std_normal_lcdf((2 * y_at[i] - 1) * h[i]);
    }
  }
}
