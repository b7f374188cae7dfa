//! tau from users whom the base distribution has not seen (`docs/hbrec.md#tau`).

use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Stop, Watch, stream};
use rand::seq::SliceRandom;

use crate::atoms::{AtomTable, atoms_of_users};
use crate::base::learn_base_watched;
use crate::{
    BaseDistribution, Content, HbrecConfig, HbrecError, LikeMatrix, LikelihoodTable, Likes,
    ProbitItems, UserModel, Weights, em,
};

/// Of random choices of users and ratings.
pub(super) const CHOICE: u64 = 21;
/// One user in so many is left out at a time: the base must be nearly as good as that of all users.
const ONE_IN: usize = 20;
/// As many folds as it takes to ask so many users,
const ASKED: usize = 100;
/// but no more than this.
const MOST_FOLDS: usize = 5;

/// Sets tau to where users left out of the base are most likely. Those that the base has learned from are too likely under it, by what their own ratings have
/// taught it. Stopped, or with nobody to leave out, tau is left as it is.
pub(super) fn infer_from_others(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &HbrecConfig,
    weights: &mut Weights,
    watch: &Watch<'_>,
) -> Result<(), HbrecError> {
    let mut users: Vec<usize> = (0..likes.n_users())
        .filter(|&user| !likes.user(user).is_empty())
        .collect();
    users.shuffle(&mut stream(config.seed, [0, 0, CHOICE, u64::MAX - 2]));
    let size = users.len().div_ceil(ONE_IN);
    let folds = match users.len() {
        0 | 1 => 0,
        _ => ASKED.div_ceil(size).min(MOST_FOLDS),
    };
    if folds == 0 {
        let _ = watch.part("tau", 0.3).report(0, 1.0, &[], &[]);
        return Ok(());
    }
    let mut asked = LeftOut::default();
    for fold in users.chunks(size).take(folds) {
        let part = watch.part("tau", 0.3 / folds as f64);
        asked.add(likes, content, config, (fold, &weights.xi), part)?;
        if watch.is_stopped() {
            weights.stop = Stop::Cancelled;
            return Ok(());
        }
    }
    let table = LikelihoodTable::new(likes.n_users(), &asked.rows, &asked.own)?;
    weights.tau = em::infer_tau(&table, weights, &asked.ln_evidence)?;
    Ok(())
}

/// Users left out of a base, under it: ln P(D_j | theta_k) of each atom, and ln P(D_j).
#[derive(Default)]
struct LeftOut {
    rows: Vec<Vec<f64>>,
    own: Vec<Option<usize>>,
    ln_evidence: Vec<f64>,
}

impl LeftOut {
    /// Learns the base without these users, the atoms under it, and asks them. `xi`: atoms without weight say nothing.
    fn add(
        &mut self,
        likes: &LikeMatrix,
        content: Option<&Content>,
        config: &HbrecConfig,
        (left_out, xi): (&[usize], &[f64]),
        mut part: Part<'_, '_>,
    ) -> Result<(), HbrecError> {
        let BaseDistribution::Learned(base) = &config.base else {
            return Ok(());
        };
        let others = likes.without(left_out);
        let memory = Checkpoint::in_memory([None]);
        let learned =
            learn_base_watched((&others, content), (base, config.seed), &mut part, &memory)?;
        let model = ProbitItems::new(learned.prior.with_identity(config.identity)?);
        let active: Vec<usize> = (0..xi.len()).filter(|&k| xi[k] > 0.0).collect();
        let data: Vec<&Likes> = active.iter().map(|&k| likes.user(k)).collect();
        let table = AtomTable::new(
            &model,
            &atoms_of_users(&model, &data, config.weights.atoms)?.0,
        );
        for &user in left_out {
            let mut row = vec![f64::NEG_INFINITY; xi.len()];
            let found = table.ln_likelihoods(likes.user(user));
            active.iter().zip(found).for_each(|(&k, l)| row[k] = l);
            self.rows.push(row);
            self.own.push(Some(user));
            let alone = model.fit(likes.user(user))?;
            self.ln_evidence.push(model.ln_evidence(&alone));
        }
        Ok(())
    }
}
