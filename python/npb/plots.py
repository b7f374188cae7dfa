"""Pictures of fits, by matplotlib. Every function draws into `ax` (a new one by default) and returns it."""

import numpy as np


def _axes(ax):
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("npb.plots needs the package matplotlib") from None
    return plt.subplots(layout="constrained")[1]


def dependence(pairs, ax=None):
    """Heat map of the dependence of columns.

    Parameters
    ----------
    pairs : what :meth:`npb.MixedTableModel.dependence` returns; pairs that are declared dependent bear a dot
    """
    names = list(dict.fromkeys([p["a"] for p in pairs] + [p["b"] for p in pairs]))
    place = {name: k for k, name in enumerate(names)}
    information = np.full((len(names), len(names)), np.nan)
    ax = _axes(ax)
    for pair in pairs:
        for a, b in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
            information[place[a], place[b]] = pair["information"]
            if pair["dependent"]:
                ax.plot(place[b], place[a], "o", color="white", markeredgecolor="black", markersize=4)
    image = ax.imshow(information, cmap="viridis", vmin=0.0)
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.figure.colorbar(image, ax=ax, label="mutual information (nats)")
    return ax


def imputed_cell(draws, level=0.9, ax=None):
    """Density of the draws of a missing cell, with its median and central interval.

    Parameters
    ----------
    draws : array of shape (n_draws,), such as `imputer.sample_missing(X, 200)[:, row, column]`
    """
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 1 or len(draws) < 2 or not np.isfinite(draws).all():
        raise ValueError(f"draws: must be a list of at least two finite numbers, found an array of shape {draws.shape}")
    ax = _axes(ax)
    ax.hist(draws, bins="auto", density=True, color="C0", alpha=0.5)
    lower, median, upper = np.quantile(draws, [0.5 - level / 2, 0.5, 0.5 + level / 2])
    ax.axvspan(lower, upper, color="C0", alpha=0.15, label=f"{level:.0%} interval")
    ax.axvline(median, color="C0", label="median")
    ax.set_ylabel("density")
    ax.legend()
    return ax


def calibration(happened, probability, bins=10, ax=None):
    """How often what was predicted happened, in bins with equally many predictions, with standard errors.

    Parameters
    ----------
    happened : array of shape (n,) of 0 and 1 (or bool), of held-out rows
    probability : array of shape (n,), the predicted probabilities
    """
    happened, probability = np.asarray(happened, dtype=float), np.asarray(probability, dtype=float)
    if happened.shape != probability.shape or happened.ndim != 1:
        raise ValueError(f"happened and probability must be lists of one length, found {happened.shape} and {probability.shape}")
    ax = _axes(ax)
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    x = np.array([probability[part].mean() for part in parts])
    y = np.array([happened[part].mean() for part in parts])
    sd = np.array([np.sqrt(probability[part] @ (1 - probability[part])) / len(part) for part in parts])
    ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
    ax.errorbar(x, y, yerr=sd, fmt="o", capsize=2)
    ax.set(xlabel="predicted probability", ylabel="share that happened", xlim=(0, 1), ylim=(0, 1))
    return ax


def trace(model, scalar, ax=None):
    """Kept draws of a monitored scalar, one line for each chain."""
    ax = _axes(ax)
    for k, chain in enumerate(_scalar(model, scalar)):
        ax.plot(chain, linewidth=0.8, label=f"chain {k}")
    ax.set(xlabel="kept draw", ylabel=scalar)
    ax.legend()
    return ax


def rank(model, scalar, bins=20, ax=None):
    """Rank plot of a monitored scalar: how often draws of each chain have which rank among all. Chains that agree are level."""
    chains = _scalar(model, scalar)
    ranks = np.argsort(np.argsort(chains, axis=None, kind="stable"), kind="stable").reshape(chains.shape)
    edges = np.linspace(0, chains.size, bins + 1)
    ax = _axes(ax)
    for k, own in enumerate(ranks):
        ax.stairs(np.histogram(own, edges)[0], edges, label=f"chain {k}")
    ax.axhline(chains.shape[1] / bins, color="grey", linewidth=1)
    ax.set(xlabel=f"rank of {scalar}", ylabel="draws")
    ax.legend()
    return ax


def _scalar(model, name):
    scalars = model.scalars()
    if name not in scalars:
        raise ValueError(f"scalar={name!r}: monitored are {', '.join(scalars)}")
    return scalars[name]


def dictionary(model, n=64, ax=None):
    """Atoms of a :class:`npb.BetaProcessDenoiser`, the most used first, each on its own grey scale."""
    atoms = model.dictionary_[np.argsort(-model.usage_, kind="stable")][:n]
    grey = atoms.mean(axis=-1)
    height, width = grey.shape[1:]
    across = int(np.ceil(np.sqrt(len(grey))))
    down = -(-len(grey) // across)
    page = np.ones((down * (height + 1) - 1, across * (width + 1) - 1))
    for k, atom in enumerate(grey):
        low, high = atom.min(), atom.max()
        row, column = (k // across) * (height + 1), (k % across) * (width + 1)
        page[row : row + height, column : column + width] = (atom - low) / (high - low or 1.0)
    ax = _axes(ax)
    ax.imshow(page, cmap="gray", vmin=0.0, vmax=1.0)
    ax.set_axis_off()
    return ax


def recommendations(found, names=None, ax=None):
    """Recommended items with their standard deviations, the best on top.

    Parameters
    ----------
    found : what `recommend` of a recommender or of matrix completion returns
    names : names of all items, by number; numbers by default
    """
    if not found:
        raise ValueError("found: there is nothing recommended")
    item, value = ("item", "probability") if "item" in found[0] else ("column", "mean")
    items = [one[item] for one in found]
    ax = _axes(ax)
    places = range(len(found))
    ax.errorbar([one[value] for one in found], places, xerr=[one["sd"] for one in found], fmt="o", capsize=2)
    ax.set_yticks(places, [str(k if names is None else names[k]) for k in items])
    ax.invert_yaxis()
    ax.set_xlabel({"probability": "probability of a like", "mean": "predicted value"}[value] + " and its standard deviation")
    return ax
