"""What every estimator has: scores, all settings of its Rust configuration, names of columns, a word on weights, a picture for notebooks."""

import inspect

import numpy as np
import pytest
from conftest import QUICK, two_moons
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import cross_val_score
from sklearn.utils import estimator_checks

import npb
from npb import _native

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = {"burn_in": 10, "keep": 10, "thin": 1}
X, Y, FULL = two_moons()
LABELS = (Y == "flat").astype(float)
PARTS = np.arange(len(X)) % 3
COUNTS = np.random.default_rng(0).poisson(1.0, size=(40, 6)).astype(float)
RATINGS = np.where(np.random.default_rng(1).random((20, 12)) < 0.4, np.nan, np.random.default_rng(2).integers(0, 2, (20, 12)).astype(float))
IMAGE = np.random.default_rng(4).random((16, 16))
MIXTURE = dict(unlabelled_starts=[{"k_means": 2}], max_iter=60)

# Of every estimator: short settings and what it is fitted to.
FITS = {
    "IncompleteClassifier": (QUICK, (X, Y)),
    "IncompleteMixture": (MIXTURE, (X,)),
    "IncompleteImputer": (MIXTURE, (X,)),
    "MultiTaskClassifier": (dict(folds=0, starts=[{"separate_per_class": 1}], max_iter=30), (X, Y, PARTS)),
    "GroupedClassifier": ({}, (FULL, Y, PARTS)),
    "MultiLabelLatentFeatures": (dict(max_iter=5), (X, LABELS)),
    "MaxMarginTopics": (dict(topics=2, max_iter=5), (COUNTS, np.arange(40) % 2)),
    "BayesianMatrixCompletion": (dict(sweeps=SHORT, chains=1), (RATINGS,)),
    "HybridRecommender": (dict(like_from=1), (RATINGS,)),
    "MixedTableModel": (dict(sweeps=SHORT, chains=1), (X,)),
    "FactorAnalysis": (dict(atoms=4, sweeps=SHORT, stored_draws=5), (X,)),
    "BetaProcessDenoiser": (dict(sweeps=SHORT, patch=4), (IMAGE,)),
}
# A setting that no parameter has, where the configuration keeps it.
DEEP = {
    "IncompleteClassifier": {"limits": {"max_iterations": 7}},
    "IncompleteMixture": {"limits": {"max_iterations": 7}},
    "IncompleteImputer": {"limits": {"max_iterations": 7}},
    "MultiTaskClassifier": {"single": {"limits": {"max_iterations": 7}}},
    "GroupedClassifier": {"weights": {"limits": {"max_iterations": 7}}},
    "MultiLabelLatentFeatures": {"latent": {"limits": {"max_iterations": 7}}},
    "MaxMarginTopics": {"limits": {"max_iterations": 7}},
    "BayesianMatrixCompletion": {"sweeps": {"burn_in": 7}},
    "HybridRecommender": {"fit": {"weights": {"limits": {"max_iterations": 7}}}},
    "MixedTableModel": {"sweeps": {"burn_in": 7}},
    "FactorAnalysis": {"sweeps": {"burn_in": 7}},
    "BetaProcessDenoiser": {"model": {"sweeps": {"burn_in": 7}}},
}


def fitted(name, **more):
    settings, data = FITS[name]
    return getattr(npb, name)(**{**settings, **more}).fit(*data)


def bare(name, config):
    """A model that is told its settings by `config` alone; short where it can be."""
    return getattr(npb, name)(config=config).fit(*FITS[name][1])


def leaves(config, path=()):
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def at(place, value):
    for key in reversed(place):
        value = {key: value}
    return value


def get(config, place):
    for key in place:
        config = config[key]
    return config


def test_every_estimator_is_here():
    assert sorted(FITS) == sorted(DEEP) == sorted(npb.__all__)


@pytest.mark.parametrize("name", npb.__all__)
def test_config_is_what_the_parameters_say(name):
    model = fitted(name)
    config = model._fit.config()
    assert set(model.default_config()) == set(config)
    # All of it, as the fit has it, and no parameter: the same bits.
    again = bare(name, config)
    own = {key: FITS[name][0][key] for key in ("patch",) if key in FITS[name][0]}
    assert again._fit.to_bytes() == model._fit.to_bytes(), own
    assert clone(again).get_params()["config"] == config


@pytest.mark.parametrize("name", npb.__all__)
def test_a_part_of_config_leaves_the_rest(name):
    settings = {key: value for key, value in FITS[name][0].items() if key not in ("sweeps", "max_iter")}
    model = getattr(npb, name)(**settings)
    defaults = model.set_params(config=DEEP[name])._settings()
    ((place, value),) = leaves(DEEP[name])
    assert get(defaults, place) == value
    plain = getattr(npb, name)(**settings)._settings()
    assert {p: v for p, v in leaves(defaults) if p != place} == {p: v for p, v in leaves(plain) if p != place}


@pytest.mark.parametrize("name", npb.__all__)
def test_config_is_checked_by_rust(name):
    for config, message in (
        ({"sed": 1}, "unknown field `sed`"),
        (at(next(place for place, _ in leaves(DEEP[name]))[:-1], {"max_iteration": 1}), "unknown field `max_iteration`"),
        (at(next(place for place, _ in leaves(DEEP[name])), "many"), "max_iterations|burn_in"),
        (at(next(place for place, _ in leaves(DEEP[name])), -1), "(max_iterations|burn_in): must not be negative"),
        (5, "config=5: must be a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted_without(name, config)


def fitted_without(name, config):
    settings = {key: value for key, value in FITS[name][0].items() if key not in ("sweeps", "max_iter")}
    return getattr(npb, name)(**settings, config=config).fit(*FITS[name][1])


@pytest.mark.parametrize("name", npb.__all__)
def test_truth_values_of_config_are_truth_values(name):
    for place, value in leaves(getattr(npb, name).default_config()):
        if isinstance(value, bool):
            with pytest.raises(ValueError, match=f"{'.'.join(place)}='no': must be True or False"):
                getattr(npb, name)(config=at(place, "no"))._settings()


def test_values_out_of_range_are_named_with_their_rule():
    for model, message in (
        (npb.IncompleteMixture(config={"truncation": 0}), "truncation = 0: must be"),
        (npb.IncompleteMixture(config={"limits": {"tolerance": -1.0}}), "limits.tolerance = -1.0: must be finite"),
        (npb.BayesianMatrixCompletion(config={"chains": 10**9}), "chains = 1000000000: must be between 1 and 4096"),
        (npb.FactorAnalysis(config={"sweeps": {"keep": 0}}), "sweeps.keep = 0: must be"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X)


def test_parameters_win_over_config():
    config = {"truncation": 3, "limits": {"max_iterations": 9, "tolerance": 1e-3}, "seed": 5}
    settings = npb.IncompleteMixture(config=config, truncation=4, max_iter=11)._settings()
    assert (settings["truncation"], settings["limits"]) == (4, {"max_iterations": 11, "tolerance": 1e-3})
    assert settings["seed"] == 5
    assert npb.IncompleteMixture(config=config, random_state=6)._settings()["seed"] == 6
    assert config == {"truncation": 3, "limits": {"max_iterations": 9, "tolerance": 1e-3}, "seed": 5}
    # Two choices of one setting.
    tau = npb.GroupedClassifier(config={"weights": {"tau": {"given": 3.0}}})
    assert tau._settings()["weights"]["tau"] == {"given": 3.0}
    assert tau.set_params(weights={"tau": "inferred"})._settings()["weights"]["tau"] == "inferred"
    labels = npb.MultiLabelLatentFeatures(config={"latent": {"class_costs": "balanced"}})
    assert labels._chosen()["latent"]["class_costs"] == "balanced"
    stars = np.random.default_rng(0).integers(1, 6, size=(20, 10)).astype(float)
    model = npb.BayesianMatrixCompletion(config={"likelihood": "ordinal", "sweeps": SHORT, "chains": 1}).fit(stars)
    assert model._fit.config()["likelihood"] == {"ordinal": {"levels": 5}}


def test_a_file_of_the_command_is_a_config(tmp_path):
    import tomllib

    text = "truncation = 5\nunlabelled_starts = [{ k_means = 2 }]\n[limits]\nmax_iterations = 20\ntolerance = 1e-6\n[concentration]\nshape = 2.0\n"
    model = npb.IncompleteMixture(config=tomllib.loads(text)).fit(X)
    config = model._fit.config()
    assert (config["truncation"], config["limits"]["max_iterations"], config["concentration"]) == (5, 20, {"shape": 2.0, "rate": 0.05})


def test_the_question_of_dependence_has_a_config():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FULL, columns=["a", "b", "c"])
    model = npb.MixedTableModel(sweeps=SHORT, chains=1).fit(frame)
    assert model.default_dependence()["permutations"] == 999
    short = {"permutations": 99, "level": 0.05, "sweeps": {"burn_in": 5, "keep": 5, "thin": 1}}
    found = model.dependence(frame, config=short)
    assert found[0]["least_p_value"] == pytest.approx(0.01)
    assert model.dependence(frame, config={**short, "permutations": 199}, permutations=99) == found
    assert model.dependence(frame, level=0.05, permutations=99, config={"sweeps": short["sweeps"]}) == found
    wide = model.dependence(frame, config={**short, "quantiles": [0.0, 0.5, 1.0]})
    assert all(w["lower"] <= f["lower"] and f["upper"] <= w["upper"] for w, f in zip(wide, found, strict=True) if f["verdict"] != "unexplained")
    for config, message in (({"permutation": 1}, "unknown field `permutation`"), ({"level": 2.0}, "level = 2: must be above 0 and below 1"), (3, "config=3")):
        with pytest.raises(ValueError, match=message):
            model.dependence(frame, config=config)


@pytest.mark.parametrize("name", npb.__all__)
def test_weights_are_taken_or_there_is_a_word_on_them(name):
    cls = getattr(npb, name)
    assert "`sample_weight`" in cls.__doc__
    assert "class_weight" in inspect.signature(cls).parameters or "class" not in cls.__name__.lower() or "`class_weight`" in cls.__doc__
    assert "{" not in cls.__doc__.split("Parameters")[0], "a part that was not filled in"


@pytest.mark.parametrize("name", [name for name in npb.__all__ if hasattr(getattr(npb, name), "predict")])
def test_what_predicts_has_a_score(name):
    settings, data = FITS[name]
    model = fitted(name)
    parts = {"MultiTaskClassifier": "tasks", "GroupedClassifier": "groups"}.get(name)
    more = {} if parts is None else {parts: PARTS}
    score = model.score(*data[:2], **more)
    assert isinstance(score, float) and np.isfinite(score)
    if name in ("IncompleteMixture", "BayesianMatrixCompletion"):
        return
    assert "sample_weight" in inspect.signature(model.score).parameters
    half = np.arange(len(data[1])) % 2
    found = model.predict(data[0], **more)
    assert score == accuracy_score(data[1], found)
    assert model.score(*data[:2], sample_weight=half, **more) == accuracy_score(data[1], found, sample_weight=half)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(*data[:2], sample_weight=half[:-1], **more)


def test_tasks_without_labels_do_not_count():
    model = fitted("MultiTaskClassifier")
    some = Y.astype(object)
    some[::2] = None
    assert model.score(X, some, tasks=PARTS) == np.mean(model.predict(X, PARTS)[1::2] == Y[1::2])


def test_scores_of_matrices(low_rank):
    pandas = pytest.importorskip("pandas")
    holes, full = low_rank
    settings = dict(sweeps={"burn_in": 60, "keep": 60, "thin": 1}, chains=1)
    model = npb.BayesianMatrixCompletion(**settings).fit(holes)
    hidden = np.where(np.isnan(holes), full, np.nan)
    rows, columns = np.nonzero(~np.isnan(hidden))
    expected = r2_score(hidden[rows, columns], model.predict(rows, columns))
    assert 0.7 < expected == model.score(hidden) == model.score((rows, columns, hidden[rows, columns]))
    with pytest.raises(ValueError, match="X has 24 features, but BayesianMatrixCompletion is expecting 25 features as input"):
        model.score(hidden[:, 1:])
    names = [f"i{k}" for k in range(25)]
    frame = pandas.DataFrame(holes, columns=names)
    named = npb.BayesianMatrixCompletion(**settings).fit(frame)
    assert named.feature_names_in_.tolist() == names and named.n_features_in_ == 25
    # By name: whatever the order.
    assert named.score(pandas.DataFrame(hidden, columns=names)[names[::-1]]) == pytest.approx(expected)
    with pytest.warns(UserWarning, match="columns: there is no 'zz'"):
        assert named.score(pandas.DataFrame(hidden, columns=names).assign(zz=1.0)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no entry of X is of a row and a column of the fit"), pytest.warns(UserWarning, match="there is no"):
        named.score(pandas.DataFrame({"zz": [1.0, 2.0]}))
    assert not hasattr(model, "feature_names_in_") and not hasattr(named.fit(holes), "feature_names_in_")
    cells = np.column_stack([rows, columns])
    assert len(cells) and np.isfinite(cross_val_score(npb.BayesianMatrixCompletion(**settings), holes, cv=2)).all()


def test_the_score_of_a_table_is_its_density():
    model = fitted("MixedTableModel")
    assert model.score(X) == np.mean(model.score_samples(X))


TABLES = ("IncompleteClassifier", "IncompleteMixture", "IncompleteImputer", "MultiTaskClassifier", "GroupedClassifier", "FactorAnalysis", "MixedTableModel")


@pytest.mark.parametrize("name", TABLES)
def test_names_of_columns_are_checked_in_scikit_learns_words(name):
    pytest.importorskip("pandas")
    estimator_checks.check_dataframe_column_names_consistency(name, getattr(npb, name)(**FITS[name][0]))


@pytest.mark.parametrize("name", [*TABLES, "MultiLabelLatentFeatures", "MaxMarginTopics"])
def test_names_against_none(name):
    pandas = pytest.importorskip("pandas")
    settings, (table, *rest) = FITS[name]
    names = [f"f{j}" for j in range(table.shape[1])]
    frame = pandas.DataFrame(table, columns=names)
    ask = next(ask for ask in ("predict", "transform", "score_samples") if hasattr(getattr(npb, name), ask))
    more = rest[1:]
    of_frame, of_array = (getattr(npb, name)(**settings).fit(one, *rest) for one in (frame, table))
    assert of_frame.feature_names_in_.tolist() == names and not hasattr(of_array, "feature_names_in_")
    assert of_frame.n_features_in_ == of_array.n_features_in_ == table.shape[1]
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {name} was fitted with feature names"):
        of_array_asked = getattr(of_frame, ask)(table, *more)
    with pytest.warns(UserWarning, match=f"X has feature names, but {name} was fitted without feature names"):
        of_frame_asked = getattr(of_array, ask)(frame, *more)
    np.testing.assert_array_equal(of_array_asked, of_frame_asked)
    # Fitted again to an array it has no names any more.
    assert not hasattr(of_frame.fit(table, *rest), "feature_names_in_")


@pytest.mark.parametrize("name", ["IncompleteImputer", "FactorAnalysis", "MaxMarginTopics"])
def test_transformers_name_what_they_give(name):
    pandas = pytest.importorskip("pandas")
    model = getattr(npb, name)(**FITS[name][0])
    estimator_checks.check_transformer_get_feature_names_out(name, model)
    estimator_checks.check_transformer_get_feature_names_out_pandas(name, model)
    for check in ("check_set_output_transform", "check_set_output_transform_pandas", "check_global_output_transform_pandas", "check_set_output_transform_polars"):
        getattr(estimator_checks, check)(name, model)
    model.set_output(transform="pandas").fit(*FITS[name][1])
    found = model.transform(FITS[name][1][0])
    assert isinstance(found, pandas.DataFrame) and list(found) == model.get_feature_names_out().tolist()


FOUND = {
    "IncompleteClassifier": ["classes flat, tall", "clusters in 3 columns", "iterations"],
    "IncompleteMixture": ["clusters in 3 columns", "iterations"],
    "IncompleteImputer": ["clusters in 3 columns", "iterations"],
    "MultiTaskClassifier": ["classes flat, tall", "3 tasks", "iterations"],
    "GroupedClassifier": ["3 groups", "iterations"],
    "MultiLabelLatentFeatures": ["1 label,", "latent features in use", "iterations"],
    "MaxMarginTopics": ["2 topics of 6 words, 2 classes", "iterations"],
    "BayesianMatrixCompletion": ["20 x 12 matrix", "most probable", "1 chain of 10 draws"],
    "HybridRecommender": ["20 users, 12 items"],
    "MixedTableModel": ["120 rows, 3 columns", "1 chain of 10 draws"],
    "FactorAnalysis": ["factors in use (mean of 5 draws)"],
    "BetaProcessDenoiser": ["image of 16 x 16", "atoms in use"],
}


@pytest.mark.parametrize("name", npb.__all__)
def test_notebooks_see_what_was_found(name, tmp_path):
    model = fitted(name)
    fresh = clone(model)
    assert fresh._repr_html_().count("<li>") == 0
    html = model._repr_html_()
    lines = [line.split("</li>")[0] for line in html.split("<li>")[1:]]
    assert 1 <= len(lines) <= 6
    for part in FOUND[name]:
        assert any(part in line for line in lines), (part, lines)
    assert model._repr_mimebundle_()["text/html"].endswith(html[html.rindex("<ul>") :])
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_") and "text/html" not in model._repr_mimebundle_()
    # So does who loads it.
    model.save(tmp_path / "m")
    assert "<li>" in type(model).load(tmp_path / "m")._repr_html_()


def test_warnings_are_found_and_nothing_is_taken_for_markup():
    model = npb.IncompleteClassifier(**{**QUICK, "max_iter": 2}).fit(X, np.where(Y == "flat", "<b>", "tall"))
    html = model._repr_html_()
    assert "stopped after 2 iterations" in html and "Warning: the bound was still rising" in html
    assert "<li>classes &lt;b&gt;, tall</li>" in html


def test_the_native_module_says_what_it_has():
    assert _native.Itf.dependence_defaults() == npb.MixedTableModel.default_dependence()
