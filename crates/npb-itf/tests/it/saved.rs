//! Fits in files: round trips, damage.

use npb_data::MixedTable;
use npb_infer::SweepPlan;
use npb_infer::testing::attack_file;
use npb_itf::{ItfConfig, ItfFit, Saved, Structure, fit};

use crate::tables::{grouped, short};

fn ask(fit: &ItfFit, table: &MixedTable) {
    let Ok(rows) = fit.rows(table) else { return };
    let _ = fit.ln_density(&rows);
    let _ = fit.predict(&rows, &fit.columns()[0].name.clone());
    let _ = fit.diagnostics();
    for draw in fit.draws() {
        let _ = draw.mutual_information(0, 1);
    }
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let table = grouped(3, 1, 3).select_columns(&[0, 2]).unwrap();
    for structure in [Structure::TensorBlocks, Structure::Joint] {
        let config = ItfConfig {
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 2,
                keep: 1,
                thin: 1,
            },
            ..short(structure)
        };
        let fitted = fit(&table, &config).unwrap();
        let bytes = fitted.to_bytes().unwrap();
        assert_eq!(
            ItfFit::from_bytes(&bytes).unwrap().to_bytes().unwrap(),
            bytes
        );
        attack_file(&bytes, 500, 1, ItfFit::from_bytes, |f| ask(f, &table)).unwrap();
    }
}
