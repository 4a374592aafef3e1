// coin: tosses of a coin, the smallest program that has to be compiled.
//   y_n ~ bernoulli(theta)   theta ~ uniform(0, 1)
data {
  int<lower=0> N;                       // tosses
  array[N] int<lower=0, upper=1> y;     // heads
}
parameters {
  real<lower=0, upper=1> theta;         // probability of heads
}
model {
  y ~ bernoulli(theta);
}
