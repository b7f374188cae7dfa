//! Integration tests.

mod recommend;
