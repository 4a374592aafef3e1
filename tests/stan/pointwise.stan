// pointwise: the least that BLR takes of a program, with one more parameter and
// with quantities of each bag; of few bags.
//   w_d ~ normal(0, 1)   intercept ~ normal(0, 1)   sigma ~ lognormal(0, 1)
data {
  int<lower=1> D;                // weights
  int<lower=1> G;                // groups of bags
  array[G] int<lower=1> n_bags;  // bags per group
}
transformed data {
  int N = sum(n_bags);
  if (N > 20) {
    reject(N, " bags, I want fewer");
  }
}
parameters {
  vector[D] w;
  real intercept;
  real<lower=0> sigma;
  real extra;
}
model {
  w ~ std_normal();
  intercept ~ std_normal();
  sigma ~ lognormal(0, 1);
  extra ~ std_normal();
}
generated quantities {
  vector[N] log_lik = rep_vector(-1.5, N);
  vector[N] y_rep = rep_vector(2.5, N);
}
