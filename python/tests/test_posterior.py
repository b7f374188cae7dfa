"""Draws for ArviZ, and pictures."""

import numpy as np
import pytest

from npb import BayesianMatrixCompletion, BetaProcessDenoiser, MixedTableModel

SWEEPS = {"burn_in": 50, "keep": 60, "thin": 2}


@pytest.fixture(scope="module")
def completion(low_rank):
    return BayesianMatrixCompletion(sweeps=SWEEPS, chains=2).fit(low_rank[0])


@pytest.fixture(scope="module")
def denoiser():
    rng = np.random.default_rng(0)
    stripes = 100 + 50 * np.sin(np.arange(24)[:, None] / 3 + np.arange(24)[None, :] / 5)
    picture = stripes[:, :, None] + np.array([0.0, 5.0, 10.0]) + 5 * rng.normal(size=(24, 24, 3))
    return BetaProcessDenoiser(patch=(5, 4), atoms=8, sweeps={"burn_in": 5, "keep": 6, "thin": 1}).fit(picture)


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(1)
    a = rng.normal(size=60)
    X = np.column_stack([a, a + 0.1 * rng.normal(size=60), rng.normal(size=60)])
    return MixedTableModel(sweeps={"burn_in": 40, "keep": 20, "thin": 1}, chains=2).fit(X), X


def test_scalars_are_by_chain_and_draw(completion, mixed, denoiser):
    for model, shape in [(completion, (2, 60)), (mixed[0], (2, 20)), (denoiser, (1, 6))]:
        scalars = model.scalars()
        assert scalars and all(values.shape == shape for values in scalars.values())
    for model in (completion, mixed[0]):
        for name, values in model.scalars().items():
            assert values.mean() == pytest.approx(model.diagnostics_[name]["mean"], rel=1e-9, abs=1e-12)


def test_a_datatree_is_read_by_arviz(completion):
    arviz = pytest.importorskip("arviz")
    posterior = completion.to_datatree()["posterior"].to_dataset()
    assert dict(posterior.sizes) == {"chain": 2, "draw": 60}
    rhat = arviz.rhat(posterior, method="rank")
    checked = 0
    for name in posterior.data_vars:
        own = completion.diagnostics_[name]["rhat"]
        if own is not None and np.isfinite(own) and np.ptp(posterior[name].values) > 0:
            # Rank-normalised split R-hat on both sides; ties of whole numbers may be ranked differently.
            assert float(rhat[name]) == pytest.approx(own, abs=0.02), name
            checked += 1
    assert checked > 0


def test_every_picture_is_drawn(completion, mixed, denoiser):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from npb import plots

    model, X = mixed
    scalar = next(iter(model.scalars()))
    assert plots.trace(completion, next(iter(completion.scalars()))).get_lines()[1].get_ydata().shape == (60,)
    assert len(plots.rank(model, scalar).patches) == 2
    image = plots.dependence(model.dependence(X)).images[0].get_array()
    assert image.shape == (3, 3) and image[0, 1] > image[0, 2]
    draws = np.random.default_rng(2).normal(size=500)
    assert plots.imputed_cell(draws).get_lines()[0].get_xdata()[0] == np.quantile(draws, 0.5)
    p = np.random.default_rng(3).random(1000)
    bars = plots.calibration(np.random.default_rng(4).random(1000) < p, p).containers[0]
    np.testing.assert_allclose(bars[0].get_xdata(), bars[0].get_ydata(), atol=0.2)
    assert denoiser.dictionary_.shape[1:] == (5, 4, 3)
    side = int(np.ceil(np.sqrt(len(denoiser.usage_))))
    assert plots.dictionary(denoiser).images[0].get_array().shape[1] == side * 5 - 1
    found = completion.recommend(0, 5)
    assert plots.recommendations(found).get_yticklabels()[0].get_text() == str(found[0]["column"])
    with pytest.raises(ValueError, match="monitored are"):
        plots.trace(completion, "nothing")
    with pytest.raises(ValueError, match="nothing recommended"):
        plots.recommendations([])
