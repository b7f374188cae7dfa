"""A matrix whose entries lie on the workers of a Dask cluster: the bits of one process, also when workers are killed; a fit that is interrupted leaves nothing there."""

import contextlib
import os
import signal
import time

import numpy as np
import pandas
import pytest

from npb import BayesianMatrixCompletion, BetaProcessDenoiser
from npb.distributed import _Parts

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

SETTINGS = dict(candidates=4, max_candidates=4, sweeps={"burn_in": 12, "keep": 6, "thin": 1}, stored_draws=3, n_jobs=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=folder) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def ratings():
    """Stars that users, who have names, gave to films, which have numbers, in no order."""
    rng = np.random.default_rng(4)
    taste = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 40))
    users, films = np.nonzero(rng.random(taste.shape) < 0.3)
    order = rng.permutation(len(users))
    users, films = users[order], films[order]
    stars = np.clip(np.round(3 + taste[users, films] + rng.normal(size=len(users))), 1, 5)
    return pandas.DataFrame({"user": [f"user {user * 7 % 150}" for user in users], "item": films * 11 - 5, "value": stars})


@pytest.fixture(scope="module")
def whole(ratings):
    return model().fit(as_triplets(ratings))


def model(**settings):
    return BayesianMatrixCompletion(**{**SETTINGS, **settings})


def as_triplets(frame):
    return tuple(frame[name].to_numpy() for name in ("user", "item", "value"))


def in_parts(frame, n):
    ends = np.linspace(0, len(frame), n + 1).astype(int)
    return parts_of([frame.iloc[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)])


def parts_of(frames):
    return _Parts([f"part {k}" for k in range(len(frames))], [dask.delayed(frame) for frame in frames], frames[0].iloc[:0], (None,) * (len(frames) + 1))


def fit(model, parts, client, **more):
    from npb._ratings_in_shards import fit

    return fit(model, parts, client, **more)


def assert_same(found, whole):
    assert found._fit.to_bytes() == whole._fit.to_bytes()
    assert (found._rows.names, found._columns.names) == (whole._rows.names, whole._columns.names)


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def nothing_is_left(client):
    wait_until(lambda: not client.run_on_scheduler(lambda dask_scheduler: [key for key in dask_scheduler.tasks]))


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_parts_have_the_bits_of_one_process(client, ratings, whole, n):
    found = fit(model(), in_parts(ratings, n), client, shards=n)
    assert_same(found, whole)
    user, film = ratings.user[0], ratings.item[0]
    np.testing.assert_array_equal(found.predict([user], [film]), whole.predict([user], [film]))
    nothing_is_left(client)


def test_frames_of_dask_and_files(tmp_path, client, ratings, whole):
    dd = pytest.importorskip("dask.dataframe")
    assert_same(fit(model(), _Parts.of(dd.from_pandas(ratings, npartitions=3)), client), whole)
    files = [tmp_path / f"{k}.parquet" for k in range(2)]
    for k, file in enumerate(files):
        ratings.iloc[k::2].assign(time=k).to_parquet(file, row_group_size=400)
    assert_same(fit(model(), _Parts.of(files), client), whole)


def test_the_start_of_the_rank_is_found_over_shards(client, ratings):
    found = fit(model(candidates=3, max_candidates=4), in_parts(ratings, 2), client)
    assert_same(found, model(candidates=3, max_candidates=4).fit(as_triplets(ratings)))


def test_numbers_for_names_other_columns_and_an_empty_part(client, ratings):
    frame = pandas.DataFrame({"stars": ratings.value.astype(int), "film": ratings.item.astype(np.int32), "who": ratings.user.str[5:]})
    parts = parts_of([frame.iloc[:0].astype(object), frame.iloc[:900], frame.iloc[900:]])
    plain = model(chains=2).fit((frame.who.to_numpy(), frame.film.to_numpy(), frame.stars.to_numpy()))
    assert_same(fit(model(chains=2), parts, client, columns=("who", "film", "stars")), plain)


def test_a_worker_is_killed_twice(client, ratings, whole):
    killed = []

    def kill(part, step, share):
        if len(killed) < 2 and share > 0.3 * (len(killed) + 1):
            with contextlib.suppress(Exception):
                pids = client.run(os.getpid)
                address = sorted(pids)[len(killed) % len(pids)]
                os.kill(pids[address], signal.SIGKILL)
                killed.append(address)

    assert_same(fit(model(progress=kill), in_parts(ratings, 3), client), whole)
    assert len(killed) == 2
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("keeps", [False, True])
def test_an_interrupted_fit_leaves_nothing_and_goes_on(tmp_path, client, ratings, whole, keeps):
    def stop(part, step, share):
        if share > 0.5:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "fit" if keeps else None
    with pytest.raises(KeyboardInterrupt):
        fit(model(progress=stop, checkpoint=checkpoint, checkpoint_every=0.0), in_parts(ratings, 2), client)
    nothing_is_left(client)
    assert list(tmp_path.iterdir()) == ([checkpoint] if keeps else [])
    if keeps:
        steps = []
        other = ratings.assign(value=ratings.value.where(np.arange(len(ratings)) != 7, 6 - ratings.value[7] + (ratings.value[7] == 3)))
        with pytest.raises(ValueError, match="checkpoint"):
            fit(model(checkpoint=checkpoint), in_parts(other, 2), client)
        found = fit(model(checkpoint=checkpoint, progress=lambda part, step, share: steps.append(share)), in_parts(ratings, 3), client, shards=3)
        assert_same(found, whole)
        assert min(share for share in steps if share > 0) > 0.5 and not checkpoint.exists()


def test_ctrl_c(client, ratings, ctrl_c):
    # Pressed when it is under way, and long enough for that.
    long = model(sweeps={"burn_in": 2000, "keep": 1, "thin": 1}, progress=ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        fit(long, in_parts(ratings, 2), client)
    nothing_is_left(client)


def test_wrong_input_is_named_by_part(client, ratings):
    def refused(change, match):
        parts = in_parts(ratings, 3)
        parts.frames[1] = dask.delayed(change(ratings.iloc[len(ratings) // 3 : 2 * len(ratings) // 3].copy()))
        with pytest.raises(ValueError, match=match):
            fit(model(), parts, client)

    def infinite(part):
        part.iloc[4, 2] = np.inf
        return part

    refused(infinite, r"part 1: contains infinity or NaN: row 'user .*', column .* is inf")
    refused(lambda part: part.assign(item=part.item.astype(str)), "its names of columns are")
    refused(lambda part: part.assign(user=0.5), "part 1: rows: must be a list of whole numbers")
    refused(lambda part: part.assign(value="many"), "part 1: values: entry 0 is 'many', which is no number")
    refused(lambda part: part.assign(user=[None, *part.user[1:]]), "part 1: column 'user': entry 0 has no name")
    refused(lambda part: part.rename(columns={"item": "film", "user": "who"}).assign(more=1), r"part 1: .*there are \['who', 'film', 'value', 'more'\]")
    refused(lambda part: pandas.concat([part, part.iloc[:1]]), "row 'user .*', column .* is given twice")
    with pytest.raises(ValueError, match="no entry in any part"):
        fit(model(), in_parts(ratings.iloc[:0], 2), client)
    with pytest.raises(ValueError, match="likelihood='binary'"):
        fit(model(likelihood="binary"), in_parts(ratings, 2), client)
    with pytest.raises(TypeError, match="BetaProcessDenoiser"):
        fit(BetaProcessDenoiser(), in_parts(ratings, 2), client)
    nothing_is_left(client)
