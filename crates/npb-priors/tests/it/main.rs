//! Special functions against high-precision values; distributions against their moments, laws and identities.

mod special;
