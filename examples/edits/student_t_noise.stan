// bdr: a label depends on the true mean embedding of its bag, of which the
// points are a sample. Small bags shrink towards 0, the average bag.
//
//   y_i  ~ student_t(df, intercept + (s_i .* z_i)' w + x_i' gamma, sd_i)
//   s_ik = eta / (eta + lambda_k / size_i)
//   sd_i = sqrt(sigma^2 + label_sd_i^2 + eta * sum_k (1 - s_ik) w_k^2)
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
  real<lower=1> df;                                    // degrees of freedom
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  prior_factor * w ~ normal(0, rho);
  gamma ~ normal(0, gamma_scale);
  sigma ~ normal(0, sigma_scale);
  df ~ gamma(2, 0.1);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);

  matrix[N, D] s = shrinkage(size, lambda, eta);
  vector[N] mean = intercept + (s .* z) * w + x * gamma;
  vector[N] sd = sqrt(sigma ^ 2 + label_sd ^ 2 + eta * (1 - s) * w ^ 2);
  y ~ student_t(df, mean, sd);
}
generated quantities {
  array[N_new] real y_new, log_lik;
  {
    matrix[N_new, D] s = shrinkage(size_new, lambda, eta);
    vector[N_new] mean = intercept + (s .* z_new) * w + x_new * gamma;
    vector[N_new] sd = sqrt(sigma ^ 2 + label_sd_new ^ 2
                            + eta * (1 - s) * w ^ 2);
    y_new = student_t_rng(rep_vector(df, N_new), mean, sd);
    for (i in 1 : N_new) {
      log_lik[i] = student_t_lpdf(y_at[i] | df, mean[i], sd[i]);
    }
  }
}
