"""Draws of samplers, for diagnostics and for ArviZ."""

import numpy as np
from sklearn.utils.validation import check_is_fitted


class Sampled:
    """An estimator whose fit holds the kept draws of monitored scalars. They do not depend on how clusters or factors are numbered."""

    def _trouble(self, fit):
        unmet = fit.unmet()
        if not unmet:
            return None
        more = "" if len(unmet) == 1 else f", and {len(unmet) - 1} more scalars"
        return f"the chains have not met ({unmet[0]}{more}); raise burn_in and thin of `sweeps`, or look at plots.trace"

    def _found(self):
        chains, draws = np.shape(next(iter(self.scalars().values())))
        lines = [f"{chains} {'chain' if chains == 1 else 'chains'} of {draws} draws"]
        rhat = [found["rhat"] for found in getattr(self, "diagnostics_", {}).values() if found["rhat"] is not None]
        return [*lines, f"largest R-hat {np.nanmax(rhat):.3f}"] if np.isfinite(rhat).any() else lines

    def scalars(self):
        """Kept draws of the monitored scalars: dict of name to array of shape (n_chains, n_draws)."""
        check_is_fitted(self)
        return self._fit.scalars()

    def to_datatree(self):
        """The same as an xarray `DataTree` with the group `posterior`, of dimensions `chain` and `draw`, which ArviZ summarises and plots. Needs xarray."""
        try:
            import xarray
        except ImportError:
            raise ImportError("to_datatree needs the package xarray, which comes with ArviZ") from None
        draws = {name: (("chain", "draw"), values) for name, values in self.scalars().items()}
        posterior = xarray.Dataset(draws)
        posterior = posterior.assign_coords({name: range(size) for name, size in posterior.sizes.items()})
        return xarray.DataTree.from_dict({"posterior": posterior})
