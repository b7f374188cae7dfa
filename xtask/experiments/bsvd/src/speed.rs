//! Seconds per sweep on MovieLens 1M with a fixed number of active components.

use std::time::Instant;

use npb_bsvd::{BsvdConfig, BsvdData, BsvdSampler, SideInformation};
use npb_data::read::{MovieLens, movielens};

use super::fits::fixed_rank;
use npb_kit::Result;
use npb_kit::data::DataFolder;
use npb_kit::films::NINETY_TEN_ROWS;
use npb_kit::open;

/// Sweeps before the first that is timed: memory settles.
const WARM: u64 = 3;

/// What was timed.
pub(crate) struct SpeedLine {
    pub(crate) components: usize,
    pub(crate) entries: usize,
    /// Median over sweeps.
    pub(crate) seconds: f64,
}

/// Times sweeps with 32 and with 16 components, switches held on, in the caller's thread pool.
pub(crate) fn bsvd_speed(folder: &DataFolder, sweeps: u64) -> Result<Vec<SpeedLine>> {
    let place = |file: &str| folder.path("movielens-1m", file);
    let forms = ["ratings_no_timestamp.dat.gz", "ratings.dat"].map(place);
    let path = forms
        .iter()
        .find(|path| path.is_file())
        .ok_or("movielens-1m is not there: cargo xtask data get movielens-1m")?;
    let file = movielens("ratings", open(path)?, MovieLens::DoubleColon)?;
    let given = place(NINETY_TEN_ROWS);
    let split = if given.is_file() {
        let rows = npb_data::read::row_numbers(NINETY_TEN_ROWS, open(&given)?)?;
        npb_data::Split::from_test_rows(file.entries.len(), &rows)?
    } else {
        npb_data::splits::random(file.entries.len(), 0.9, &mut npb_infer::stream(1, [0; 4]))?
    };
    let train = file.select(&split.train)?;
    let time = |components: usize| -> Result<SpeedLine> {
        let config = fixed_rank(components, BsvdConfig::default());
        let data = BsvdData::new(&train, SideInformation::default(), &config)?;
        let mut sampler = BsvdSampler::new(&data, config)?;
        let mut seconds = Vec::new();
        for sweep in 0..WARM + sweeps.max(1) {
            let clock = Instant::now();
            sampler.sweep()?;
            if sweep >= WARM {
                seconds.push(clock.elapsed().as_secs_f64());
            }
        }
        let rank = sampler.state().rank();
        if rank != components {
            return Err(format!("{rank} components are active, not {components}").into());
        }
        seconds.sort_by(f64::total_cmp);
        Ok(SpeedLine {
            components,
            entries: train.n_observed(),
            seconds: seconds[seconds.len() / 2],
        })
    };
    [32, 16].map(time).into_iter().collect()
}
