// totals_exp: rates exp(f) at points, learned from counts of bags that scatter
// more than Poisson numbers.
//
//   y_a ~ neg_binomial of mean lambda_a = m, variance m + (dispersion * m)^2
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
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  real intercept_location, intercept_scale, rho_median, rho_log_sd,
       dispersion_scale;
}
parameters {
  real intercept;
  vector[D] w;
  real<lower=0> dispersion, rho;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  dispersion ~ normal(0, dispersion_scale);

  vector[P] rate = exp(intercept + phi * w);
  vector[N] lambda = sums(weight .* rate, start, length);
  y ~ neg_binomial_2(lambda, dispersion ^ -2);
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  vector[P_new] rate_new;                              // at the new points
  {
    vector[P_new] rate = exp(intercept + phi_new * w);
    vector[N_new] lambda = sums(weight_new .* rate, start_new, length_new);
    real shape = dispersion ^ -2;
    for (a in 1 : N_new) {
      y_new[a] = neg_binomial_2_rng(lambda[a], shape);
      log_lik[a] = neg_binomial_2_lpmf(y_at[a] | lambda[a], shape);
    }
    for (j in 1 : P_new) {
      real sd = rho * sqrt(omitted_new[j]);
      rate_new[j] = rate[j] * exp(sd * std_normal_rng() - sd ^ 2 / 2);
    }
  }
}
