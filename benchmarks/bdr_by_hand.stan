// bdr_by_hand: the model of BDR, eta learned, as a careful user writes it: in
// the joint basis, a row per bag. What it lacks are whitening and compression.
//   y_n ~ normal(intercept + (s_n * z_n)' w, sqrt(sigma^2 + eta (1 - s_n)' w^2))
//   s_n = eta / (eta + lambda / size_n)
// Source: Law, Sutherland, Sejdinovic, Flaxman (2018), section 3.3.
data {
  int<lower=1> N;                  // bags
  int<lower=1> D;                  // coordinates
  matrix[N, D] z;                  // mean embedding of each bag
  vector<lower=0>[N] size;         // points per bag
  vector[N] y;
  vector<lower=0>[D] lambda;       // variance of a point along each coordinate
  matrix[D, D] prior_factor;       // prior_factor * w ~ normal(0, rho)
  int<lower=0, upper=1> centred;   // else w = rho * prior_factor^-1 * v
  real intercept_location;
  real<lower=0> intercept_scale, sigma_scale;
  real<lower=0> rho_median, rho_log_sd, eta_median, eta_log_sd;
}
transformed data {
  matrix[N, D] within = inv(size) * lambda';
  matrix[D, D] unwhite = inverse(prior_factor);
}
parameters {
  real intercept;
  vector[D] v;
  real<lower=0> sigma, rho, eta;
}
transformed parameters {
  vector[D] w = centred ? v : rho * (unwhite * v);
}
model {
  matrix[N, D] s = inv(1 + within / eta);
  intercept ~ normal(intercept_location, intercept_scale);
  sigma ~ normal(0, sigma_scale);
  rho ~ lognormal(log(rho_median), rho_log_sd);
  eta ~ lognormal(log(eta_median), eta_log_sd);
  if (centred) {
    prior_factor * v ~ normal(0, rho);  // linear in v: no Jacobian
  } else {
    v ~ std_normal();
  }
  y ~ normal(intercept + (s .* z) * w,
             sqrt(square(sigma) + eta * ((1 - s) * square(w))));
}
