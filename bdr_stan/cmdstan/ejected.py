"""The text of a stock program for users to edit: one likelihood function, and log_lik."""

_ABOUT = """\
  // The likelihood of the labels, also that of log_lik below: edit it here.
"""
_LOG_LIK = """\
generated quantities {
  // One number per bag, for az.loo and az.compare%s
"""
_LOG_LIK_PER_ROW = """; empty without
  // compress=False, as the rows are not those of single bags.
  vector[T * (max(n_bags) == 1)] log_lik;
  if (size(log_lik) > 0) {
"""
_NO_LOG_LIK = """\
//
// This program writes no log_lik, which az.loo and az.compare need: define
// vector[number of bags] log_lik in generated quantities.
"""

# For each program: the line of its likelihood, the function and the line that replace it, log_lik.
_LIKELIHOODS = {
    "blr": (
        "    target += compressed_normal_lpdf(e | sign, n_bags, nu, group);\n",
        """\
  real labels_lpdf(vector e, vector sign, vector n_bags, vector variance,
                   array[] int group) {
    return compressed_normal_lpdf(e | sign, n_bags, variance, group)
           - 0.5 * dot_product(sign, n_bags) * log(2 * pi());
  }
""",
        "    target += labels_lpdf(e | sign, n_bags, nu, group);\n",
        _LOG_LIK_PER_ROW
        + """\
    vector[T] e = rows * append_row(theta, -1) + term_columns * term_effect;
    vector[G] nu = square(sigma) + known_variance;
    if (size_noise) {
      nu += square(sigma_point[1]) ./ bag_size;
    }
    for (i in 1 : T) {
      log_lik[i] = labels_lpdf(e[i : i] | [1]', [1]', nu[i : i], {1});
    }
  }
""",
    ),
    "bdr": (
        """\
      if (U > 0) {
        int k = n_with_x[g];
        vector[length[g]] e = y[a : b] - by_terms[a : b];
        target += sign[g] * (group_normal_lupdf(head(e, k) |
                                                x[, a : a + k - 1]',
                                                shrunk[, g], nu, n_bags[g])
                             - 0.5 * dot_self(tail(e, length[g] - k)) / nu);
      } else {
        target += sign[g] * group_normal_lupdf(y[a : b] | x[, a : b]',
                                               shrunk[, g], nu, n_bags[g]);
      }
""",
        """\
  real labels_lpdf(vector y, matrix x, vector weights, real variance,
                   real n_bags) {
    return group_normal_lpdf(y | x, weights, variance, n_bags);
  }
""",
        """\
      target += sign[g] * labels_lpdf(y[a : b] - by_terms[a : b] | x[, a : b]',
                                      shrunk[, g], nu, n_bags[g]);
""",
        _LOG_LIK_PER_ROW
        + """\
    for (i in 1 : T) {
      vector[P] shrunk = theta ./ (1 + within[, i] / eta);
      real nu = dot_product(theta, shrunk .* within[, i]) + square(sigma)
                + known_variance[i];
      if (size_noise) {
        nu += square(sigma_point[1]) / bag_size[i];
      }
      log_lik[i] = labels_lpdf([y[i] - term_columns[i] * term_effect]' |
                               x[, i : i]', shrunk, nu, 1);
    }
  }
""",
    ),
    "blr_logit": (
        "    y ~ bernoulli_logit_glm(zx, intercept, append_row(w, gamma));\n",
        """\
  real labels_lpmf(array[] int y, vector log_odds) {
    return bernoulli_logit_lpmf(y | log_odds);
  }
""",
        "    target += labels_lpmf(y | intercept + zx * append_row(w, gamma));\n",
        """.
  vector[N] log_lik;
  {
    vector[N] log_odds = intercept + zx * append_row(w, gamma);
    for (i in 1 : N) {
      log_lik[i] = labels_lpmf(y[i : i] | log_odds[i : i]);
    }
  }
""",
    ),
}


def text_to_edit(name: str, text: str) -> str:
    """A stock program with its likelihood in one function, which the model and log_lik use.

    `text` is the program as in ``stan/``; programs without such a likelihood get a comment instead.
    """
    head, functions, rest = text.partition("functions {\n")
    if name not in _LIKELIHOODS:
        return head + _NO_LOG_LIK + functions + rest
    line, function, call, log_lik = _LIKELIHOODS[name]
    body, end, blocks = rest.partition("}\ndata {\n")
    return (
        f"{head}{functions}{body}{_ABOUT}{function}{end}{blocks.replace(line, call)}"
        f"{_LOG_LIK.rstrip() % log_lik}}}\n"
    )
