"""Classifiers of many groups with little data each (crate npb-hbrec)."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target

from npb import _native
from npb._base import check_level, plain, with_running_doc
from npb._classes import accuracy, encoded, labelled, named
from npb._mixture import Variational, by_part, check_lengths, parts_of


@with_running_doc
class GroupedClassifier(ClassifierMixin, Variational):
    """Two classes in many groups (hospitals, users, fields) with few labelled rows each: nonparametric hierarchical Bayes.

    Every group has a linear probit classifier of its own. What they have in common is learned as its prior: a normal distribution of the coefficients,
    and the groups themselves as point masses around it (a Dirichlet process). Features are standardised and an intercept is added. A group that was not
    in training takes part by its own labelled rows, without a new fit (`fold_in`).

    `fit` takes no `sample_weight`, and there is no `class_weight`: the likelihood is that of rows as they were drawn, each of which counts once. What errors cost
    goes into decisions, by `predict_proba`.

    X must be complete; `make_pipeline(IncompleteImputer(), GroupedClassifier())` completes it first.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    weights : dict, optional
        Weights of the groups as point masses; {"tau": {"given": t}} gives the weight of a group's own model, infinity for the normal prior alone.
    max_iter : int, optional
        Iterations by which the prior is learned, at most.
    tol : float, optional
        The prior has converged when the objective's relative change falls below this.
    {running}

    Attributes
    ----------
    classes_ : array of shape (2,)
    groups_ : array of shape (n_groups,)
    n_features_in_ : int
    feature_names_in_ : array of str, for tables with named columns
    n_iter_ : int, elbo_ : array
        Iterations of the prior, and the log-evidence of the groups with the logarithm of the priors after each.
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from npb import GroupedClassifier
    >>> x = np.sin(np.arange(80.0))
    >>> group = np.repeat(["a", "b", "c", "d"], 20)
    >>> y = np.where((x > 0) == (group < "c"), "up", "down")  # in c and d the feature speaks for the other class
    >>> model = GroupedClassifier().fit(x[:, None], y, group)
    >>> model.predict([[0.8], [0.8]], ["a", "d"]).tolist()
    ['up', 'down']
    >>> model.fold_in([[0.9], [-0.7]], ["up", "down"], [[0.8]])[0, 1] > 0.6  # a new group
    np.True_
    """

    _native = _native.Grouped
    _kind = "grouped"
    _inside = (("limits",),)

    def __init__(
        self,
        *,
        weights=None,
        max_iter=None,
        tol=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.weights = weights
        self.max_iter = max_iter
        self.tol = tol
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y, groups=None):
        """Fits all groups.

        Parameters
        ----------
        X : array or frame of shape (n, n_features), the rows of all groups, complete
        y : array of shape (n,), of two classes
        groups : array of shape (n,), the group of each row; None for one group
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = self._table(X, reset=True)
        classes, codes = encoded(y, len(X))
        if len(classes) != 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(codes)}.")
        _check_labels(codes >= 0)
        groups, of_row = np.unique(parts_of("group", groups, X), return_inverse=True)
        names = [str(group) for group in groups]
        arguments = (X, codes, [str(c) for c in classes], of_row.astype(np.int64), names, self._names())
        fit = self._fit_native(*arguments)
        self.classes_, self.groups_ = classes, groups
        self._take(fit)
        return self

    def _take(self, fit):
        super()._take(fit)
        if not hasattr(self, "classes_"):
            self.classes_, self.groups_ = named(fit.classes()), named(fit.groups())

    def _table(self, X, reset=False, **options):
        X = super()._table(X, reset=reset, **options)
        if np.isnan(X.sum()):
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"Input X contains NaN: row {row}, column {self._column(column)} is missing; impute it first, "
                "by make_pipeline(IncompleteImputer(), GroupedClassifier()) for example"
            )
        return X

    def _by_group(self, X, groups, question):
        X = self._table(X)
        if groups is None and len(self.groups_) > 1:
            raise ValueError(f"groups: the fit has {len(self.groups_)} of them; say of which each row is")
        parts = np.full(len(X), self.groups_[0]) if groups is None else parts_of("group", groups, X)
        return by_part("group", self.groups_, parts, X, question)

    def predict_proba(self, X, groups=None):
        """Probabilities of the classes, in the order of `classes_`: array of shape (n, 2).

        `groups` is the group of each row, one of `groups_`; None if there is but one.
        """
        return _both(self._by_group(X, groups, lambda group, X: self._fit.predict(group, X, self._threads())))

    def predict(self, X, groups=None):
        """The most probable class of each row: array of shape (n,)."""
        best = self.predict_proba(X, groups).argmax(axis=1)
        return self.classes_[best]

    def _found(self):
        return [f"{len(self.groups_)} {'group' if len(self.groups_) == 1 else 'groups'}", *super()._found()]

    def predict_interval(self, X, groups=None, level=0.9):
        """Central intervals that hold `level` of what is believed of each probability: lower and upper ends, arrays of shape (n, 2).

        They are wide where groups have few rows: the groups that stand for a group's prior are not sure of themselves either.
        """
        check_level(level)
        ends = self._by_group(X, groups, lambda group, X: self._fit.predict_interval(group, X, level, self._threads()))
        return np.column_stack([1.0 - ends[:, 1], ends[:, 0]]), np.column_stack([1.0 - ends[:, 0], ends[:, 1]])

    def fold_in(self, X, y, X_new):
        """Probabilities for rows of a group that was not in training, by its own labelled rows; the fit stays as it is.

        Parameters
        ----------
        X, y : arrays of shapes (n, n_features) and (n,), the labelled rows of the group; n may be 0, one class is enough
        X_new : array or frame of shape (n_new, n_features)

        Returns
        -------
        array of shape (n_new, 2), in the order of `classes_`
        """
        X, new = self._table(X, ensure_min_samples=0), self._table(X_new)
        y, known = labelled(y)
        check_lengths(X, y)
        _check_labels(known)
        y = np.array(y.tolist(), dtype=None if len(y) else self.classes_.dtype)
        strange = ~np.isin(y, self.classes_)
        if strange.any():
            row = np.flatnonzero(strange)[0]
            raise ValueError(f"y: row {row} is of class {plain(y[row])!r}, which was not in training")
        codes = np.searchsorted(self.classes_, y).astype(np.int64)
        return _both(self._fit.predict((X, codes), new, self._threads()))

    def _told(self, X, groups=None):
        told = super()._told(X)
        if X is not None and groups is not None:
            rows = told["x"] if told.get("x") is not None else X
            told["parts"] = [str(group) for group in parts_of("group", groups, rows)]
        return told

    def score(self, X, y, sample_weight=None, groups=None):
        """Accuracy over the rows that have a label."""
        return accuracy(y, self.predict(X, groups), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.classifier_tags.multi_class = False
        return tags


def _both(second):
    return np.column_stack([1.0 - second, second])


def _check_labels(known):
    if not known.all():
        raise ValueError(f"Input y contains NaN: row {np.flatnonzero(~known)[0]} has no label; leave the row out")
