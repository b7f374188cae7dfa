//! What one thread of work has: scratch memory, the sums, and the expected utilities of the rows that it has weighed.

use npb_linalg::lanes::LaneScratch;
use npb_linalg::mixture::{Block, Columns, Deviations, LnTotal, Memory, Sums};
use npb_priors::special::vector::soft_label;
use pulp::Arch;

use super::sides::{EStepParameters, RowFactors, Update};
use crate::rows::Rows;
use crate::stats::{RowTerms, SufficientStats};
use npb_priors::dist::multinomial_probit;

/// Sums over some of the rows.
#[derive(Default)]
pub(super) struct Totals {
    /// None while there are no such rows.
    pub(super) labelled: Option<Sums>,
    pub(super) unlabelled: Option<Sums>,
    pub(super) terms: RowTerms,
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        merge(&mut self.labelled, other.labelled);
        merge(&mut self.unlabelled, other.unlabelled);
        self.terms.add(1.0, &other.terms);
    }

    pub(super) fn sums(&mut self, labelled: bool, parameters: &EStepParameters) -> &mut Sums {
        let (sums, n_utilities) = match labelled {
            true => (&mut self.labelled, parameters.n_utilities),
            false => (&mut self.unlabelled, 0),
        };
        let (p, n) = parameters.means.shape();
        sums.get_or_insert_with(|| Sums::new(p, n, n_utilities))
    }

    /// Completes the sums, when all rows are in.
    pub(super) fn finalise(&mut self, parameters: &EStepParameters) {
        for (sums, side) in [
            (&mut self.labelled, &parameters.labelled),
            (&mut self.unlabelled, &parameters.unlabelled),
        ] {
            if let (Some(sums), Some(side)) = (sums, &side.incomplete) {
                sums.finalise(&side.quadratics);
            }
        }
    }

    pub(super) fn stats(self, rows: &Rows, n_components: usize) -> SufficientStats {
        let none = |n_utilities| Sums::new(rows.n_features, n_components, n_utilities);
        let labelled = self.labelled.unwrap_or_else(|| none(rows.n_utilities));
        let unlabelled = self.unlabelled.unwrap_or_else(|| none(0));
        SufficientStats {
            labelled: labelled.moments(),
            unlabelled: unlabelled.moments(),
            soft: labelled.soft(),
            rows: self.terms,
        }
    }
}

fn merge(sums: &mut Option<Sums>, other: Option<Sums>) {
    match (sums.as_mut(), other) {
        (Some(sums), Some(other)) => sums.merge(other),
        (None, other) => *sums = other,
        (Some(_), None) => {}
    }
}

/// Memory of one thread of work. Tables are of one block: component, row.
#[derive(Default)]
pub(super) struct CompleteScratch {
    pub(super) columns: Columns,
    /// `<t>`: utility, row.
    pub(super) soft: Memory,
    /// `ln rho` up to a constant of the row, and `rho`.
    pub(super) ln_rho: Memory,
    pub(super) rho: Memory,
    /// The slopes `<c> + <w_x>'d`: component, utility, row.
    pub(super) slopes: Memory,
    /// The constant of each row, in two parts, and a number for each row.
    pub(super) top: Memory,
    pub(super) rest: Memory,
    pub(super) out: Memory,
}

/// Memory of one thread of work. Tables are of one block's rows: row, lane.
#[derive(Default)]
pub(super) struct IncompleteScratch {
    pub(super) deviations: Deviations,
    pub(super) lanes: LaneScratch,
    /// `ln rho` up to a constant of the row, that constant, and `rho`.
    pub(super) ln_rho: Vec<f64>,
    pub(super) ln_total: Vec<LnTotal>,
    pub(super) rho: Vec<f64>,
    /// A number for each row.
    pub(super) averages: Vec<f64>,
    /// Responsibilities of a group, by lane.
    pub(super) group_weight: Vec<f64>,
}

/// Memory of one thread of work. Lanes innermost.
#[derive(Default)]
pub(super) struct JointScratch {
    /// `a_m` and `u = L_mm^-1 a_m` of a pattern: missing feature, lane.
    pub(super) slope: Vec<f64>,
    pub(super) tilt: Vec<f64>,
    /// `v = a_m' u`, `1 / sqrt(1 - v)` and `ln(1 - v) / 2`, by lane.
    pub(super) share: Vec<f64>,
    pub(super) scale: Vec<f64>,
    pub(super) half_ln: Vec<f64>,
    /// `<t>` given the component, of every row of a block.
    pub(super) soft: Vec<f64>,
    /// `Var t` of a row, and `sum rho Var t` of a group.
    pub(super) variance: Vec<f64>,
    pub(super) spread: Vec<f64>,
    /// What a row adds to the bound, and its absolute value.
    pub(super) local: Vec<f64>,
    pub(super) magnitude: Vec<f64>,
}

/// Memory of one thread of work.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) complete: CompleteScratch,
    pub(super) incomplete: IncompleteScratch,
    pub(super) joint: JointScratch,
    /// Terms of the bound, by row.
    pub(super) local: Vec<f64>,
    pub(super) magnitude: Vec<f64>,
}

/// Adds rows to the totals, block by block: [`complete`] and [`incomplete`] have one kind each.
pub(super) struct Worker<'a> {
    pub(super) rows: &'a Rows,
    pub(super) parameters: &'a EStepParameters,
    pub(super) update: Update,
    pub(super) iteration: u64,
    pub(super) totals: Totals,
    pub(super) scratch: &'a mut Scratch,
}

impl Worker<'_> {
    pub(super) fn add_entropy(&mut self, entropy: f64) {
        self.totals.terms.label_entropy += entropy;
        self.totals.terms.magnitude += entropy.abs();
    }

    /// `<t>` of labelled rows and their terms of the bound, from the locations.
    pub(super) fn update_expected_utilities(
        &mut self,
        block: &Block,
        factors: &mut RowFactors<'_>,
    ) {
        match self.rows.n_utilities {
            1 => self.update_one_utility(block, factors),
            _ => self.update_utilities(block, factors),
        }
    }

    fn update_utilities(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        let n_utilities = self.rows.n_utilities;
        let locations = factors.locations.chunks_exact(n_utilities);
        let each = locations.zip(factors.soft.chunks_exact_mut(n_utilities));
        let classes = &self.rows.classes[block.rows.clone()];
        for ((locations, soft), class) in each.zip(classes) {
            let class = class.expect("the rows of a labelled block have labels");
            let ln_mass = multinomial_probit::moments(class, locations, soft);
            let terms = locations.iter().zip(soft.iter());
            let local = terms.clone().map(|(mu, t)| mu * (0.5 * mu - t));
            let size = terms.map(|(mu, t)| (t * mu).abs() + 0.5 * mu * mu);
            self.totals.terms.soft_local += ln_mass + local.sum::<f64>();
            self.totals.terms.magnitude += ln_mass.abs() + size.sum::<f64>();
        }
    }

    /// As [`Self::update_utilities`], rows side by side.
    fn update_one_utility(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        let n = block.rows.len();
        let (local, magnitude) = (&mut self.scratch.local, &mut self.scratch.magnitude);
        local.resize(n, 0.0);
        magnitude.resize(n, 0.0);
        let signs = &self.rows.signs[block.rows.clone()];
        let locations = factors.locations.iter().zip(signs);
        let terms = local.iter_mut().zip(magnitude.iter_mut());
        let each = locations.zip(factors.soft.iter_mut()).zip(terms);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (((location, sign), soft), (local, magnitude)) in each {
                    let label = soft_label(sign * location);
                    *soft = sign * label.mean;
                    *local = label.local;
                    *magnitude =
                        label.ln_mass.abs() + (*soft * location).abs() + 0.5 * location * location;
                }
            },
        );
        self.totals.terms.soft_local += local.iter().sum::<f64>();
        self.totals.terms.magnitude += magnitude.iter().sum::<f64>();
    }
}
