//! The training rows in the order the pass over them wants: labelled rows first, rows with one missing pattern together.

use std::ops::Range;

use npb_data::Table;

/// The observed and missing features of a group of rows, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) observed: Vec<usize>,
    pub(crate) missing: Vec<usize>,
}

/// Consecutive sorted rows with one pattern, all labelled or all not, within one block.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) pattern: usize,
    pub(crate) rows: Range<usize>,
}

/// Consecutive groups whose rows are multiplied with the components' precisions in one product.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) groups: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) labelled: bool,
    /// No row has a missing feature, or each has one.
    pub(crate) complete: bool,
    /// Rows like these see so few features, and are so many, that sums of covariances of missing features are best completed after the last row.
    pub(crate) reduced: bool,
}

/// Rows in a block: enough to make the products efficient, few enough for the second-level cache.
const BLOCK_ROWS: usize = 64;

/// Values further out than this many standard deviations are moved here, so that their squares are finite.
const FARTHEST: f64 = 1e100;

/// Standardised rows sorted for the pass; `order[k]` is the table row at sorted position `k`.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) n_features: usize,
    /// Row-major, zero where missing.
    pub(crate) values: Vec<f64>,
    pub(crate) order: Vec<usize>,
    /// +1 (any class but the first), -1, or 0 for an unlabelled row, by sorted position.
    pub(crate) signs: Vec<f64>,
    /// The class of each labelled row, by sorted position.
    pub(crate) classes: Vec<Option<usize>>,
    /// Number of classes less one; 0 without labels.
    pub(crate) n_utilities: usize,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) groups: Vec<Group>,
    pub(crate) blocks: Vec<Block>,
}

impl Rows {
    /// `signs` by table row: +1, -1 or 0 (unlabelled). The table is already standardised.
    pub(crate) fn new(table: &Table, signs: &[f64]) -> Self {
        let class = |sign: &f64| (*sign != 0.0).then_some(usize::from(*sign > 0.0));
        let classes: Vec<Option<usize>> = signs.iter().map(class).collect();
        let labelled = classes.iter().any(Option::is_some);
        Self::with_classes(table, &classes, usize::from(labelled))
    }

    /// `classes` by table row, one more of them than `n_utilities`. The table is already standardised.
    pub(crate) fn with_classes(
        table: &Table,
        classes: &[Option<usize>],
        n_utilities: usize,
    ) -> Self {
        let n_features = table.n_cols();
        let index = table.patterns();
        let patterns: Vec<Pattern> = index
            .iter()
            .map(|p| Pattern {
                observed: p.observed.clone(),
                missing: p.missing.clone(),
            })
            .collect();
        let mut rows = Self {
            n_features,
            values: Vec::with_capacity(table.n_rows() * n_features),
            order: Vec::with_capacity(table.n_rows()),
            signs: Vec::with_capacity(table.n_rows()),
            classes: Vec::with_capacity(table.n_rows()),
            n_utilities,
            patterns,
            groups: Vec::new(),
            blocks: Vec::new(),
        };
        for labelled in [true, false] {
            let first_group = rows.groups.len();
            for (k, pattern) in index.iter().enumerate() {
                let members: Vec<usize> = pattern
                    .rows
                    .iter()
                    .copied()
                    .filter(|&row| classes[row].is_some() == labelled)
                    .collect();
                rows.push_group(table, classes, k, &members);
            }
            rows.cut_blocks(first_group, labelled);
        }
        rows
    }

    /// No rows, of so many features.
    pub(crate) fn of_features(n_features: usize) -> Self {
        Self {
            n_features,
            values: Vec::new(),
            order: Vec::new(),
            signs: Vec::new(),
            classes: Vec::new(),
            n_utilities: 0,
            patterns: Vec::new(),
            groups: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// The row at this position alone.
    pub(crate) fn only(&self, position: usize) -> Self {
        let holds = |group: &&Group| group.rows.contains(&position);
        let group = self.groups.iter().find(holds);
        let pattern = &self.patterns[group.expect("groups hold all rows").pattern];
        Self {
            n_features: self.n_features,
            values: self.row(position).to_vec(),
            order: vec![0],
            signs: vec![self.signs[position]],
            classes: vec![self.classes[position]],
            n_utilities: self.n_utilities,
            patterns: vec![pattern.clone()],
            groups: vec![Group {
                pattern: 0,
                rows: 0..1,
            }],
            blocks: vec![Block {
                groups: 0..1,
                rows: 0..1,
                labelled: self.classes[position].is_some(),
                complete: pattern.missing.is_empty(),
                reduced: false,
            }],
        }
    }

    /// The same rows at the same positions, without labels.
    pub(crate) fn without_labels(&self) -> Self {
        let mut rows = self.clone();
        rows.signs.fill(0.0);
        rows.classes.fill(None);
        rows.n_utilities = 0;
        rows.blocks
            .iter_mut()
            .for_each(|block| block.labelled = false);
        rows
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn row(&self, position: usize) -> &[f64] {
        &self.values[position * self.n_features..(position + 1) * self.n_features]
    }

    /// The features of the rows of a block, row-major.
    pub(crate) fn block(&self, block: &Block) -> &[f64] {
        &self.values[block.rows.start * self.n_features..block.rows.end * self.n_features]
    }

    /// Some row is labelled, or not, and complete, or not, as asked.
    pub(crate) fn any(&self, labelled: bool, complete: bool) -> bool {
        let found = |block: &Block| block.labelled == labelled && block.complete == complete;
        self.blocks.iter().any(found)
    }

    /// Some row has a missing feature.
    pub(crate) fn any_missing(&self) -> bool {
        self.blocks.iter().any(|block| !block.complete)
    }

    fn push_group(
        &mut self,
        table: &Table,
        classes: &[Option<usize>],
        pattern: usize,
        members: &[usize],
    ) {
        let start = self.order.len();
        for &row in members {
            self.values
                .extend(table.row(row).iter().map(|x| x.clamp(-FARTHEST, FARTHEST)));
            self.order.push(row);
            let sign = |class| if class > 0 { 1.0 } else { -1.0 };
            self.signs.push(classes[row].map_or(0.0, sign));
            self.classes.push(classes[row]);
        }
        let end = self.order.len();
        // A group never crosses a block boundary, so large groups are cut here.
        let mut from = start;
        while from < end {
            let to = end.min(from + BLOCK_ROWS);
            self.groups.push(Group {
                pattern,
                rows: from..to,
            });
            from = to;
        }
    }

    /// Whether one product of all P x P entries costs less than those of the missing with the observed ones, pattern by pattern.
    fn reduced(&self, first_group: usize) -> bool {
        let each = self.groups[first_group..].iter().map(|group| {
            let pattern = &self.patterns[group.pattern];
            let (o, m) = (pattern.observed.len(), pattern.missing.len());
            if o < m { o * m * (o + m) / 2 } else { 0 }
        });
        each.sum::<usize>() > self.n_features.pow(3)
    }

    fn cut_blocks(&mut self, first_group: usize, labelled: bool) {
        let reduced = self.reduced(first_group);
        let mut group = first_group;
        while group < self.groups.len() {
            let start = self.groups[group].rows.start;
            let first = group;
            let complete = self.is_complete(first);
            while group < self.groups.len()
                && self.groups[group].rows.end - start <= BLOCK_ROWS
                && self.is_complete(group) == complete
            {
                group += 1;
            }
            let end = self.groups[group - 1].rows.end;
            self.blocks.push(Block {
                groups: first..group,
                rows: start..end,
                labelled,
                complete,
                reduced,
            });
        }
    }

    fn is_complete(&self, group: usize) -> bool {
        self.patterns[self.groups[group].pattern].missing.is_empty()
    }
}
