"""Mixtures of experts for numeric tables with holes: classes, clusters, densities, missing cells (crate npb-iqgme)."""

import numbers
import warnings

import numpy as np
from sklearn.base import ClassifierMixin, ClusterMixin, DensityMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted

from npb import _native
from npb._base import TableBase, check_level, count, stop_line, with_running_doc
from npb._classes import accuracy, encoded, named
from npb._frames import is_missing, unmarked

_WEIGHTS_DOC = """
    `fit` takes no `sample_weight`, and there is no `class_weight`: the likelihood is that of rows as they were drawn, each of which counts once, and has no meaning for
    parts of a row. What errors cost, and how frequent classes will be, goes into decisions, by `predict_proba`."""
_ROW_WEIGHTS_DOC = """
    `fit` takes no `sample_weight`: the likelihood is that of rows as they were drawn, each of which counts once, and has no meaning for parts of a row."""

_SETTINGS_DOC = """
    truncation : int, optional
        Largest number of components of the variational family.
    concentration : dict, optional
        Gamma prior of the concentration of the Dirichlet process, {"shape": s, "rate": r}.
    mean_strength : float, optional
        How many rows the prior mean of a component is worth.
    dof_excess, dof_per_feature : float, optional
        Degrees of freedom of the Wishart prior with P features: P + dof_excess + dof_per_feature P.
    restarts : int, optional
        Runs of every start.
    elbo_temperature : float, optional
        How predictions average over runs by their bounds; 0 keeps the best run alone.
    max_iter : int, optional
        Iterations of a run, at most.
    tol : float, optional
        A run has converged when the bound's relative change falls below this."""


def _documented(cls):
    weights = _WEIGHTS_DOC if issubclass(cls, ClassifierMixin) else _ROW_WEIGHTS_DOC
    cls.__doc__ = cls.__doc__.replace("\n    {settings}", _SETTINGS_DOC).replace("\n    {weights}", weights)
    return with_running_doc(cls)


class Variational(TableBase):
    def _take(self, fit):
        super()._take(fit)
        self.elbo_ = fit.trace()
        self.n_iter_ = len(self.elbo_)
        self.converged_ = fit.has_converged()

    def _found(self):
        return [stop_line(self)]


class _Iqgme(Variational):
    _native = _native.Iqgme
    _kind = "mixture"
    _inside = (("limits",),)

    def _found(self):
        clusters, columns = self._fit.n_clusters(), len(self._fit.model_columns())
        return [f"{clusters} {'cluster' if clusters == 1 else 'clusters'} in {columns} {'column' if columns == 1 else 'columns'}", *super()._found()]

    def _unlabelled(self, X):
        X = self._table(X, reset=True)
        none = np.full(len(X), -1, dtype=np.int64)
        self._take(self._fit_native(X, none, [], self._names()))
        return X

    def impute(self, X):
        """Completes rows of any kind, in training or new.

        Parameters
        ----------
        X : array or frame of shape (n, n_features)

        Returns
        -------
        mean, sd : arrays of shape (n, n_features), in the units of X
            Missing cells hold posterior means and standard deviations given the observed cells of their rows; observed cells hold their values and 0.
            A column that had no value in training stays NaN.
        """
        return self._fit_of(X, lambda fit, X: fit.impute(X, self._threads()))

    def predict_interval(self, X, level=0.9):
        """Central intervals that hold `level` of the posterior of each missing cell.

        Returns
        -------
        lower, upper : arrays of shape (n, n_features); observed cells hold their values in both.
        """
        check_level(level)
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        lower, upper = self._fit_of(X, lambda fit, X: fit.impute_quantiles(X, tails, self._threads()))
        return lower, upper

    def sample_missing(self, X, n_draws=10):
        """Completed tables for multiple imputation: array of shape (n_draws, n, n_features).

        Each draws the parameters first and then the missing cells jointly. Where the table of training is small enough for it to take seconds, parameters are
        drawn by a Gibbs sampler that starts at the fit, and results can be pooled by Rubin's rule; otherwise from the variational posterior, which is too narrow
        where much is missing.
        """
        n_draws = count("n_draws", n_draws)
        return self._fit_of(X, lambda fit, X: fit.impute_draws(X, n_draws, self._threads()))

    def score_samples(self, X):
        """Log density of the observed cells of each row, in the units of X (nats); low values are anomalies. Array of shape (n,)."""
        return self._fit_of(X, lambda fit, X: fit.ln_density(X, self._threads()))

    def score_cells(self, X):
        """How odd each known cell is given the other known cells of its row, the oddest first.

        Returns
        -------
        list of dict with `row`, `column`, `surprisal` (-ln of its density in its own units, in nats; of a category that of the numbers that it becomes) and
        `excess`, that less what is usual of the column: its mean in rows that the model makes up. Cells stand in the order of `excess`.
        """
        table = self._table(X)
        usual = np.array([np.mean(found[1]) for found in self._surprisals(self._made_up(400))])
        names = [feature["name"] for feature in self._schema.features()] if self._schema is not None else self._names() or list(range(table.shape[1]))
        found = []
        for k, (rows, surprisals) in enumerate(self._surprisals(table)):
            found += [{"row": int(i), "column": names[k], "surprisal": float(s), "excess": float(s - usual[k])} for i, s in zip(rows, surprisals, strict=True)]
        return sorted(found, key=lambda cell: (-cell["excess"], cell["row"]))

    def _surprisals(self, table):
        """Of each feature the rows in which it is known, and its surprisals given the others."""
        widths = self._schema.reader.number_widths() if self._schema is not None else [1] * table.shape[1]
        density = lambda table: self._fit.ln_density(np.ascontiguousarray(table), self._threads())
        whole, end = density(table), 0
        for width in widths:
            place, end = slice(end, end + width), end + width
            rest = table.copy()
            rest[:, place] = np.nan
            rows = np.flatnonzero(~np.isnan(table[:, place]).all(axis=1))
            yield rows, (density(rest) - whole)[rows]

    def _made_up(self, n):
        """Rows of the posterior predictive. Those of one draw have the same parameters: as many draws as make rows differ in these, too."""
        n_draws = min(n, 200)
        width = len(self._fit.column_names())
        unknown = np.full((-(-n // max(n_draws, 1)), width), np.nan)
        drawn = self._fit.impute_draws(unknown, n_draws, self._threads())
        return drawn.swapaxes(0, 1).reshape(-1, width)[:n]

    def _fit_of(self, X, question):
        X = self._table(X)
        return question(self._fit, X)


@_documented
class IncompleteClassifier(ClassifierMixin, _Iqgme):
    """Nonlinear classification of rows with missing features: an infinite mixture of Gaussian clusters, each with its own linear probit classifier.

    Nothing is imputed beforehand: missing features are integrated out, in training and in prediction. Rows may lack labels (NaN or None in y).
    Probabilities average over several runs that are stacked and calibrated by held-out prediction.

    {weights}

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    {settings}
    expert : dict, optional
        Gamma prior of the precisions of the experts' coefficients.
    expert_mean_strength : float, optional
        How many experts the prior mean of their common mean is worth.
    starts : list of dict, optional
        Starts to try, such as [{"k_means": 1}, {"per_class": 2}, {"mixture": 10}].
    normal_scores : bool, optional
        Whether runs are made on normal scores of the features, too.
    folds : int, optional
        Folds of the held-out prediction by which runs are weighed and calibrated; 0 for none: several times as fast.
    {running}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of str, for tables with named columns
    n_iter_ : int, elbo_ : array
        Iterations of the best run, and its bound after each.
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from npb import IncompleteClassifier
    >>> nan = np.nan
    >>> X = [[-2, -1.9], [-1.7, nan], [-2.2, -2.1], [-1.9, -2.3], [2.1, 1.8], [nan, 2.2], [1.9, 2], [2.3, 1.7]]
    >>> y = ["low"] * 4 + ["high"] * 4
    >>> model = IncompleteClassifier().fit(X, y)
    >>> model.predict([[2, nan], [-2, -2]]).tolist()
    ['high', 'low']
    """

    _kind = "classifier"

    def __init__(
        self,
        *,
        truncation=None,
        concentration=None,
        mean_strength=None,
        dof_excess=None,
        dof_per_feature=None,
        expert=None,
        expert_mean_strength=None,
        starts=None,
        restarts=None,
        normal_scores=None,
        elbo_temperature=None,
        folds=None,
        max_iter=None,
        tol=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.truncation = truncation
        self.concentration = concentration
        self.mean_strength = mean_strength
        self.dof_excess = dof_excess
        self.dof_per_feature = dof_per_feature
        self.expert = expert
        self.expert_mean_strength = expert_mean_strength
        self.starts = starts
        self.restarts = restarts
        self.normal_scores = normal_scores
        self.elbo_temperature = elbo_temperature
        self.folds = folds
        self.max_iter = max_iter
        self.tol = tol
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y):
        """Fits the classifier.

        Parameters
        ----------
        X : array or frame of shape (n, n_features); NaN, None or pd.NA is missing; in a frame categories become a column of 0 and 1 for each level but the first,
            dates days
        y : array of shape (n,); NaN or None for a row without a label
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = self._table(X, reset=True)
        classes, codes = encoded(y, len(X))
        fit = self._fit_native(X, codes, [str(c) for c in classes], self._names())
        self.classes_ = classes
        self._take(fit)
        return self

    def _take(self, fit):
        super()._take(fit)
        if not hasattr(self, "classes_"):
            if not fit.classes():
                raise ValueError("the fit was made without labels: load it as IncompleteMixture or IncompleteImputer")
            self.classes_ = named(fit.classes())

    def predict_proba(self, X):
        """Probabilities of the classes, in the order of `classes_`: array of shape (n, n_classes)."""
        return self._fit_of(X, lambda fit, X: fit.predict_proba(X, self._threads()))

    def predict(self, X):
        """The most probable class of each row: array of shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X, y, sample_weight=None):
        """Accuracy over the rows that have a label."""
        return accuracy(y, self.predict(X), sample_weight)

    def _found(self):
        return [f"classes {', '.join(map(str, self.classes_))}", *super()._found()]

    def predict_interval(self, X, level=0.9):
        """Central intervals that hold `level` of the posterior of each probability, and the probability itself, by 200 draws of all parameters.

        These are made by a Gibbs sampler that starts at the fit, when first asked for, where the table of training is small enough for it to take seconds;
        otherwise they are from the variational posterior, and intervals too short.

        Returns
        -------
        lower, upper : arrays of shape (n, n_classes)
        """
        check_level(level)
        ends = self._fit_of(X, lambda fit, X: fit.predict_interval(X, level, self._threads()))
        return ends[:, :, 0], ends[:, :, 1]


def check_lengths(X, y):
    if len(X) != len(y):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(y)]}")


class _Unlabelled(_Iqgme):
    def __init__(
        self,
        *,
        truncation=None,
        concentration=None,
        mean_strength=None,
        dof_excess=None,
        dof_per_feature=None,
        unlabelled_starts=None,
        restarts=None,
        elbo_temperature=None,
        max_iter=None,
        tol=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.truncation = truncation
        self.concentration = concentration
        self.mean_strength = mean_strength
        self.dof_excess = dof_excess
        self.dof_per_feature = dof_per_feature
        self.unlabelled_starts = unlabelled_starts
        self.restarts = restarts
        self.elbo_temperature = elbo_temperature
        self.max_iter = max_iter
        self.tol = tol
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every


@_documented
class IncompleteMixture(ClusterMixin, DensityMixin, _Unlabelled):
    """A Dirichlet process mixture of Gaussians for rows with missing features: clusters, densities, missing cells.

    The number of clusters is found.

    {weights}

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    {settings}
    unlabelled_starts : list of dict, optional
        Starts to try, such as [{"k_means": 1}, {"k_means": 4}].
    {running}

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each row of training.
    n_clusters_ : int
        Clusters with at least one row.
    weights_, means_, covariances_ : arrays of shapes (K,), (K, P), (K, P, P)
        Posterior means, in the units of X, for the columns of `model_columns_`: constant columns and those without a value are left out.
    n_features_in_, feature_names_in_, n_iter_, elbo_, converged_
        As in :class:`IncompleteClassifier`.
    """

    def fit(self, X, y=None):
        """Fits the mixture to X, of shape (n, n_features); y is not used."""
        X = self._unlabelled(X)
        self.labels_ = self._fit.responsibilities(X, self._threads()).argmax(axis=1)
        return self

    def update(self, X):
        """Goes on from the posterior of the fit on its rows and new ones: a warm start, from which the bound never falls.

        X has the rows of the fit as they were, in their order, then the new ones. Units stay those of the fit; `max_iter` and `tol` may be set before, other settings may
        not.
        """
        X = self._table(X)
        self._take(self._fit_native(X, settings=self._settings(self._fit.config()), before=self._fit))
        self.labels_ = self._fit.responsibilities(X, self._threads()).argmax(axis=1)
        return self

    def _take(self, fit):
        super()._take(fit)
        self.n_clusters_ = fit.n_clusters()
        self.weights_, self.means_, self.covariances_ = fit.components()
        self.model_columns_ = np.array(fit.model_columns(), dtype=int)

    def predict_proba(self, X):
        """Probabilities of the components given the observed cells of each row: array of shape (n, K)."""
        return self._fit_of(X, lambda fit, X: fit.responsibilities(X, self._threads()))

    def predict(self, X):
        """The most probable component of each row: array of shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def score(self, X, y=None):
        """Mean log density of the observed cells of a row."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples=1):
        """Draws new rows from the posterior predictive distribution: array of shape (n_samples, n_features).

        The draws depend on `random_state` of the fit and are the same in each call.
        """
        check_is_fitted(self)
        return self._made_up(count("n_samples", n_samples, most=10**8))


@_documented
class IncompleteImputer(OneToOneFeatureMixin, TransformerMixin, _Unlabelled):
    """Completes rows with missing features by a Dirichlet process mixture of Gaussians: posterior means, intervals, draws.

    {weights}

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    missing_values : int, float, str, np.nan, None or pandas.NA, default=np.nan
        What missing cells hold. np.nan, None and pandas.NA all stand for all three of them; with another value these are errors, as in scikit-learn's imputers.
    add_indicator : bool, default=False
        Whether `transform` adds a column of 0 and 1 for each column of X that had missing cells in training: whether the cell was missing.
    keep_empty_features : bool, default=False
        Whether `transform` gives columns that had no value in training, with 0 where nothing is known; otherwise it leaves them out. (:meth:`impute` and the
        other questions always have all columns, NaN in these.)
    {settings}
    unlabelled_starts : list of dict, optional
        Starts to try, such as [{"k_means": 1}, {"k_means": 4}].
    {running}

    Attributes
    ----------
    indicator_ : sklearn.impute.MissingIndicator, or None without `add_indicator`
    n_features_in_, feature_names_in_, n_iter_, elbo_, converged_
        As in :class:`IncompleteClassifier`.
    """

    _own = ("missing_values", "add_indicator", "keep_empty_features")

    def __init__(
        self,
        *,
        missing_values=np.nan,
        add_indicator=False,
        keep_empty_features=False,
        truncation=None,
        concentration=None,
        mean_strength=None,
        dof_excess=None,
        dof_per_feature=None,
        unlabelled_starts=None,
        restarts=None,
        elbo_temperature=None,
        max_iter=None,
        tol=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        super().__init__(
            truncation=truncation,
            concentration=concentration,
            mean_strength=mean_strength,
            dof_excess=dof_excess,
            dof_per_feature=dof_per_feature,
            unlabelled_starts=unlabelled_starts,
            restarts=restarts,
            elbo_temperature=elbo_temperature,
            max_iter=max_iter,
            tol=tol,
            config=config,
            random_state=random_state,
            n_jobs=n_jobs,
            progress=progress,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )
        self.missing_values = missing_values
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features

    def fit(self, X, y=None):
        """Fits the mixture to X, of shape (n, n_features); y is not used."""
        for name in ("add_indicator", "keep_empty_features"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r}: must be True or False")
        X = self._unlabelled(X)
        self.indicator_ = MissingIndicator(error_on_new=False).fit(self._by_feature(X)) if self.add_indicator else None
        return self

    def _take(self, fit):
        super()._take(fit)
        # Of a row of which nothing is known all is completed but what was never seen.
        unknown = np.full((1, len(fit.column_names())), np.nan)
        self._empty = np.isnan(fit.impute(unknown, self._threads())[0][0])

    def _has_marker(self):
        """Whether missing cells hold a value of their own."""
        marker = self.missing_values
        if not isinstance(marker, (numbers.Real, str)) and not is_missing(marker):
            raise ValueError(f"missing_values={marker!r}: must be a number, a text, NaN, None or pandas.NA")
        return isinstance(marker, str) or not is_missing(marker)

    def _table(self, X, reset=False, **options):
        return super()._table(unmarked(X, self.missing_values) if self._has_marker() else X, reset=reset, **options)

    def _by_feature(self, table):
        """NaN where features are missing: of those that become several columns of numbers one is enough."""
        if self._schema is None:
            return table
        places, first = {str(name): j for j, name in enumerate(self.feature_names_in_)}, 0
        found = np.zeros((len(table), len(places)))
        for feature, width in zip(self._schema.features(), self._schema.reader.number_widths(), strict=True):
            if width:
                found[:, places[feature["name"]]] = table[:, first]
            first += width
        return found

    def transform(self, X):
        """X with missing cells replaced by their posterior means given the observed cells of their rows: array of shape (n, n_features_out).

        Rows are taken for new ones, those of training too. A column that had no value in training is left out, with a warning (`keep_empty_features`); indicators
        come last (`add_indicator`). Of a frame with categories or dates it has the columns of numbers that these become, such as "town=B": `get_feature_names_out`
        names them. (:class:`MixedTableModel` gives categories back.)
        """
        X = self._table(X)
        done = self._fit.impute(X, self._threads())[0]
        if self.keep_empty_features:
            done[np.isnan(done)] = 0.0
        elif self._empty.any():
            names = [self._names()[j] if self._names() else int(j) for j in np.flatnonzero(self._empty)]
            warnings.warn(f"Skipping features without any observed values: {names}. keep_empty_features=True keeps them, as 0", UserWarning, stacklevel=3)
            done = done[:, ~self._empty]
        if not self.add_indicator:
            return done
        return np.hstack([done, self._indicator().transform(self._by_feature(X))])

    def _indicator(self):
        if getattr(self, "indicator_", None) is None:
            raise ValueError("add_indicator=True: the fit was made without it (files do not hold it); fit again")
        return self.indicator_

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that `transform` gives."""
        given = super().get_feature_names_out(input_features)
        names = given if self._schema is None else np.array(self._names(), dtype=object)
        names = names if self.keep_empty_features else names[~self._empty]
        return np.concatenate([names, self._indicator().get_feature_names_out(given)]) if self.add_indicator else names

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = is_missing(self.missing_values)
        return tags


@_documented
class MultiTaskClassifier(ClassifierMixin, Variational):
    """Classification in many tasks that share clusters and classifiers as far as the data say: a hierarchical Dirichlet process mixture of experts.

    {weights}

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    atoms : int, optional
        Largest number of components that tasks share.
    {settings}
    expert : dict, optional
        Gamma prior of the precisions of the experts' coefficients.
    starts : list of dict, optional
        Starts of the runs that predictions average over.
    folds : int, optional
        Folds of the held-out prediction by which runs are weighed; 0 for none: several times as fast.
    {running}

    Attributes
    ----------
    classes_, tasks_ : arrays
    n_features_in_, feature_names_in_, n_iter_, elbo_, converged_
        As in :class:`IncompleteClassifier`.
    """

    _native = _native.Tasks
    _kind = "tasks"
    _inside = (("single",), ("single", "limits"))

    def __init__(
        self,
        *,
        atoms=None,
        truncation=None,
        concentration=None,
        mean_strength=None,
        dof_excess=None,
        dof_per_feature=None,
        expert=None,
        starts=None,
        restarts=None,
        elbo_temperature=None,
        folds=None,
        max_iter=None,
        tol=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.atoms = atoms
        self.truncation = truncation
        self.concentration = concentration
        self.mean_strength = mean_strength
        self.dof_excess = dof_excess
        self.dof_per_feature = dof_per_feature
        self.expert = expert
        self.starts = starts
        self.restarts = restarts
        self.elbo_temperature = elbo_temperature
        self.folds = folds
        self.max_iter = max_iter
        self.tol = tol
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y, tasks=None):
        """Fits all tasks.

        Parameters
        ----------
        X : array or frame of shape (n, n_features), the rows of all tasks; NaN is missing
        y : array of shape (n,); NaN or None for a row without a label
        tasks : array of shape (n,), the task of each row; None for one task
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = self._table(X, reset=True)
        classes, codes = encoded(y, len(X))
        tasks, of_row = np.unique(parts_of("task", tasks, X), return_inverse=True)
        names = [str(task) for task in tasks]
        arguments = (X, codes, [str(c) for c in classes], of_row.astype(np.int64), names, self._names())
        fit = self._fit_native(*arguments)
        self.classes_, self.tasks_ = classes, tasks
        self._take(fit)
        return self

    def _take(self, fit):
        super()._take(fit)
        if not hasattr(self, "classes_"):
            self.classes_, self.tasks_ = named(fit.classes()), named(fit.tasks())

    def _by_task(self, X, tasks, question):
        """An array of answers by row, asked task by task."""
        X = self._table(X)
        if tasks is None and len(self.tasks_) > 1:
            raise ValueError(f"tasks: the fit has {len(self.tasks_)} of them; say of which each row is")
        parts = np.full(len(X), self.tasks_[0]) if tasks is None else parts_of("task", tasks, X)
        return by_part("task", self.tasks_, parts, X, question)

    def predict_proba(self, X, tasks=None):
        """Probabilities of the classes, in the order of `classes_`: array of shape (n, n_classes)."""
        return self._by_task(X, tasks, lambda task, X: self._fit.predict_proba(task, X, self._threads()))

    def predict(self, X, tasks=None):
        """The most probable class of each row: array of shape (n,)."""
        best = self.predict_proba(X, tasks).argmax(axis=1)
        return self.classes_[best]

    def score(self, X, y, sample_weight=None, tasks=None):
        """Accuracy over the rows that have a label."""
        return accuracy(y, self.predict(X, tasks), sample_weight)

    def _found(self):
        return [f"classes {', '.join(map(str, self.classes_))}", f"{len(self.tasks_)} {'task' if len(self.tasks_) == 1 else 'tasks'}", *super()._found()]

    def predict_interval(self, X, tasks=None, level=0.9):
        """Central intervals that hold `level` of the posterior of each probability: lower and upper ends, arrays of shape (n, n_classes)."""
        check_level(level)
        ends = self._by_task(X, tasks, lambda task, X: self._fit.predict_interval(task, X, level, self._threads()))
        return ends[:, :, 0], ends[:, :, 1]

    def _told(self, X, tasks=None):
        if X is not None and tasks is None and len(self.tasks_) > 1:
            raise ValueError(f"tasks: the fit has {len(self.tasks_)} of them; say of which each row is")
        told = super()._told(X)
        if X is not None:
            rows = told["x"] if told.get("x") is not None else X
            told["parts"] = [str(task) for task in (np.full(len(rows), self.tasks_[0]) if tasks is None else parts_of("task", tasks, rows))]
        return told

    def similarity(self):
        """How alike the tasks are, from 0 to 1: array of shape (n_tasks, n_tasks), in the order of `tasks_`."""
        check_is_fitted(self)
        return self._fit.similarity()


def parts_of(what, parts, X):
    """The part (task, group) of each row as an array; None for one part."""
    if parts is None:
        return np.full(len(X), "all")
    parts = np.asarray(parts)
    if parts.ndim != 1:
        raise ValueError(f"{what}s: must be a list, the {what} of each row")
    check_lengths(X, parts)
    missing = np.frompyfunc(is_missing, 1, 1)(parts).astype(bool)
    if missing.any():
        raise ValueError(f"{what}s: row {np.flatnonzero(missing)[0]} is of no {what}; name one for every row")
    return np.array(parts.tolist()) if parts.dtype == object else parts


def by_part(what, known, parts, X, question):
    """An array of answers by row, asked of one part after the other, by its name as a text."""
    answers = None
    # 1.0 is the part that was 1 in training.
    names = {part: str(part) for part in known.tolist()}
    for part in np.unique(parts).tolist():
        if part not in names:
            raise ValueError(f"{what}s: row {np.flatnonzero(parts == part)[0]} is of {what} {part}, which was not in training")
        rows = parts == part
        found = question(names[part], np.ascontiguousarray(X[rows]))
        if answers is None:
            answers = np.empty((len(X), *found.shape[1:]))
        answers[rows] = found
    return answers
