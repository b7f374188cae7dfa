//! Linear algebra for incomplete Gaussian data: SPD factors, conditioning on a missing pattern, sampling from precision form.
