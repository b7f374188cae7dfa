"""The checks that scikit-learn has for estimators of 2-D tables."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from npb import FactorAnalysis, IncompleteClassifier, IncompleteImputer, IncompleteMixture, MultiTaskClassifier

# Scores are means of a few draws, whose random numbers are those of the row's number: they change with the order and the batch of the rows.
DRAWN = {
    "check_methods_sample_order_invariance": "random numbers are by the row's number",
    "check_methods_subset_invariance": "random numbers are by the row's number",
}
SHORT = {"burn_in": 20, "keep": 20, "thin": 1}


@parametrize_with_checks(
    [
        IncompleteClassifier(folds=2, starts=[{"k_means": 1}, {"per_class": 2}], max_iter=50),
        IncompleteMixture(unlabelled_starts=[{"k_means": 1}, {"k_means": 3}], max_iter=50),
        IncompleteImputer(unlabelled_starts=[{"k_means": 1}, {"k_means": 3}], max_iter=50),
        MultiTaskClassifier(folds=0, starts=[{"separate_per_class": 1}], max_iter=50),
        FactorAnalysis(atoms=6, sweeps=SHORT, stored_draws=5),
    ],
    expected_failed_checks=lambda estimator: DRAWN if isinstance(estimator, FactorAnalysis) else {},
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", [IncompleteClassifier, IncompleteMixture, IncompleteImputer])
def test_with_its_defaults(cls):
    # All defaults, in the two checks that fit most.
    from sklearn.utils import estimator_checks

    estimator_checks.check_estimators_pickle(cls.__name__, cls())
    estimator_checks.check_methods_subset_invariance(cls.__name__, cls())
