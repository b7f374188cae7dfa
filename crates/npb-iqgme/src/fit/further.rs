//! A mixture that goes on with further rows: a warm start.

use npb_data::{Labels, Table};
use npb_infer::storage::fingerprint;
use npb_infer::{VbRun, Watch, maximise};

use super::kept::TrainingRows;
use super::{IqgmeFit, Single, Trained};
use crate::data::{self, IqgmeData, check_spans};
use crate::ensemble::members::Ensemble;
use crate::ensemble::questions::{Fit, Stored};
use crate::ensemble::stacking::weighed;
use crate::shards::SHARD_ROWS;
use crate::vb::IqgmeVb;
use crate::{IqgmeConfig, IqgmeError, IqgmeState, Result};

/// Name in checkpoint files.
const FILE: &str = "npb-iqgme/further";

impl IqgmeFit {
    /// Goes on from the posterior of the [best](Self::best) member, on the rows of the fit and new ones after them: one run, from the components that there are,
    /// whose bound given all rows never falls from there. Columns and their units stay; of a fit with labels it is refused, as what members weigh is found from
    /// labels that they have not seen.
    ///
    /// `config`: that of the fit, of which `limits` may change.
    ///
    /// ```
    /// use npb_iqgme::npb_data::Table;
    /// use npb_iqgme::npb_infer::Watch;
    /// use npb_iqgme::{IqgmeConfig, fit_unlabelled};
    ///
    /// let table = |n: i32| Table::complete(n as usize, 1, (0..n).map(|i| f64::from(i % 2 * 9 + i % 5)).collect());
    /// let config = IqgmeConfig::default();
    /// let first = fit_unlabelled(&table(40)?, &config)?;
    /// let more = first.continue_with(&table(60)?, &config, &Watch::none())?;
    /// assert_eq!((more.n_clusters(), more.members().len()), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: a fit with labels; other columns; fewer rows than the fit had, others in their place, or more than 131,072 in all; settings that cannot change; a
    /// checkpoint that cannot be written or read, or that is of another fit.
    pub fn continue_with(
        &self,
        table: &Table,
        config: &IqgmeConfig,
        watch: &Watch<'_>,
    ) -> Result<Self> {
        self.check_further(table, config)?;
        let data = self.in_own_units(table)?;
        let best = self.best();
        let print = data::fingerprint(&data)?;
        let key = fingerprint(&(config, print, &best.state))?;
        let checkpoint = watch.checkpoint(FILE, env!("CARGO_PKG_VERSION"), key, 1)?;
        let begin = |reached: Option<VbRun<IqgmeState>>| {
            let reached = reached.unwrap_or_else(|| VbRun {
                state: best.state.clone(),
                trace: Vec::new(),
            });
            IqgmeVb::resume(&data, config.clone(), reached.state, &reached.trace)
        };
        let mut part = watch.part("member 0", 1.0);
        let (run, outcome) = maximise(&config.limits, "elbo", &mut part, (&checkpoint, 0), begin)?;
        let member = Single::ended((best.scale, best.start), outcome, run)?;
        let by_bounds = (config.elbo_temperature, data.n_observed());
        let members = weighed(vec![member], 1, None, Single::WITHOUT, by_bounds);
        let n_components = members[0].state.components.len();
        let rows = TrainingRows::of_small(table, &unlabelled(table), &data, n_components);
        let stored = Stored {
            config: config.clone(),
            classes: Vec::new(),
            trained: Trained {
                training: print,
                members,
            },
            units: vec![data.units],
        };
        Fit::new(stored, rows)
    }

    fn in_own_units(&self, table: &Table) -> Result<IqgmeData> {
        IqgmeData::with_units(table, &unlabelled(table), self.units().clone(), Vec::new())
    }

    fn check_further(&self, table: &Table, config: &IqgmeConfig) -> Result<()> {
        config.validate()?;
        let own = IqgmeConfig {
            limits: config.limits,
            ..self.config().clone()
        };
        if own != *config {
            let rule = "that of the fit which goes on (only limits may change): leave other settings out, or fit anew";
            return Err(IqgmeError::argument("config", "other settings", rule));
        }
        if !self.classes().is_empty() {
            let rule = "none: what members weigh is found from labels that they have not seen, so that a fit with labels is made anew";
            return Err(IqgmeError::argument("labels", self.classes().len(), rule));
        }
        if table.n_rows() > SHARD_ROWS {
            let rule = "at most 131,072 in a fit that goes on: fit anew";
            return Err(IqgmeError::argument("rows", table.n_rows(), rule));
        }
        let n_before = self.sizes().sum::<f64>().round() as usize;
        if table.n_rows() < n_before {
            let rule = "those of the fit, in their order, and new ones after them";
            let few = format!("{} of {n_before}", table.n_rows());
            return Err(IqgmeError::argument("rows", few, rule));
        }
        check_spans(table)?;
        let own = table.select_rows(&(0..n_before).collect::<Vec<_>>());
        if data::fingerprint(&self.in_own_units(&own)?)? != self.stored.trained.training {
            let rule = "those of the fit as they were, in their order";
            let first = format!("others among the first {n_before}");
            return Err(IqgmeError::argument("rows", first, rule));
        }
        Ok(())
    }
}

fn unlabelled(table: &Table) -> Labels {
    Labels::from_strings(&vec![None::<&str>; table.n_rows()])
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use npb_infer::checkpoint::Every;
    use npb_infer::testing::same_bits_on_threads;
    use npb_infer::{Saved, stream};
    use rand::RngExt;
    use rand_distr::StandardNormal;

    use super::*;
    use crate::{fit, fit_unlabelled};

    /// Two clusters of two columns, a fifth of the cells missing.
    fn table(n: usize, seed: u64) -> Table {
        let rng = &mut stream(seed, [0, 0, 21, 0]);
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for i in 0..n {
            for _ in 0..2 {
                let noise: f64 = rng.sample(StandardNormal);
                values.push(if i % 3 == 0 { 4.0 } else { -2.0 } + noise);
                seen.push(rng.random::<f64>() > 0.2);
            }
        }
        Table::new(n, 2, values, &seen).unwrap()
    }

    fn first_rows(table: &Table, n: usize) -> Table {
        table.select_rows(&(0..n).collect::<Vec<_>>())
    }

    /// The bound of the posterior that it starts from, given all rows, and no lower one after it; where it ends is a place where a fit of all rows stays.
    #[test]
    fn the_bound_never_falls_from_the_posterior_that_there_was() {
        for seed in 0..4 {
            let all = table(150, seed);
            let config = IqgmeConfig::default();
            let first = fit_unlabelled(&first_rows(&all, 90), &config).unwrap();
            let more = first.continue_with(&all, &config, &Watch::none()).unwrap();
            let data = first.in_own_units(&all).unwrap();
            let mut start =
                IqgmeVb::resume(&data, config.clone(), first.state().clone(), &[]).unwrap();
            let bound = start.step().unwrap();
            let elbo: Vec<f64> = more.trace().iter().map(|report| report.elbo).collect();
            assert_eq!(elbo[0], bound);
            assert!(
                elbo.windows(2).all(|w| w[1] >= w[0] - 1e-9 * w[0].abs()),
                "{elbo:?}"
            );
            assert_eq!(more.sizes().sum::<f64>().round(), 150.0);
            // Without new rows nothing is left to gain.
            let same = more.continue_with(&all, &config, &Watch::none()).unwrap();
            let gain = same.best().elbo() - more.best().elbo();
            assert!((-1e-9..1e-2).contains(&gain), "{gain}");
            assert!(same.trace().len() <= 3, "{}", same.trace().len());
            let whole = fit_unlabelled(&all, &config).unwrap();
            assert_eq!(more.n_clusters(), whole.n_clusters());
            let new = table(300, 100 + seed);
            let score = |fit: &IqgmeFit| fit.ln_density(&new).unwrap().iter().sum::<f64>() / 300.0;
            assert!(
                (score(&more) - score(&whole)).abs() < 0.02,
                "{} {}",
                score(&more),
                score(&whole)
            );
        }
    }

    #[test]
    fn it_is_stopped_and_resumed_on_any_number_of_threads() {
        let all = table(150, 7);
        let config = IqgmeConfig::default();
        let first = fit_unlabelled(&first_rows(&all, 60), &config).unwrap();
        let run = |watch: &Watch<'_>| {
            first
                .continue_with(&all, &config, watch)
                .unwrap()
                .to_bytes()
                .unwrap()
        };
        let whole = || run(&Watch::none());
        same_bits_on_threads(&[1, 2, 4], whole).unwrap();
        let folder = std::env::temp_dir().join(format!("npb-iqgme-further-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("checkpoint");
        let until = |most: u64| {
            let watch = Watch::new(move |progress| match progress.step < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
            run(&watch.with_checkpoint(&file, Every::sweeps(1)))
        };
        assert_ne!(until(2), whole());
        assert_eq!(until(u64::MAX), whole());
        std::fs::remove_dir_all(folder).unwrap();
        // The rows that it has are those that it was asked about.
        let more = IqgmeFit::from_bytes(&whole()).unwrap();
        assert!(more.impute_training(&all, &unlabelled(&all)).is_ok());
    }

    #[test]
    fn what_cannot_go_on_is_refused() {
        let all = table(60, 8);
        let config = IqgmeConfig::default();
        let first = fit_unlabelled(&first_rows(&all, 40), &config).unwrap();
        let said = |fit: &IqgmeFit, table: &Table, config: &IqgmeConfig| {
            let error = fit
                .continue_with(table, config, &Watch::none())
                .unwrap_err();
            error.to_string()
        };
        assert!(said(&first, &first_rows(&all, 39), &config).contains("39 of 40"));
        let mut order: Vec<usize> = (0..60).collect();
        order.swap(3, 50);
        let other = said(&first, &all.select_rows(&order), &config);
        assert!(other.contains("others among the first 40"), "{other}");
        let seed = IqgmeConfig {
            seed: 4,
            ..config.clone()
        };
        assert!(said(&first, &all, &seed).contains("only limits may change"));
        let labels: Vec<Option<&str>> = (0..60).map(|i| Some(["a", "b"][i % 2])).collect();
        let few = IqgmeConfig {
            folds: 0,
            restarts: 1,
            ..config
        };
        let labelled = fit(&all, &Labels::from_strings(&labels), &few).unwrap();
        assert!(said(&labelled, &all, &few).contains("made anew"));
    }
}
