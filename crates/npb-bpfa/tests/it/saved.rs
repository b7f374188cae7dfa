//! Fits in files.

use npb_bpfa::npb_infer::testing::attack_file;
use npb_bpfa::{BpfaConfig, BpfaFit, Saved, ScorePrior, fit};

use crate::simulated::{config, simulated};

#[test]
fn a_loaded_fit_is_the_fit_and_damaged_files_do_no_harm() {
    let table = simulated(7, 4, 2, 0.2, 0.3, 1).table();
    for scores in [ScorePrior::SpikeSlab, ScorePrior::Dense] {
        let config = BpfaConfig {
            scores,
            stored_draws: 2,
            ..config(3, 3, 4)
        };
        let model = fit(&table, &config).unwrap();
        let bytes = model.to_bytes().unwrap();
        let loaded = BpfaFit::from_bytes(&bytes).unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), bytes);
        let use_it = |model: &BpfaFit| {
            let _ = model.impute(&table);
            let _ = model.followed();
            let _ = model.predict(0, 0);
            let _ = model.transform(&table);
            let _ = model.used_atoms();
            let _ = model.to_bytes();
        };
        let summary = attack_file(&bytes, 3000, 2, BpfaFit::from_bytes, use_it).unwrap();
        assert_eq!(summary.truncations, bytes.len());
    }
}
