//! Equal bits: on any number of threads, after resuming, after loading; damaged files.

use std::ops::ControlFlow;

use npb_hbrec::npb_infer::checkpoint::Every;
use npb_hbrec::npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_hbrec::npb_infer::{SweepPlan, Watch};
use npb_hbrec::{
    BaseConfig, BaseDistribution, BernoulliItems, DpGibbsConfig, DpGibbsFit, DpMove, HbrecConfig,
    HbrecFit, LikeMatrix, Likes, Saved, fit, fit_gibbs, fit_gibbs_watched, fit_watched,
};

use crate::simulated::{Population, content};

fn database() -> LikeMatrix {
    Population::new(14, 2, 0.8, 1).database(70, 8, 1)
}

fn config() -> HbrecConfig {
    let mut base = BaseConfig {
        rank: 3,
        ..BaseConfig::default()
    };
    // Beyond the iterations in which variances wait: a run that goes on must know that they are over.
    (base.limits.max_iterations, base.limits.tolerance) = (14, 0.0);
    HbrecConfig {
        base: BaseDistribution::Learned(base),
        most_ratings: 7,
        ..HbrecConfig::default()
    }
}

fn gibbs_config() -> DpGibbsConfig {
    DpGibbsConfig {
        moves: vec![
            DpMove::Escobar,
            DpMove::Parameters,
            DpMove::Blocked,
            DpMove::Parameters,
            DpMove::Concentration,
        ],
        sweeps: SweepPlan {
            burn_in: 3,
            keep: 9,
            thin: 1,
        },
        stored_draws: 4,
        ..DpGibbsConfig::default()
    }
}

fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("npb-hbrec-{name}-{}", std::process::id()))
}

#[test]
fn threads_change_nothing() {
    let (likes, content) = (database(), content(14, 1));
    for config in [config(), HbrecConfig::printed()] {
        let run = || {
            fit(&likes, Some(&content), &config)
                .unwrap()
                .to_bytes()
                .unwrap()
        };
        same_bits_on_threads(&[1, 2, 4], run).unwrap();
    }
    let model = BernoulliItems::new(vec![[0.5, 0.5]; 14]).unwrap();
    let data: Vec<&Likes> = likes.users().iter().collect();
    let run = || {
        fit_gibbs(&model, &data, &gibbs_config())
            .unwrap()
            .to_bytes()
            .unwrap()
    };
    same_bits_on_threads(&[1, 2, 4], run).unwrap();
}

/// Stopped in the base's fifth iteration, and again in its twelfth; then run to its end.
#[test]
fn a_stopped_fit_goes_on_to_the_same_bits() {
    let (likes, config) = (database(), config());
    let whole = fit(&likes, None, &config).unwrap().to_bytes().unwrap();
    let file = path("fit");
    for stop in [5, 12] {
        let watch = Watch::new(|progress| {
            if progress.part == "base" && progress.step >= stop {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .with_checkpoint(&file, Every::sweeps(2));
        let stopped = fit_watched(&likes, None, &config, &watch).unwrap();
        assert_eq!(stopped.stop(), npb_hbrec::npb_infer::Stop::Cancelled);
        assert!(stopped.weights().xi.iter().all(|&xi| xi == 1.0));
    }
    let mut shares = Vec::new();
    let watch = Watch::new(|progress| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    })
    .with_checkpoint(&file, Every::sweeps(2));
    let resumed = fit_watched(&likes, None, &config, &watch).unwrap();
    drop(watch);
    assert_eq!(resumed.to_bytes().unwrap(), whole);
    assert!(
        shares.is_sorted() && *shares.last().unwrap() == 1.0,
        "{shares:?}"
    );
    let other = HbrecConfig {
        identity: 0.5,
        ..config
    };
    let watch = Watch::none().with_checkpoint(&file, Every::sweeps(2));
    assert!(fit_watched(&likes, None, &other, &watch).is_err());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn stopped_chains_go_on_to_the_same_bits() {
    let likes = database();
    let model = BernoulliItems::new(vec![[0.5, 0.5]; 14]).unwrap();
    let data: Vec<&Likes> = likes.users().iter().collect();
    let whole = fit_gibbs(&model, &data, &gibbs_config()).unwrap();
    let file = path("gibbs");
    for stop in [2, 8] {
        let watch = Watch::new(|progress| {
            if progress.step >= stop {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .with_checkpoint(&file, Every::sweeps(3));
        fit_gibbs_watched(&model, &data, &gibbs_config(), &watch).unwrap();
    }
    let watch = Watch::none().with_checkpoint(&file, Every::sweeps(3));
    let other = BernoulliItems::new(vec![[0.5, 0.6]; 14]).unwrap();
    let refused = fit_gibbs_watched(&other, &data, &gibbs_config(), &watch);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("other data"), "{message}");
    let resumed = fit_gibbs_watched(&model, &data, &gibbs_config(), &watch).unwrap();
    assert_eq!(resumed, whole);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn damaged_files_are_refused_or_valid() {
    let population = Population::new(6, 1, 0.8, 1);
    let (likes, content) = (population.database(5, 4, 1), content(6, 1));
    let mut fitted = fit(&likes, Some(&content), &config()).unwrap();
    fitted.add_user(likes.user(2)).unwrap();
    fitted.add_item(Some(&[0.2, 0.9])).unwrap();
    let new = Likes::new(6, &[(0, true), (5, false)]).unwrap();
    let exercise = |fit: &HbrecFit| {
        if let Ok(user) = fit.user(&new) {
            let _ = fit.predict_all(&user);
        }
        fit.to_bytes().unwrap();
    };
    let bytes = fitted.to_bytes().unwrap();
    attack_file(&bytes, 2000, 1, HbrecFit::from_bytes, exercise).unwrap();
    let user = |fit: &HbrecFit| fit.predict_all(&fit.user(&new).unwrap()).unwrap();
    assert_eq!(user(&HbrecFit::from_bytes(&bytes).unwrap()), user(&fitted));

    let model = BernoulliItems::new(vec![[0.5, 0.5]; 6]).unwrap();
    let data: Vec<&Likes> = likes.users().iter().collect();
    let bytes = fit_gibbs(&model, &data, &gibbs_config())
        .unwrap()
        .to_bytes()
        .unwrap();
    type Fit = DpGibbsFit<Vec<[f64; 2]>>;
    let exercise = |fit: &Fit| {
        fit.clusters();
        fit.diagnostics();
        for mixture in fit.mixtures(&model).into_iter().flatten() {
            if let Ok(user) = mixture.user(&new) {
                mixture.predict(&user, &1);
            }
        }
    };
    attack_file(&bytes, 1000, 2, Fit::from_bytes, exercise).unwrap();
}
