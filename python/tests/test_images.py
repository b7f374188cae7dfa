"""Images as people have them: alpha, palettes, depths, masks; smaller than a patch; constant; known pixels kept."""

import numpy as np
import pytest

from npb import BetaProcessDenoiser

QUICK = dict(sweeps={"burn_in": 10, "keep": 10, "thin": 1}, atoms=16)
GREY = np.clip(np.add.outer(np.arange(16) % 8 * 20, np.arange(20) * 5) + np.random.default_rng(0).normal(scale=8, size=(16, 20)), 0, 255)
BYTES = GREY.round().astype(np.uint8)
HOLES = np.add.outer(np.arange(16), 3 * np.arange(20)) % 5 == 0


@pytest.mark.parametrize("kind", ["bytes", "words", "floats", "single", "alpha", "mask", "colour mask"])
def test_known_pixels_are_kept_by_inpainting(kind):
    image, mask = {
        "bytes": (BYTES, HOLES),
        "words": (BYTES.astype(np.uint16) * 257, HOLES),
        "floats": (np.where(HOLES, np.nan, GREY), None),
        "single": (np.where(HOLES, np.nan, GREY / 255).astype(np.float32), None),
        "alpha": (np.dstack([BYTES, np.where(HOLES, 0, 255).astype(np.uint8)]), None),
        "mask": (BYTES, HOLES * 255),
        "colour mask": (BYTES, np.dstack([HOLES * 0, HOLES * 9, HOLES * 0])),
    }[kind]
    model = BetaProcessDenoiser(**QUICK)
    done = model.inpaint(image, mask=mask)
    assert done.dtype == image.dtype and done.shape == image.shape
    first = done[..., 0] if kind == "alpha" else done
    given = image[..., 0] if kind == "alpha" else image
    assert (first == given)[~HOLES].all() and np.isfinite(first.astype(float)).all()
    if kind == "alpha":
        assert (done[..., 1] == 255).all()
    # What is filled in is the restored image; known pixels, too, where that is asked for.
    restored = model.inpaint(image, mask=mask, denoise=True)
    restored = restored[..., 0] if kind == "alpha" else restored
    assert (restored[HOLES] == first[HOLES]).all() and (restored != given)[~HOLES].any()
    with pytest.raises(ValueError, match="has no hole"):
        model.inpaint(BYTES)
    with pytest.raises(ValueError, match=r"mask: has the shape \(3, 3\)"):
        model.inpaint(BYTES, mask=np.eye(3))


def test_pictures_of_pillow_are_their_colours():
    Image = pytest.importorskip("PIL.Image")
    model = BetaProcessDenoiser(**QUICK)
    expected = model.fit(BYTES).image_
    np.testing.assert_array_equal(model.fit(Image.fromarray(BYTES)).image_, expected)
    # A palette in the reverse order: its positions are no greys.
    palette = Image.fromarray(255 - BYTES).convert("P")
    palette.putpalette([255 - v for v in range(256) for _ in range(3)])
    found = model.fit(palette).image_
    np.testing.assert_allclose(found, np.repeat(expected[..., None], 3, axis=2), atol=1e-3)
    alpha = Image.fromarray(np.dstack([BYTES, np.where(HOLES, 0, 90).astype(np.uint8)]), mode="LA")
    done = np.asarray(model.inpaint(alpha))
    assert (done[..., 0] == BYTES)[~HOLES].all() and (done[..., 1] == np.where(HOLES, 255, 90)).all()
    floats = Image.fromarray(GREY.astype(np.float32))
    np.testing.assert_array_equal(model.fit(floats).image_, model.fit(GREY.astype(np.float32)).image_)


def test_images_smaller_than_a_patch_and_constant_ones():
    low = BYTES[:5]
    assert BetaProcessDenoiser(sweeps=QUICK["sweeps"]).fit(low).image_.shape == low.shape
    flat = BetaProcessDenoiser().fit(np.where(HOLES, np.nan, 7.0))
    assert (flat.image_ == 7.0).all() and (flat.sd_ == 0).all()
    assert (BetaProcessDenoiser().inpaint(np.where(HOLES, np.nan, 7.0)) == 7.0).all()
