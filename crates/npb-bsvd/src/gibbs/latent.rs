//! Moves of what lies behind a link: latent values, thresholds and their unit. Equations: `docs/bsvd.md#probit`, `docs/bsvd.md#thresholds-and-their-scale`.

use super::{BsvdSampler, LATENTS, THRESHOLDS, UNIT};
use crate::{BsvdError, latent_scale, probit};

/// Share of accepted moves of thresholds that the adaptation aims at.
const ACCEPTANCE: f64 = 0.3;
impl BsvdSampler<'_> {
    /// Latent entries given their noise-free values (`docs/bsvd.md#probit`).
    pub(super) fn latents(&mut self) -> Result<(), BsvdError> {
        if !self.config.likelihood.is_probit() {
            return Ok(());
        }
        self.linear()?;
        let key = (self.config.seed, [self.config.chain, self.sweep, LATENTS]);
        let memory = &mut self.memory;
        memory.residuals = None;
        memory.latents.draw(
            self.data,
            &self.state.thresholds,
            (&memory.linear, &memory.noise_sds),
            key,
        );
        Ok(())
    }

    /// Thresholds given noise-free values; then the unit of both, where noise weights leave one open (`docs/bsvd.md#thresholds-and-their-scale`).
    pub(super) fn thresholds(&mut self) -> Result<(), BsvdError> {
        if self.state.thresholds.len() < 2 {
            return Ok(());
        }
        self.move_thresholds()?;
        if self.config.own_noise() != (false, false) {
            let mut rng = self.rng(UNIT, 0);
            latent_scale::draw(&mut self.state, &self.config, &mut rng);
        }
        Ok(())
    }

    /// One Metropolis step for all free thresholds together; the size of the step is adapted in the second half of the burn-in, in whose first half they climb
    /// (`docs/bsvd.md#thresholds-and-their-scale`).
    pub(super) fn move_thresholds(&mut self) -> Result<(), BsvdError> {
        self.linear()?;
        let burn_in = self.config.sweeps.burn_in;
        if self.sweep <= burn_in / 2 {
            probit::climb_thresholds(
                self.data,
                (&self.memory.linear, &self.memory.noise_sds),
                self.config.threshold_precision,
                &mut self.state.thresholds,
            );
            return Ok(());
        }
        let mut rng = self.rng(THRESHOLDS, 0);
        let accepted = probit::move_thresholds(
            &mut self.state.thresholds,
            self.state.threshold_step,
            self.config.threshold_precision,
            |thresholds| {
                let cells = (&self.memory.linear[..], &self.memory.noise_sds[..]);
                probit::ln_likelihood(self.data, cells, thresholds)
            },
            &mut rng,
        );
        if self.sweep <= burn_in {
            let gain = ((self.sweep - burn_in / 2) as f64).powf(-0.6);
            let step = self.state.threshold_step * (gain * (accepted - ACCEPTANCE)).exp();
            self.state.threshold_step = step.clamp(1e-6, 10.0);
        }
        Ok(())
    }
}
