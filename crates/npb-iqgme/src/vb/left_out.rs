//! The posterior without one row.

use npb_infer::parallel;

use super::{IqgmeVb, VbUpdate, padded};
use crate::e_step::{EStepParameters, RowFactors, Update, e_step};
use crate::rows::Rows;
use crate::state::IqgmeState;
use crate::stats::SufficientStats;
use crate::{IqgmeError, Result};

/// A training row, and what is left of the posterior without it.
pub(crate) struct LeftOut {
    /// Position in the training table.
    pub(crate) table_row: usize,
    /// The row alone, without its label.
    pub(crate) row: Rows,
    /// Components, experts and sticks given the factors of all other rows. Expected utilities and hyperparameters are those of all rows.
    pub(crate) state: IqgmeState,
}

impl IqgmeVb<'_> {
    /// Reads the rows for which `wanted` (table row) holds, each with the posterior that the others leave, by table row.
    ///
    /// A row's part in the statistics is taken out of them; that costs `N P^3` for each row and no further E-step. First brings the factors of the rows in
    /// line with the parameters.
    pub(crate) fn leave_out<T: Send>(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        read: impl Fn(&LeftOut) -> Result<T> + Sync,
    ) -> Result<Vec<(usize, T)>> {
        self.apply(VbUpdate::Labels)?;
        let rows = &self.data.rows;
        let parameters = self.e_step_parameters()?;
        let positions = (0..rows.len()).filter(|&k| wanted(rows.order[k]));
        let positions: Vec<usize> = positions.collect();
        let mut read: Vec<(usize, T)> = parallel::try_map(positions, |position| {
            let left_out = self.without(position, &parameters)?;
            Ok::<_, IqgmeError>((left_out.table_row, read(&left_out)?))
        })?;
        read.sort_by_key(|(row, _)| *row);
        Ok(read)
    }

    fn without(&self, position: usize, parameters: &EStepParameters) -> Result<LeftOut> {
        let rows = &self.data.rows;
        let row = rows.only(position);
        let (k, n) = (rows.n_utilities, self.state.components.len());
        let of_row = |values: &[f64]| values[position * k..][..k].to_vec();
        let factors = RowFactors {
            locations: &mut of_row(&self.rows.locations),
            soft: &mut of_row(&self.rows.soft),
            responsibilities: &mut vec![0.0; n],
        };
        let update = Update {
            responsibilities: true,
            utility_means: false,
            family: self.family,
        };
        let part = e_step(&row, parameters, factors, update, self.iteration)?;
        let mut stats = self.rows.stats.clone();
        for h in 0..n {
            stats.add(h, -1.0, &part, h);
        }
        Ok(LeftOut {
            table_row: rows.order[position],
            row: row.without_labels(),
            state: self.state_given(&stats)?,
        })
    }

    /// Components, experts and sticks given these statistics, the hyperparameters as they are.
    fn state_given(&self, stats: &SufficientStats) -> Result<IqgmeState> {
        let mut state = self.state.clone();
        for (h, component) in state.components.iter_mut().enumerate() {
            *component = self.prior.component.given(stats, h);
        }
        state.experts = self.experts_given(stats)?;
        // Rounding may leave less than nothing of a component that only this row is in.
        let counts: Vec<f64> = stats.counts().iter().map(|n| n.max(0.0)).collect();
        let counts = padded(&counts, self.config.truncation);
        state.sticks.update_sticks(&counts);
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use npb_data::{Labels, Table};
    use npb_linalg::faer::Mat;

    use super::*;
    use crate::vb::tests::converge;
    use crate::{Init, IqgmeConfig, IqgmeData};

    /// Fourteen rows of three features; the fifth has a hole, every third no label.
    fn example() -> (Table, Labels) {
        let value = |i: usize, j: usize| ((7 * i + 3 * j + i * j) % 11) as f64 / 5.0 - 1.0;
        let cells = || (0..14).flat_map(|i| (0..3).map(move |j| (i, j)));
        let values: Vec<f64> = cells().map(|(i, j)| value(i, j)).collect();
        let seen: Vec<bool> = cells().map(|cell| cell != (4, 1)).collect();
        let label = |i: usize| (!i.is_multiple_of(3)).then_some(["a", "b"][i % 2]);
        let labels: Vec<Option<&str>> = (0..14).map(label).collect();
        (
            Table::new(14, 3, values, &seen).unwrap(),
            Labels::from_strings(&labels),
        )
    }

    fn run<T>(table: &Table, labels: &Labels, ask: impl FnOnce(&mut IqgmeVb<'_>) -> T) -> T {
        run_with(1, table, labels, ask)
    }

    fn run_with<T>(
        n_components: usize,
        table: &Table,
        labels: &Labels,
        ask: impl FnOnce(&mut IqgmeVb<'_>) -> T,
    ) -> T {
        let config = IqgmeConfig {
            truncation: n_components,
            ..Default::default()
        };
        let classes: Vec<String> = match labels.counts().iter().sum() {
            0 => Vec::new(),
            _ => ["a", "b"].map(str::to_owned).to_vec(),
        };
        let data =
            IqgmeData::in_given_units(table, labels, &classes, &Mat::identity(3, 3)).unwrap();
        let mut vb = IqgmeVb::new(&data, config, Init::KMeans(n_components), 0).unwrap();
        converge(&mut vb, &IqgmeConfig::default().limits);
        ask(&mut vb)
    }

    /// With one component and holes in that row alone, what is left is the exact posterior given the others.
    #[test]
    fn what_is_left_is_the_posterior_of_the_other_rows() {
        let (table, labels) = example();
        let others: Vec<usize> = (0..14).filter(|&i| i != 4).collect();
        let none = Labels::from_strings(&[None::<&str>; 14]);
        for labels in [&labels, &none] {
            let left = run(&table, labels, |vb| {
                let read = |left_out: &LeftOut| Ok(left_out.state.components[0].clone());
                vb.leave_out(|row| row == 4, read).unwrap().swap_remove(0).1
            });
            let (table, labels) = (table.select_rows(&others), labels.select_rows(&others));
            let wanted = run(&table, &labels, |vb| vb.state().components[0].clone());
            assert!((left.strength - wanted.strength).abs() < 1e-12);
            assert!((left.dof - wanted.dof).abs() < 1e-12);
            for j in 0..3 {
                assert!((left.mean[j] - wanted.mean[j]).abs() < 1e-12);
                for i in 0..3 {
                    let apart = left.scale_inverse[(i, j)] - wanted.scale_inverse[(i, j)];
                    assert!(apart.abs() < 1e-10, "{i}, {j}: {apart}");
                }
            }
        }
    }

    /// Its label is not in the expert either: with the other expected utilities held, the expert is a linear regression on them.
    #[test]
    fn a_label_is_left_out_with_its_row() {
        let (table, labels) = example();
        run(&table, &labels, |vb| {
            let before = vb.state().experts[0].mean.clone();
            let experts = vb
                .leave_out(|_| true, |left_out| Ok(left_out.state.experts[0].clone()))
                .unwrap();
            for (row, expert) in experts {
                let apart = |(a, b): (&f64, &f64)| (a - b).abs();
                let moved = before.iter().zip(&expert.mean).map(apart).sum::<f64>();
                let unlabelled = row % 3 == 0;
                assert_eq!(moved < 1e-4, unlabelled, "row {row}: {moved}");
            }
        });
    }

    /// Nor is the row in the sticks: each has one row less at it or beyond, from the component that the row was in on.
    #[test]
    fn sticks_are_those_of_the_other_rows() {
        let (table, labels) = example();
        run_with(3, &table, &labels, |vb| {
            let sticks = |state: &IqgmeState| state.sticks.sticks().parameters().to_vec();
            // The statistics before any row is taken out, and the sticks that go with them.
            let read = |left_out: &LeftOut| Ok(sticks(&left_out.state));
            let without = vb.leave_out(|_| true, read).unwrap();
            vb.apply(VbUpdate::Sticks).unwrap();
            let with = sticks(vb.state());
            assert_eq!((without.len(), with.len()), (14, 2));
            let mut lost = [[0.0; 2]; 2];
            for (row, without) in &without {
                // Everything that is at the first stick or beyond.
                let all = |sticks: &[[f64; 2]]| sticks[0][0] + sticks[0][1];
                let apart = all(&with) - all(without) - 1.0;
                assert!(apart.abs() < 1e-9, "row {row}: {apart}");
                for (lost, (with, without)) in lost.iter_mut().zip(with.iter().zip(without)) {
                    (0..2).for_each(|side| lost[side] += with[side] - without[side]);
                }
            }
            // Rows at the two sticks, and beyond each.
            let concentration = vb.state().sticks.alpha_mean();
            for (lost, with) in lost.iter().zip(&with) {
                assert!((lost[0] - (with[0] - 1.0)).abs() < 1e-9, "{lost:?}");
                assert!(
                    (lost[1] - (with[1] - concentration)).abs() < 1e-9,
                    "{lost:?}"
                );
            }
        });
    }
}
