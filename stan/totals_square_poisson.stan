// totals_square_poisson: rates f^2 at points, learned from counts of bags.
//
//   y_a ~ poisson(lambda_a)
//   lambda_a = sum_j weight_j (f_j^2 + rho^2 omitted_j), j in bag a
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
  vector[P] omitted;  vector[P_new] omitted_new;       // var(f) outside phi
  array[N] int start, length;  array[N_new] int start_new, length_new;
  array[N] int y;  array[N_new] int y_at;              // log_lik is at y_at
  real intercept_location, intercept_scale, rho_median, rho_log_sd;
}
parameters {
  real intercept;
  vector[D] w;
  real<lower=0> rho;
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  rho ~ lognormal(log(rho_median), rho_log_sd);

  vector[P] rate = (intercept + phi * w) ^ 2 + rho ^ 2 * omitted;
  vector[N] lambda = sums(weight .* rate, start, length);
  y ~ poisson(lambda);
}
generated quantities {
  array[N_new] int y_new;  array[N_new] real log_lik;
  vector[P_new] rate_new;                              // at the new points
  {
    vector[P_new] f = intercept + phi_new * w;
    vector[P_new] rate = f ^ 2 + rho ^ 2 * omitted_new;
    vector[N_new] lambda = sums(weight_new .* rate, start_new, length_new);
    for (a in 1 : N_new) {
      y_new[a] = poisson_rng(lambda[a]);
      log_lik[a] = poisson_lpmf(y_at[a] | lambda[a]);
    }
    for (j in 1 : P_new) {
      real sd = rho * sqrt(omitted_new[j]);
      rate_new[j] = (f[j] + sd * std_normal_rng()) ^ 2;
    }
  }
}
