//! Large-margin learning with nonparametric latent features: iLSVM, multi-task iLSVM and MedLDA, by regularised Bayesian inference.
