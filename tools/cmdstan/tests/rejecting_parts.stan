// Parallel sum whose parts refuse some values: a rejection thrown in a worker of TBB.
functions {
  real part(array[] real y, int first, int last, real mu) {
    if (mu > 0.5) {
      reject("mu is ", mu);
    }
    return normal_lpdf(y | mu, 1);
  }
}
data {
  int<lower=0> N;
  array[N] real y;
}
parameters {
  real mu;
}
model {
  mu ~ normal(0, 1);
  target += reduce_sum(part, y, 5, mu);
}
