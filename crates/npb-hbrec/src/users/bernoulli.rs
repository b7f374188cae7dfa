//! A user as independent beta-Bernoulli items.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Beta;
use npb_priors::special::ln_beta;

use crate::{AtomRule, GibbsModel, HbrecError, Likes, UserModel};

/// Each item is liked with a probability of its own, `p_i ~ Beta(a_i, b_i)`: evidence and draws are exact.
///
/// ```
/// use npb_hbrec::{BernoulliItems, Likes, UserModel};
/// let model = BernoulliItems::new(vec![[1.0, 1.0]; 3])?;
/// let alone = model.fit(&Likes::new(3, &[(0, true)])?)?;
/// assert_eq!(model.predict_alone(&alone, &0), 2.0 / 3.0);
/// assert!((model.ln_evidence(&alone) - 0.5_f64.ln()).abs() < 1e-12);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BernoulliItems {
    shapes: Vec<[f64; 2]>,
}

/// Shapes of the beta law of each item, and the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct BetaPosterior {
    shapes: Vec<[f64; 2]>,
    ln_evidence: f64,
}

impl BernoulliItems {
    /// With shapes `[a_i, b_i]` of likes and dislikes.
    ///
    /// # Errors
    /// A shape that is not positive and finite.
    pub fn new(shapes: Vec<[f64; 2]>) -> Result<Self, HbrecError> {
        for (row, shape) in shapes.iter().enumerate() {
            let bad = shape.iter().position(|s| !(s.is_finite() && *s > 0.0));
            if let Some(column) = bad {
                return Err(HbrecError::Value {
                    what: "shapes of items",
                    row,
                    column,
                    value: shape[column],
                    rule: "must be finite and > 0",
                });
            }
        }
        Ok(Self { shapes })
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.shapes.len()
    }
}

impl UserModel for BernoulliItems {
    type Data = Likes;
    type Query = usize;
    /// `[ln p, ln(1 - p)]` of each item.
    type Parameter = Vec<[f64; 2]>;
    type Posterior = BetaPosterior;

    fn fit_weighted(&self, data: &[(&Likes, f64)]) -> Result<BetaPosterior, HbrecError> {
        let mut shapes = self.shapes.clone();
        let mut touched = Vec::new();
        for (likes, weight) in data {
            likes.check(self.shapes.len())?;
            for (item, liked) in likes.iter() {
                shapes[item][usize::from(!liked)] += weight;
                touched.push(item);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let change = |&item: &usize| {
            let ([a, b], [a0, b0]) = (shapes[item], self.shapes[item]);
            ln_beta(a, b) - ln_beta(a0, b0)
        };
        let ln_evidence = touched.iter().map(change).sum();
        Ok(BetaPosterior {
            shapes,
            ln_evidence,
        })
    }

    fn ln_evidence(&self, posterior: &BetaPosterior) -> f64 {
        posterior.ln_evidence
    }

    /// The mode only where it lies inside (0, 1), that is where both shapes exceed 1; elsewhere the mean.
    fn atom(&self, posterior: &BetaPosterior, rule: AtomRule) -> Vec<[f64; 2]> {
        let point = |&[a, b]: &[f64; 2]| {
            let less = f64::from(rule == AtomRule::Map && a > 1.0 && b > 1.0);
            let (a, b) = (a - less, b - less);
            [(a / (a + b)).ln(), (b / (a + b)).ln()]
        };
        posterior.shapes.iter().map(point).collect()
    }

    /// # Panics
    /// When an item does not exist; so do predictions.
    fn ln_likelihood(&self, parameter: &Vec<[f64; 2]>, likes: &Likes) -> f64 {
        let terms = likes
            .iter()
            .map(|(item, liked)| parameter[item][usize::from(!liked)]);
        terms.sum()
    }

    fn predict(&self, parameter: &Vec<[f64; 2]>, item: &usize) -> f64 {
        parameter[*item][0].exp()
    }

    fn predict_alone(&self, posterior: &BetaPosterior, item: &usize) -> f64 {
        let [a, b] = posterior.shapes[*item];
        a / (a + b)
    }
}

impl GibbsModel for BernoulliItems {
    fn draw_prior(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<[f64; 2]> {
        draw(&self.shapes, rng)
    }

    fn redraw(
        &self,
        parameter: &mut Vec<[f64; 2]>,
        members: &[&Likes],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError> {
        let data: Vec<(&Likes, f64)> = members.iter().map(|&likes| (likes, 1.0)).collect();
        *parameter = draw(&self.fit_weighted(&data)?.shapes, rng);
        Ok(())
    }

    fn draw_exact(
        &self,
        posterior: &BetaPosterior,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Vec<[f64; 2]>> {
        Some(draw(&posterior.shapes, rng))
    }

    fn is_valid(&self, parameter: &Vec<[f64; 2]>) -> bool {
        parameter.len() == self.shapes.len() && parameter.iter().flatten().all(|ln_p| *ln_p <= 0.0)
    }
}

fn draw(shapes: &[[f64; 2]], rng: &mut Xoshiro256PlusPlus) -> Vec<[f64; 2]> {
    let one = |&[a, b]: &[f64; 2]| {
        let beta = Beta::new(a, b).expect("shapes were checked, and only grow");
        let (ln_p, ln_rest) = beta.sample_ln(rng);
        [ln_p, ln_rest]
    };
    shapes.iter().map(one).collect()
}
