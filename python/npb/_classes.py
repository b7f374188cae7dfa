"""Class labels, of which some may be missing."""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from npb._frames import is_missing


def labelled(y):
    """Labels as an array, and which rows have one (not NaN, None or pd.NA)."""
    hidden = np.ma.getmaskarray(y).ravel() if np.ma.isMaskedArray(y) else None
    y = np.asarray(y) if not hasattr(y, "to_numpy") else y.to_numpy()
    y = column_or_1d(y, warn=True)
    known = np.ones(len(y), dtype=bool)
    if y.dtype.kind == "f":
        known = ~np.isnan(y)
        if np.isinf(y).any():
            row = int(np.flatnonzero(np.isinf(y))[0])
            raise ValueError(f"Input y contains infinity: row {row} is {y[row]}")
    elif y.dtype.kind == "O":
        known = ~np.frompyfunc(is_missing, 1, 1)(y).astype(bool)
    elif y.dtype.kind in "Mm":
        known = ~np.isnat(y)
    if hidden is not None:
        known &= ~hidden
    return y, known


def accuracy(y, predicted, sample_weight=None):
    """Share of right classes among the rows that have a label."""
    y, known = labelled(y)
    check_consistent_length(y, predicted, sample_weight)
    if not known.any():
        raise ValueError("Input y contains NaN in all rows: a score needs rows with labels")
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return accuracy_score(np.array(y[known].tolist()), predicted[known], sample_weight=weight)


def encoded(y, n_rows):
    """Classes in order and the code of each of so many rows, -1 for a row without a label.

    Raises ValueError for infinite or continuous labels, another number of them, and for fewer than two classes.
    """
    y, known = labelled(y)
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_rows, len(y)]}")
    labels = y[known]
    if labels.dtype.kind == "O" and len(labels):
        # Labels that were objects only because some are missing.
        texts = {isinstance(label, (str, bytes)) for label in labels}
        if len(texts) > 1:
            raise ValueError("y: some labels are texts and some are not; make them all texts, y.astype(str)")
        labels = np.array(labels.tolist())
    if len(labels) == 0:
        raise ValueError("Input y contains NaN in all rows: a classifier needs rows with labels of two classes or more")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"the labels have 1 class only, {classes.tolist()[0]!r}: a classifier needs two or more")
    all_codes = np.full(len(y), -1, dtype=np.int64)
    all_codes[known] = codes
    return classes, all_codes


def named(names):
    """Names of a file: truth values, integers, or floats, if all of them are as Python writes them."""
    if set(names) == {"False", "True"}:
        return np.array([name == "True" for name in names])
    for kind in (int, float):
        try:
            numbers = [kind(name) for name in names]
        except ValueError:
            continue
        if [str(number) for number in numbers] == list(names):
            return np.array(numbers)
    return np.array(names)
