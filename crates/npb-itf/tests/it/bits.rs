//! Equal bits for any number of threads, and after stop and resume.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_infer::watch::Progress;
use npb_infer::{Watch, storage};
use npb_itf::{
    ChainSummary, Draw, Grouping, ItfConfig, ItfData, ItfMove, ItfSampler, ItfState, Saved,
    Structure, fit, fit_data, fit_watched,
};

use crate::tables::{ALL, grouped, short};

#[test]
fn the_number_of_threads_changes_no_bit() {
    let table = grouped(150, 2, 1);
    for structure in ALL {
        let run = || fit(&table, &short(structure)).unwrap().to_bytes().unwrap();
        same_bits_on_threads(&[1, 2, 4], run).unwrap();
    }
}

#[test]
fn a_resumed_run_ends_in_the_same_bits() {
    let plain = ItfData::from_table(&grouped(80, 2, 2)).unwrap();
    let group = ["g0x0", "g0x1", "g0c"].map(String::from).to_vec();
    let with_group = plain.with_groups(&[group]).unwrap();
    for data in [plain, with_group] {
        resumes(&data);
    }
}

fn resumes(data: &ItfData) {
    let config = short(Structure::TensorBlocks);
    let advance = |sampler: &mut ItfSampler<'_>, n: u64| (0..n).for_each(|_| sampler.sweep());
    let save = |sampler: &ItfSampler<'_>| {
        let present = (sampler.state(), sampler.n_sweeps(), sampler.draw());
        storage::to_bytes("run", "0", &present).unwrap()
    };
    let load = |bytes: &[u8]| {
        let (state, sweeps, _): (ItfState, u64, Draw) = storage::from_bytes("run", bytes).unwrap();
        ItfSampler::resume(data, config.clone(), 1, state, sweeps).unwrap()
    };
    let start = || ItfSampler::new(data, config.clone(), 1).unwrap();
    same_bits_when_resumed(11, &[0, 1, 4, 7, 10], start, advance, save, load).unwrap();
}

/// The paper's schedule has its log likelihood traced like any other.
#[test]
fn every_schedule_is_traced() {
    let data = ItfData::from_table(&grouped(40, 1, 4)).unwrap();
    for moves in [ItfMove::ALL.to_vec(), ItfMove::PAPER.to_vec()] {
        let config = ItfConfig {
            moves,
            ..short(Structure::Tensor)
        };
        let fit = fit_data(&data, &config).unwrap();
        let traced = |chain: &ChainSummary| {
            let mut ln = chain.trace.column(0);
            ln.all(|ln| ln.is_finite() && ln < 0.0)
        };
        assert!(fit.chains().iter().all(traced));
    }
}

/// What is said of a row does not depend on which rows are asked with it.
#[test]
fn of_answers_to_single_rows() {
    let table = grouped(30, 1, 3);
    for structure in ALL {
        let model = fit(&table, &short(structure)).unwrap();
        let whole = model.impute(&table, 0.9).unwrap();
        assert!(whole.cells.len() > 3);
        for cell in &whole.cells {
            let alone = model.impute(&table.select_rows(&[cell.row]), 0.9).unwrap();
            let own = alone.cells.iter().find(|own| own.column == cell.column);
            let own = own.map(|own| (&own.expected, &own.lower, &own.upper));
            assert_eq!(own, Some((&cell.expected, &cell.lower, &cell.upper)));
        }
    }
}

/// With groups to look for, and with a single column, for which there are none.
#[test]
fn the_share_of_the_work_rises_to_one() {
    let x = MixedColumn::Real((0..40).map(|i| Some(f64::from(i % 7))).collect());
    let single = MixedTable::new(vec!["x".into()], vec![x]).unwrap();
    for table in [single, grouped(40, 1, 5)] {
        let config = ItfConfig {
            groups: Grouping::Found,
            ..short(Structure::TensorBlocks)
        };
        let mut shares = Vec::new();
        let watch = Watch::new(|progress: &Progress<'_>| {
            shares.push(progress.share);
            std::ops::ControlFlow::Continue(())
        });
        fit_watched(&table, &config, &watch).unwrap();
        drop(watch);
        assert!(
            shares.is_sorted() && shares.last() == Some(&1.0),
            "{shares:?}"
        );
    }
}
