//! Special functions, distributions with conjugate updates, and random measures for nonparametric Bayes.
