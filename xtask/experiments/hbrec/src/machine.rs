//! The chapter's user model: a support vector machine on the content of items, with probabilities by Platt's scaling.

use npb_baselines::{Kernel, PlattSvm, SvmConfig};
use npb_data::Table;
use npb_hbrec::{AtomRule, HbrecError, Likes, UserModel};

/// Parts of the training examples that Platt's scaling leaves out in turn.
const FOLDS: usize = 5;
/// Probabilities of an atom stay away from 0 and 1 by this: Platt's are of few examples, and likelihoods multiply hundreds of them.
const LEAST: f64 = 1e-3;

/// A linear machine with a strong penalty: what does best on MovieLens's genres and years, of the kernels and penalties tried.
pub(super) fn svm() -> SvmConfig {
    SvmConfig {
        kernel: Kernel::Linear,
        c: 0.1,
        ..Default::default()
    }
}

/// What a machine says of every item.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) probabilities: Vec<f64>,
    /// Of the examples it was fitted to.
    ln_likelihood: f64,
}

/// A machine for each user, on the content of items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machines<'a> {
    pub(super) content: &'a Table,
}

impl Machines<'_> {
    /// Examples of one kind alone leave nothing to separate: their smoothed share for every item.
    fn judge(&self, likes: &Likes) -> Result<Vec<f64>, npb_baselines::BaselineError> {
        let labels = likes.liked();
        let liked = labels.iter().filter(|&&l| l).count();
        if liked == 0 || liked == labels.len() {
            let share = (liked as f64 + 1.0) / (labels.len() as f64 + 2.0);
            return Ok(vec![share; self.content.n_rows()]);
        }
        let rows: Vec<usize> = likes.items().iter().map(|&i| i as usize).collect();
        let machine = PlattSvm::fit(&self.content.select_rows(&rows), labels, &svm(), FOLDS)?;
        machine.probability(self.content)
    }
}

/// It has no evidence: `ln_evidence` is the likelihood at the fit, good for nothing but tau = 0, where it does not count.
impl UserModel for Machines<'_> {
    type Data = Likes;
    type Query = usize;
    type Parameter = Vec<f64>;
    type Posterior = Judged;

    fn fit_weighted(&self, data: &[(&Likes, f64)]) -> Result<Judged, HbrecError> {
        let [(likes, _)] = data else {
            let what = "machines are of one user each".to_owned();
            return Err(HbrecError::State { what });
        };
        let judged = self.judge(likes).map_err(|error| HbrecError::State {
            what: error.to_string(),
        })?;
        let probabilities: Vec<f64> = judged.iter().map(|p| p.clamp(LEAST, 1.0 - LEAST)).collect();
        Ok(Judged {
            ln_likelihood: self.ln_likelihood(&probabilities, likes),
            probabilities,
        })
    }

    fn ln_evidence(&self, posterior: &Judged) -> f64 {
        posterior.ln_likelihood
    }

    fn atom(&self, posterior: &Judged, _: AtomRule) -> Vec<f64> {
        posterior.probabilities.clone()
    }

    fn ln_likelihood(&self, probabilities: &Vec<f64>, likes: &Likes) -> f64 {
        let term = |(item, liked): (usize, bool)| {
            let p = probabilities[item];
            if liked { p.ln() } else { (1.0 - p).ln() }
        };
        likes.iter().map(term).sum()
    }

    fn predict(&self, probabilities: &Vec<f64>, item: &usize) -> f64 {
        probabilities[*item]
    }

    fn predict_alone(&self, posterior: &Judged, item: &usize) -> f64 {
        posterior.probabilities[*item]
    }
}
