//! Streams are keyed, unrelated and unchanged over releases.

use std::collections::HashSet;

use npb_infer::stream;
use rand::{Rng, RngExt};

#[test]
fn first_words_are_pinned() {
    // Fits are reproducible across releases only while this holds.
    let words = |seed, key| {
        let mut rng = stream(seed, key);
        [rng.next_u64(), rng.next_u64()]
    };
    assert_eq!(words(0, [0; 4]), PINNED[0]);
    assert_eq!(words(1, [2, 3, 4, 5]), PINNED[1]);
}

/// Computed by an independent program from the definition.
const PINNED: [[u64; 2]; 2] = [
    [883_934_739_361_454_627, 2_152_749_562_429_697_076],
    [11_355_314_598_364_580_500, 3_748_663_892_827_069_416],
];

#[test]
fn keys_that_differ_in_one_place_or_in_order_give_other_streams() {
    let mut seen = HashSet::new();
    let mut count = 0;
    for seed in 0..3 {
        for code in 0..4_u64.pow(4) {
            let key = [code % 4, code / 4 % 4, code / 16 % 4, code / 64];
            seen.insert(stream(seed, key).next_u64());
            count += 1;
        }
    }
    assert_eq!(seen.len(), count);
}

/// Neighbouring items are what a parallel sweep uses. Mean of n uniforms has sd 1/sqrt(12 n);
/// lag-one correlation sd 1/sqrt(n).
#[test]
fn neighbouring_streams_are_uniform_and_uncorrelated() {
    let n = 100_000;
    for block in 0..4 {
        let u: Vec<f64> = (0..n)
            .map(|i| stream(11, [0, 0, block, i]).random::<f64>() - 0.5)
            .collect();
        let mean = u.iter().sum::<f64>() / n as f64;
        let corr = 12.0 * u.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n as f64;
        assert!(
            mean.abs() < 4.5 / (12.0 * n as f64).sqrt(),
            "block {block}: mean {mean}"
        );
        assert!(
            corr.abs() < 4.5 / (n as f64).sqrt(),
            "block {block}: correlation {corr}"
        );
    }
}
