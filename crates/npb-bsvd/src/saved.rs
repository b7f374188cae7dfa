//! Fits in files: [`BsvdFit`] as it is, in the format of `npb_infer::storage`; everything is checked when it comes back.

use npb_infer::Saved;

use crate::fitted::BsvdFit;
use crate::gibbs::BsvdSampler;
use crate::side::Side;
use crate::{BsvdError, Features};

impl Saved for BsvdFit {
    const MODEL: &'static str = "npb-bsvd/fit/2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = BsvdError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(fit: Self) -> Result<Self, BsvdError> {
        fit.check()?;
        Ok(fit)
    }
}

impl BsvdFit {
    /// Checks everything that methods rely on.
    fn check(&self) -> Result<(), BsvdError> {
        let expect = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(BsvdError::State {
                what: format!("{what}: impossible value or size"),
            }),
        };
        self.config.validate()?;
        expect(self.centre.is_finite(), "centre")?;
        expect(self.scale.is_finite() && self.scale > 0.0, "scale")?;
        for side in [Side::Rows, Side::Columns] {
            let n = self.size(side);
            expect(u32::try_from(n).is_ok(), "size of the matrix")?;
            let names = self.names(side);
            expect(names.is_empty() || names.len() == n, "names")?;
            if let Some(features) = side.features(&self.side) {
                check_features(features, n)?;
            }
        }
        let total = |counts: &[u32]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        let entries = total(&self.row_counts);
        expect(entries > 0, "numbers of entries")?;
        expect(total(&self.column_counts) == entries, "numbers of entries")?;
        let n_cols = self.n_cols();
        expect(
            self.entry_columns.len() as u64 == entries,
            "columns of entries",
        )?;
        let mut counts = vec![0_u32; n_cols];
        for own in self.observed() {
            let ascending = own.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = own.last().is_none_or(|&j| (j as usize) < n_cols);
            expect(ascending && inside, "columns of entries")?;
            own.iter().for_each(|&j| counts[j as usize] += 1);
        }
        expect(counts == self.column_counts, "columns of entries")?;
        expect(self.mean_entry.is_finite(), "mean of the entries")?;
        expect(self.exposure.sharpness() <= 8, "sharpness")?;
        self.cells.check(self.n_rows(), self.n_cols())?;
        self.moments.check(&self.cells)?;
        let names = BsvdSampler::scalar_names();
        let scalars = self.traces().all(|trace| trace.names() == names);
        expect(scalars, "scalars of the trace")?;
        let shape = self.shape();
        self.last.check(&shape)?;
        self.draws.iter().try_for_each(|draw| draw.check(&shape))
    }
}

fn check_features(features: &Features, n: usize) -> Result<(), BsvdError> {
    if features.n_rows() == n {
        return Ok(());
    }
    Err(BsvdError::Size {
        what: "rows of features",
        found: features.n_rows(),
        expected: n,
    })
}
