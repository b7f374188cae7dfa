//! Several chains.

use rand::RngExt;

use npb_bsvd::{BsvdConfig, BsvdFit, Cells, Saved, SideInformation, fit};

use crate::predicted::config;
use crate::simulated::{Simulated, low_rank};

fn simulated() -> Simulated {
    low_rank(41, (40, 30), 2, 0.6, 0.4)
}

fn chains(data: &Simulated, config: &BsvdConfig, n: usize) -> BsvdFit {
    let cells = Cells::of(&data.hidden);
    let config = BsvdConfig {
        chains: n,
        ..config.clone()
    };
    fit(&data.observed, SideInformation::default(), &cells, &config).unwrap()
}

/// The largest R-hat of scalars whose names begin like this.
fn rhat(fit: &BsvdFit, name: &str) -> f64 {
    let found = fit.diagnostics().into_iter();
    let named = found.filter(|(found, _)| found.starts_with(name));
    named.fold(0.0, |largest, (_, d)| largest.max(d.rhat.unwrap()))
}

#[test]
fn chains_that_have_settled_agree_and_others_do_not() {
    let data = simulated();
    let fit = chains(&data, &config(200, 600), 4);
    for name in ["noise_sd", "offset", "ln_likelihood", "cell_"] {
        assert!(rhat(&fit, name) < 1.1, "{name}: {}", rhat(&fit, name));
    }
    let early = chains(&data, &config(0, 12), 4);
    assert!(rhat(&early, "ln_likelihood") > 1.3);
}

/// Neither the number of candidates nor the seed says where chains start: the entries do.
#[test]
fn chains_start_where_the_entries_say() {
    let data = low_rank(7, (60, 50), 3, 0.5, 0.3);
    let run = |candidates: usize, seed: u64| {
        let config = BsvdConfig {
            candidates,
            seed,
            max_candidates: 70,
            ..config(60, 100)
        };
        chains(&data, &config, 2)
    };
    let fits = [run(2, 1), run(60, 1), run(30, 2)];
    for fit in &fits {
        assert_eq!(fit.config.candidates, fits[0].config.candidates);
        let ranks = fit.rank_distribution().unwrap();
        let mean: f64 = ranks.iter().zip(0..).map(|(p, r)| p * f64::from(r)).sum();
        assert!((mean - 3.0).abs() < 0.5, "{ranks:?}");
    }
    assert_eq!(fits[0], fits[1]);
    assert_ne!(fits[0].trace, fits[2].trace);
}

#[test]
fn pooled_chains_are_the_chains_one_after_the_other() {
    let data = simulated();
    let cells = Cells::of(&data.hidden);
    let config = config(20, 30);
    let all = chains(&data, &config, 2);
    let apart = [0, 1].map(|chain| {
        let config = BsvdConfig {
            chain,
            ..config.clone()
        };
        fit(&data.observed, SideInformation::default(), &cells, &config).unwrap()
    });
    assert_eq!(all.moments.draws, 60);
    assert_eq!(all.draws(), [apart[0].draws(), apart[1].draws()].concat());
    // Mean of squares about the common mean, from all draws.
    for n in [0, 7] {
        let of = |fit: &BsvdFit| (fit.moments.mean[n], fit.moments.squares[n]);
        let [(a, sa), (b, sb)] = [of(&apart[0]), of(&apart[1])];
        assert!((all.moments.mean[n] - 0.5 * (a + b)).abs() < 1e-12);
        let squares = sa + sb + 0.5 * 30.0 * (a - b).powi(2);
        assert!((all.moments.squares[n] / squares - 1.0).abs() < 1e-12);
        let density = |fit: &BsvdFit| fit.moments.ln_density(n).exp();
        let mean = 0.5 * (density(&apart[0]) + density(&apart[1]));
        assert!((density(&all) / mean - 1.0).abs() < 1e-9);
    }
    assert_eq!(BsvdFit::pooled(apart.to_vec()).unwrap(), all);
    assert_eq!(
        all.rank_distribution().unwrap().iter().sum::<f64>().round(),
        1.0
    );
    assert_eq!(BsvdFit::from_bytes(&all.to_bytes().unwrap()).unwrap(), all);

    assert!(BsvdFit::pooled(Vec::new()).is_err());
    let other = fit(
        &data.observed,
        SideInformation::default(),
        &Cells::default(),
        &config,
    );
    let wrong = BsvdFit::pooled(vec![apart[0].clone(), other.unwrap()]);
    assert!(wrong.unwrap_err().to_string().contains("fit 2"));
}

#[test]
fn chains_do_not_depend_on_the_number_of_threads() {
    let data = simulated();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| chains(&data, &config(5, 10), 3))
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(4));
}

/// Every third row has four times the noise.
#[test]
fn noisy_rows_are_told_apart() {
    let data = simulated();
    let mut rng = npb_infer::stream(5, [0; 4]);
    let mut wild = |e: npb_bsvd::npb_data::Rating| match e.row {
        i if i % 3 == 0 => {
            e.value + 1.6 * data.signal * rng.sample::<f64, _>(rand_distr::StandardNormal)
        }
        _ => e.value,
    };
    let entries: Vec<_> = data
        .observed
        .iter()
        .map(|e| npb_bsvd::npb_data::Rating {
            value: wild(e),
            ..e
        })
        .collect();
    let ratings = npb_bsvd::npb_data::Ratings::new(40, 30, &entries).unwrap();
    let model = fit(
        &ratings,
        SideInformation::default(),
        &Cells::default(),
        &config(100, 100),
    )
    .unwrap();
    let noise = model.row_noise().unwrap();
    let mean = |wild: bool| {
        let rows = noise
            .iter()
            .enumerate()
            .filter(|(i, _)| (i % 3 == 0) == wild);
        let found: Vec<f64> = rows.map(|(_, &sd)| sd).collect();
        found.iter().sum::<f64>() / found.len() as f64
    };
    assert!(
        mean(true) > 2.0 * mean(false),
        "{} {}",
        mean(true),
        mean(false)
    );
    assert_eq!(model.column_noise().unwrap().len(), 30);
}
