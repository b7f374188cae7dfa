//! What cannot be fitted is an error that says why; what can is a finite result.

use npb_bpfa::npb_data::Table;
use npb_bpfa::npb_infer::SweepPlan;
use npb_bpfa::npb_priors::GammaPrior;
use npb_bpfa::{
    BpfaConfig, BpfaError, BpfaMove, BpfaRows, BpfaSampler, BpfaVb, BpfaVbConfig, DependentPrior,
    Dictionary, ScorePrior, SlabPrior, UsagePrior, fit,
};

use crate::simulated::config;

fn table(n: usize, p: usize, cells: &[f64]) -> Table {
    Table::from_nan_coded(n, p, cells).unwrap()
}

#[test]
fn tables() {
    let nan = f64::NAN;
    let config = config(3, 5, 5);
    let error = |table: &Table| fit(table, &config).unwrap_err();
    assert!(matches!(
        error(&table(2, 2, &[nan; 4])),
        BpfaError::NoEntries
    ));
    // One row is no variation.
    for (n, p, cells) in [
        (2, 2, &[3.0; 4][..]),
        (1, 1, &[3.0]),
        (1, 3, &[1.0, 2.0, 4.0]),
    ] {
        assert!(matches!(
            error(&table(n, p, cells)),
            BpfaError::NothingVaries
        ));
    }
    let finite: [(&str, Table); 7] = [
        ("one column", table(3, 1, &[1.0, 2.0, 4.0])),
        ("an empty row", table(3, 2, &[1.0, 2.0, nan, nan, 4.0, 3.0])),
        (
            "an empty column",
            table(3, 2, &[1.0, nan, 2.0, nan, 4.0, nan]),
        ),
        (
            "a constant column",
            table(3, 2, &[1.0, 7.0, 2.0, 7.0, 4.0, 7.0]),
        ),
        (
            "two equal rows",
            table(3, 2, &[1.0, 2.0, 1.0, 2.0, 4.0, 3.0]),
        ),
        ("tiny", table(2, 2, &[1e-300, 2e-300, -1e-300, 3e-300])),
        ("huge", table(2, 2, &[1e300, 2e300, -1e300, 1.5e300])),
    ];
    for scores in [ScorePrior::SpikeSlab, ScorePrior::Dense] {
        for (what, table) in &finite {
            let config = BpfaConfig {
                scores,
                ..config.clone()
            };
            let model = fit(table, &config).unwrap_or_else(|e| panic!("{what}: {e}"));
            let full = model.impute_training(table).unwrap();
            assert!(full.values().iter().all(|x| x.is_finite()), "{what}");
        }
    }
}

/// What single precision cannot hold is named as the user wrote it.
#[test]
fn huge_values_are_named() {
    let nan = f64::NAN;
    let far = table(2, 2, &[1.0, nan, 2.0, 1e300]);
    let mut errors = vec![BpfaRows::from_table(&far).unwrap_err().to_string()];
    let near = table(3, 2, &[1.0, 2.0, 3.0, 5.0, 4.0, 3.0]);
    let model = fit(&near, &config(3, 5, 5)).unwrap();
    errors.push(model.transform(&far).unwrap_err().to_string());
    errors.push(model.impute(&far).unwrap_err().to_string());
    for error in errors {
        let value = format!("{} in row 1, column 1", 1e300);
        assert!(error.contains(&value), "{error}");
    }
}

#[test]
fn rows() {
    let new = |starts: &[usize], columns: &[u32], values: &[f32]| {
        BpfaRows::new(3, starts, columns.to_vec(), values.to_vec())
    };
    let bad = [
        new(&[0, 1], &[3], &[1.0]),
        new(&[0, 2], &[1, 1], &[1.0, 2.0]),
        new(&[0, 2, 1], &[0, 1], &[1.0, 2.0]),
        new(&[1, 2], &[0, 1], &[1.0, 2.0]),
        new(&[], &[], &[]),
        new(&[0], &[], &[]),
        new(&[0, 1], &[0], &[f32::INFINITY]),
        new(&[0, 1], &[0], &[f32::NAN]),
        new(&[0, 1], &[0, 1], &[1.0]),
        BpfaRows::complete(2, 2, vec![0.0; 3]),
        BpfaRows::complete(0, 2, vec![]),
    ];
    for (case, rows) in bad.into_iter().enumerate() {
        assert!(rows.is_err(), "case {case}");
    }
    let error = new(&[0, 1, 3], &[0, 1, 2], &[1.0, 2.0, f32::NAN]).unwrap_err();
    assert!(
        matches!(
            error,
            BpfaError::Entry {
                row: 1,
                column: 2,
                ..
            }
        ),
        "{error}"
    );
    let rows = new(&[0, 1, 3], &[0, 1, 2], &[1.0, 2.0, 3.0]).unwrap();
    assert!(rows.clone().with_channels(vec![0, 1]).is_err());
    assert!(rows.clone().with_channels(vec![0, 2, 2]).is_err());
    assert!(rows.clone().with_channels(vec![0, u32::MAX, 2]).is_err());
    assert!(rows.clone().with_sites(2, vec![0, 1, 2]).is_err());
    assert!(rows.clone().with_sites(3, vec![0, 1]).is_err());
    assert!(rows.clone().with_locations(1, vec![0.0]).is_err());
    assert!(rows.clone().with_locations(0, vec![]).is_err());
    assert!(rows.clone().with_locations(1, vec![0.0, f32::NAN]).is_err());
    assert!(Dictionary::from_atoms(3, &[1.0, 2.0]).is_err());
    assert!(Dictionary::from_atoms(0, &[]).is_err());
    assert!(Dictionary::from_atoms(1, &[f32::NAN]).is_err());
    let atoms = Dictionary::from_atoms(2, &[0.0; 6]).unwrap();
    assert!(BpfaSampler::with_atoms(&rows, config(3, 1, 1), atoms).is_err());
    // No entry in the only row of a channel's column, zeros everywhere.
    let zeros = BpfaRows::complete(4, 2, vec![0.0; 8]).unwrap();
    let mut sampler = BpfaSampler::new(&zeros, config(2, 1, 1)).unwrap();
    (0..20).for_each(|_| sampler.sweep().unwrap());
}

#[test]
fn configurations() {
    let rows = BpfaRows::complete(2, 2, vec![1.0, 2.0, 3.0, 5.0]).unwrap();
    let refused = |change: &dyn Fn(&mut BpfaConfig)| {
        let mut config = config(3, 1, 1);
        change(&mut config);
        BpfaSampler::new(&rows, config).err().map(|e| e.to_string())
    };
    let vague = GammaPrior {
        shape: f64::NAN,
        rate: 1.0,
    };
    let dependent = |prior: DependentPrior| UsagePrior::Dependent { prior };
    type Change<'a> = &'a dyn Fn(&mut BpfaConfig);
    let cases: [(&str, Change<'_>); 12] = [
        ("atoms", &|c| c.atoms = 0),
        ("atoms", &|c| c.atoms = 1 << 20),
        ("max_atoms", &|c| c.max_atoms = Some(2)),
        ("noise", &|c| c.noise.rate = f64::NAN),
        ("slab.prior", &|c| {
            c.slab = SlabPrior::Shared { prior: vague }
        }),
        ("usage.a", &|c| {
            c.usage = UsagePrior::Rows { a: 0.0, rows: 8.0 }
        }),
        ("usage.rows", &|c| {
            c.usage = UsagePrior::Rows { a: 1.0, rows: -1.0 }
        }),
        ("locations", &|c| {
            c.usage = dependent(DependentPrior::default())
        }),
        ("usage.mean", &|c| {
            c.usage = dependent(DependentPrior {
                mean: 1.0,
                ..DependentPrior::default()
            })
        }),
        ("moves", &|c| c.moves = Vec::new()),
        ("sweeps.keep", &|c| {
            c.sweeps = SweepPlan {
                burn_in: 0,
                keep: 0,
                thin: 1,
            }
        }),
        ("chains", &|c| c.chains = 0),
    ];
    for (name, change) in cases {
        let message = refused(change).unwrap_or_else(|| panic!("{name} was accepted"));
        assert!(message.contains(name), "{name}: {message}");
    }
    let lasso = BpfaVbConfig {
        scores: ScorePrior::Lasso {
            per_entry: false,
            rate: GammaPrior {
                shape: 1.0,
                rate: 1.0,
            },
        },
        ..BpfaVbConfig::default()
    };
    assert!(BpfaVb::new(&rows, lasso).is_err());
    let other = BpfaConfig {
        scores: ScorePrior::Dense,
        moves: vec![BpfaMove::Scores],
        ..config(3, 1, 1)
    };
    let state = BpfaSampler::new(&rows, config(3, 1, 1))
        .unwrap()
        .into_state();
    assert!(BpfaSampler::resume(&rows, other, 0, state, 0).is_err());
}
