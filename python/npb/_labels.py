"""Many labels of a row, topics of documents (crate npb-regbayes)."""

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from npb import _native
from npb._base import Base, TableBase, _numbers, first_text, with_running_doc
from npb._classes import encoded
from npb._matrix import entries


@with_running_doc
class MultiLabelLatentFeatures(TableBase):
    """Many labels (or numbers) of a row at once, through shared latent features whose number is inferred: infinite latent SVM, MT-iLSVM.

    Rows may lack features and labels.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    numbers : sequence, default=()
        Columns of Y (positions, or names for frames) that are numbers; all others hold 0 or 1.
    cost : float, optional
        What a violated margin costs, C of the machine.
    truncation, max_truncation : int, optional
        Latent features at the start, and at most.
    concentration, noise_variance, loading_variance : dict, optional
        Of the latent features.
    input_weight : float, optional
        How much the inputs count beside the labels.
    slack, epsilon : optional
        Loss of the machine.
    max_iter : int, optional
    tol : float, optional
    {running}

    Attributes
    ----------
    label_names_ : list of str
    n_iter_ : int, objective_ : array, converged_ : bool
    n_features_in_, feature_names_in_
    """

    _native = _native.ManyLabels
    _inside = (("factors",), ("limits",))

    def __init__(
        self,
        *,
        numbers=(),
        cost=None,
        truncation=None,
        max_truncation=None,
        concentration=None,
        noise_variance=None,
        loading_variance=None,
        input_weight=None,
        slack=None,
        epsilon=None,
        max_iter=None,
        tol=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.numbers = numbers
        self.cost = cost
        self.truncation = truncation
        self.max_truncation = max_truncation
        self.concentration = concentration
        self.noise_variance = noise_variance
        self.loading_variance = loading_variance
        self.input_weight = input_weight
        self.slack = slack
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, Y):
        """Fits all labels.

        Parameters
        ----------
        X : array or frame of shape (n, n_features); NaN is missing
        Y : array or frame of shape (n, n_labels); NaN is unknown
        """
        if Y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if hasattr(X, "index") and hasattr(Y, "index") and not X.index.equals(Y.index):
            raise ValueError("X and Y have different indexes: put their rows in the same order, Y.loc[X.index]")
        X = self._table(X, reset=True, ensure_min_samples=2)
        names = [str(name) for name in getattr(Y, "columns", ())]
        Y = _numbers(Y)
        if text := first_text(Y):
            raise text
        Y = np.asarray(Y)
        if Y.ndim > 2:
            raise ValueError(f"Y: must have one column for each label, found an array of shape {Y.shape}")
        self._flat = Y.ndim == 1
        try:
            Y = check_array(Y.reshape(len(Y), -1), dtype=np.float64, order="C", ensure_all_finite="allow-nan", input_name="y")
        except TypeError as error:
            raise ValueError(f"Unknown label type: labels are 0 or 1; {error}") from None
        if len(Y) != len(X):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(Y)]}")
        names = names or [f"y{j}" for j in range(Y.shape[1])]
        for number in self.numbers:
            if number not in names and number not in range(len(names)):
                raise ValueError(f"numbers: Y has no column {number!r}")
        real = [name in self.numbers or j in self.numbers for j, name in enumerate(names)]
        for j in np.flatnonzero(~np.array(real)):
            wrong = np.flatnonzero(~(np.isnan(Y[:, j]) | np.isin(Y[:, j], (0.0, 1.0))))
            if len(wrong):
                raise ValueError(f"Y: row {wrong[0]}, column {names[j]!r} is {Y[wrong[0], j]}: a label is 0 or 1 (or name the column in `numbers`)")
        settings = self._settings(leave_out=("numbers",))
        self._take(self._fit_native(X, Y, names, real, self._names(), settings=settings))
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags

    def _take(self, fit):
        super()._take(fit)
        self.label_names_ = fit.label_names()
        self.objective_ = fit.trace()
        self.n_iter_ = len(self.objective_)
        self.converged_ = fit.has_converged()
        self._flat = getattr(self, "_flat", False)

    def decision_function(self, X):
        """Margins of labels (positive for 1), values of numbers: array of shape (n, n_labels)."""
        return self._predict(X)[0]

    def predict(self, X):
        """Labels 0 or 1, or numbers: array of shape (n, n_labels)."""
        scores, labels = self._predict(X)
        found = np.where(np.isnan(labels), scores, labels)
        return found[:, 0] if self._flat else found

    def _predict(self, X):
        X = self._table(X)
        return self._fit.predict(X, self._names(), self._threads())

    def latent_features(self):
        """The latent features in use: list of dict with `feature`, `expected_use`, `columns` that load on it and labels that it `drives`."""
        check_is_fitted(self)
        return self._fit.features()


@with_running_doc
class MaxMarginTopics(TransformerMixin, Base):
    """Topics of documents that predict a class or a number: maximum entropy discrimination LDA (MedLDA).

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    topics : int, optional
    alpha : float, optional
        Prior of the shares of topics; `learn_alpha` says whether it is learned.
    learn_alpha : bool, optional
    word_prior : float, optional
    cost : float, optional
        What a violated margin costs.
    margin, epsilon : float, optional
    max_iter : int, optional
    tol : float, optional
    {running}

    Attributes
    ----------
    classes_ : array, for classes
    n_iter_ : int, objective_ : array, converged_ : bool
    n_features_in_ : int
        Words.
    """

    _native = _native.Topics
    _inside = (("limits",),)

    def __init__(
        self,
        *,
        topics=None,
        alpha=None,
        learn_alpha=None,
        word_prior=None,
        cost=None,
        margin=None,
        epsilon=None,
        max_iter=None,
        tol=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.topics = topics
        self.alpha = alpha
        self.learn_alpha = learn_alpha
        self.word_prior = word_prior
        self.cost = cost
        self.margin = margin
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None, *, numbers=False):
        """Fits topics to counts.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_documents, n_words): how often each word occurs; NaN is not allowed
        y : array of shape (n_documents,): a class each, or with `numbers=True` a number each; None for topics alone (LDA)
        """
        shape, *cells = _counts(X)
        classes = targets = None
        self.__dict__.pop("classes_", None)
        if y is not None and numbers:
            targets = check_array(y, dtype=np.float64, ensure_2d=False, order="C", input_name="y")
        elif y is not None:
            self.classes_, codes = encoded(y)
            if (codes < 0).any():
                raise ValueError(f"Input y contains NaN: row {np.flatnonzero(codes < 0)[0]}; every document needs a class")
            classes = (codes.astype(np.uint32), len(self.classes_))
        for given in (classes and classes[0], targets):
            if given is not None and len(given) != shape[0]:
                raise ValueError(f"Found input variables with inconsistent numbers of samples: {[shape[0], len(given)]}")
        self.n_features_in_ = shape[1]
        self._take(self._fit_native(shape, *cells, classes, targets))
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = False
        return tags

    def _take(self, fit):
        super()._take(fit)
        self.n_features_in_ = fit.n_words()
        self.objective_ = fit.trace()
        self.n_iter_ = len(self.objective_)
        self.converged_ = fit.has_converged()
        if not hasattr(self, "classes_") and fit.n_scores() > 1:
            self.classes_ = np.arange(fit.n_scores())

    def _ask(self, X, question):
        check_is_fitted(self)
        shape, *cells = _counts(X)
        if shape[1] != self.n_features_in_:
            raise ValueError(f"X has {shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")
        return getattr(self._fit, question)(shape, *cells, self._threads())

    def transform(self, X):
        """Shares of topics in documents: array of shape (n_documents, n_topics)."""
        return self._ask(X, "shares")

    def decision_function(self, X):
        """Scores of the classes: array of shape (n_documents, n_classes)."""
        return self._ask(X, "predict")

    def predict(self, X):
        """Classes, or numbers: array of shape (n_documents,)."""
        scores = self.decision_function(X)
        if hasattr(self, "classes_"):
            return self.classes_[scores.argmax(axis=1)]
        if scores.shape[1] == 0:
            raise ValueError("the fit was made without y: it has topics (transform), but predicts nothing")
        return scores[:, 0]

    def top_words(self, topic, n=10):
        """The n most probable words of a topic: list of (word, probability)."""
        check_is_fitted(self)
        return self._fit.top_words(int(topic), n)


def _counts(X):
    """Words that occur, as entries."""
    if hasattr(X, "tocoo"):
        shape, rows, columns, values = entries(X)
    else:
        X = check_array(X, dtype=np.float64, input_name="X")
        rows, columns = (index.astype(np.uint32) for index in np.nonzero(X))
        shape, values = X.shape, X[rows, columns]
    for k in np.flatnonzero(values < 0)[:1]:
        raise ValueError(f"Negative values in data: document {rows[k]}, word {columns[k]} is {values[k]}, which is no count")
    return shape, rows, columns, values
