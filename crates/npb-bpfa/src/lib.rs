//! Factor analysis and dictionary learning with the beta process, for incomplete images and matrices.
