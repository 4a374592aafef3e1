// numbers: G of them, and none of the variables that predictions need. With
// G = 0 there are no parameters, so only the fixed_param sampler can run it.
//   x_g ~ normal(0, 1)
data {
  int<lower=0> G;
}
parameters {
  vector[G] x;
}
model {
  x ~ std_normal();
}
generated quantities {
  int face = categorical_rng(rep_vector(1.0 / 6, 6));
}
