// driver_coin: coin tosses with every kind of trouble a run can meet, on demand.
//   y_n ~ bernoulli(theta)   theta ~ uniform(0, 1)
// Data: executables.py.
data {
  int<lower=0> N;                       // tosses
  array[N] int<lower=0, upper=1> y;     // heads
  int<lower=0, upper=5> trouble;        // 0: none; see below
}
transformed data {
  if (trouble == 1) {
    reject("trouble in transformed data");
  }
}
parameters {
  real<lower=0, upper=1> theta;         // probability of heads
}
model {
  profile("tosses") {
    y ~ bernoulli(theta);
  }
  if (trouble == 2) {
    reject("trouble in the model");
  }
  if (trouble == 3) {
    target += log(0);
  }
  if (trouble == 4) {
    target += not_a_number();
  }
}
generated quantities {
  int next = bernoulli_rng(theta);      // one more toss
  if (trouble == 5) {
    reject("trouble in generated quantities");
  }
}
