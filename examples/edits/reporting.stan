// totals_exp_poisson: rates exp(f) at points, learned from counts of bags.
//
//   y_a ~ poisson(p_a lambda_a), logit(p_a) ~ normal(mu, spread)
//   lambda_a = sum_j weight_j exp(f_j), j in bag a
//   f_j = intercept + phi_j' w
//
// Source: Law, Sejdinovic, Cameron, Lucas, Flaxman et al. (2018), section 3.
functions {
  vector sums(vector values, array[] int start, array[] int length) {
    vector[size(start)] of_bags;
    for (a in 1 : size(start)) {
      of_bags[a] = sum(segment(values, start[a], length[a]));
    }
    return of_bags;
  }
}
data {
  int<lower=0> N, N_new, P, P_new, D;                  // bags, points, features
  matrix[P, D] phi;  matrix[P_new, D] phi_new;         // features of points
  vector[P] weight;  vector[P_new] weight_new;         // e.g. people there
  vector[P_new] omitted_new;                           // var(f) outside phi
  array[N] int start, length;  array[N_new] int start_new, length_new;
  array[N] int audited, found;                         // cases, those reported
  int<lower=0> J;  vector[J] node, log_weight;         // of u, for log_lik
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  real intercept_location, intercept_scale, rho_median, rho_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  real<lower=0> rho;
  vector[N] u;  real mu;  real<lower=0> spread;        // of reporting
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  u ~ std_normal();
  mu ~ normal(0, 1.5);
  spread ~ normal(0, 1);
  found ~ binomial_logit(audited, mu + spread * u);

  vector[P] rate = exp(intercept + phi * w);
  vector[N] lambda = sums(weight .* rate, start, length);
  y ~ poisson(inv_logit(mu + spread * u) .* lambda);
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  vector[P_new] rate_new;                              // at the new points
  {
    vector[P_new] rate = exp(intercept + phi_new * w);
    vector[N_new] lambda = sums(weight_new .* rate, start_new, length_new);
    vector[J] p = inv_logit(mu + spread * node), at;
    for (a in 1 : N_new) {
      y_new[a] = poisson_rng(inv_logit(normal_rng(mu, spread)) * lambda[a]);
      for (j in 1 : J)
        at[j] = poisson_lpmf(y_at[a] | p[j] * lambda[a]);
      log_lik[a] = log_sum_exp(at + log_weight);
    }
    for (j in 1 : P_new) {
      real sd = rho * sqrt(omitted_new[j]);
      rate_new[j] = rate[j] * exp(sd * std_normal_rng() - sd ^ 2 / 2);
    }
  }
}
