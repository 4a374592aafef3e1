// nothing: a program that has none of the variables that predictions need.
//   x ~ normal(0, 1)
parameters {
  real x;
}
model {
  x ~ std_normal();
}
