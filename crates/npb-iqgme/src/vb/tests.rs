//! The bound: it never falls, it is stationary after each update, and it is the evidence where the posterior is exact.

use npb_data::Labels;
use npb_infer::testing::{BoundMonitor, check_stationary};
use npb_infer::watch::Checkpoint;
use npb_infer::{VbLimits, VbOutcome, Watch, maximise};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::special::ln_multivariate_gamma;

#[path = "../../tests/it/gaussians.rs"]
pub(crate) mod simulated;

use self::simulated::{config, three_gaussians};
use super::VbUpdate;
use crate::bound::Bound;
use crate::e_step::RowFamily;
use crate::state::Component;
use crate::{Init, IqgmeConfig, IqgmeData, IqgmeState, IqgmeVb};

impl IqgmeVb<'_> {
    /// The bound of another posterior of the parameters with this run's rows.
    fn bound_at(&self, state: &IqgmeState) -> f64 {
        let expected = Component::all_expected(&state.components).unwrap();
        let bound = Bound::new(state, &expected, &self.rows.stats, &self.prior);
        bound.unwrap().total()
    }
}

/// Runs to the end.
pub(crate) fn converge(vb: &mut IqgmeVb<'_>, limits: &VbLimits) -> VbOutcome {
    let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let mut part = watch.part("run", 1.0);
    let (_, outcome) = maximise(limits, "elbo", &mut part, (&memory, 0), |_| Ok(vb)).unwrap();
    outcome
}

const UPDATES: [VbUpdate; 8] = [
    VbUpdate::Labels,
    VbUpdate::Rows,
    VbUpdate::Order,
    VbUpdate::Sticks,
    VbUpdate::Components,
    VbUpdate::Experts,
    VbUpdate::ExpertPrior,
    VbUpdate::Concentration,
];

const FAMILIES: [RowFamily; 2] = [RowFamily::MeanField, RowFamily::Structured];

#[test]
fn never_falls_after_any_single_update() {
    for seed in 0..24 {
        let missing = [0.0, 0.2, 0.5][seed as usize % 3];
        let unlabelled = [0.0, 0.3, 1.0][seed as usize / 3 % 3];
        let noise = seed as usize % 4;
        let (table, labels) = three_gaussians(seed, 60, noise, missing, unlabelled);
        let start = if seed % 2 == 0 {
            Init::KMeans(5)
        } else {
            Init::PerClass(2)
        };
        let config = config(seed);
        let data = IqgmeData::new(&table, &labels, &config).unwrap();
        let mut vb = IqgmeVb::new(&data, config, start, 0).unwrap();
        vb.family = FAMILIES[seed as usize / 4 % 2];
        let mut monitor = BoundMonitor::new();
        for iteration in 0..30 {
            for update in UPDATES {
                vb.apply(update).unwrap();
                let bound = vb.bound().unwrap();
                let name = format!("seed {seed}, iteration {iteration}, {update:?}");
                // The parts cancel inside: their magnitude goes along as two terms that add up to nothing.
                let mut terms = bound.terms().to_vec();
                terms.extend([0.5 * bound.magnitude, -0.5 * bound.magnitude]);
                monitor
                    .check(&name, &terms)
                    .unwrap_or_else(|fell| panic!("{fell}"));
            }
        }
    }
}

/// Runs a few iterations, makes one update, and checks the bound's derivative in the parameters that `set` writes.
fn stationary(
    update: VbUpdate,
    parameters: impl Fn(&IqgmeState) -> Vec<f64>,
    set: impl Fn(&mut IqgmeState, &[f64]),
) -> [bool; 2] {
    FAMILIES.map(|family| stationary_with(family, update, &parameters, &set))
}

fn stationary_with(
    family: RowFamily,
    update: VbUpdate,
    parameters: impl Fn(&IqgmeState) -> Vec<f64>,
    set: impl Fn(&mut IqgmeState, &[f64]),
) -> bool {
    let (table, labels) = three_gaussians(3, 80, 1, 0.2, 0.2);
    let config = config(3);
    let data = IqgmeData::new(&table, &labels, &config).unwrap();
    let mut vb = IqgmeVb::new(&data, config, Init::KMeans(3), 0).unwrap();
    vb.family = family;
    for _ in 0..5 {
        vb.step().unwrap();
    }
    vb.apply(VbUpdate::Rows).unwrap();
    vb.apply(update).unwrap();
    let bound = |x: &[f64]| {
        let mut state = vb.state().clone();
        set(&mut state, x);
        vb.bound_at(&state)
    };
    check_stationary(&parameters(vb.state()), 1e-5, bound).is_ok()
}

/// For the same parameters the joint factor of a row is the best there is: the bound is higher than with the utility apart.
#[test]
fn the_structured_family_has_the_higher_bound() {
    for seed in 0..6 {
        let (table, labels) = three_gaussians(seed, 60, 2, 0.4, 0.2);
        let apart = config(seed);
        let data = IqgmeData::new(&table, &labels, &apart).unwrap();
        let mut vb = IqgmeVb::new(&data, apart.clone(), Init::PerClass(2), 0).unwrap();
        for _ in 0..10 {
            vb.step().unwrap();
        }
        vb.apply(VbUpdate::Rows).unwrap();
        let state = vb.state().clone();
        let mut other = IqgmeVb::resume(&data, apart, state, &[]).unwrap();
        other.family = RowFamily::Structured;
        other.apply(VbUpdate::Rows).unwrap();
        let [apart, joint] = [&vb, &other].map(|vb| vb.bound().unwrap().total());
        assert!(joint > apart + 0.1, "seed {seed}: {joint} {apart}");
    }
}

fn component_parameters(state: &IqgmeState) -> Vec<f64> {
    let c = &state.components[0];
    let mut x = c.mean.clone();
    x.extend([c.strength.ln(), c.dof.ln()]);
    for j in 0..c.mean.len() {
        x.extend((j..c.mean.len()).map(|i| c.scale_inverse[(i, j)]));
    }
    x
}

fn set_component(state: &mut IqgmeState, x: &[f64]) {
    let c = &mut state.components[0];
    let p = c.mean.len();
    c.mean.copy_from_slice(&x[..p]);
    c.strength = x[p].exp();
    c.dof = x[p + 1].exp();
    let mut rest = x[p + 2..].iter();
    for j in 0..p {
        for i in j..p {
            let value = *rest.next().unwrap();
            c.scale_inverse[(i, j)] = value;
            c.scale_inverse[(j, i)] = value;
        }
    }
}

#[test]
fn stationary_in_the_components() {
    assert_eq!(
        [true; 2],
        stationary(VbUpdate::Components, component_parameters, set_component)
    );
}

#[test]
fn stationarity_fails_for_a_wrong_dof() {
    let wrong = |state: &mut IqgmeState, x: &[f64]| {
        set_component(state, x);
        state.components[0].dof += 0.5;
    };
    assert_eq!(
        [false; 2],
        stationary(VbUpdate::Components, component_parameters, wrong)
    );
}

#[test]
fn stationary_in_the_experts() {
    let parameters = |state: &IqgmeState| {
        let e = &state.experts[0];
        let mut x = e.mean.clone();
        for j in 0..e.mean.len() {
            x.extend((j..e.mean.len()).map(|i| e.covariance[(i, j)]));
        }
        x
    };
    let set = |state: &mut IqgmeState, x: &[f64]| {
        let e = &mut state.experts[0];
        let p = e.mean.len();
        e.mean.copy_from_slice(&x[..p]);
        let mut rest = x[p..].iter();
        for j in 0..p {
            for i in j..p {
                let value = *rest.next().unwrap();
                e.covariance[(i, j)] = value;
                e.covariance[(j, i)] = value;
            }
        }
    };
    assert_eq!([true; 2], stationary(VbUpdate::Experts, parameters, set));
}

#[test]
fn stationary_in_the_expert_prior() {
    let parameters = |state: &IqgmeState| {
        let q = &state.expert_prior;
        let mut x = q.mean.clone();
        x.extend([q.strength.ln(), q.shape.ln()]);
        x.extend(q.rate.iter().map(|r| r.ln()));
        x
    };
    let set = |state: &mut IqgmeState, x: &[f64]| {
        let q = &mut state.expert_prior;
        let p = q.mean.len();
        q.mean.copy_from_slice(&x[..p]);
        q.strength = x[p].exp();
        q.shape = x[p + 1].exp();
        for (rate, x) in q.rate.iter_mut().zip(&x[p + 2..]) {
            *rate = x.exp();
        }
    };
    assert_eq!(
        [true; 2],
        stationary(VbUpdate::ExpertPrior, parameters, set)
    );
}

/// One component, complete rows, no labels: the variational posterior is exact, and the bound is the normal-Wishart evidence.
#[test]
fn equals_the_evidence_of_one_gaussian() {
    let (table, _) = three_gaussians(5, 40, 1, 0.0, 1.0);
    let none: Vec<Option<&str>> = vec![None; 40];
    let config = IqgmeConfig {
        truncation: 1,
        mean_strength: 0.3,
        dof_excess: 3.5,
        dof_per_feature: 0.0,
        ..config(0)
    };
    let data = IqgmeData::new(&table, &Labels::from_strings(&none), &config).unwrap();
    let mut vb = IqgmeVb::new(&data, config.clone(), Init::KMeans(1), 0).unwrap();
    vb.step().unwrap();
    let bound = vb.step().unwrap();

    let standardised = npb_data::Standardiser::fit(&table).apply(&table).unwrap();
    let (n, p) = (40.0, 3);
    let covariance = vb.prior_scale_inverse();
    let mut posterior = covariance.clone();
    let mut sum = vec![0.0; p];
    for row in 0..40 {
        let x = standardised.row(row);
        for j in 0..p {
            sum[j] += x[j];
            for i in 0..p {
                posterior[(i, j)] += x[i] * x[j];
            }
        }
    }
    let (u0, u) = (0.3, n + 0.3);
    for j in 0..p {
        for i in 0..p {
            posterior[(i, j)] -= sum[i] * sum[j] / u;
        }
    }
    let ln_det = |m: &Mat<f64>| Cholesky::new(m.as_ref()).unwrap().ln_det();
    let (dof0, pf) = (p as f64 + 3.5, p as f64);
    let dof = dof0 + n;
    let evidence = -0.5 * n * pf * std::f64::consts::PI.ln() + ln_multivariate_gamma(p, dof / 2.0)
        - ln_multivariate_gamma(p, dof0 / 2.0)
        + 0.5 * (dof0 * ln_det(&covariance) - dof * ln_det(&posterior))
        + 0.5 * pf * (u0 / u).ln();
    assert!(
        (bound - evidence).abs() < 1e-9 * evidence.abs(),
        "{bound} {evidence}"
    );
}
