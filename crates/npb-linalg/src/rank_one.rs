//! Rank-one changes of a Cholesky factor.

use crate::cholesky::{Cholesky, NotPositiveDefinite};

impl Cholesky {
    /// Turns the factor of A into the factor of A + x xᵀ. Cost: 2 n². `x` is used as working memory.
    ///
    /// Source: Givens rotations of the columns of [L x].
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] with the position and the value of an element of `x` that is NaN or infinite; the factor is
    /// then unchanged.
    ///
    /// # Panics
    /// If `x.len() != self.dim()`.
    ///
    /// ```
    /// use npb_linalg::{Cholesky, faer::mat};
    ///
    /// let mut factor = Cholesky::new(mat![[4.0, 2.0], [2.0, 5.0]].as_ref())?;
    /// factor.update(&mut [1.0, 1.0])?;
    /// assert!((factor.ln_det() - (5f64 * 6.0 - 9.0).ln()).abs() < 1e-14);
    /// factor.downdate(&mut [1.0, 1.0])?;
    /// assert!((factor.ln_det() - 16f64.ln()).abs() < 1e-14);
    /// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
    /// ```
    pub fn update(&mut self, x: &mut [f64]) -> Result<(), NotPositiveDefinite> {
        self.check_len(x);
        if let Some(pivot) = x.iter().position(|value| !value.is_finite()) {
            return Err(NotPositiveDefinite {
                pivot,
                value: x[pivot],
            });
        }
        for (j, column) in self.columns_mut().enumerate() {
            let length = column[0].hypot(x[j]);
            let (c, s) = (column[0] / length, x[j] / length);
            column[0] = length;
            for (l, x) in column[1..].iter_mut().zip(&mut x[j + 1..]) {
                (*l, *x) = (c * *l + s * *x, c * *x - s * *l);
            }
        }
        Ok(())
    }

    /// Turns the factor of A into the factor of A - x xᵀ. Cost: 5 n²/2. `x` is used as working memory.
    ///
    /// Source: A - x xᵀ is positive definite if and only if p = L⁻¹ x is shorter than 1; Givens rotations that carry
    /// [p; √(1 - pᵀp)] to the last unit vector carry [Lᵀ; 0] to the new factor (the LINPACK method).
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] when A - x xᵀ is not positive definite to working precision: the first row where
    /// 1 - p₁² - … - pᵢ² is not positive, and that number. The factor is then unchanged.
    ///
    /// # Panics
    /// If `x.len() != self.dim()`.
    pub fn downdate(&mut self, x: &mut [f64]) -> Result<(), NotPositiveDefinite> {
        self.solve_l(x);
        let mut rest = 1.0;
        for (pivot, p) in x.iter().enumerate() {
            rest -= p * p;
            // NaN is not positive.
            let positive = rest > 0.0;
            if !positive {
                return Err(NotPositiveDefinite { pivot, value: rest });
            }
        }
        let mut last = rest.sqrt();
        for (j, column) in self.columns_mut().enumerate().rev() {
            let length = last.hypot(x[j]);
            let (c, s) = (last / length, x[j] / length);
            last = length;
            // From here on x[j..] holds the row that the rotations fill in.
            x[j] = 0.0;
            for (l, x) in column.iter_mut().zip(&mut x[j..]) {
                (*l, *x) = (c * *l - s * *x, c * *x + s * *l);
            }
        }
        Ok(())
    }
}
