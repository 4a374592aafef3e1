// totals_exp_effects: rates exp(f) at points, learned from counts of bags that
// have normal effects on the logarithms of their rates.
//   y_a ~ poisson(lambda_a),   u_a ~ normal(0, 1)
//   lambda_a = exp(tau u_a) sum_j weight_j exp(f_j), j in bag a
//   f_j = intercept + phi_j' w
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
  int<lower=0> N, N_new, P, P_new, D, J;               // bags, points, features
  matrix[P, D] phi;  matrix[P_new, D] phi_new;         // features of points
  vector[P] weight;  vector[P_new] weight_new;         // e.g. people there
  vector[P_new] omitted_new;                           // var(f) outside phi
  array[N] int start, length;  array[N_new] int start_new, length_new;
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  vector[J] node, log_weight;                          // of u, for log_lik
  real intercept_location, intercept_scale, rho_median, rho_log_sd, tau_scale;
}
parameters {
  real intercept;  vector[D] w;  vector[N] u;
  real<lower=0> rho, tau;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  tau ~ normal(0, tau_scale);
  u ~ std_normal();
  vector[P] rate = exp(intercept + phi * w);
  y ~ poisson(exp(tau * u) .* sums(weight .* rate, start, length));
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  vector[P_new] rate_new = exp(intercept + phi_new * w);
  {
    vector[N_new] lambda = sums(weight_new .* rate_new, start_new, length_new);
    for (a in 1 : N_new) {
      real sd = inv_sqrt(y_at[a] + tau ^ -2);          // of effects given y_at
      real mean = y_at[a] * log((y_at[a] + 0.5) / lambda[a]) * sd ^ 2;
      vector[J] effect = mean + sd * node, at;
      for (j in 1 : J)
        at[j] = poisson_lpmf(y_at[a] | exp(effect[j]) * lambda[a])
          + normal_lpdf(effect[j] | 0, tau) - normal_lpdf(effect[j] | mean, sd);
      log_lik[a] = log_sum_exp(at + log_weight);
      y_new[a] = poisson_rng(exp(tau * std_normal_rng()) * lambda[a]);
    }
    vector[P_new] sd = rho * sqrt(omitted_new);
    for (j in 1 : P_new)
      rate_new[j] *= exp(sd[j] * std_normal_rng() - sd[j] ^ 2 / 2);
  }
}
