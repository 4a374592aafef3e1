// inverse: the embedding given the label, a curve in each coordinate.
//
// Bag i has N_i points and the label y_i. Its mean embedding has coordinates
// z_i in a basis where the covariance within bags is diag(lambda) and the
// residual covariance between bags given their labels is nearly the identity.
// B(y) are J functions of the label: 1, then S linear ones (the label itself,
// or contrasts of classes), then splines.
//
//   z_ik | y_i ~ normal(c_k' B(y_i), sqrt(tau_k^2 + lambda_k / N_i))
//
//   c_k1 ~ normal(0, level_scale)
//   c_kj ~ normal(0, amplitude_k)                           linear
//   c_kj ~ normal(0, amplitude_k * curvature * smooth_j)    splines
//
// The coefficients c_k are integrated out, and drawn in generated quantities.
// Bags of equal size share their variances, so the likelihood needs only sums
// of B B', B z' and z^2 over each such group. If sizes are many the groups
// are fewer nodes, between which 1 / (tau^2 + lambda / N) and its logarithm are
// interpolated to ten digits; sums at a node may be negative.
// Python predicts labels by Bayes' rule: p(y | z) is proportional to
// p(y) prod_k p(z_k | y)^power.
// Units: z, tau, amplitude, curvature and c have none.
// Data: bdr_stan/models/inverse.py, inverse_data().
// Source: Cook (2007), "Fisher lecture: dimension reduction in regression",
// Adragni and Cook (2009), for embeddings that are uncertain.
functions {
  #include functions/finite.stanfunctions

  // Prior standard deviations of the curves' coefficients, a column a curve.
  matrix curve_scales(vector amplitude, array[] real curvature,
                      vector smooth, int S, real level_scale) {
    int J = size(smooth);
    vector[J] each = smooth;
    matrix[J, size(amplitude)] scales;
    if (size(curvature) > 0) {
      each[S + 2 : J] *= curvature[1];
    }
    scales = each * amplitude';
    scales[1] = rep_row_vector(level_scale, size(amplitude));
    return scales;
  }

  // 1 / (tau_k^2 + lambda_k / N_g), a row a group.
  matrix precisions(vector tau, vector lambda, vector inverse_size) {
    int G = size(inverse_size);
    return inv(rep_matrix(square(tau)', G) + inverse_size * lambda');
  }

  // Precision times mean of the coefficients, a column a curve.
  matrix linear_terms(array[] matrix cross, matrix precision) {
    matrix[size(cross), cols(precision)] linear_term;
    for (j in 1 : size(cross)) {
      linear_term[j] = columns_dot_product(cross[j], precision);
    }
    return linear_term;
  }

  // Triangular factors of the coefficients' precisions.
  array[] matrix factors(matrix gram, matrix precision, matrix scales) {
    int J = rows(scales);
    int K = cols(scales);
    matrix[J * J, K] information = gram * precision;
    array[K] matrix[J, J] factor;
    for (k in 1 : K) {
      factor[k] = cholesky_decompose(add_diag(
        to_matrix(information[, k], J, J), inv_square(scales[, k])));
    }
    return factor;
  }
}
data {
  int<lower=1> K;                        // coordinates
  int<lower=2> J;                        // functions of the label
  int<lower=1, upper=J - 1> S;           // linear ones
  int<lower=1> G;                        // groups of bags of equal size
  vector<lower=0>[G] bag_size;           // points per bag
  row_vector[G] n_bags;                  // bags per group
  matrix[J * J, G] gram;                 // sums of B B', a column a group
  array[J] matrix[G, K] cross;           // sums of B_j z_k
  matrix[G, K] squares;                  // sums of z_k^2
  vector<lower=0>[K] lambda;             // within-bag variances
  vector<lower=0>[J] smooth;             // relative prior sd of coefficients
  real<lower=0> level_scale;             // prior sd of constants
  real<lower=0> tau_scale;               // prior scale of each tau
  real<lower=0> amplitude_median;        // prior median of each amplitude
  real<lower=0> amplitude_log_sd;        // prior sd of its logarithm
  real<lower=0> curvature_median;        // prior median of curvature
  real<lower=0> curvature_log_sd;        // prior sd of log(curvature)
  int<lower=0, upper=1> use_likelihood;  // 0: sample the prior
}
transformed data {
  int has_curvature = S < J - 1;         // whether there are splines
  vector[G] inverse_size = inv(bag_size);
  int bad = first_row_not_finite(append_col(squares, gram'));
  array[6] real positive = {level_scale, tau_scale, amplitude_median,
                            amplitude_log_sd, curvature_median,
                            curvature_log_sd};
  for (j in 1 : J) {
    int bad_cross = first_row_not_finite(cross[j]);
    if (bad_cross > 0) {
      reject("cross[", j, ", ", bad_cross, "] must hold finite numbers, found ",
             cross[j, bad_cross]);
    }
  }
  if (bad > 0) {
    reject("squares and gram of group ", bad, " must hold finite numbers");
  }
  if (!(min(bag_size) > 0)) {
    reject("bag_size must be > 0, found ", bag_size);
  }
  if (!(sum(n_bags) > 0 && sum(n_bags) < positive_infinity())) {
    reject("n_bags must be finite and have a sum > 0, found ", n_bags);
  }
  if (!(min(smooth) > 0)) {
    reject("smooth must be > 0, found ", smooth);
  }
  if (!(min(positive) > 0)) {
    reject("level_scale, tau_scale, amplitude_median, amplitude_log_sd,",
           " curvature_median and curvature_log_sd must be > 0, found ",
           positive);
  }
}
parameters {
  vector<lower=0>[K] tau;
  vector<lower=0>[K] amplitude;
  array[has_curvature] real<lower=0> curvature;
}
model {
  tau ~ rayleigh(tau_scale);             // density 0 at tau = 0
  amplitude ~ lognormal(log(amplitude_median), amplitude_log_sd);
  curvature ~ lognormal(log(curvature_median), curvature_log_sd);
  if (use_likelihood) {
    matrix[J, K] scales = curve_scales(amplitude, curvature, smooth, S,
                                       level_scale);
    matrix[G, K] precision = precisions(tau, lambda, inverse_size);
    matrix[J, K] linear_term = linear_terms(cross, precision);
    array[K] matrix[J, J] factor = factors(gram, precision, scales);
    target += 0.5 * sum(n_bags * log(precision)) - sum(log(scales))
              - 0.5 * sum(squares .* precision)
              - 0.5 * sum(n_bags) * K * log(2 * pi());
    for (k in 1 : K) {
      vector[J] white = mdivide_left_tri_low(factor[k], linear_term[, k]);
      target += 0.5 * dot_self(white) - sum(log(diagonal(factor[k])));
    }
  }
}
generated quantities {
  matrix[K, J] curve;
  {
    matrix[J, K] scales = curve_scales(amplitude, curvature, smooth, S,
                                       level_scale);
    matrix[G, K] precision = use_likelihood
                             * precisions(tau, lambda, inverse_size);
    matrix[J, K] linear_term = linear_terms(cross, precision);
    array[K] matrix[J, J] factor = factors(gram, precision, scales);
    for (k in 1 : K) {
      row_vector[J] standard = to_row_vector(normal_rng(zeros_vector(J), 1));
      standard += mdivide_left_tri_low(factor[k], linear_term[, k])';
      curve[k] = mdivide_right_tri_low(standard, factor[k]);
    }
  }
}
