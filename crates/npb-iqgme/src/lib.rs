//! Infinite quadratically gated mixture of experts: nonlinear classification and density estimation when features are missing.
