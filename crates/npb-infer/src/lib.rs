//! How inference runs: keyed random streams, sweep and VB loops, diagnostics, saved models, checkpoints and test harnesses.
