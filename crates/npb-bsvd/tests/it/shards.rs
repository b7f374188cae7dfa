//! Entries in shards: the bits of a fit of all entries in one process.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdError, BsvdFit, BsvdMove, BsvdUnits, ByShard, Cells, Entries, FactorUpdate,
    Holder, Likelihood, RatingsInShards, Saved, Shard, SideInformation, cuts, fit, fit_watched,
    missingness,
};
use npb_infer::checkpoint::Every;
use npb_infer::{SweepPlan, Watch};

use crate::simulated::low_rank;

/// Shards in this process, which are written to bytes and read again for every question, as are questions and answers.
#[derive(Debug, Default)]
struct Here {
    sets: Mutex<Vec<Vec<Vec<u8>>>>,
}

impl Here {
    fn shard(&self, set: usize, number: usize) -> Result<Shard, BsvdError> {
        Shard::from_bytes(&self.sets.lock().unwrap()[set][number])
    }
}

impl Holder for Here {
    fn ask(&self, set: usize, common: Vec<u8>, own: ByShard) -> Result<Vec<Vec<u8>>, BsvdError> {
        let answer = |(shard, own): (usize, Vec<u8>)| self.shard(set, shard)?.answer(&common, &own);
        own.into_iter().map(answer).collect()
    }

    fn derive(&self, common: &[u8], own: ByShard) -> Result<usize, BsvdError> {
        let derive =
            |(shard, own): (usize, Vec<u8>)| self.shard(0, shard)?.derive(common, &own)?.to_bytes();
        let made = own.into_iter().map(derive).collect::<Result<_, _>>()?;
        let mut sets = self.sets.lock().unwrap();
        sets.push(made);
        Ok(sets.len() - 1)
    }

    fn release(&self, set: usize) {
        self.sets.lock().unwrap()[set].clear();
    }
}

/// The entries in so many shards of rows and of columns.
fn in_shards(ratings: &Ratings, of: usize) -> RatingsInShards {
    let (n, m) = (ratings.n_rows(), ratings.n_cols());
    let counts = |n: usize, len: &dyn Fn(usize) -> usize| -> Vec<u32> {
        (0..n).map(|k| len(k) as u32).collect()
    };
    let rows = cuts(&counts(n, &|i| ratings.row(i).0.len()), of);
    let columns = cuts(&counts(m, &|j| ratings.column(j).0.len()), of);
    // Entries come in any order.
    let mut entries: Vec<Rating> = ratings.iter().collect();
    entries.sort_by_key(|e| e.value.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let within = |range: &Range<usize>, place: fn(&Rating) -> u32| -> Vec<Rating> {
        let inside = |e: &&Rating| range.contains(&(place(e) as usize));
        entries.iter().filter(inside).copied().collect()
    };
    let by_rows = rows
        .iter()
        .map(|r| Shard::rows(r.clone(), m, within(r, |e| e.row)));
    let by_columns = columns
        .iter()
        .map(|c| Shard::columns(c.clone(), n, within(c, |e| e.column)));
    let shards: Vec<Vec<u8>> = by_rows
        .chain(by_columns)
        .map(|shard| shard.unwrap().to_bytes().unwrap())
        .collect();
    let here = Here::default();
    here.sets.lock().unwrap().push(shards);
    RatingsInShards::new(Arc::new(here), rows, columns).unwrap()
}

fn stars() -> Ratings {
    let data = low_rank(11, (1500, 60), 3, 0.3, 0.4);
    let level = |y: f64| (y + 3.0).round().clamp(1.0, 5.0);
    let entries = data.observed.iter().map(|e| Rating {
        value: level(e.value),
        ..e
    });
    Ratings::new(1500, 60, &entries.collect::<Vec<_>>()).unwrap()
}

fn config() -> BsvdConfig {
    BsvdConfig {
        candidates: 4,
        sweeps: SweepPlan {
            burn_in: 16,
            keep: 6,
            thin: 1,
        },
        stored_draws: 3,
        ..BsvdConfig::default()
    }
}

fn followed() -> Cells {
    Cells {
        rows: vec![0, 7, 1499],
        columns: vec![1, 3, 0],
        values: vec![3.0, 4.0, 1.0],
    }
}

/// As ratings come: what varies between fits.
fn configs() -> Vec<(&'static str, BsvdConfig)> {
    let base = config();
    let longer = SweepPlan {
        burn_in: 44,
        keep: 6,
        thin: 1,
    };
    let mut often = base.clone();
    for scheduled in &mut often.moves {
        if scheduled.step == BsvdMove::Switches {
            scheduled.every = 2;
        }
    }
    let fixed = BsvdConfig {
        max_candidates: 4,
        ..base.clone()
    };
    vec![
        ("start found", base.clone()),
        (
            "both ways",
            BsvdConfig {
                factor_update: FactorUpdate::Auto,
                sweeps: longer,
                ..fixed.clone()
            },
        ),
        (
            "one at a time",
            BsvdConfig {
                factor_update: FactorUpdate::Coordinate,
                ..fixed.clone()
            },
        ),
        (
            "two chains",
            BsvdConfig {
                chains: 2,
                ..fixed.clone()
            },
        ),
        (
            "one noise",
            BsvdConfig {
                row_noise: false,
                column_noise: false,
                ..fixed.clone()
            },
        ),
        (
            "factors alone",
            BsvdConfig {
                row_intercepts: false,
                column_intercepts: false,
                row_factor_precision: false,
                column_factor_precision: false,
                factor_means: false,
                ..fixed.clone()
            },
        ),
        (
            "K grows",
            BsvdConfig {
                candidates: 2,
                max_candidates: 9,
                ..often
            },
        ),
        (
            "units given",
            BsvdConfig {
                units: BsvdUnits::Given {
                    centre: 3.0,
                    scale: 0.01,
                },
                ..fixed
            },
        ),
    ]
}

fn bytes(entries: &impl Entries, cells: &Cells, config: &BsvdConfig) -> Vec<u8> {
    let fit = fit(entries, SideInformation::default(), cells, config).unwrap();
    fit.to_bytes().unwrap()
}

#[test]
fn shards_have_the_bits_of_one_process() {
    let ratings = stars();
    let shards = [1, 2, 3, 7].map(|of| in_shards(&ratings, of));
    for (number, (name, config)) in configs().into_iter().enumerate() {
        // Fits that follow cells ask for means, too.
        let cells = [followed(), Cells::default()][number % 2].clone();
        let plain = bytes(&ratings, &cells, &config);
        for (shards, of) in shards.iter().zip([1, 2, 3, 7]) {
            let same = bytes(shards, &cells, &config) == plain;
            assert!(same, "{of} shards, {name}");
        }
    }
}

/// Noise so small that work is in double precision; a matrix with rows and columns without entries, and fewer blocks than shards.
#[test]
fn small_and_exact_matrices_too() {
    let exact = low_rank(3, (60, 50), 2, 0.4, 1e-6);
    let sparse = low_rank(5, (40, 9), 1, 0.05, 0.3);
    for ratings in [exact.observed, sparse.observed] {
        for of in [1, 2, 7] {
            let same = bytes(&in_shards(&ratings, of), &Cells::default(), &config())
                == bytes(&ratings, &Cells::default(), &config());
            assert!(same, "{of} shards of {} rows", ratings.n_rows());
        }
    }
}

/// Stopped in one number of shards, it goes on in another; the checkpoint is refused for another value of one entry.
#[test]
fn a_stopped_fit_goes_on_in_other_shards() {
    let ratings = stars();
    let config = BsvdConfig {
        chains: 2,
        ..config()
    };
    let file = std::env::temp_dir().join(format!("npb-bsvd-shards-{}", std::process::id()));
    let run = |entries: &RatingsInShards, most: f64| -> Result<BsvdFit, BsvdError> {
        let stop = |share: f64| match share > most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let watch = Watch::new(|progress| stop(progress.share));
        let watch = watch.with_checkpoint(&file, Every::sweeps(4));
        fit_watched(
            entries,
            SideInformation::default(),
            &followed(),
            &config,
            &watch,
        )
    };
    run(&in_shards(&ratings, 3), 0.5).unwrap();
    let mut entries: Vec<Rating> = ratings.iter().collect();
    (entries[0].value, entries[1].value) = (entries[1].value + 1.0, entries[0].value);
    let other = Ratings::new(ratings.n_rows(), ratings.n_cols(), &entries).unwrap();
    let refused = run(&in_shards(&other, 3), 0.6).unwrap_err();
    assert!(matches!(refused, BsvdError::Checkpoint(_)), "{refused}");
    let resumed = run(&in_shards(&ratings, 2), 1.0).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(resumed.to_bytes().unwrap() == bytes(&ratings, &followed(), &config));
}

#[test]
fn a_fit_of_shards_goes_on_like_any() {
    let ratings = stars();
    let shards = in_shards(&ratings, 3);
    let first = fit(&shards, SideInformation::default(), &followed(), &config()).unwrap();
    let sweeps = SweepPlan {
        burn_in: 4,
        keep: 4,
        thin: 1,
    };
    let config = BsvdConfig {
        sweeps,
        ..first.config.clone()
    };
    let (none, watch) = (SideInformation::default, Watch::none());
    let on = first.continue_with(&shards, none(), &followed(), &config, &watch);
    let whole = first.continue_with(&ratings, none(), &followed(), &config, &watch);
    assert_eq!(on.unwrap(), whole.unwrap());
}

#[test]
fn what_shards_cannot_do_is_refused_by_name() {
    let ratings = stars();
    let shards = in_shards(&ratings, 2);
    let fitted = |side: SideInformation, config: &BsvdConfig| {
        let error = fit(&shards, side, &Cells::default(), config).unwrap_err();
        error.to_string()
    };
    let levels = BsvdConfig {
        likelihood: Likelihood::Ordinal { levels: 5 },
        ..config()
    };
    let said = fitted(SideInformation::default(), &levels);
    assert!(
        said.contains("likelihood") && said.contains("Gaussian"),
        "{said}"
    );
    let said = fitted(missingness(&ratings, 2, 1), &config());
    assert!(said.contains("row features"), "{said}");
    let alike: Vec<Rating> = ratings.iter().map(|e| Rating { value: 3.0, ..e }).collect();
    let alike = in_shards(&Ratings::new(1500, 60, &alike).unwrap(), 2);
    let error = fit(
        &alike,
        SideInformation::default(),
        &Cells::default(),
        &config(),
    )
    .unwrap_err();
    assert!(matches!(error, BsvdError::Constant { .. }), "{error}");
}

#[test]
fn shards_name_the_entries_that_are_wrong() {
    let entry = |row, column, value| Rating { row, column, value };
    let made = |entries: &[Rating]| {
        Shard::rows(10..14, 6, entries.to_vec())
            .unwrap_err()
            .to_string()
    };
    let twice = made(&[entry(11, 2, 1.0), entry(12, 3, 2.0), entry(11, 2, 4.0)]);
    assert!(twice.starts_with("row 11, column 2: "), "{twice}");
    let infinite = made(&[entry(11, 2, 1.0), entry(13, 5, f64::INFINITY)]);
    assert!(
        infinite.starts_with("row 13, column 5: inf is not"),
        "{infinite}"
    );
    let elsewhere = made(&[entry(11, 2, 1.0), entry(14, 2, 1.0)]);
    assert!(elsewhere.contains("entry 1: row 14"), "{elsewhere}");
    assert!(made(&[entry(11, 6, 1.0)]).contains("column"));
    let columns = vec![entry(2, 11, 1.0), entry(2, 11, 4.0)];
    let twice = Shard::columns(10..14, 6, columns).unwrap_err().to_string();
    assert!(twice.starts_with("row 2, column 11: "), "{twice}");
    // Bytes that were cut short, or are no question.
    let shard = Shard::rows(10..14, 6, vec![entry(11, 2, 1.0)]).unwrap();
    assert!(shard.answer(&[1, 2, 3], &[]).is_err());
    let bytes = shard.to_bytes().unwrap();
    assert!(Shard::from_bytes(&bytes[..bytes.len() - 9]).is_err());
}
