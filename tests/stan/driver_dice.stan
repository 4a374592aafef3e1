// driver_dice: no parameters, so only the fixed_param sampler can run it.
generated quantities {
  int face = categorical_rng(rep_vector(1.0 / 6, 6));
}
