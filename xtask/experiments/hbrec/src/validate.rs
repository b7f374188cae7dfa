//! Checks of npb-hbrec's samplers, and of its probabilities.

mod groups;

use npb_hbrec::{
    BernoulliItems, DpGibbsConfig, DpMove, DpSampler, DpState, GibbsModel, Likes, Recommender,
    RecommenderConfig,
};
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::JointModel;
use npb_priors::dist::Gamma;
use npb_priors::dp::sample_urn;
use rand::{Rng, RngExt};

use crate::data::{SurveyModel, simulated_survey};
use npb_kit::validate::{Check, Findings, Plan, alarms, calibration};
use npb_kit::{Report, Result, ResultRow, Scale, short, text_table};

/// In the order of the report.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("hbrec/false-alarms", false_alarms),
    ("hbrec/ranks", ranks),
    ("hbrec/calibration", calibration),
    ("hbrec/groups", groups::coverage),
];

const USERS: usize = 5;
const ITEMS: usize = 2;
const SHAPES: [f64; 2] = [0.8, 1.2];

/// The infinite model of beta-Bernoulli users under one moves.
struct Infinite {
    model: BernoulliItems,
    config: DpGibbsConfig,
}

impl Infinite {
    fn new(assignment: DpMove) -> Result<Self> {
        Ok(Self {
            model: BernoulliItems::new(vec![SHAPES; ITEMS])?,
            config: DpGibbsConfig {
                moves: vec![assignment, DpMove::Parameters, DpMove::Concentration],
                ..Default::default()
            },
        })
    }
}

impl JointModel for Infinite {
    type State = DpState<Vec<[f64; 2]>>;
    type Data = Vec<Likes>;

    fn names(&self) -> Vec<String> {
        let names = [
            "clusters",
            "concentration",
            "p_0",
            "p_1",
            "likes",
            "p_0 x like",
            "together x agree",
            "largest",
        ];
        names.map(str::to_owned).to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> Self::State {
        let prior = self.config.concentration;
        // A prior that the configuration has checked.
        let concentration =
            Gamma::new(prior.shape, prior.rate).map_or(f64::NAN, |gamma| gamma.sample(rng));
        let labels: Vec<u32> = sample_urn(USERS, concentration, rng)
            .iter()
            .map(|&l| l as u32)
            .collect();
        let clusters = labels.iter().max().map_or(0, |l| l + 1);
        let parameters = (0..clusters).map(|_| self.model.draw_prior(rng)).collect();
        DpState {
            labels,
            parameters,
            concentration,
        }
    }

    fn simulate(&self, state: &Self::State, rng: &mut Xoshiro256PlusPlus) -> Vec<Likes> {
        let user = |label: &u32| {
            let parameter = &state.parameters[*label as usize];
            let pairs: Vec<(u32, bool)> = (0..ITEMS)
                .map(|i| (i as u32, rng.random::<f64>() < parameter[i][0].exp()))
                .collect();
            // Items in range, each once.
            Likes::new(ITEMS, &pairs).unwrap_or_default()
        };
        state.labels.iter().map(user).collect()
    }

    fn sweep(&self, state: &mut Self::State, data: &Vec<Likes>, rng: &mut Xoshiro256PlusPlus) {
        let config = DpGibbsConfig {
            seed: rng.next_u64(),
            ..self.config.clone()
        };
        let data: Vec<&Likes> = data.iter().collect();
        let swept = DpSampler::resume(&self.model, &data, &config, 0, state.clone(), 0).and_then(
            |mut sampler| {
                sampler.sweep()?;
                Ok(sampler.state().clone())
            },
        );
        match swept {
            Ok(next) => *state = next,
            // Not a number is an alarm.
            Err(_) => state.concentration = f64::NAN,
        }
    }

    fn summary(&self, state: &Self::State, data: &Vec<Likes>) -> Vec<f64> {
        let p =
            |user: usize, item: usize| state.parameters[state.labels[user] as usize][item][0].exp();
        let like = |user: usize, item: usize| f64::from(u8::from(data[user].liked()[item]));
        let together = f64::from(u8::from(state.labels[0] == state.labels[1]));
        let agree = f64::from(u8::from(like(0, 0) == like(1, 0)));
        let likes: f64 = (0..USERS).map(|u| like(u, 0)).sum();
        vec![
            state.parameters.len() as f64,
            state.concentration,
            p(0, 0),
            p(USERS - 1, 1),
            likes,
            p(0, 0) * like(0, 0),
            together * agree,
            state.counts().into_iter().max().unwrap_or(0) as f64,
        ]
    }
}

fn false_alarms(plan: &Plan) -> Result<Findings> {
    let (chains, length) = plan.scale.pick((20, 5), (200, 20), (1_000, 50));
    let moves = [
        ("escobar", DpMove::Escobar),
        ("auxiliary", DpMove::Auxiliary { components: 2 }),
        ("blocked", DpMove::Blocked),
    ];
    let models = moves.map(|(name, assignment)| Ok((name, Infinite::new(assignment)?)));
    alarms::findings(plan, models, (chains, length), "npb:hbrec")
}

fn ranks(plan: &Plan) -> Result<Findings> {
    let test = calibration::design(
        plan,
        [(20, 9, 50, 5), (1_000, 99, 100, 5), (2_000, 99, 300, 15)],
    );
    let model = Infinite::new(DpMove::Auxiliary { components: 2 })?;
    let setting = format!("users={USERS};items={ITEMS}");
    calibration::calibrate(&model, &test, &setting, "npb:hbrec")
}

/// Probabilities given to held-out ratings of new users, over surveys in which items are shown at random.
fn calibration(plan: &Plan) -> Result<Findings> {
    const BINS: usize = 10;
    const LIMIT: f64 = 0.03;
    let (surveys, users) = plan.scale.pick((1, 40), (2, 190), (10, 190));
    let (mut probabilities, mut liked) = (Vec::new(), Vec::new());
    for survey in 0..surveys {
        let model = SurveyModel {
            users,
            ..Default::default()
        };
        let (likes, new) = simulated_survey(&model, plan.seed + survey, users / 4)?;
        let config = RecommenderConfig {
            like_from: 0.0,
            ..Default::default()
        };
        let recommender = Recommender::fit(&likes, None, &config)?;
        for ratings in new {
            let (given, held_out) = ratings.split_at(20.min(ratings.len()));
            let p = recommender
                .probabilities(&recommender.profile(&Likes::new(model.items, given)?)?)?;
            probabilities.extend(held_out.iter().map(|h| p[h.0 as usize].clamp(0.0, 1.0)));
            liked.extend(held_out.iter().map(|h| h.1));
        }
    }
    let error = npb_data::metrics::expected_calibration_error(&probabilities, &liked, BINS)?;
    let curve = npb_data::metrics::calibration_curve(&probabilities, &liked, BINS)?;
    let line = |bin: &npb_data::metrics::CalibrationBin| {
        vec![
            bin.n.to_string(),
            short(bin.mean_probability),
            short(bin.share_positive),
        ]
    };
    let table = text_table(
        format!("Predicted and found, {surveys} surveys"),
        "ratings | mean probability | share liked",
        curve.iter().map(line),
    );
    let what = ["npb:hbrec", "calibration_error"];
    let row = ResultRow::simulated(("given=20;choice", "random"), what, error, surveys as usize);
    Ok(Findings {
        passed: error <= LIMIT || plan.scale == Scale::Smoke,
        report: Report {
            tables: vec![table],
            results: vec![row],
            ..Default::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_run() {
        npb_kit::testing::smoke(CHECKS);
    }
}
