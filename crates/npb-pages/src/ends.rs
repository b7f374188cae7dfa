//! Directions in which things vary: what stands at their ends, and who lies where on the first two.

use npb_report::{At, Figure, HeatMap, Layer, Panel, Shape, colours, heat_map, picture};

use crate::Result;
use crate::bins::largest;
use crate::sampling::some;
use crate::shared::short_name;

/// Directions that are shown.
pub(crate) const MOST_DIRECTIONS: usize = 4;
/// Things at each end of a direction.
const AT_END: usize = 5;
/// Dots in a picture.
const MOST_DOTS: usize = 2_000;

/// Numbers of things by direction, those of a thing together.
pub(crate) struct Loadings<'a> {
    pub(crate) names: &'a dyn Fn(usize) -> String,
    pub(crate) n_directions: usize,
    pub(crate) mean: &'a [f64],
    /// Empty where it is not known.
    pub(crate) sd: &'a [f64],
}

impl Loadings<'_> {
    fn n(&self) -> usize {
        self.mean.len() / self.n_directions.max(1)
    }

    fn along(&self, direction: usize) -> Vec<f64> {
        let own = self.mean.iter().skip(direction);
        own.step_by(self.n_directions).copied().collect()
    }

    /// Things of the largest and of the smallest loadings, from the ends inwards; none is at both.
    pub(crate) fn ends(&self, direction: usize) -> [Vec<usize>; 2] {
        let values = self.along(direction);
        let negated: Vec<f64> = values.iter().map(|v| -v).collect();
        let n = AT_END.min(self.n() / 2);
        [largest(&values, n), largest(&negated, n)]
    }

    /// Names at an end, as a sentence has them.
    pub(crate) fn named(&self, things: &[usize]) -> String {
        let names: Vec<String> = things
            .iter()
            .map(|&k| short_name(&(self.names)(k)))
            .collect();
        names.join(", ")
    }

    /// What stands at the ends of the first directions, as a map; nothing where all loadings are 0. `what`: of what these are.
    pub(crate) fn map(&self, what: &str) -> Result<Option<Figure>> {
        let shown = self.n_directions.min(MOST_DIRECTIONS);
        let mut things: Vec<usize> = Vec::new();
        for direction in 0..shown {
            let [high, low] = self.ends(direction);
            things.extend(high.into_iter().chain(low.into_iter().rev()));
        }
        let mut seen = std::collections::BTreeSet::new();
        things.retain(|&thing| seen.insert(thing));
        let at = |thing: usize, direction: usize| thing * self.n_directions + direction;
        let places = || {
            things
                .iter()
                .flat_map(|&t| (0..shown).map(move |d| at(t, d)))
        };
        let values: Vec<f64> = places().map(|k| self.mean[k]).collect();
        let most = values.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        if most == 0.0 {
            return Ok(None);
        }
        let unsure = |k: usize| {
            self.sd
                .get(k)
                .is_some_and(|sd| self.mean[k].abs() < 2.0 * sd)
        };
        let map = HeatMap {
            rows: things.iter().map(|&thing| (self.names)(thing)).collect(),
            columns: (1..=shown).map(|d| format!("factor {d}")).collect(),
            values,
            range: (-most, most),
            marked: places().map(unsure).collect(),
        };
        let rings = match self.sd.is_empty() {
            true => "",
            false => "; a ring: the sign is not sure",
        };
        let look = format!(
            "{what} at the two ends of each factor: what red ones have in common, and blue ones have not, is what the factor is about{rings}."
        );
        Ok(Some(heat_map(
            "ends",
            "What the factors are about",
            &look,
            &map,
        )?))
    }

    /// Things in the plane of the first two directions, those of whom little is known in grey; nothing where there are no two.
    pub(crate) fn plane(
        &self,
        what: &str,
        few: &dyn Fn(usize) -> bool,
        seed: u64,
    ) -> Result<Option<Figure>> {
        if self.n_directions < 2 || self.n() < 3 {
            return Ok(None);
        }
        let shown = some(self.n(), MOST_DOTS, seed);
        let at = |&k: &usize| [0, 1].map(|d| self.mean[k * self.n_directions + d]);
        let dots = |is_few: bool| {
            let own = shown.iter().filter(|k| few(**k) == is_few);
            own.map(at).collect::<Vec<_>>()
        };
        let layer = |name: &str, colour, dots: Vec<At>| {
            (!dots.is_empty()).then(|| Layer::new(name, colour, Shape::Dots(dots)))
        };
        let layers = [
            layer("with little known", colours::GREY, dots(true)),
            layer("others", colours::BLUE, dots(false)),
        ];
        let labels = ["factor 1", "factor 2"];
        let panel = Panel::of_lines("", labels, layers.into_iter().flatten());
        let part = match shown.len() < self.n() {
            true => format!(" ({} of {})", shown.len(), self.n()),
            false => String::new(),
        };
        let name = format!("plane-{what}");
        let title = format!("The {what} by the first two factors");
        let look = format!(
            "Each dot is one of the {what}{part}: clumps apart from each other are kinds of them, one cloud about the middle says that they differ by degrees alone."
        );
        Ok(Some(picture(&name, &title, &look, &[panel])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_largest_and_smallest() {
        let mean: Vec<f64> = (0..12).flat_map(|k| [f64::from(k), 0.0]).collect();
        let sd: Vec<f64> = (0..24).map(|_| 3.0).collect();
        let names = |k: usize| format!("<{k}>");
        let loadings = Loadings {
            names: &names,
            n_directions: 2,
            mean: &mean,
            sd: &sd,
        };
        assert_eq!(
            loadings.ends(0),
            [vec![11, 10, 9, 8, 7], vec![0, 1, 2, 3, 4]]
        );
        assert_eq!(loadings.named(&[11, 0]), "<11>, <0>");
        let map = loadings.map("Items").unwrap().unwrap();
        assert_eq!(map.rows[0], ["<11>", "factor 1", "11"]);
        // 6 is at no end of the first, and the second is 0 everywhere: its ends are the first in order.
        assert!(map.rows.iter().all(|row| row[0] != "<6>"));
        // Signs of 0 to 5 on the first factor are not sure; none is on the second.
        assert_eq!(
            map.svg.matches("stroke=\"#e69f00\"").count(),
            5 + map.rows.len() / 2
        );
        let plane = loadings.plane("items", &|k| k < 3, 0).unwrap().unwrap();
        assert_eq!(plane.rows.len(), 12);
    }
}
