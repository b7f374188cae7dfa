//! Equal bits for any number of threads, and after stop and resume.

use std::ops::ControlFlow;

use npb_infer::storage;
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_itf::{Checkpoint, ItfConfig, ItfData, ItfMove, ItfRun, Saved, Structure, fit};

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
    let advance = |run: &mut ItfRun<'_>, n: u64| {
        if n == 0 {
            return;
        }
        let end = run.sampler().n_sweeps() + n;
        run.run(|report, _| match report.sweep == end {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    };
    let save = |run: &ItfRun<'_>| storage::to_bytes("run", "0", &run.checkpoint()).unwrap();
    let load = |bytes: &[u8]| {
        let checkpoint: Checkpoint = storage::from_bytes("run", bytes).unwrap();
        ItfRun::resume(data, config.clone(), checkpoint).unwrap()
    };
    let start = || ItfRun::new(data, config.clone(), 1).unwrap();
    same_bits_when_resumed(11, &[0, 1, 4, 7, 10], start, advance, save, load).unwrap();
}

/// What a watcher sees is the run after the sweep: its trace, and a checkpoint that the run goes on from.
#[test]
fn a_watcher_can_take_a_checkpoint() {
    let data = ItfData::from_table(&grouped(40, 1, 3)).unwrap();
    let config = short(Structure::TensorBlocks);
    let mut whole = ItfRun::new(&data, config.clone(), 0).unwrap();
    let mut taken = None;
    whole.run(|report, run| {
        assert_eq!(run.trace().n_sweeps() as u64, report.sweep);
        if report.sweep == 6 {
            taken = Some(run.checkpoint());
        }
        ControlFlow::Continue(())
    });
    let mut rest = ItfRun::resume(&data, config, taken.unwrap()).unwrap();
    rest.run(|_, _| ControlFlow::Continue(()));
    let bytes = |run: &ItfRun<'_>| storage::to_bytes("run", "0", &run.checkpoint()).unwrap();
    assert_eq!(bytes(&whole), bytes(&rest));
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
        let mut run = ItfRun::new(&data, config, 0).unwrap();
        run.run(|_, _| ControlFlow::Continue(()));
        assert!(run.trace().column(0).all(|ln| ln.is_finite() && ln < 0.0));
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
