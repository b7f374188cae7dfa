//! What a fit is made of: chains, pooled fits, settings, and what comes back as it was given.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_infer::watch::Progress;
use npb_infer::{Stop, SweepPlan, Watch};
use npb_itf::{
    Grouping, ItfConfig, ItfData, ItfFit, ItfMove, ItfSampler, LowerConcentration, Structure, fit,
    fit_data,
};
use npb_priors::GammaPrior;

use super::{close, config, fitted, table};
use crate::tables::ALL;

/// So sure a prior that labels do not move it.
fn known(value: f64) -> GammaPrior {
    GammaPrior {
        shape: 1e7,
        rate: 1e7 / value,
    }
}

#[test]
fn each_prior_is_of_its_own_concentration() {
    for structure in ALL {
        let settings = ItfConfig {
            top_concentration: known(0.4),
            lower_concentration: known(1.3),
            column_concentration: known(2.6),
            ..config(structure, 31)
        };
        let fit = fit(&table(30, 31), &settings).unwrap();
        for draw in fit.draws() {
            if structure.has_blocks() {
                close(draw.column_concentration, 2.6, 0.01);
            }
            draw.blocks
                .iter()
                .for_each(|b| close(b.concentration, 0.4, 0.01));
            for column in &draw.columns {
                assert_eq!(
                    column.concentrations.len(),
                    usize::from(structure.has_lower())
                );
                column
                    .concentrations
                    .iter()
                    .for_each(|b| close(*b, 1.3, 0.01));
            }
        }
    }
    let settings = ItfConfig {
        lower_sharing: LowerConcentration::PerTopCluster,
        lower_concentration: known(1.3),
        ..config(Structure::Tensor, 31)
    };
    for draw in fit(&table(30, 31), &settings).unwrap().draws() {
        for column in &draw.columns {
            assert!(column.concentrations.len() >= draw.blocks[0].weights.len());
            column
                .concentrations
                .iter()
                .for_each(|b| close(*b, 1.3, 0.01));
        }
    }
}

/// Clusterings of columns, and blocks of them, as each structure has them.
#[test]
fn structures_are_what_their_names_say() {
    let apart = ItfConfig {
        column_concentration: known(900.0),
        ..config(Structure::TensorBlocks, 33)
    };
    for structure in ALL {
        let fit = fit(
            &table(40, 33),
            &ItfConfig {
                structure,
                ..apart.clone()
            },
        )
        .unwrap();
        for draw in fit.draws() {
            let labels = |j: usize| draw.labels(j).unwrap();
            if !structure.has_blocks() {
                assert_eq!(draw.blocks.len(), 1);
            }
            for column in &draw.columns {
                assert_eq!(column.weights.is_empty(), !structure.has_lower());
                assert_eq!(column.labels.is_empty(), !structure.has_lower());
                if !structure.has_lower() {
                    assert_eq!(column.n_clusters, draw.blocks[column.block].weights.len());
                }
                let total: f64 = draw.blocks[column.block].weights.iter().sum();
                close(total, 1.0, 1e-9);
            }
            if structure == Structure::Joint {
                assert!((1..4).all(|j| labels(j) == labels(0)));
            }
        }
        // Some column keeps to itself where the prior says so.
        let apart = fit.draws().iter().any(|d| d.blocks.len() > 1);
        assert_eq!(apart, structure.has_blocks(), "{structure:?}");
    }
}

/// Draws of all chains after the burn-in, thinned; labels are kept when they are asked for; seeds make other draws.
#[test]
fn draws_are_those_of_the_plan() {
    let (table, fit) = fitted(Structure::TensorBlocks, 35);
    assert_eq!((fit.draws().len(), fit.chains().len()), (8, 2));
    let settings = config(Structure::TensorBlocks, 35);
    let data = ItfData::from_table(&table).unwrap();
    let weights = |fit: &ItfFit| -> Vec<Vec<f64>> {
        let of = |d: &npb_itf::Draw| d.blocks[0].weights.clone();
        fit.draws().iter().map(of).collect()
    };
    // Each chain by hand, sweep by sweep: the draws after 14, 16, 18 and 20 sweeps.
    let mut by_hand = Vec::new();
    for chain in 0..2 {
        let mut sampler = ItfSampler::new(&data, settings.clone(), chain).unwrap();
        for sweep in 1..=20u64 {
            sampler.sweep();
            if sweep > 12 && sweep % 2 == 0 {
                let draw = sampler.draw();
                assert_eq!(draw.chain, chain);
                by_hand.push(draw.blocks[0].weights.clone());
            }
        }
        assert_eq!(sampler.n_sweeps(), 20);
    }
    assert_eq!(weights(&fit), by_hand);
    for chain in fit.chains() {
        assert_eq!(
            (chain.trace.n_sweeps(), &chain.stop),
            (20, &Stop::Completed)
        );
    }
    assert_eq!(fit.stop(), Stop::Completed);
    let other = npb_itf::fit(
        &table,
        &ItfConfig {
            seed: 36,
            ..settings.clone()
        },
    )
    .unwrap();
    assert_ne!(weights(&other), weights(&fit));
    assert!(fit.draws().iter().all(|d| d.labels(0).unwrap().len() == 60));
    let bare = npb_itf::fit(
        &table,
        &ItfConfig {
            keep_labels: false,
            ..settings.clone()
        },
    )
    .unwrap();
    assert!(bare.draws().iter().all(|d| d.labels(0).is_none()));
    assert_eq!(weights(&bare), weights(&fit));
    // A fit that was stopped says so, and has what it kept.
    let watch = Watch::new(|progress: &Progress<'_>| match progress.step >= 15 {
        true => std::ops::ControlFlow::Break(()),
        false => std::ops::ControlFlow::Continue(()),
    });
    let one = ItfConfig {
        chains: 1,
        ..settings.clone()
    };
    let stopped = npb_itf::fit_data_watched(&data, &one, &watch).unwrap();
    assert_eq!(
        (stopped.draws().len(), stopped.stop()),
        (1, Stop::Cancelled)
    );
    // Moves that are not made leave their part as it was.
    let still = ItfConfig {
        moves: vec![ItfMove::Parameters],
        ..settings
    };
    let mut sampler = ItfSampler::new(&data, still, 0).unwrap();
    let before = sampler.state().clone();
    (0..3).for_each(|_| sampler.sweep());
    assert_eq!(sampler.state().blocks[0].labels, before.blocks[0].labels);
    assert_eq!(
        sampler.state().blocks[0].concentration,
        before.blocks[0].concentration
    );
    assert_ne!(
        format!("{:?}", sampler.state().columns[0].law),
        format!("{:?}", before.columns[0].law)
    );
}

/// What was kept of all chains, scalar by scalar.
#[test]
fn diagnostics_are_those_of_the_kept_sweeps() {
    let (_, fit) = fitted(Structure::TensorBlocks, 37);
    let found = fit.diagnostics();
    assert_eq!(found.len(), fit.chains()[0].trace.names().len());
    for (scalar, (name, found)) in found.iter().enumerate() {
        assert_eq!(name, &fit.chains()[0].trace.names()[scalar]);
        let kept = fit.chains().iter().map(|chain| {
            let column: Vec<f64> = chain.trace.column(scalar).collect();
            [13, 15, 17, 19].map(|k| column[k]).to_vec()
        });
        assert_eq!(
            *found,
            ChainDiagnostics::new(&kept.collect::<Vec<_>>()),
            "{name}"
        );
    }
    let high = fit.diagnostics().into_iter().filter_map(|(name, of)| {
        let rhat = of.rhat.filter(|rhat| *rhat > 1.05)?;
        Some(format!("R-hat of {name} is {rhat:.2}"))
    });
    let (high, said) = (high.collect::<Vec<_>>(), fit.unmet());
    assert_eq!(said.len(), high.len());
    assert!(
        high.iter()
            .all(|wanted| said.iter().any(|words| words.starts_with(wanted)))
    );
}

/// Two fits of as many draws: densities are averages, and what is said of rows of training is, too.
#[test]
fn pooled_fits_answer_by_the_draws_of_all() {
    let table = table(60, 39);
    let [one, other] =
        [41, 42].map(|seed| fit(&table, &config(Structure::TensorBlocks, seed)).unwrap());
    let both = ItfFit::pooled(vec![one.clone(), other.clone()]).unwrap();
    assert_eq!(
        (
            both.draws().len(),
            both.chains().len(),
            both.config().chains
        ),
        (16, 4, 4)
    );
    assert_eq!((both.config().seed, both.n_rows()), (41, 60));
    let densities =
        [&one, &other, &both].map(|fit| fit.ln_density(&fit.rows(&table).unwrap()).unwrap());
    let asked = [&one, &other, &both].map(|fit| {
        fit.predict(&fit.training_rows(&table).unwrap(), "c")
            .unwrap()
    });
    let pairs =
        [&one, &other, &both].map(|fit| fit.row_similarity(&["x"], &[4, 9]).unwrap().get(0, 1));
    for i in 0..60 {
        let mean = 0.5 * (densities[0][i].exp() + densities[1][i].exp());
        close(densities[2][i], mean.ln(), 1e-9);
        for k in 0..3 {
            close(
                asked[2][i][k],
                0.5 * (asked[0][i][k] + asked[1][i][k]),
                1e-9,
            );
        }
    }
    close(pairs[2], 0.5 * (pairs[0] + pairs[1]), 1e-6);
    let wrong = fit(
        &table.select_rows(&(0..59).collect::<Vec<_>>()),
        &config(Structure::TensorBlocks, 41),
    );
    assert!(ItfFit::pooled(vec![one, wrong.unwrap()]).is_err());
}

#[test]
fn what_was_given_comes_back() {
    let own = table(30, 43);
    let empty = MixedColumn::Real(vec![None; 30]);
    let names = ["5", "é, \"x\"", "0", "never", "w"]
        .map(str::to_owned)
        .to_vec();
    let columns = vec![
        own.column(0).clone(),
        own.column(1).clone(),
        own.column(2).clone(),
        empty,
        own.column(3).clone(),
    ];
    let table = MixedTable::new(names.clone(), columns).unwrap();
    let groups = vec![vec!["w".to_owned(), "5".to_owned()]];
    let settings = ItfConfig {
        groups: Grouping::Given(groups.clone()),
        sweeps: SweepPlan {
            burn_in: 2,
            keep: 2,
            thin: 3,
        },
        ..config(Structure::TensorBlocks, 45)
    };
    let grouped = fit(&table, &settings).unwrap();
    assert_eq!(grouped.config(), &settings);
    let found: Vec<&str> = grouped.columns().iter().map(|c| &c.name[..]).collect();
    assert_eq!(found, names);
    assert_eq!(grouped.columns()[1].levels, ["low", "mid", "high"]);
    assert_eq!(grouped.unobserved_columns(), ["never"]);
    assert!(grouped.independent_vectors().is_empty());
    for (j, name) in names.iter().enumerate() {
        assert_eq!(grouped.column_index(name).unwrap(), j);
    }
    assert!(grouped.column_index("no").is_err());
    let places = grouped.places();
    assert_eq!(places.len(), 5);
    assert_eq!(places[0].column, places[4].column);
    let mut parts = [places[0].part.unwrap(), places[4].part.unwrap()];
    parts.sort_unstable();
    assert_eq!(parts, [0, 1]);
    let alone: Vec<usize> = [1, 2, 3].iter().map(|&j| places[j].column).collect();
    assert!(places[1..4].iter().all(|p| p.part.is_none()) && !alone.contains(&places[0].column));
    let mut named = grouped.groups().concat();
    named.sort();
    assert_eq!(named, ["5", "w"]);
    let plain = fit(
        &table,
        &ItfConfig {
            groups: Grouping::Off,
            ..settings.clone()
        },
    )
    .unwrap();
    assert!(plain.groups().is_empty() && plain.places().iter().all(|p| p.part.is_none()));
    assert_eq!(plain.draws()[0].columns.len(), 5);
    assert_eq!(grouped.draws()[0].columns.len(), 4);
    // Long vectors, and where the fields of a vector are.
    let column =
        |j: usize| MixedColumn::Real((0..10).map(|i| Some(((i * j) % 11) as f64)).collect());
    let wide = MixedTable::new(
        (0..36).map(|j| format!("c{j}")).collect(),
        (0..36).map(column).collect(),
    )
    .unwrap();
    let fields = [
        Field::new("b", Measure::Vector, (1..34).collect()),
        Field::new("a", Measure::Vector, vec![35, 34]),
    ];
    let data = ItfData::from_fields(&wide, &fields).unwrap();
    let vectors = fit_data(
        &data,
        &ItfConfig {
            groups: Grouping::Off,
            ..settings
        },
    )
    .unwrap();
    assert_eq!(vectors.independent_vectors(), ["b"]);
    assert_eq!((vectors.n_rows(), vectors.columns().len()), (10, 2));
}
