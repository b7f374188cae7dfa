//! Spiky noise: entries that are far off, and say so (docs/bpfa.md#spikes).

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::ParameterError;
use npb_priors::dist::Beta;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::config::SpikePrior;
use crate::error::expect;
use crate::precision::draw_precision;
use crate::rows::BpfaRows;
use crate::scan;

/// Which sites have a spike. Empty rates: there is no spiky noise in the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spikes {
    /// Sites whose switch is on, ascending.
    pub sites: Vec<u32>,
    /// Share of sites with a spike, of each channel.
    pub rates: Vec<f64>,
    /// g_v.
    pub precision: f64,
}

impl Spikes {
    /// No spike anywhere.
    pub(crate) fn start(prior: SpikePrior, n_channels: usize) -> Self {
        Self {
            sites: Vec::new(),
            rates: vec![prior.a / (prior.a + prior.b); n_channels],
            precision: prior.precision.shape / prior.precision.rate,
        }
    }

    /// Whether spiky noise is part of the model.
    pub fn is_modelled(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Whether each site has a spike; empty without spiky noise.
    pub(crate) fn mask(&self, n_sites: usize) -> Vec<bool> {
        if !self.is_modelled() {
            return Vec::new();
        }
        let mut mask = vec![false; n_sites];
        self.sites.iter().for_each(|&s| mask[s as usize] = true);
        mask
    }

    /// Weight of each entry relative to its noise precision: `g_v / (g + g_v)` where its spike is on (the spike integrated out), else 1. Empty without
    /// spiky noise.
    pub(crate) fn entry_weights(&self, rows: &BpfaRows, column_weights: &[f32]) -> Vec<f32> {
        let mask = self.mask(rows.n_sites());
        if mask.is_empty() {
            return Vec::new();
        }
        let mut weights = vec![1.0; rows.n_entries()];
        for i in 0..rows.n_rows() {
            let columns = rows.columns(i);
            for (e, entry) in rows.range(i).enumerate() {
                if mask[rows.site(entry)] {
                    let g = f64::from(column_weights[scan::place(columns, e)]);
                    weights[entry] = (self.precision / (g + self.precision)) as f32;
                }
            }
        }
        weights
    }

    pub(crate) fn check(&self, n_sites: usize, n_channels: usize) -> Result<(), BpfaError> {
        let open = |&x: &f64| x > 0.0 && x < 1.0;
        let sites = &self.sites;
        expect(
            (self.rates.is_empty() && sites.is_empty())
                || (self.rates.len() == n_channels
                    && self.rates.iter().all(open)
                    && self.precision.is_finite()
                    && self.precision > 0.0
                    && sites.windows(2).all(|w| w[0] < w[1])
                    && sites.last().is_none_or(|&s| (s as usize) < n_sites)),
            "spikes",
        )
    }
}

/// What a draw of the spikes needs to know.
pub(crate) struct SpikeDraw<'a> {
    pub(crate) rows: &'a BpfaRows,
    /// Entry minus D s, of every entry.
    pub(crate) residuals: &'a [f32],
    pub(crate) column_weights: &'a [f32],
    pub(crate) prior: SpikePrior,
}

/// A site: its residual, mean over the rows that see it, because it was measured once.
#[derive(Clone, Copy, Default)]
struct Site {
    residual: f64,
    seen: u32,
    channel: u32,
}

impl SpikeDraw<'_> {
    fn sites(&self) -> Vec<Site> {
        let rows = self.rows;
        let mut sites = vec![Site::default(); rows.n_sites()];
        for i in 0..rows.n_rows() {
            let columns = rows.columns(i);
            for (e, entry) in rows.range(i).enumerate() {
                let site = &mut sites[rows.site(entry)];
                site.residual += f64::from(self.residuals[entry]);
                site.seen += 1;
                site.channel = rows.channels()[scan::place(columns, e)];
            }
        }
        for site in &mut sites {
            site.residual /= f64::from(site.seen.max(1));
        }
        sites
    }

    /// Noise precision of each channel.
    fn channel_precisions(&self) -> Vec<f64> {
        let mut precisions = vec![1.0; self.rows.n_channels()];
        for (&c, &w) in self.rows.channels().iter().zip(self.column_weights) {
            precisions[c as usize] = w.into();
        }
        precisions
    }

    /// Draws the switches with the spikes integrated out, then the shares.
    pub(crate) fn switches<R: Rng + ?Sized>(
        &self,
        spikes: &mut Spikes,
        rng: &mut R,
    ) -> Result<(), ParameterError> {
        let precisions = self.channel_precisions();
        let n_channels = spikes.rates.len();
        let (mut on, mut total) = (vec![0.0; n_channels], vec![0.0; n_channels]);
        spikes.sites.clear();
        for (number, site) in self.sites().iter().enumerate() {
            if site.seen == 0 {
                continue;
            }
            let channel = site.channel as usize;
            let rate = spikes.rates[channel];
            let u: f64 = rng.random();
            let ln_odds = (rate / (1.0 - rate)).ln()
                + ln_spike_odds(precisions[channel], spikes.precision, site.residual);
            total[channel] += 1.0;
            if (u / (1.0 - u)).ln() < ln_odds {
                spikes.sites.push(number as u32);
                on[channel] += 1.0;
            }
        }
        for (channel, rate) in spikes.rates.iter_mut().enumerate() {
            let off = total[channel] - on[channel];
            let law = Beta::new(self.prior.a + on[channel], self.prior.b + off)?;
            // Rates of 0 and 1 would lock the switches.
            *rate = law.sample(rng).clamp(1e-12, 1.0 - 1e-12);
        }
        Ok(())
    }

    /// Draws the spikes, then their precision given them; leaves residuals minus spikes, squared and summed by channel.
    pub(crate) fn precision(
        &self,
        spikes: &mut Spikes,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Vec<f64>, ParameterError> {
        let precisions = self.channel_precisions();
        let g_v = spikes.precision;
        let sites = self.sites();
        let mut values = vec![0.0; sites.len()];
        let mut square = 0.0;
        for &number in &spikes.sites {
            let site = sites[number as usize];
            let g = precisions[site.channel as usize];
            let z: f64 = rng.sample(StandardNormal);
            let v = g * site.residual / (g + g_v) + z / (g + g_v).sqrt();
            square += v * v;
            values[number as usize] = v;
        }
        let n = spikes.sites.len() as f64;
        spikes.precision = draw_precision(self.prior.precision, n, square, rng)?;
        Ok(self.squares(&values))
    }

    /// Residuals minus the spikes of their sites, squared and summed by channel.
    fn squares(&self, values: &[f64]) -> Vec<f64> {
        let rows = self.rows;
        let mut squares = vec![0.0; rows.n_channels()];
        for i in 0..rows.n_rows() {
            let columns = rows.columns(i);
            for (e, entry) in rows.range(i).enumerate() {
                let r = f64::from(self.residuals[entry]) - values[rows.site(entry)];
                squares[rows.channels()[scan::place(columns, e)] as usize] += r * r;
            }
        }
        squares
    }
}

/// ln of N(r; 0, 1/g + 1/g_v) over N(r; 0, 1/g).
pub(crate) fn ln_spike_odds(g: f64, g_v: f64, r: f64) -> f64 {
    0.5 * (g_v / (g_v + g)).ln() + 0.5 * g * r * (g * r) / (g_v + g)
}
