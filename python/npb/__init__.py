"""Nonparametric Bayesian learning when data are incomplete: the Rust workspace npb, as scikit-learn estimators.

Missing is NaN (or None, or pd.NA). Long fits release the interpreter, end at Ctrl-C, show their progress and keep checkpoints.
"""

from npb._grouped import GroupedClassifier
from npb._images import BetaProcessDenoiser, FactorAnalysis
from npb._labels import MaxMarginTopics, MultiLabelLatentFeatures
from npb._matrix import BayesianMatrixCompletion, HybridRecommender
from npb._mixture import IncompleteClassifier, IncompleteImputer, IncompleteMixture, MultiTaskClassifier
from npb._native import VERSION as __version__
from npb._tables import MixedTableModel

__all__ = [
    "BayesianMatrixCompletion",
    "BetaProcessDenoiser",
    "FactorAnalysis",
    "GroupedClassifier",
    "HybridRecommender",
    "IncompleteClassifier",
    "IncompleteImputer",
    "IncompleteMixture",
    "MaxMarginTopics",
    "MixedTableModel",
    "MultiLabelLatentFeatures",
    "MultiTaskClassifier",
]
