//! What a model of one user must be able to do.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::faer::Mat;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::HbrecError;
use crate::task::GaussianPrior;

/// Which point of a user's posterior becomes an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomRule {
    /// The mode, as T 5.3 advises where data are few.
    Map,
    /// The mean: of the parameter where that is natural, of each response's probability for probit models. It is the safer bet: it knows how little it knows.
    Mean,
}

/// A model of one user (hospital, field, task) with a base distribution: whatever the mixture over users needs of it.
///
/// Log space throughout: a user with a thousand ratings underflows otherwise.
pub trait UserModel: Sync {
    /// The data of one user.
    type Data: Sync;
    /// What can be asked about: an item, a row of features.
    type Query: ?Sized;
    /// A point in parameter space, what T calls theta.
    type Parameter: Clone + Send + Sync;
    /// The posterior of one user alone, under the base distribution.
    type Posterior: Send + Sync;

    /// The posterior of one parameter that the data of several users share, each counted with its weight (a responsibility).
    ///
    /// # Errors
    /// Data that do not fit the model; numerical trouble.
    fn fit_weighted(&self, data: &[(&Self::Data, f64)]) -> Result<Self::Posterior, HbrecError>;

    /// The posterior of one user alone. Without data it is the base distribution.
    ///
    /// # Errors
    /// As [`fit_weighted`](Self::fit_weighted).
    fn fit(&self, data: &Self::Data) -> Result<Self::Posterior, HbrecError> {
        self.fit_weighted(&[(data, 1.0)])
    }

    /// ln P(D) under the base distribution: exact for conjugate models.
    fn ln_evidence(&self, posterior: &Self::Posterior) -> f64;

    /// A point estimate that stands for the user.
    fn atom(&self, posterior: &Self::Posterior, rule: AtomRule) -> Self::Parameter;

    /// ln P(D | theta), for the data of anybody.
    fn ln_likelihood(&self, parameter: &Self::Parameter, data: &Self::Data) -> f64;

    /// The same of each of some users under each of many parameters.
    fn ln_likelihoods(
        &self,
        parameters: &[&Self::Parameter],
        users: &[&Self::Data],
    ) -> Vec<Vec<f64>> {
        let of_user = |data: &&Self::Data| {
            let one = |parameter: &&Self::Parameter| self.ln_likelihood(parameter, data);
            parameters.iter().map(one).collect()
        };
        users.iter().map(of_user).collect()
    }

    /// Expected response given a parameter: a probability, or a mean.
    ///
    /// # Panics
    /// When the query is not one of this model: an item that does not exist, a row of another number of features.
    fn predict(&self, parameter: &Self::Parameter, query: &Self::Query) -> f64;

    /// Expected response given the user's own data alone.
    ///
    /// # Panics
    /// As [`predict`](Self::predict).
    fn predict_alone(&self, posterior: &Self::Posterior, query: &Self::Query) -> f64;
}

/// A user model whose parameters can be drawn.
pub trait GibbsModel: UserModel<Parameter: Send + Sync + Serialize + DeserializeOwned> {
    /// A draw from the base distribution.
    fn draw_prior(&self, rng: &mut Xoshiro256PlusPlus) -> Self::Parameter;

    /// A move that leaves `P(theta | data of the members)` as it is: an independent draw for conjugate models.
    ///
    /// # Errors
    /// Numerical trouble.
    fn redraw(
        &self,
        parameter: &mut Self::Parameter,
        members: &[&Self::Data],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError>;

    /// An exact draw from the posterior of a user alone, if the model is conjugate: what Escobar's sampler needs, with an exact evidence.
    fn draw_exact(
        &self,
        posterior: &Self::Posterior,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Self::Parameter>;

    /// Whether a parameter that comes from a file is one of this model.
    fn is_valid(&self, parameter: &Self::Parameter) -> bool;
}

/// A user model whose base distribution is normal: what parametric hierarchical Bayes learns.
pub trait GaussianTask: UserModel + Sized {
    /// The same model with another base distribution.
    #[must_use]
    fn with_prior(&self, prior: GaussianPrior) -> Self;

    /// The base distribution.
    fn prior(&self) -> &GaussianPrior;

    /// Mean and covariance of the coefficients.
    fn moments(&self, posterior: &Self::Posterior) -> (Vec<f64>, Mat<f64>);

    /// Where a fit of some data ended, from which one under a base distribution nearby begins.
    type Hint: Clone + Default + Send + Sync + Serialize + DeserializeOwned;

    /// Mean, covariance and ln P(D) of some data in one go, from where `hint` says, which then says where this fit ended.
    ///
    /// # Errors
    /// As [`fit`](UserModel::fit).
    fn moments_from(
        &self,
        data: &Self::Data,
        hint: &mut Self::Hint,
    ) -> Result<(Vec<f64>, Mat<f64>, f64), HbrecError>;
}
