//! Arguments that the driver takes and hands on.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scale {
    /// Seconds; the same code path.
    Smoke,
    /// Under 20 minutes per experiment on two cores.
    Quick,
    /// The paper's numbers of trials.
    Paper,
}

impl Scale {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Paper => "paper",
        }
    }

    /// What belongs to this scale.
    pub fn pick<T>(self, smoke: T, quick: T, paper: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Paper => paper,
        }
    }

    /// What the smallest scale has, or all others.
    pub fn smoke_or<T>(self, smoke: T, others: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick | Self::Paper => others,
        }
    }
}

/// Arguments of `reproduce`.
#[derive(Args, Clone, Debug)]
pub struct ReproduceArgs {
    /// Experiments by id, pattern (`iqgme/*`) or crate (`iqgme` or `npb-iqgme`) [default: a tour of a few minutes on generated data; all with --scale].
    pub ids: Vec<String>,
    /// How much to run [default: quick].
    #[arg(long, value_enum)]
    pub scale: Option<Scale>,
    /// Where the report goes [default: target/reproduce].
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Go on with the trials that an earlier run left in OUT; they are taken as they are, even if the code has changed.
    #[arg(long)]
    pub resume: bool,
    /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `validate`.
#[derive(Args, Clone, Debug)]
pub struct ValidateArgs {
    /// Checks by id, pattern (`bsvd/*`) or crate (`bsvd` or `npb-bsvd`); all by default.
    pub checks: Vec<String>,
    /// How much to run.
    #[arg(long, value_enum, default_value = "quick")]
    pub scale: Scale,
    /// Where the report goes [default: target/validate].
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Put what is found into docs/validation.md.
    #[arg(long)]
    pub store: bool,
}
