"""Rates inside bags: likelihoods, links, rows, thinning, the variational bound."""
