"""Many labels of a row, topics of documents (crate npb-regbayes)."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from npb import _native
from npb._base import Base, TableBase, _numbers, _with_names, check_list, count, first_text, on_top, plain, stop_line, with_running_doc
from npb._classes import encoded, named
from npb._frames import frame, numbers_of, package
from npb._matrix import entries, sparse_frame
from npb._schema import of_beside, to_beside, write_beside


@with_running_doc
class MultiLabelLatentFeatures(TableBase):
    """Many labels (or numbers) of a row at once, by the inputs and by shared latent features whose number is inferred: infinite latent SVM, MT-iLSVM.

    Max-margin machines on inputs, on Gaussian kernels of them and on latent features are weighed by held-out scores; what carries nothing weighs nothing. Rows may
    lack features and labels.

    `fit` takes no `sample_weight`: the principle is one of rows as they were drawn, each of which counts once. `class_weight` weighs the values of labels.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    numbers : sequence, default=()
        Columns of Y (positions, or names for frames) that are numbers; all others hold 0 or 1.
    inputs : {"select", "linear", "rbf", "none"}, optional
        What scores see beside latent features. With "none" it is the published MT-iLSVM: labels take part in the features, scores are margins, there are no
        probabilities.
    decisions : {"both", "accuracy", "f1_micro", "f1_macro"}, optional
        What labels are decided for, by calibrated probabilities: "both" gives at most .01 of held-out accuracy for F1.
    class_weight : {"balanced"}, optional
        Rows of a rare value of a label count as if both were as frequent, in machines and in probabilities.
    cost : float, optional
        What a violated margin costs, C of the machines; None: by held-out scores (with inputs="none": 1).
    folds : int, optional
        Folds of the held-out scores.
    landmarks : int, optional
        Rows that kernels are made of.
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
    members_ : list of dict
        What held-out targets say of each member and cost: `member`, `cost`, `numbers`, `held_out_loss`, `stacking_weight`.
    notes_ : list of str
        Labels whose answer never varies; also given as warnings.
    n_iter_ : int, objective_ : array, converged_ : bool
    n_features_in_, feature_names_in_
    """

    _native = _native.ManyLabels
    _kind = "labels"
    _own = ("numbers", "class_weight", "cost")
    _inside = (("latent",), ("latent", "factors"), ("latent", "limits"))

    def __init__(
        self,
        *,
        numbers=(),
        inputs=None,
        decisions=None,
        class_weight=None,
        cost=None,
        folds=None,
        landmarks=None,
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
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.numbers = numbers
        self.inputs = inputs
        self.decisions = decisions
        self.class_weight = class_weight
        self.cost = cost
        self.folds = folds
        self.landmarks = landmarks
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
        self.config = config
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
        Y : array, frame or sparse matrix of shape (n, n_labels); NaN is unknown, what a sparse matrix does not store is 0
        """
        if Y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if hasattr(X, "index") and hasattr(Y, "index") and not X.index.equals(Y.index):
            raise ValueError("X and Y have different indexes: put their rows in the same order, Y.loc[X.index]")
        X = self._table(X, reset=True, ensure_min_samples=2)
        names = [str(name) for name in getattr(Y, "columns", ())]
        Y = np.asarray(_known(Y))
        if text := first_text(Y):
            raise text
        if Y.ndim > 2:
            raise ValueError(f"Y: must have one column for each label, found an array of shape {Y.shape}")
        self._flat = Y.ndim == 1
        try:
            Y = check_array(Y.reshape(len(Y), -1), dtype=np.float64, order="C", ensure_all_finite="allow-nan", input_name="y")
        except TypeError as error:
            raise ValueError(f"Unknown label type: labels are 0 or 1; {error}") from None
        if len(Y) != len(X):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(Y)]}")
        names = names or (["y"] if self._flat else [f"y{j}" for j in range(Y.shape[1])])
        check_list("numbers", self.numbers, "columns of Y")
        for number in self.numbers:
            if number not in names and number not in range(len(names)):
                raise ValueError(f"numbers: Y has no column {number!r}")
        real = [name in self.numbers or j in self.numbers for j, name in enumerate(names)]
        for j in np.flatnonzero(~np.array(real)):
            wrong = np.flatnonzero(~(np.isnan(Y[:, j]) | np.isin(Y[:, j], (0.0, 1.0))))
            if len(wrong):
                raise ValueError(f"Y: row {wrong[0]}, column {names[j]!r} is {Y[wrong[0], j]}: a label is 0 or 1 (or name the column in `numbers`)")
        for j in np.flatnonzero(np.isnan(Y).all(axis=0))[:1]:
            raise ValueError(f"Input y contains NaN: column {names[j]!r} of Y has no known value; leave it out")
        self._take(self._fit_native(X, Y, names, real, self._names(), settings=self._chosen()))
        for note in self.notes_:
            warnings.warn(f"{type(self).__name__}: {note}", UserWarning, stacklevel=2)
        return self

    def _chosen(self):
        settings = self._settings()
        if self.class_weight not in (None, "balanced"):
            raise ValueError(f"class_weight={self.class_weight!r}: must be 'balanced' or None")
        if self.class_weight is not None:
            settings = on_top(settings, {"latent": {"class_costs": "balanced"}})
        if self.cost is not None:
            settings = on_top(settings, {"latent": {"cost": plain(self.cost)}})
            if settings["inputs"] != "none":
                settings["costs"] = [plain(self.cost)]
        return settings

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags

    def _take(self, fit):
        super()._take(fit)
        # A list of labels has no name.
        self._flat = getattr(self, "_flat", fit.label_names() == ["y"])
        self.label_names_ = fit.label_names()
        self.objective_ = fit.trace()
        self.n_iter_ = len(self.objective_)
        self.converged_ = fit.has_converged()
        self.members_ = fit.members()
        self.notes_ = fit.notes()

    def decision_function(self, X):
        """Log-odds of labels (with inputs="none" margins), values of numbers: array of shape (n, n_labels)."""
        return self._predict(X)[0]

    def predict_proba(self, X):
        """Probabilities that labels are 1, NaN for numbers: array of shape (n, n_labels); of a flat Y those of 0 and 1, (n, 2)."""
        check_is_fitted(self)
        if not self.members_:
            raise ValueError('inputs="none": margins of MT-iLSVM are not calibrated; fit with other inputs for probabilities')
        found = self._predict(X)[2]
        return np.column_stack([1 - found[:, 0], found[:, 0]]) if self._flat else found

    def score(self, X, y, sample_weight=None):
        """Mean over columns of y: for labels the share of right decisions, for numbers R^2. What is unknown (NaN) is left out."""
        found = self.predict(X)
        Y = np.asarray(_known(y), dtype=np.float64)
        check_consistent_length(found, Y)
        if np.isnan(Y).all():
            raise ValueError("Input y contains NaN in all cells: a score needs known ones")
        Y = Y.reshape(len(found), -1)
        found = found.reshape(len(found), -1)
        if Y.shape != found.shape:
            raise ValueError(f"y: must have {found.shape[1]} columns, found {Y.shape[1]}")
        labels = ~np.isnan(self._predict(X)[1]).all(axis=0)
        check_consistent_length(found, sample_weight)
        weights = np.ones(len(found)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        each = [_score(y, f, label, weights) for y, f, label in zip(Y.T, found.T, labels, strict=True)]
        return float(np.nanmean(each))

    def predict(self, X):
        """Labels 0 or 1, or numbers: array of shape (n, n_labels)."""
        scores, labels, _ = self._predict(X)
        found = np.where(np.isnan(labels), scores, labels)
        return found[:, 0] if self._flat else found

    def _predict(self, X):
        X = self._table(X)
        return self._fit.predict(X, self._names(), self._threads())

    def _found(self):
        used = sum(feature["expected_use"] >= 1 for feature in self._fit.features())
        lines = [f"{len(self.label_names_)} {'label' if len(self.label_names_) == 1 else 'labels'}, {used} latent features in use", stop_line(self)]
        return lines + [f"Note: {note}" for note in self.notes_]

    def latent_features(self):
        """The latent features in use: list of dict with `feature`, `expected_use`, `columns` that load on it and labels that it `drives`."""
        check_is_fitted(self)
        return self._fit.features()


def _known(Y):
    """Labels as numbers; a sparse matrix as a dense one."""
    Y = frame(Y)
    if hasattr(Y, "columns"):
        return numbers_of(Y)
    return Y.toarray() if sparse.issparse(Y) else _numbers(Y)


def _score(y, found, is_label, weights):
    known = ~np.isnan(y)
    if not known.any():
        return np.nan
    return (accuracy_score if is_label else r2_score)(y[known], found[known], sample_weight=weights[known])


@with_running_doc
class MaxMarginTopics(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Base):
    """Topics of documents that predict a class or a number: maximum entropy discrimination LDA (MedLDA).

    `fit` takes no `sample_weight`, and there is no `class_weight`: documents weigh by their words, and `cost` is that of every violated margin.

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
    feature_names_in_ : array of str
        The words, where their names are known.
    """

    _native = _native.Topics
    _kind = "topics"
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
        config=None,
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
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None, *, numbers=False, words=None):
        """Fits topics to counts.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n_documents, n_words): how often each word occurs; NaN is not allowed
        y : array of shape (n_documents,): a class each, or with `numbers=True` a number each; None for topics alone (LDA)
        words : names of the words of a matrix, such as `CountVectorizer.get_feature_names_out()` gives them; those of a frame are its columns
        """
        shape, *cells = self._counts(X, reset=True)
        if words is not None:
            if len(words) != shape[1]:
                raise ValueError(f"words: there are {len(words)} names for {shape[1]} words")
            self.feature_names_in_ = np.array([str(word) for word in words], dtype=object)
        classes = targets = None
        self.__dict__.pop("classes_", None)
        if y is not None and numbers:
            targets = check_array(y, dtype=np.float64, ensure_2d=False, order="C", input_name="y")
        elif y is not None:
            self.classes_, codes = encoded(y, shape[0])
            if (codes < 0).any():
                raise ValueError(f"Input y contains NaN: row {np.flatnonzero(codes < 0)[0]}; every document needs a class")
            classes = (codes.astype(np.uint32), len(self.classes_))
        if targets is not None and len(targets) != shape[0]:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[shape[0], len(targets)]}")
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
        self._n_features_out = fit.n_topics()
        self.objective_ = fit.trace()
        self.n_iter_ = len(self.objective_)
        self.converged_ = fit.has_converged()
        if not hasattr(self, "classes_") and fit.n_scores() > 1:
            self.classes_ = np.arange(fit.n_scores())

    def save(self, path):
        """Writes the fit to a file that `load` and the Rust crate read; names of words and classes beside it, `path` + ".toml"."""
        super().save(path)
        write_beside(path, to_beside(words=getattr(self, "feature_names_in_", None), classes=getattr(self, "classes_", None)))

    @classmethod
    def load(cls, path):
        """A fitted estimator from a file that `save`, or the Rust crate, has written; without the file of the names beside it words and classes are numbers."""
        self = cls()
        fit = cls._loaded(path)
        beside = of_beside(path, words=fit.n_words(), classes=fit.n_scores())
        if "words" in beside:
            self.feature_names_in_ = np.array(beside["words"], dtype=object)
        if "classes" in beside:
            self.classes_ = named(beside["classes"])
        self._take(fit)
        return self

    def _counts(self, X, reset=False):
        """Words that occur, as entries; names of columns are checked."""
        if package(X) == "pandas" and hasattr(X, "columns"):
            X = _with_names(X, reset or not hasattr(self, "feature_names_in_"))
        if hasattr(X, "columns"):
            if reset:
                self.__dict__.pop("feature_names_in_", None)
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif not reset and hasattr(self, "feature_names_in_"):
            warnings.warn(f"X does not have valid feature names, but {type(self).__name__} was fitted with feature names", UserWarning, stacklevel=4)
        found = _counts(X)
        if reset:
            self.n_features_in_ = found[0][1]
            if not hasattr(X, "columns"):
                self.__dict__.pop("feature_names_in_", None)
        elif found[0][1] != self.n_features_in_:
            raise ValueError(f"X has {found[0][1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")
        return found

    def _ask(self, X, question):
        check_is_fitted(self)
        shape, *cells = self._counts(X)
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

    def score(self, X, y, sample_weight=None):
        """Share of right classes, or R^2 of numbers."""
        found = self.predict(X)
        return (accuracy_score if hasattr(self, "classes_") else r2_score)(y, found, sample_weight=sample_weight)

    def _found(self):
        what = f", {len(self.classes_)} classes" if hasattr(self, "classes_") else ""
        return [f"{self._n_features_out} topics of {self.n_features_in_} words{what}", stop_line(self)]

    def top_words(self, topic, n=10):
        """The n most probable words of a topic: list of (word, probability); words by their names, where these are known."""
        check_is_fitted(self)
        topic, n = count("topic", topic, 0, self._n_features_out - 1), count("n", n)
        names = getattr(self, "feature_names_in_", None)
        return [(word if names is None else names[word], p) for word, p in self._fit.top_words(topic, n)]


# More words than any document has.
_MOST = 1e15


def _counts(X):
    """Words that occur, as entries."""
    X = sparse_frame(X)
    if getattr(X, "ndim", 1) == 1 and hasattr(X, "__len__") and len(X) and isinstance(next(iter(X)), str):
        raise ValueError("X holds texts: count their words first, by scikit-learn's CountVectorizer for example")
    if hasattr(X, "tocoo"):
        shape, rows, columns, values = entries(X)
    else:
        X = check_array(_numbers(X), dtype=np.float64, input_name="X")
        rows, columns = (index.astype(np.uint32) for index in np.nonzero(X))
        shape, values = X.shape, X[rows, columns]
    for k in np.flatnonzero(values < 0)[:1]:
        raise ValueError(f"Negative values in data: document {rows[k]}, word {columns[k]} is {values[k]}, which is no count")
    for k in np.flatnonzero(values > _MOST)[:1]:
        raise ValueError(f"document {rows[k]}, word {columns[k]} is {values[k]}: too large for a count")
    return shape, rows, columns, values
