// wide_scale: a scale with a wide prior over K numbers, for E-BFMI and k-hat.
//   scale ~ lognormal(0, log_sd)   x_k ~ normal(0, scale)
// With in_units the sampler moves in t = x / scale: a normal distribution in
// log(scale) and t. Else it moves in t = x, a funnel.
data {
  int<lower=1> K;                  // numbers with the scale in common
  real<lower=0> log_sd;            // prior sd of log(scale)
  int<lower=0, upper=1> in_units;  // whether t is x / scale
}
parameters {
  real<lower=0> scale;
  vector[K] t;
}
transformed parameters {
  vector[K] x = in_units ? scale * t : t;
}
model {
  scale ~ lognormal(0, log_sd);
  t ~ normal(0, in_units ? 1 : scale);
}
