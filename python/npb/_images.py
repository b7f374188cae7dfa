"""Images with noise and holes, and factor analysis of tables (crate npb-bpfa)."""

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from npb import _native
from npb._base import Base, TableBase, check_level, with_running_doc
from npb._frames import is_missing, package, unmasked
from npb._posterior import Sampled

_MODEL_DOC = """
    atoms : int, optional
        Atoms of the dictionary at the start.
    scores, usage, slab : str or dict, optional
        Priors of the scores, of which atoms are used, and of the dictionary.
    noise : dict, optional
        Gamma prior of the noise precision, {"shape": s, "rate": r}.
    spikes : dict, optional
        Prior of large errors in single cells; None for none.
    sweeps : dict, optional
        {"burn_in": b, "keep": k, "thin": t}.
    stored_draws, chains : int, optional"""


# Images are in single precision.
_LARGEST = float(np.finfo(np.float32).max)


@with_running_doc
class BetaProcessDenoiser(Sampled, Base):
    """Removes noise from an image and fills its holes, by a dictionary of patches with a beta-process prior, learned from the image itself.

    `fit` takes no `sample_weight`: patches are of one image, and every known pixel counts once.

    Parameters
    ----------
    Those that are None are chosen to suit the image, as the command `npb denoise` does.

    patch, step : int or (int, int), optional
        Height and width of patches, and how far they are apart.
    bounds : (float, float), optional
        Between which all values are known to lie.
    alpha : bool, optional
        Whether the last channel says how opaque pixels are: those of 0 are holes, and it is given back as it is. None: it does where the image has 2 or 4
        channels of unsigned integers and nearly all of that channel is 0 or the largest value of its type.
    atoms : int, optional
        Atoms of the dictionary at the start.
    sweeps : dict, optional
        {"burn_in": b, "keep": k, "thin": t}.
    chains : int, optional
    {running}

    Attributes
    ----------
    image_, sd_ : arrays of the shape of the image, single precision, in its units
        Posterior mean and standard deviation.
    noise_sd_ : array
        Standard deviation of the noise: one, or one for each channel.
    roles_ : list
        Of each channel "modelled", {"constant": {"value": v}} if it is set aside, or {"copy_of": {"column": k, "factor": f, "offset": o}} if it is
        `o + f` times channel k nearly: then the two are restored as one.
    usage_ : array
        Share of patches that use each atom.
    dictionary_ : array of shape (n_atoms, patch height, patch width, modelled channels), single precision
        Atoms of the last sweep of the first chain; 1 is the range of the observed values.
    """

    _native = _native.Picture
    _inside = (("model",),)
    _own = ("alpha",)

    def __init__(
        self,
        *,
        patch=None,
        step=None,
        bounds=None,
        alpha=None,
        atoms=None,
        sweeps=None,
        chains=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.patch = patch
        self.step = step
        self.bounds = bounds
        self.alpha = alpha
        self.atoms = atoms
        self.sweeps = sweeps
        self.chains = chains
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None):
        """Restores an image of shape (height, width) or (height, width, channels), or one of Pillow; NaN marks missing pixels, alpha 0 too."""
        self._restore(*self._read(X))
        return self

    def inpaint(self, X, mask=None, denoise=False):
        """An image with its holes filled, in the type of X. Known pixels are given back as they are, unless `denoise` says that these are restored, too.

        Parameters
        ----------
        X : image as in :meth:`fit`; NaN and alpha 0 are holes
        mask : array of shape (height, width), or an image of Pillow; what is not 0 is a hole
        """
        image, shape, alpha = self._read(X)
        if mask is not None:
            holes = _plain_image(mask)[0]
            if holes.ndim not in (2, 3):
                raise ValueError(f"mask: must be an array of shape (height, width), found {holes.shape}")
            holes = np.asarray(holes if holes.ndim == 2 else holes.any(axis=2), dtype=bool)
            if holes.shape != shape[:2]:
                raise ValueError(f"mask: has the shape {holes.shape}, the image {shape[:2]}")
            image = np.where(holes if image.ndim == 2 else holes[..., None], np.nan, image.astype(np.float64))
        known = ~np.isnan(image)
        if known.all():
            raise ValueError("the image has no hole: mark missing pixels by NaN, by alpha 0 or in `mask`")
        self._restore(image, shape, alpha)
        kind = _plain_image(X)[0].dtype
        mean = self._fit.mean().reshape(image.shape)
        done = np.where(known, image, mean) if not denoise else mean
        if kind.kind in "iu":
            done = np.clip(np.round(done), np.iinfo(kind).min, np.iinfo(kind).max)
        if alpha is not None:
            # What was transparent is there now.
            opaque = np.where(alpha > 0, alpha, np.iinfo(alpha.dtype).max if alpha.dtype.kind in "iu" else 1)
            done = np.concatenate([done.reshape(*shape[:2], -1), opaque], axis=2)
        return done.astype(kind if kind.kind in "iuf" else np.float64).reshape(shape)

    def _read(self, X):
        """An image with NaN for holes, its shape as it was given, and alpha if it has any."""
        if sparse.issparse(X):
            raise TypeError("Sparse data was passed, but a dense image is required: use X.toarray()")
        X, has_alpha = _plain_image(X)
        if X.dtype == object:
            # None and pd.NA among numbers.
            missing = np.frompyfunc(is_missing, 1, 1)(X).astype(bool)
            try:
                X = np.where(missing, np.nan, X).astype(np.float64)
            except (TypeError, ValueError) as error:
                raise type(error)(f"an image holds numbers: {error}") from None
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: an image holds real numbers")
        if X.ndim not in (2, 3):
            raise ValueError(f"an image has shape (height, width) or (height, width, channels), found {X.shape}")
        if 0 in X.shape:
            what = "sample" if X.shape[0] == 0 else "feature"
            raise ValueError(f"Found an image with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required.")
        if X.dtype.kind not in "buif":
            raise ValueError(f"an image holds numbers, found {X.dtype}")
        if self.alpha is not None and not isinstance(self.alpha, (bool, np.bool_)):
            raise ValueError(f"alpha={self.alpha!r}: must be True, False or None")
        for place in np.argwhere(np.isfinite(X) & (np.abs(X) > _LARGEST))[:1]:
            raise ValueError(f"the pixel at {tuple(place.tolist())} is {X[tuple(place)]}: too large for single precision; rescale the image")
        shape, alpha = X.shape, None
        if has_alpha if has_alpha is not None and self.alpha is None else self._has_alpha(X):
            alpha = X[..., -1:]
            X = np.where(alpha > 0, X[..., :-1].astype(np.float64), np.nan)
        return X, shape, alpha

    def _restore(self, X, shape, alpha):
        channels = 1 if X.ndim == 2 else X.shape[2]
        flat = np.ascontiguousarray(X, dtype=np.float64).reshape(X.shape[0], -1)
        settings = self._settings(self._native.suited_to(flat, channels))
        for name in ("patch", "step"):
            # A number is both height and width.
            value = settings[name]
            settings[name] = [value] * 2 if isinstance(value, int) else value
            if not isinstance(settings[name], (list, tuple)) or [type(size) for size in settings[name]] != [int, int]:
                raise ValueError(f"{name}={value!r}: must be a whole number, or two: height and width")
        fit = self._fit_native(flat, channels, settings=settings)
        self._take(fit, shape, alpha)

    def _has_alpha(self, X):
        if self.alpha and (X.ndim != 3 or X.shape[2] < 2):
            raise ValueError(f"alpha=True: the image needs a last channel of its own for it, found the shape {X.shape}")
        if self.alpha is not None:
            return bool(self.alpha)
        if X.ndim != 3 or X.shape[2] not in (2, 4) or X.dtype.kind != "u":
            return False
        return np.isin(X[..., -1], (0, np.iinfo(X.dtype).max)).mean() > 0.9

    def _trouble(self, fit):
        """Not judged: an image is a mean over few sweeps by design, its chain need not have forgotten its start."""
        return None

    def _take(self, fit, shape=None, alpha=None):
        super()._take(fit)
        mean, sd = fit.mean(), fit.sd()
        self._shape = shape or (mean.shape[:2] if mean.shape[2] == 1 else mean.shape)
        self._alpha = alpha
        self.image_, self.sd_ = self._like_input(mean), self._like_input(sd, 0)
        self.noise_sd_ = np.array(fit.noise_sd())
        self.roles_ = fit.roles()
        self.usage_ = np.array(fit.usage())
        self.dictionary_ = fit.dictionary().reshape(len(self.usage_), *fit.config()["patch"], -1)

    def _found(self):
        size = " x ".join(map(str, self._shape))
        noise = ", ".join(f"{sd:.4g}" for sd in self.noise_sd_)
        return [f"image of {size}, noise of standard deviation {noise}", f"{np.sum(self.usage_ > 0)} of {len(self.usage_)} atoms in use", *super()._found()]

    def _like_input(self, values, opaque=None):
        if self._alpha is not None:
            last = self._alpha if opaque is None else np.full_like(self._alpha, opaque)
            values = np.concatenate([values.reshape(*last.shape[:2], -1), last.astype(values.dtype)], axis=2)
        return values.reshape(self._shape)

    def fit_transform(self, X, y=None):
        """The restored image: posterior means, in the shape and units of X."""
        return self.fit(X).image_

    def predict_interval(self, level=0.9):
        """Central intervals of the noise-free pixels: lower and upper ends, in the shape of the image."""
        check_is_fitted(self)
        check_level(level)
        lower, upper = self._fit.interval(level)
        return self._like_input(lower), self._like_input(upper)


def _plain_image(X):
    """An image as an array, and whether its last channel is alpha; None where that is not known."""
    if package(X) != "PIL":
        return np.asarray(unmasked(X)), None
    # Positions in a palette are no colours.
    if X.mode in ("P", "PA"):
        X = X.convert("RGBA" if X.mode == "PA" or "transparency" in X.info else "RGB")
    return np.asarray(X), X.mode in ("LA", "RGBA")


@with_running_doc
class FactorAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TableBase):
    """Factor analysis of a table with holes, where the beta process finds which factors are used.

    `fit` takes no `sample_weight`: the sampler draws scores of every row, each of which counts once.

    Parameters
    ----------
    Those that are None have the default of the Rust crate: see `default_config()`.

    {model}
    {running}

    Attributes
    ----------
    n_used_ : array
        Factors in use, in each stored draw.
    roles_ : list
        Of each column "modelled", {"constant": {"value": v}} if it is set aside, or {"copy_of": {"column": k, "factor": f, "offset": o}} if it is
        `o + f` times column k nearly: then the two count once.
    n_features_in_, feature_names_in_
    """

    _native = _native.Factors

    def __init__(
        self,
        *,
        atoms=None,
        scores=None,
        usage=None,
        slab=None,
        noise=None,
        spikes=None,
        sweeps=None,
        stored_draws=None,
        chains=None,
        config=None,
        random_state=0,
        n_jobs=None,
        progress=False,
        checkpoint=None,
        checkpoint_every=60.0,
    ):
        self.atoms = atoms
        self.scores = scores
        self.usage = usage
        self.slab = slab
        self.noise = noise
        self.spikes = spikes
        self.sweeps = sweeps
        self.stored_draws = stored_draws
        self.chains = chains
        self.config = config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X, y=None):
        """Fits the model to X, of shape (n, n_features); y is not used."""
        X = self._table(X, reset=True)
        if len(X) == 1:
            raise ValueError("Found array with 1 sample: factors are what rows have in common")
        self._take(self._fit_native(X, self._names()))
        return self

    def _trouble(self, fit):
        return None

    def _take(self, fit):
        super()._take(fit)
        self.n_used_ = np.array(fit.used_atoms())
        self.roles_ = fit.roles()
        self._n_features_out = fit.n_factors()

    def _found(self):
        return [f"{np.mean(self.n_used_):.1f} factors in use (mean of {len(self.n_used_)} draws)"]

    def transform(self, X):
        """Scores of rows on the factors of the last stored draw: array of shape (n, n_factors)."""
        X = self._table(X)
        return self._fit.transform(X, self._names(), self._threads())

    def impute(self, X):
        """X with missing cells replaced by their posterior means: array of shape (n, n_features)."""
        X = self._table(X)
        return self._fit.impute(X, self._names(), self._threads())


FactorAnalysis.__doc__ = FactorAnalysis.__doc__.replace("\n    {model}", _MODEL_DOC)
