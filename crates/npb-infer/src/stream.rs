use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Odd constants of the two hash lanes: the golden ratio and the square root of two, both as 64-bit
/// fractions.
const LANE_A: u64 = 0x9E37_79B9_7F4A_7C15;
const LANE_B: u64 = 0x6A09_E667_F3BC_C909;

/// The generator of one unit of work, identified by `seed` and `key`.
///
/// By convention `key = [chain, sweep, block, item]`: for example row `i` of block `ROWS` in sweep
/// `t` of chain `c` draws from `stream(seed, [c, t, ROWS, i])`. Since randomness belongs to the
/// unit of work and not to the thread that happens to do it, results are bit-equal for every number
/// of threads, and a checkpoint needs no generator: state, seed and sweep are enough.
///
/// The order of the four words matters; keys that differ in any word, or seeds that differ, give
/// unrelated streams. Two 64-bit lanes are hashed with the splitmix64 finalizer, so that accidental
/// equality of two streams needs a 128-bit collision. Cost: 12 hash rounds, about as much as two
/// dozen draws; no allocation.
///
/// ```
/// use npb_infer::stream;
/// use rand::RngExt;
/// let draw = |key| stream(7, key).random::<u64>();
/// assert_eq!(draw([0, 3, 1, 2]), draw([0, 3, 1, 2]));
/// assert_ne!(draw([0, 3, 1, 2]), draw([0, 3, 2, 1]));
/// ```
pub fn stream(seed: u64, key: [u64; 4]) -> Xoshiro256PlusPlus {
    let a = hash(seed, key, LANE_A);
    let b = hash(seed, key, LANE_B);
    let words = [a, b, mix(a ^ b.rotate_left(32)), mix(a.wrapping_add(b))];
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Xoshiro256PlusPlus::from_seed(bytes)
}

fn hash(seed: u64, key: [u64; 4], lane: u64) -> u64 {
    key.iter().fold(
        mix(seed ^ lane),
        |h, &word| mix(h.wrapping_add(lane) ^ word),
    )
}

/// Finalizer of splitmix64: a bijection of 64-bit words in which every input bit reaches every
/// output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
