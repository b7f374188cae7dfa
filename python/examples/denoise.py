"""An image with noise and half of its pixels gone.

Usage: NPB_DATA_DIR=... python denoise.py [FOLDER] (figures are written there)
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib import image as files

from npb import BetaProcessDenoiser, plots

clean = 255 * files.imread(Path(os.environ["NPB_DATA_DIR"]) / "images" / "house256.png")[64:192, 64:192]
rng = np.random.default_rng(0)
noisy = clean + rng.normal(scale=15, size=clean.shape)
noisy[rng.random(clean.shape) < 0.5] = np.nan

model = BetaProcessDenoiser(bounds=(0, 255), sweeps={"burn_in": 40, "keep": 20, "thin": 1})
restored = model.fit_transform(noisy)
psnr = 10 * np.log10(255**2 / np.mean((restored - clean) ** 2))
lower, upper = model.predict_interval(0.9)
print(f"half of the pixels, noise of sd 15: restored to {psnr:.1f} dB; noise estimated as {model.noise_sd_[0]:.1f}; "
      f"{np.mean((lower <= clean) & (clean <= upper)):.1%} of the pixels within their 90% intervals")
if len(sys.argv) > 1:
    out = Path(sys.argv[1])
    shown = np.hstack([np.nan_to_num(noisy), restored, clean])
    files.imsave(out / "denoise.png", np.clip(shown, 0, 255), cmap="gray", vmin=0, vmax=255)
    plots.dictionary(model).figure.savefig(out / "denoise-dictionary.png", dpi=100)
