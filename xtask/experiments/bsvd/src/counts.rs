//! Major league baseball: at-bats and hits of every batter against every pitcher.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;

use npb_baselines::PairCount;
use npb_data::read::{self, DelimitedOptions};

use npb_kit::data::sha256_of;
use npb_kit::open;
use npb_kit::{Context, Result};

pub(super) const FOLDER: &str = "mlb";
const TABLES: [&str; 2] = ["bvp_1969_2002.csv.gz", "bvp_2003_2008.csv.gz"];
const PLAYERS: &str = "players.csv";

/// Outcomes of one pair of players in one season.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    season: u16,
    batter: u32,
    pitcher: u32,
    trials: u32,
    hits: u32,
}

/// All seasons.
pub(super) struct Seasons {
    lines: Vec<Line>,
    /// Identifiers of players, in order of first appearance.
    players: Vec<String>,
    /// First and last name by identifier.
    names: BTreeMap<String, String>,
    /// Checksums of all files.
    pub(super) checksums: String,
}

/// The seasons of a window added up; batters (rows) and pitchers (columns) that appear in it, in order of identifier.
pub(super) struct Window {
    pub(super) batters: Vec<String>,
    pub(super) pitchers: Vec<String>,
    /// By batter, then pitcher; every pair has trials.
    pub(super) counts: Vec<PairCount>,
}

impl Seasons {
    pub(super) fn load(context: &Context<'_>) -> Result<Self> {
        let mut seasons = Self {
            lines: Vec::new(),
            players: Vec::new(),
            names: BTreeMap::new(),
            checksums: String::new(),
        };
        let mut numbers = BTreeMap::new();
        for name in TABLES {
            let path = context.data_file(FOLDER, name);
            seasons.checksums += &sha256_of(&path)?;
            seasons.read(name, BufReader::new(open(&path)?), &mut numbers)?;
        }
        let path = context.data_file(FOLDER, PLAYERS);
        let table = read::delimited_strings(PLAYERS, open(&path)?, &DelimitedOptions::default())?;
        for row in &table.rows {
            if let [Some(id), first, last, ..] = &row[..] {
                let names = [first, last].map(|name| name.as_deref().unwrap_or(""));
                seasons
                    .names
                    .insert(id.clone(), names.join(" ").trim().to_owned());
            }
        }
        Ok(seasons)
    }

    /// Reads lines `season,batter,pitcher,events,hits` below a header.
    fn read(
        &mut self,
        name: &str,
        input: impl BufRead,
        numbers: &mut BTreeMap<String, u32>,
    ) -> Result<()> {
        for (index, line) in input.lines().enumerate().skip(1) {
            let line = line?;
            let wrong = || {
                format!(
                    "{name}:{}: {line:?} is not season,batter,pitcher,events,hits",
                    index + 1
                )
            };
            let fields: Vec<&str> = line.split(',').collect();
            let [season, batter, pitcher, trials, hits] = fields[..] else {
                return Err(wrong().into());
            };
            let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
            let mut player = |id: &str| -> u32 {
                if let Some(&known) = numbers.get(id) {
                    return known;
                }
                let next = self.players.len() as u32;
                numbers.insert(id.to_owned(), next);
                self.players.push(id.to_owned());
                next
            };
            let (batter, pitcher) = (player(batter), player(pitcher));
            let line = Line {
                season: u16::try_from(number(season)?).map_err(|_| wrong())?,
                batter,
                pitcher,
                trials: number(trials)?,
                hits: number(hits)?,
            };
            if line.hits > line.trials || line.trials == 0 {
                return Err(wrong().into());
            }
            self.lines.push(line);
        }
        Ok(())
    }

    /// Counts of these seasons.
    pub(super) fn window(&self, seasons: RangeInclusive<u16>) -> Window {
        let lines: Vec<&Line> = self
            .lines
            .iter()
            .filter(|line| seasons.contains(&line.season))
            .collect();
        let players = |side: fn(&Line) -> u32| -> Vec<String> {
            let mut ids: Vec<u32> = lines.iter().map(|line| side(line)).collect();
            ids.sort_unstable();
            ids.dedup();
            let mut names: Vec<String> = ids
                .iter()
                .map(|&id| self.players[id as usize].clone())
                .collect();
            names.sort_unstable();
            names
        };
        let (batters, pitchers) = (players(|l| l.batter), players(|l| l.pitcher));
        let mut sums: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
        let (row_of, column_of) = (self.places(&batters), self.places(&pitchers));
        for line in lines {
            let pair = (
                row_of[line.batter as usize],
                column_of[line.pitcher as usize],
            );
            let (hits, trials) = sums.entry(pair).or_default();
            *hits += line.hits;
            *trials += line.trials;
        }
        let count = |((row, column), (hits, trials))| PairCount {
            row,
            column,
            hits,
            trials,
        };
        Window {
            batters,
            pitchers,
            counts: sums.into_iter().map(count).collect(),
        }
    }

    /// Place of every player in a sorted list of identifiers; players that are not in it have no meaningful place.
    fn places(&self, list: &[String]) -> Vec<u32> {
        let place = |id: &String| list.partition_point(|other| other < id) as u32;
        self.players.iter().map(place).collect()
    }

    /// First and last name of a player.
    pub(super) fn name(&self, id: &str) -> String {
        self.names.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }
}

impl Window {
    /// Counts of `other` between players of this window, in the rows and columns of this window.
    pub(super) fn counts_of(&self, other: &Window) -> Vec<PairCount> {
        let place = |list: &[String], id: &String| list.binary_search(id).ok().map(|i| i as u32);
        let rows: Vec<_> = other
            .batters
            .iter()
            .map(|id| place(&self.batters, id))
            .collect();
        let columns: Vec<_> = other
            .pitchers
            .iter()
            .map(|id| place(&self.pitchers, id))
            .collect();
        let count = |c: &PairCount| {
            Some(PairCount {
                row: rows[c.row as usize]?,
                column: columns[c.column as usize]?,
                ..*c
            })
        };
        other.counts.iter().filter_map(count).collect()
    }

    /// Trials of every batter.
    pub(super) fn trials_of_batters(&self) -> Vec<u64> {
        let mut sums = vec![0; self.batters.len()];
        for c in &self.counts {
            sums[c.row as usize] += u64::from(c.trials);
        }
        sums
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file of two seasons and a few more players in the second.
    pub(crate) fn example() -> Seasons {
        let text = "season,batter_id,pitcher_id,events,hits\n\
                    2007,adam,zoe,4,1\n2007,bob,zoe,2,1\n2007,bob,yan,3,0\n\
                    2008,adam,zoe,1,1\n2008,carl,zoe,2,0\n2008,bob,adam,1,0\n";
        let mut seasons = Seasons {
            lines: Vec::new(),
            players: Vec::new(),
            names: BTreeMap::new(),
            checksums: String::new(),
        };
        seasons
            .read("example", text.as_bytes(), &mut BTreeMap::new())
            .unwrap();
        seasons
    }

    #[test]
    fn windows_add_up_seasons_and_meet_by_identifier() {
        let seasons = example();
        let (first, both) = (seasons.window(2007..=2007), seasons.window(2007..=2008));
        assert_eq!((first.batters.len(), first.pitchers.len()), (2, 2));
        assert_eq!(both.batters, ["adam", "bob", "carl"]);
        assert_eq!(both.pitchers, ["adam", "yan", "zoe"]);
        let counts: Vec<_> = both
            .counts
            .iter()
            .map(|c| (c.row, c.column, c.hits, c.trials))
            .collect();
        assert_eq!(
            counts,
            [
                (0, 2, 2, 5),
                (1, 0, 0, 1),
                (1, 1, 0, 3),
                (1, 2, 1, 2),
                (2, 2, 0, 2)
            ]
        );
        // Of 2008, only adam against zoe was in 2007 on both sides.
        let later = first.counts_of(&seasons.window(2008..=2008));
        let later: Vec<_> = later
            .iter()
            .map(|c| (c.row, c.column, c.hits, c.trials))
            .collect();
        assert_eq!(later, [(0, 1, 1, 1)]);
        assert_eq!(both.trials_of_batters(), [5, 6, 2]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let mut seasons = example();
        for bad in ["2008,a,b,1", "2008,a,b,1,2", "2008,a,b,0,0", "x,a,b,1,1"] {
            let text = format!("header\n{bad}\n");
            let error = seasons
                .read("file", text.as_bytes(), &mut BTreeMap::new())
                .unwrap_err();
            assert!(error.to_string().starts_with("file:2: "), "{error}");
        }
    }
}
