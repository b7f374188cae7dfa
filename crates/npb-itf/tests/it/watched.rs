//! Fits that are watched, stopped and gone on with.

use std::ops::ControlFlow;
use std::sync::Mutex;

use npb_infer::checkpoint::Every;
use npb_infer::{Stop, Watch};
use npb_itf::{Grouping, ItfConfig, ItfData, Saved, Structure, fit_data, fit_data_watched};

use crate::tables::{grouped, short};

fn config(groups: Grouping) -> ItfConfig {
    ItfConfig {
        chains: 2,
        groups,
        ..short(Structure::TensorBlocks)
    }
}

/// Shares told until the watcher stops the fit at `most`, and why the fit ended.
fn shares(data: &ItfData, groups: Grouping, most: f64) -> (Vec<f64>, Stop) {
    let shares = Mutex::new(Vec::new());
    let watch = Watch::new(|progress| {
        shares.lock().unwrap().push(progress.share);
        match progress.share < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    let fit = fit_data_watched(data, &config(groups), &watch).unwrap();
    drop(watch);
    assert!(!fit.draws().is_empty());
    (shares.into_inner().unwrap(), fit.stop())
}

#[test]
fn progress_rises_to_one() {
    let data = ItfData::from_table(&grouped(60, 2, 1)).unwrap();
    for groups in [Grouping::Off, Grouping::Found] {
        let (shares, stop) = shares(&data, groups, 2.0);
        assert!(shares.is_sorted());
        assert_eq!((shares.last(), stop), (Some(&1.0), Stop::Completed));
    }
}

#[test]
fn a_cancelled_fit_is_what_there_is() {
    let data = ItfData::from_table(&grouped(60, 2, 1)).unwrap();
    for groups in [Grouping::Off, Grouping::Found] {
        // In the first sweeps, while groups are looked for if they are, and in the middle.
        for most in [0.0, 0.6] {
            let (shares, stop) = shares(&data, groups.clone(), most);
            assert_eq!(stop, Stop::Cancelled);
            // What is under way when the watcher stops: one step of each part.
            let after = shares.iter().filter(|&&share| share >= most).count();
            assert!(after <= 8, "{after} steps after the end");
        }
    }
}

#[test]
fn a_cancelled_fit_goes_on_to_the_same_bits() {
    let data = ItfData::from_table(&grouped(60, 2, 2)).unwrap();
    let folder = std::env::temp_dir().join(format!("npb-itf-watched-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("checkpoint");
    let run = |most: f64| {
        let watch = Watch::new(move |progress| match progress.share < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let watch = watch.with_checkpoint(&file, Every::sweeps(3));
        fit_data_watched(&data, &config(Grouping::Off), &watch)
    };
    run(0.4).unwrap();
    let resumed = run(2.0).unwrap();
    let at_once = fit_data(&data, &config(Grouping::Off)).unwrap();
    assert_eq!(resumed.to_bytes().unwrap(), at_once.to_bytes().unwrap());
    // Of other data.
    let other = ItfData::from_table(&grouped(60, 2, 3)).unwrap();
    let watch = Watch::none().with_checkpoint(&file, Every::sweeps(3));
    assert!(fit_data_watched(&other, &config(Grouping::Off), &watch).is_err());
    std::fs::remove_dir_all(folder).unwrap();
}
