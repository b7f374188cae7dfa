//! Draws of all parameters: Gibbs chains on the rows of training, started from the members.
//!
//! The factors of `q` know nothing of each other, so that draws from them spread too little: a mean of a column of which much is missing, or a class probability. Where the
//! table is small enough for chains to take seconds, a fit keeps it; the first question that wants draws runs the chains, and later ones use the same draws.

use npb_infer::parallel;
use npb_priors::dist::pick;

use super::IqgmeFit;
use super::kept::TrainingRows;
use crate::answers::with_first_class;
use crate::data::IqgmeData;
use crate::ensemble::member::Member;
use crate::ensemble::questions::taking_turns;
use crate::gibbs::config::GibbsConfig;
use crate::predict::{Experts, Predictor};
use crate::rows::Rows;
use crate::vb::{IqgmeVb, VbUpdate};
use crate::{FeatureScale, IqgmeSampler, Result};

/// Chains on each scale.
const CHAINS: usize = 4;
/// Draws of each that are kept, sweeps between them, and sweeps before the first.
const DRAWS: usize = 50;
const THIN: u64 = 2;
const BURN_IN: u64 = 50;
/// Of a table of so many rows at most the chains tell of missing cells, too: `q` is too sure of them.
const FEW_ROWS: usize = 60;

impl IqgmeFit {
    /// Draws of all parameters given the rows of training, on a scale; none of a fit that keeps no rows, or where chains fail, as they may under extreme settings.
    pub(super) fn posterior(&self, scale: FeatureScale) -> Option<&[Predictor]> {
        let rows = self.rows.as_ref()?;
        let kept = &self.derived.posterior[scale.index()];
        if kept.get().is_none() {
            // Who was faster has found the same.
            let _ = kept.set(self.chains(rows, scale).ok());
        }
        kept.get()?.as_deref()
    }

    /// The draws that tell of missing cells, of a fit to few rows.
    pub(super) fn posterior_of_few(&self) -> Option<&[Predictor]> {
        let rows = self.rows.as_ref()?;
        let few = rows.n_rows() <= FEW_ROWS;
        few.then(|| self.posterior(FeatureScale::Standardised))?
    }

    /// Probabilities of all classes under draws of the parameters, as many as a scale has: draw, row, class. Scales take part by what their members weigh.
    pub(super) fn drawn_classes(&self, rows: &[Rows]) -> Result<Option<Vec<Vec<Vec<f64>>>>> {
        let draws = CHAINS * DRAWS;
        let weight = |scale: FeatureScale| -> f64 {
            let members = self.members().iter().filter(|m| m.scale == scale);
            members.map(|member| member.stacking_weight).sum()
        };
        let on_scores = (weight(FeatureScale::NormalScores) * draws as f64).round() as usize;
        let mut drawn = Vec::with_capacity(draws);
        let shares = [draws - on_scores, on_scores];
        for (scale, n) in FeatureScale::ALL.into_iter().zip(shares) {
            if n == 0 {
                continue;
            }
            let Some(all) = self.posterior(scale) else {
                return Ok(None);
            };
            let one = |draw: usize| -> Result<_> {
                let parameters = &all[taking_turns(draw, n, all.len())];
                let others = parameters.probabilities(&rows[scale.index()], Experts::AtMeans)?;
                Ok(with_first_class(others))
            };
            drawn.extend(parallel::try_map(0..n, one)?);
        }
        Ok(Some(drawn))
    }

    /// Equations: `docs/iqgme-updates.md#chains-that-start-at-the-members`.
    fn chains(&self, rows: &TrainingRows, scale: FeatureScale) -> Result<Vec<Predictor>> {
        let data = rows.data(&self.stored.units[scale.index()], &self.stored.classes)?;
        let chain = |chain: usize| {
            let number = (scale.index() * CHAINS + chain) as u64;
            self.chain(&data, scale, chain, number)
        };
        Ok(parallel::try_map(0..CHAINS, chain)?.concat())
    }

    /// The draws of the chain of this number, from one of the places where chains start.
    pub(super) fn chain(
        &self,
        data: &IqgmeData,
        scale: FeatureScale,
        place: usize,
        number: u64,
    ) -> Result<Vec<Predictor>> {
        let config = GibbsConfig {
            model: self.stored.config.clone(),
            ..GibbsConfig::default()
        };
        let start = self.start(data, self.begins(scale, place % CHAINS))?;
        draws(IqgmeSampler::from_responsibilities(
            data, config, number, start,
        )?)
    }

    /// The member from which a chain starts: they are spread over the members by weight.
    fn begins(&self, scale: FeatureScale, chain: usize) -> &Member {
        let members = self.members();
        let weight = |member: &Member| match (member.scale == scale, scale) {
            (false, _) => 0.0,
            (true, FeatureScale::Standardised) => member.elbo_weight,
            (true, FeatureScale::NormalScores) => member.stacking_weight,
        };
        let total: f64 = members.iter().map(weight).sum();
        let at = (chain as f64 + 0.5) / CHAINS as f64;
        let chosen = pick(members.iter().map(|member| weight(member) / total), at);
        &members[chosen.unwrap_or(0)]
    }

    /// Components and responsibilities of a member.
    fn start(&self, data: &IqgmeData, member: &Member) -> Result<(usize, Vec<f64>)> {
        let (config, state) = (self.stored.config.clone(), member.state.clone());
        let mut vb = IqgmeVb::resume(data, config, state, &member.trace)?;
        vb.apply(VbUpdate::Labels)?;
        Ok(vb.into_responsibilities())
    }
}

/// The draws of a chain.
fn draws(mut sampler: IqgmeSampler<'_>) -> Result<Vec<Predictor>> {
    for _ in 0..BURN_IN {
        sampler.sweep()?;
    }
    let mut next = || {
        for _ in 0..THIN {
            sampler.sweep()?;
        }
        sampler.mixture().predictor()
    };
    (0..DRAWS).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use npb_data::{Labels, Table};
    use npb_infer::{Saved, stream};
    use npb_linalg::Cholesky;
    use npb_linalg::faer::Mat;
    use npb_priors::GammaPrior;
    use npb_priors::special::{ln_phi, normal_quantile};
    use rand::RngExt;
    use rand_distr::StandardNormal;

    use super::*;
    use crate::ensemble::questions::Stored;
    use crate::ensemble::saved::Layout;
    use crate::fit::Single;
    use crate::prior::Prior;
    use crate::{Init, IqgmeConfig, fit, fit_unlabelled};

    /// One component and no more, on the features' own scale.
    fn one_component(seed: u64) -> IqgmeConfig {
        IqgmeConfig {
            truncation: 1,
            concentration: GammaPrior {
                shape: 1.0,
                rate: 1e6,
            },
            expert: GammaPrior {
                shape: 2.0,
                rate: 2.0,
            },
            starts: vec![Init::KMeans(1)],
            unlabelled_starts: vec![Init::KMeans(1)],
            normal_scores: false,
            folds: 0,
            seed,
            ..IqgmeConfig::default()
        }
    }

    /// As a file of the first layout is read.
    fn without_rows(fit: &IqgmeFit) -> IqgmeFit {
        IqgmeFit::new(fit.stored.clone(), None).unwrap()
    }

    const N: usize = 60;

    /// `y = 0.7 x + noise`, 60% of y missing.
    fn line(seed: u64) -> Table {
        let mut rng = stream(seed, [0, 0, 15, 0]);
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..N {
            let [x, noise]: [f64; 2] = std::array::from_fn(|_| rng.sample(StandardNormal));
            values.extend([x, 0.7 * x + 0.7 * noise]);
            seen.extend([true, rng.random::<f64>() > 0.6]);
        }
        Table::new(N, 2, values, &seen).unwrap()
    }

    /// Mean and variance, over completed tables, of the mean of the second column of a table whose first column is complete: with one component the second is a
    /// regression on the first, whose prior, that of the normal-Wishart law, is conjugate. In standardised units.
    fn exact(table: &Table, data: &IqgmeData, config: &IqgmeConfig) -> (f64, f64) {
        let prior = Prior::new(config, &data.covariance, 0).unwrap().component;
        let (s, strength) = (&prior.scale_inverse, prior.strength);
        let slope = s[(1, 0)] / s[(0, 0)];
        let rows = data.units.apply(table).unwrap();
        let mut precision = Mat::from_fn(2, 2, |i, j| match (i, j) {
            (0, 0) => strength,
            (1, 1) => s[(0, 0)],
            _ => 0.0,
        });
        let mut linear = [0.0, s[(0, 0)] * slope];
        let mut squares = s[(1, 1)];
        let (mut sum, mut seen, mut unseen) = (0.0, 0.0, [0.0; 2]);
        for row in 0..N {
            let z = [1.0, rows.get(row, 0).unwrap()];
            let Some(y) = rows.get(row, 1) else {
                (0..2).for_each(|i| unseen[i] += z[i]);
                continue;
            };
            (sum, seen, squares) = (sum + y, seen + 1.0, squares + y * y);
            for i in 0..2 {
                linear[i] += z[i] * y;
                (0..2).for_each(|j| precision[(i, j)] += z[i] * z[j]);
            }
        }
        let v = Cholesky::new(precision.as_ref()).unwrap().inverse();
        let mean = [0, 1].map(|i| v[(i, 0)] * linear[0] + v[(i, 1)] * linear[1]);
        let rate = 0.5 * (squares - mean[0] * linear[0] - mean[1] * linear[1]);
        let variance = rate / (0.5 * (prior.dof + seen) - 1.0);
        let of_mean = [0, 1].map(|i| v[(i, 0)] * unseen[0] + v[(i, 1)] * unseen[1]);
        let spread = unseen[0] + of_mean[0] * unseen[0] + of_mean[1] * unseen[1];
        let n = N as f64;
        let centre = (sum + mean[0] * unseen[0] + mean[1] * unseen[1]) / n;
        (centre, variance * spread / (n * n))
    }

    /// Rubin's variance between completed tables is that of the exact posterior predictive law; from `q` it is too small.
    #[test]
    fn completed_tables_differ_as_much_as_they_should() {
        const TABLES: u64 = 20;
        let (mut ratios, mut apart) = ([0.0; 2], 0.0);
        for seed in 0..TABLES {
            let (table, config) = (line(seed), one_component(seed));
            let fitted = fit_unlabelled(&table, &config).unwrap();
            let none = Labels::from_strings(&[None::<&str>; N]);
            let data = IqgmeData::new(&table, &none, &config).unwrap();
            let (centre, wanted) = exact(&table, &data, &config);
            let back = |x: f64| (x - data.units.to_units(1, 0.0)) / data.units.standardiser.sd()[1];
            for (k, fitted) in [fitted.clone(), without_rows(&fitted)].iter().enumerate() {
                let draws = fitted.impute_draws(&table, CHAINS * DRAWS).unwrap();
                let mean = |draw: &Table| back(draw.observed_in_column(1).sum::<f64>() / N as f64);
                let means: Vec<f64> = draws.iter().map(mean).collect();
                let n = means.len() as f64;
                let average = means.iter().sum::<f64>() / n;
                let squares = means.iter().map(|m| (m - average).powi(2)).sum::<f64>();
                ratios[k] += squares / (n - 1.0) / wanted / TABLES as f64;
                if k == 0 {
                    apart += (average - centre).powi(2) * n / wanted / TABLES as f64;
                }
            }
        }
        // 200 draws are worth some 100 independent ones: a ratio has a standard error of about .03, and `apart`, 1 for independent draws, is about 2.
        assert!((ratios[0] - 1.0).abs() < 0.12, "{ratios:?}");
        assert!(ratios[1] < 0.8, "{ratios:?}");
        assert!(apart < 5.0, "{apart}");
    }

    /// One component, one feature: the posterior of slope and intercept on a grid, their common prior integrated out, says how much of the probability's posterior
    /// lies in the interval.
    #[test]
    fn intervals_of_probabilities_hold_what_they_say() {
        const TABLES: u64 = 12;
        let mut held = 0.0;
        let new = [-1.5, 0.2, 1.0];
        for seed in 0..TABLES {
            let mut rng = stream(seed, [0, 0, 16, 0]);
            let x: Vec<f64> = (0..40).map(|_| rng.sample(StandardNormal)).collect();
            let noisy = |x: &f64| x + rng.sample::<f64, _>(StandardNormal) > 0.3;
            let above: Vec<bool> = x.iter().map(noisy).collect();
            let names = above.iter().map(|a| Some(if *a { "yes" } else { "no" }));
            let labels = Labels::with_classes(
                ["no", "yes"].map(str::to_owned).to_vec(),
                &names.collect::<Vec<_>>(),
            )
            .unwrap();
            let table = Table::complete(40, 1, x.clone()).unwrap();
            let config = one_component(seed);
            let fitted = fit(&table, &labels, &config).unwrap();
            let asked = Table::complete(new.len(), 1, new.to_vec()).unwrap();
            let intervals = fitted.predict_interval(&asked, 0.9).unwrap();
            let units = fitted.units();
            let scaled = |x: f64| (x - units.to_units(0, 0.0)) / units.standardiser.sd()[0];
            // Student's t with 2 shape degrees of freedom.
            let ln_prior = |w: f64| {
                let (a, b) = (config.expert.shape, config.expert.rate);
                let scale = b * (1.0 + 1.0 / config.expert_mean_strength);
                -(a + 0.5) * (0.5 * w * w / scale).ln_1p()
            };
            let (mut total, mut inside) = (0.0, vec![0.0; new.len()]);
            for i in 0..140 {
                for j in 0..140 {
                    let (slope, intercept) =
                        (-2.0 + 0.05 * f64::from(i), -3.5 + 0.05 * f64::from(j));
                    let score = |x: f64| slope * scaled(x) + intercept;
                    let label = |(x, above): (&f64, &bool)| {
                        ln_phi(if *above { score(*x) } else { -score(*x) })
                    };
                    let each = x.iter().zip(&above);
                    let ln = each.map(label).sum::<f64>() + ln_prior(slope) + ln_prior(intercept);
                    let weight = (ln + 20.0).exp();
                    total += weight;
                    for ((inside, x), interval) in inside.iter_mut().zip(new).zip(&intervals) {
                        let ends = [interval.lower, interval.upper].map(normal_quantile);
                        let within = ends[0] <= score(x) && score(x) <= ends[1];
                        *inside += if within { weight } else { 0.0 };
                    }
                }
            }
            held += inside.iter().sum::<f64>() / total / (TABLES as usize * new.len()) as f64;
        }
        // 200 draws, not independent: a standard error of about .01.
        assert!((held - 0.9).abs() < 0.03, "{held}");
    }

    #[test]
    fn a_file_without_rows_answers_and_one_with_other_rows_is_refused() {
        let table = line(1);
        let fitted = fit_unlabelled(&table, &one_component(1)).unwrap();
        let bytes = |layout: &Layout<&Stored<Single>, &Option<TrainingRows>>| {
            npb_infer::storage::to_bytes(IqgmeFit::MODEL, IqgmeFit::VERSION, layout).unwrap()
        };
        let old = IqgmeFit::from_bytes(&bytes(&Layout::V1(&fitted.stored))).unwrap();
        let densities = |fit: &IqgmeFit| fit.ln_density(&table).unwrap();
        assert_eq!(densities(&old), densities(&fitted));
        let draws = |fit: &IqgmeFit| fit.impute_draws(&table, 3).unwrap();
        assert_eq!(draws(&old), draws(&without_rows(&fitted)));
        let new = IqgmeFit::from_bytes(&fitted.to_bytes().unwrap()).unwrap();
        assert_eq!(draws(&new), draws(&fitted));
        assert_ne!(draws(&new), draws(&old));
        let labels = Labels::from_strings(&[None::<&str>; N]);
        let others = Some(TrainingRows {
            table: line(2),
            labels,
        });
        let said = IqgmeFit::from_bytes(&bytes(&Layout::V2(&fitted.stored, &others)));
        assert!(said.unwrap_err().to_string().contains("rows of training"));
    }

    #[test]
    fn other_seeds_make_other_draws_of_the_same_fit() {
        let table = line(3);
        let fitted = fit_unlabelled(&table, &one_component(3)).unwrap();
        let draws = |fit: &IqgmeFit| fit.impute_draws(&table, 2).unwrap();
        let other = fitted.clone().with_seed(8);
        assert_ne!(draws(&other), draws(&fitted));
        assert_eq!(draws(&other.with_seed(3)), draws(&fitted));
    }
}
