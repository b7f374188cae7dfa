use serde::{Deserialize, Serialize};

/// How many sweeps a Gibbs run makes and which draws it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Sweeps before the first that can be kept.
    pub burn_in: u64,
    /// Draws to keep.
    pub keep: u64,
    /// Every `thin`-th sweep after the burn-in is kept; 1 keeps all. Taken as 1 when 0.
    pub thin: u64,
}

impl SweepPlan {
    /// Number of sweeps in all: `burn_in + keep * thin`, or `u64::MAX` where that is too large.
    pub fn total(&self) -> u64 {
        self.keep
            .saturating_mul(self.thin.max(1))
            .saturating_add(self.burn_in)
    }

    /// How many draws of the first `made` sweeps are kept.
    pub fn n_kept(&self, made: u64) -> u64 {
        made.min(self.total()).saturating_sub(self.burn_in) / self.thin.max(1)
    }

    /// How many draws are stored of the first `made` sweeps, when `stored_draws` of the kept ones are.
    pub fn n_stored(&self, made: u64, stored_draws: u64) -> u64 {
        let (kept, stored) = (self.n_kept(made), stored_draws.min(self.keep));
        (u128::from(kept) * u128::from(stored) / u128::from(self.keep.max(1))) as u64
    }

    /// Is the draw after sweep number `sweep` stored, when `stored_draws` of the kept ones are? It is the last of each of so many equal parts, the very last draw
    /// among them; every kept draw when no more are kept than are stored.
    ///
    /// ```
    /// use npb_infer::SweepPlan;
    /// let plan = SweepPlan { burn_in: 100, keep: 10, thin: 2 };      // keeps 102, 104, ..., 120
    /// let stored: Vec<u64> = (1..=120).filter(|&sweep| plan.is_stored(sweep, 4)).collect();
    /// assert_eq!(stored, [106, 110, 116, 120]);                       // of each 2.5 kept ones the last
    /// ```
    pub fn is_stored(&self, sweep: u64, stored_draws: u64) -> bool {
        self.is_kept(sweep)
            && self.n_stored(sweep, stored_draws) > self.n_stored(sweep - 1, stored_draws)
    }

    /// Is the draw after sweep number `sweep` (counted from 1) kept?
    pub fn is_kept(&self, sweep: u64) -> bool {
        sweep > self.burn_in
            && sweep <= self.total()
            && (sweep - self.burn_in).is_multiple_of(self.thin.max(1))
    }
}

/// The sweep that a model is asked to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Its number, from 1; the second word of the key of [`crate::stream`].
    pub number: u64,
    /// Whether the draw it ends with belongs to the posterior sample: then the model adds it to its
    /// averages.
    pub kept: bool,
}

/// Named scalars of one chain, one row per sweep from sweep 1 on, burn-in included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TraceWire")]
pub struct Trace {
    names: Vec<String>,
    n_sweeps: usize,
    values: Vec<f64>,
}

/// A trace as it comes from a file, its lengths not yet checked.
#[derive(Deserialize)]
struct TraceWire {
    names: Vec<String>,
    n_sweeps: usize,
    values: Vec<f64>,
}

impl TryFrom<TraceWire> for Trace {
    type Error = String;

    fn try_from(wire: TraceWire) -> Result<Self, String> {
        let TraceWire {
            names,
            n_sweeps,
            values,
        } = wire;
        if n_sweeps.checked_mul(names.len()) != Some(values.len()) {
            let (n, m) = (names.len(), values.len());
            return Err(format!(
                "trace: {n_sweeps} sweeps of {n} scalars cannot be {m} values"
            ));
        }
        Ok(Self {
            names,
            n_sweeps,
            values,
        })
    }
}

impl Trace {
    /// An empty trace of these scalars.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self {
            names,
            n_sweeps: 0,
            values: Vec::new(),
        }
    }

    /// Names of the scalars.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of sweeps recorded.
    pub fn n_sweeps(&self) -> usize {
        self.n_sweeps
    }

    /// The scalars after sweep `index + 1`.
    ///
    /// # Panics
    /// When `index >= n_sweeps()`.
    pub fn row(&self, index: usize) -> &[f64] {
        assert!(
            index < self.n_sweeps,
            "row {index} of a trace of {} sweeps",
            self.n_sweeps
        );
        &self.values[index * self.names.len()..][..self.names.len()]
    }

    /// Scalar number `scalar` at every sweep.
    ///
    /// # Panics
    /// When `scalar >= names().len()`.
    pub fn column(&self, scalar: usize) -> impl Iterator<Item = f64> + '_ {
        assert!(
            scalar < self.names.len(),
            "scalar {scalar} of a trace of {}",
            self.names.len()
        );
        self.values
            .iter()
            .skip(scalar)
            .step_by(self.names.len())
            .copied()
    }

    /// Scalar number `scalar` at the sweeps that `plan` keeps.
    ///
    /// # Panics
    /// When `scalar >= names().len()`.
    pub fn kept(&self, plan: &SweepPlan, scalar: usize) -> Vec<f64> {
        let numbered = (1..).zip(self.column(scalar));
        numbered
            .filter(|&(sweep, _)| plan.is_kept(sweep))
            .map(|(_, value)| value)
            .collect()
    }

    /// Adds the scalars of the next sweep.
    ///
    /// # Panics
    /// When there are not as many as names.
    pub fn push(&mut self, scalars: &[f64]) {
        assert_eq!(scalars.len(), self.names.len(), "one number for each name");
        self.values.extend_from_slice(scalars);
        self.n_sweeps += 1;
    }
}
