//! Criterion benchmarks of the npb workspace; run them with `cargo bench -p npb-benches`.
