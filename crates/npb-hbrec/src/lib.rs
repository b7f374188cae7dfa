//! Learning from many small data sets: nonparametric hierarchical Bayes, and a hybrid recommender that needs twenty ratings.
