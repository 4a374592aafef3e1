// totals_identity: rates f at points, learned from totals of normal outcomes.
//
//   y_a ~ normal(lambda_a, sqrt(noise_g^2 sum_j weight_j^2 + label_sd_a^2))
//   noise_g of the group g of a, lognormal about sigma
//   lambda_a = sum_j weight_j f_j, j in bag a
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
  int<lower=1> G;                                      // groups of bags
  array[N] int group;  array[N_new] int group_new;     // from 1 to G
  array[N] int start, length;  array[N_new] int start_new, length_new;
  vector[N] label_sd;  vector[N_new] label_sd_new;     // known label errors
  vector[N] y;  vector[N_new] y_at;                    // log_lik is at y_at
  real intercept_location, intercept_scale, rho_median, rho_log_sd, sigma_scale;
}
parameters {
  real intercept;
  vector[D] w;
  real<lower=0> sigma, rho;
  vector<lower=0>[G] noise;                            // of one person
}
model {
  intercept ~ normal(intercept_location, intercept_scale);
  w ~ normal(0, rho);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  sigma ~ normal(0, sigma_scale);
  noise ~ lognormal(log(sigma), 1);

  vector[P] rate = intercept + phi * w;
  vector[N] lambda = sums(weight .* rate, start, length);
  vector[N] squares = sums(weight ^ 2, start, length);
  y ~ normal(lambda, sqrt(noise[group] ^ 2 .* squares + label_sd ^ 2));
}
generated quantities {
  array[N_new] real y_new, log_lik;
  vector[P_new] rate_new;                              // at the new points
  {
    vector[P_new] rate = intercept + phi_new * w;
    vector[N_new] lambda = sums(weight_new .* rate, start_new, length_new);
    vector[N_new] squares = sums(weight_new ^ 2, start_new, length_new);
    for (a in 1 : N_new) {
      real sd = sqrt(noise[group_new[a]] ^ 2 * squares[a]
                     + label_sd_new[a] ^ 2);
      y_new[a] = normal_rng(lambda[a], sd);
      log_lik[a] = normal_lpdf(y_at[a] | lambda[a], sd);
    }
    for (j in 1 : P_new) {
      real sd = rho * sqrt(omitted_new[j]);
      rate_new[j] = rate[j] + sd * std_normal_rng();
    }
  }
}
