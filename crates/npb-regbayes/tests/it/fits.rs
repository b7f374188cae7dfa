//! Bits, watching, resuming, files.

use std::ops::ControlFlow;

use npb_regbayes::npb_infer::checkpoint::Every;
use npb_regbayes::npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_regbayes::npb_infer::watch::Progress;
use npb_regbayes::npb_infer::{Stop, Watch};
use npb_regbayes::{IlsvmConfig, IlsvmFit, MtIlsvmConfig, MtIlsvmFit, Saved, classes, tasks};

use crate::simulated::{self, class_config, labels, task_config};

fn class_fit(watch: &Watch<'_>, missing: f64) -> IlsvmFit {
    let (table, truth) = simulated::classes(11, 40, missing);
    let config = IlsvmConfig {
        raw_inputs: 0.5,
        ..class_config(5)
    };
    classes::fit_watched(&table, &labels(&truth, 25), &config, watch).unwrap()
}

fn task_fit(watch: &Watch<'_>, missing: f64) -> MtIlsvmFit {
    let data = simulated::tasks(12, 40, missing).data(25);
    let config = MtIlsvmConfig {
        raw_inputs: 0.5,
        ..task_config(5)
    };
    tasks::fit_watched(&data, &config, watch).unwrap()
}

#[test]
fn bits_do_not_depend_on_threads() {
    for missing in [0.0, 0.2] {
        same_bits_on_threads(&[1, 2, 4], || {
            class_fit(&Watch::none(), missing).to_bytes().unwrap()
        })
        .unwrap();
        same_bits_on_threads(&[1, 2, 4], || {
            task_fit(&Watch::none(), missing).to_bytes().unwrap()
        })
        .unwrap();
    }
}

/// A fit that is watched: its bytes, and why it ended.
type Watched<'a> = &'a dyn Fn(&Watch<'_>) -> (Vec<u8>, Stop);

/// Stopped after each of some iterations and called again: the bits of a run that was never stopped. The share of the work rises to 1.
#[test]
fn stopped_fits_go_on_in_the_same_bits() {
    let folder = std::env::temp_dir().join(format!("npb-regbayes-stops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.npb");
    let fits: [Watched<'_>; 2] = [
        &|watch| {
            let fit = class_fit(watch, 0.1);
            (fit.to_bytes().unwrap(), fit.stop)
        },
        &|watch| {
            let fit = task_fit(watch, 0.1);
            (fit.to_bytes().unwrap(), fit.stop)
        },
    ];
    for fit in fits {
        let mut shares = Vec::new();
        let watch = Watch::new(|progress: &Progress<'_>| {
            shares.push(progress.share);
            ControlFlow::Continue(())
        });
        let (whole, _) = fit(&watch);
        drop(watch);
        assert!(
            shares.windows(2).all(|w| w[0] <= w[1]) && shares.last() == Some(&1.0),
            "{shares:?}"
        );
        // 0: in the sweeps before the labels are looked at.
        for last in [0, 1, 2] {
            let stop = |progress: &Progress<'_>| match progress.step >= last {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let watch = Watch::new(stop).with_checkpoint(&path, Every::sweeps(1));
            let (_, reason) = fit(&watch);
            assert_eq!(reason, Stop::Cancelled);
            let watch = Watch::none().with_checkpoint(&path, Every::sweeps(1));
            assert!(fit(&watch).0 == whole, "stopped after {last}");
            std::fs::remove_file(&path).unwrap();
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn selection_is_watched_from_features_to_the_last_fit() {
    let data = simulated::tasks(12, 40, 0.1).data(25);
    let choice = tasks::Validation {
        costs: vec![0.1, 1.0],
        folds: 2,
        ..tasks::Validation::default()
    };
    let mut heard = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        heard.push((progress.part.to_owned(), progress.share));
        ControlFlow::Continue(())
    });
    tasks::fit_selected(&data, &task_config(5), &choice, &watch).unwrap();
    drop(watch);
    assert!(heard.windows(2).all(|w| w[0].1 <= w[1].1), "{heard:?}");
    assert_eq!(heard.first().unwrap().0, "features");
    let (part, share) = heard.last().unwrap();
    assert_eq!((part.as_str(), *share), ("fit", 1.0));

    let watch = Watch::new(|progress: &Progress<'_>| match progress.part {
        "fold 2" => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let stopped = tasks::fit_selected(&data, &task_config(5), &choice, &watch);
    assert!(stopped.unwrap_err().to_string().contains("stopped"));
}

#[test]
fn saved_fits_come_back_and_predict_the_same() {
    let (fit, other) = (
        class_fit(&Watch::none(), 0.1),
        task_fit(&Watch::none(), 0.1),
    );
    let folder = std::env::temp_dir().join(format!("npb-regbayes-saved-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    fit.save(folder.join("a")).unwrap();
    other.save(folder.join("b")).unwrap();
    assert_eq!(IlsvmFit::load(folder.join("a")).unwrap(), fit);
    assert_eq!(MtIlsvmFit::load(folder.join("b")).unwrap(), other);
    assert!(
        IlsvmFit::load(folder.join("b")).is_err(),
        "a file of another model"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damaged_and_forged_files_are_refused_or_harmless() {
    let mut small = class_config(2);
    small.limits.max_iterations = 2;
    small.factors.growth = 0;
    let (table, truth) = simulated::classes(13, 8, 0.1);
    let fit = classes::fit(&table, &labels(&truth, 8), &small).unwrap();
    let exercise = |fit: &IlsvmFit| {
        let _ = fit.predict(&table).map(|scores| scores.class(0));
        let _ = (
            fit.scores().margin(0),
            fit.feature_reports().len(),
            format!("{fit:?}"),
        );
    };
    attack_file(
        &fit.to_bytes().unwrap(),
        600,
        1,
        IlsvmFit::from_bytes,
        exercise,
    )
    .unwrap();

    let simulated = simulated::tasks(14, 8, 0.1);
    let mut small = task_config(2);
    small.limits.max_iterations = 2;
    small.factors.growth = 0;
    let fit = tasks::fit(&simulated.data(8), &small).unwrap();
    let exercise = |fit: &MtIlsvmFit| {
        let _ = fit
            .predict(&simulated.inputs)
            .map(|scores| scores.labels(0));
        let _ = (fit.features().len(), format!("{fit:?}"));
    };
    attack_file(
        &fit.to_bytes().unwrap(),
        600,
        1,
        MtIlsvmFit::from_bytes,
        exercise,
    )
    .unwrap();
}
