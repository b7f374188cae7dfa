//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Below the verbs in `npb --help`.
const AFTER: &str = "\
Data go to standard output or to --out, everything else to standard error; `-` is standard input.

Exit codes: 0 done, 1 failed, 2 usage, 3 bad data, 4 not converged (if required), 130 interrupted.

  npb schema patients.csv > patients.toml         what the columns are; edit it
  npb fit classifier patients.csv --label ill -o p.npb
  npb predict p.npb new.csv --interval 0.9 > probabilities.csv";

/// Below `npb score --help`.
const ODD_CELLS: &str = "\
With --cells: surprisal is -ln of the probability of a cell (for numbers of the density in the units of
the file) given the other known cells of its row, in nats. excess is that less what is usual of the
column, its mean in rows that the model makes up; cells stand in its order. ln_density is of the row.";

/// Nonparametric Bayes for incomplete data: classify, fill, complete, recommend, from files with holes.
#[derive(Parser, Debug)]
#[command(name = "npb", version, after_help = AFTER, arg_required_else_help = true)]
pub(crate) struct Npb {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// Threads [default: all cores]; results do not depend on it.
    #[arg(long, global = true, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(..=4096))]
    pub(crate) threads: Option<u16>,
    /// Say nothing but errors.
    #[arg(long, short, global = true, hide_short_help = true)]
    pub(crate) quiet: bool,
}

/// What is to be done. The kind of model is read from its file.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// What the columns of a file are, guessed with reasons, as TOML to edit.
    Schema(SchemaArgs),
    /// The settings of a kind of model, as TOML to edit.
    Config(ConfigArgs),
    /// Fit a model to a file.
    #[command(subcommand)]
    Fit(Box<Fit>),
    /// Classes with probabilities, ratings with intervals, or any column given others.
    Predict(PredictArgs),
    /// Fill the missing cells of a file.
    Impute(ImputeArgs),
    /// How usual each row is: the log density of what is known of it; low values are anomalies. Or the oddest cells.
    Score(ScoreArgs),
    /// Rows that the model makes up, all of them or given some cells.
    Simulate(SimulateArgs),
    /// The rows that are most often in one cluster with a row (table).
    Similar(SimilarArgs),
    /// The clusters of rows that each column has, and what sets them apart (table).
    Clusters(ClustersArgs),
    /// What a row would choose and like among all that it has not rated (ratings, groups).
    Recommend(RecommendArgs),
    /// Which ratings would tell most.
    Next(NextArgs),
    /// Which columns depend on each other (table).
    Dependence(DependenceArgs),
    /// Take the noise out of an image.
    Denoise(DenoiseArgs),
    /// Fill the holes of an image.
    Inpaint(InpaintArgs),
    /// What is in a model file.
    Summary(ModelArgs),
    /// Whether the chains or the bound have settled.
    Diagnose(ModelArgs),
    /// A page about a model, with warnings: settings, convergence, what it found, how it does on a file.
    Report(ReportArgs),
    /// One model of several that differ in their seed only (ratings, table): the draws of all.
    Merge(MergeArgs),
    /// The model as the library saves it, for programs in Rust.
    Export(ExportArgs),
    /// A fit that a program in Rust has saved, to be asked here.
    Import(ImportArgs),
    /// Completions for a shell.
    Completions(CompletionsArgs),
    /// Pages for `man`, one for each verb.
    Man(ManArgs),
}

/// Kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelKind {
    /// Classes of rows with holes.
    Classifier,
    /// Density and clusters of rows with holes.
    Mixture,
    /// A matrix most of whose entries are missing.
    Ratings,
    /// Columns of mixed kinds: any cell given others, dependence.
    Table,
    /// Many labels at once.
    Labels,
    /// Likes of many users with few ratings each.
    Groups,
    /// Two classes in many groups of few rows each.
    Grouped,
    /// Classes in many tasks that share what they can.
    Tasks,
    /// Topics of documents.
    Topics,
    /// Images with noise or holes.
    Image,
}

/// How files of text are laid out.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Layout of the file")]
pub(crate) struct Layout {
    /// Between fields: a character, `tab` or `blanks` [default: by the first lines].
    #[arg(long, value_name = "MARK")]
    pub(crate) separator: Option<String>,
    /// The first line is data; columns are called x0, x1, ...
    #[arg(long)]
    pub(crate) no_header: bool,
    /// One more text that means "missing" (may be repeated).
    #[arg(long, value_name = "TEXT")]
    pub(crate) missing: Vec<String>,
    /// What stands before decimals: `.` or `,` [default: by the first lines].
    #[arg(long, value_name = "MARK")]
    pub(crate) decimal: Option<char>,
    /// What stands between thousands.
    #[arg(long, value_name = "MARK")]
    pub(crate) thousands: Option<char>,
    /// What stands around texts, or `none` [default: double quotes, or by the first lines].
    #[arg(long, value_name = "MARK")]
    pub(crate) quote: Option<String>,
    /// Lines that begin with this mark are passed over [default: by the first lines].
    #[arg(long, value_name = "MARK")]
    pub(crate) comment: Option<char>,
    /// The text is Latin-1, not UTF-8.
    #[arg(long)]
    pub(crate) latin1: bool,
}

/// What to do where a new file is not like that of the fit.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Where a file is not like that of the fit")]
pub(crate) struct Rules {
    /// A column that the file lacks.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Rule::Error)]
    pub(crate) missing_columns: Rule,
    /// A level never seen.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Rule::Missing)]
    pub(crate) unseen_levels: Rule,
    /// A value its kind cannot be [default: error by a schema, else missing].
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) impossible_values: Option<Rule>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rule {
    /// Stop and name it.
    Error,
    /// Take it as missing.
    Missing,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Out {
    /// File to write; replaced only when all is there [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Format of a table [default: by the name of --out, else csv].
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

/// Formats of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated, with a header.
    Csv,
    /// An array of objects.
    Json,
    /// Columns below each other, to be read by people.
    Table,
    /// Parquet.
    Parquet,
    /// An Arrow file (Feather).
    Arrow,
}

impl Out {
    /// The format that is asked for, or that the name of the file says.
    pub(crate) fn format(&self) -> Format {
        let name = || self.out.as_ref()?.file_name()?.to_str();
        let by_name = || match npb_arrow::Format::of_name(name()?)? {
            npb_arrow::Format::Parquet => Some(Format::Parquet),
            _ => Some(Format::Arrow),
        };
        let is_json = || name().is_some_and(|name| name.to_lowercase().ends_with(".json"));
        let guessed = || by_name().or_else(|| is_json().then_some(Format::Json));
        self.format.or_else(guessed).unwrap_or(Format::Csv)
    }
}

/// How a file of new rows is read, and where the answer goes.
#[derive(Args, Debug)]
pub(crate) struct HowToAsk {
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) out: Out,
    /// Rows that are asked about at once, for tests.
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) chunk_rows: Option<NonZeroUsize>,
}

#[derive(Args, Debug)]
pub(crate) struct SchemaArgs {
    /// The file.
    pub(crate) file: PathBuf,
    /// The column to be predicted.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    /// The column that names the rows.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) layout: Layout,
    /// File to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// Kind of model.
    pub(crate) kind: ModelKind,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// File to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Settings of a model.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// Settings as TOML; `npb config KIND` writes the default ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, such as `sweeps.keep=200` (may be repeated; stronger than --config).
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// How a fit runs and where it goes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The fit")]
pub(crate) struct Run {
    /// The model file to write.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Keep what is reached in this file; the same command goes on from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// How often: `30s`, `10m`, `2h`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1m",
        requires = "checkpoint"
    )]
    pub(crate) every: String,
    /// Exit with code 4, the model written all the same, when the fit has not converged.
    #[arg(long)]
    pub(crate) require_converged: bool,
    /// Versions, seed, settings, schema, times and diagnostics, to be kept as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// What is told of progress, on standard error.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: Tell,
}

/// How a model is fitted, and where it goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct HowToFit {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) run: Run,
    /// Go on with this fit: the file holds its rows and more (table, ratings, mixture).
    #[arg(long = "continue", value_name = "MODEL", help_heading = "The fit")]
    pub(crate) before: Option<PathBuf>,
}

/// How progress is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tell {
    /// A line that changes on a terminal, a new one every ten seconds in a file.
    #[default]
    Auto,
    /// A line of JSON for each step.
    Json,
}

/// The file that a model is fitted to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Training {
    /// The file; `-` is standard input.
    pub(crate) file: PathBuf,
    /// What the columns are [default: guessed, and reported].
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// The column that names the rows.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    /// A column to leave out (may be repeated).
    #[arg(long, value_name = "COLUMN")]
    pub(crate) ignore: Vec<String>,
    #[command(flatten)]
    pub(crate) layout: Layout,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Fit {
    /// The kind that the table suggests, with the reason: classifier, ratings, table or mixture.
    Auto(ClassifierArgs),
    /// Classes of rows with holes: `npb predict` gives probabilities.
    Classifier(ClassifierArgs),
    /// Density and clusters of rows with holes: `npb score`, `npb impute`.
    Mixture(MixtureArgs),
    /// A matrix most of whose entries are missing: `npb predict`, `npb recommend`.
    Ratings(Box<RatingsArgs>),
    /// Columns of mixed kinds: `npb predict`, `npb impute`, `npb dependence`.
    Table(MixtureArgs),
    /// Many labels of a row at once: `npb predict`.
    Labels(LabelsArgs),
    /// Likes of many users with few ratings each: `npb recommend`, new users included.
    Groups(GroupsArgs),
    /// Two classes in many groups of few rows each, without holes: `npb predict`, new groups included.
    Grouped(GroupedArgs),
    /// Classes in many tasks, such as places or machines, that share what they can: `npb predict`.
    Tasks(TasksArgs),
    /// Topics of documents, and what they say of a class or a number: `npb predict`.
    Topics(TopicsArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TopicsArgs {
    /// The documents, one a line: any class, then `word:count` pairs, words from 0; or as --text, --lines say.
    pub(crate) file: PathBuf,
    /// The file is a table; this column of it holds the documents, in plain words.
    #[arg(long, value_name = "COLUMN", conflicts_with = "lines")]
    pub(crate) text: Option<String>,
    /// Each line is a document, in plain words.
    #[arg(long)]
    pub(crate) lines: bool,
    /// With --text, the column of the classes.
    #[arg(long, value_name = "COLUMN", requires = "text")]
    pub(crate) label: Option<String>,
    /// A class for each document, one a line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["label", "target"])]
    pub(crate) classes: Option<PathBuf>,
    /// A number for each document, one a line, to be predicted instead of the class.
    #[arg(long, value_name = "FILE", conflicts_with = "label")]
    pub(crate) target: Option<PathBuf>,
    /// The words, one a line, also with blanks or empty; of plain words those that count.
    #[arg(long, value_name = "FILE")]
    pub(crate) words: Option<PathBuf>,
    /// Of plain words, leave out those that say little in this language: `en`, `de`, ...
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) stop_words: Option<String>,
    /// Plain words count that are in so many documents at least.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) min_documents: usize,
    /// Plain words count that are in this share of the documents at most.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub(crate) max_share: f64,
    /// What stands first in a line is no class.
    #[arg(long)]
    pub(crate) no_classes: bool,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct LabelsArgs {
    #[command(flatten)]
    pub(crate) training: Training,
    /// A file with a column for each label, of the same rows in the same order or with the column of --id.
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: PathBuf,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct GroupsArgs {
    /// The file: one line for each rating.
    pub(crate) file: PathBuf,
    /// The column that names users (or other groups).
    #[arg(long, value_name = "COLUMN")]
    pub(crate) group: String,
    /// The column that names items.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) item: String,
    /// The column of the ratings.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value: String,
    /// Ratings from here on are likes.
    #[arg(long, value_name = "X")]
    pub(crate) liked: f64,
    /// What a pair of names that occurs again means.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) duplicates: Duplicates,
    /// Features of items: a file whose first column names them.
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct ClassifierArgs {
    #[command(flatten)]
    pub(crate) training: Training,
    /// The column to be predicted [default: that of the schema]. Rows without a label are used, too.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct TasksArgs {
    #[command(flatten)]
    pub(crate) training: Training,
    /// The column that says to which task a row belongs.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) task: String,
    /// The column to be predicted [default: that of the schema]. Rows without a label are used, too.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct GroupedArgs {
    #[command(flatten)]
    pub(crate) training: Training,
    /// The column that says to which group a row belongs.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) group: String,
    /// The column to be predicted, of two values [default: that of the schema].
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct MixtureArgs {
    #[command(flatten)]
    pub(crate) training: Training,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

#[derive(Args, Debug)]
pub(crate) struct RatingsArgs {
    /// The file: one line for each rating.
    pub(crate) file: PathBuf,
    /// The column that names rows, such as users.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) row: String,
    /// The column that names columns, such as films.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: String,
    /// The column of the values.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value: String,
    /// What a pair of names that occurs again means.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) duplicates: Duplicates,
    /// How values come about.
    #[arg(long, value_enum, default_value_t = Values::Gaussian)]
    pub(crate) likelihood: Values,
    /// Features of rows: a file whose first column names them.
    #[arg(long, value_name = "FILE")]
    pub(crate) row_features: Option<PathBuf>,
    /// Features of columns, likewise.
    #[arg(long, value_name = "FILE")]
    pub(crate) column_features: Option<PathBuf>,
    /// Independent chains, as the setting `chains`.
    #[arg(long, value_name = "N")]
    pub(crate) chains: Option<usize>,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) how: HowToFit,
}

/// What a row and column mean that a file has twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Duplicates {
    /// A mistake.
    #[default]
    Error,
    /// The last value counts.
    Last,
    /// The mean of the values counts.
    Mean,
}

/// Likelihoods of ratings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Values {
    /// Real numbers with normal noise.
    Gaussian,
    /// Levels 1, 2, ... in their order.
    Ordinal,
    /// 0 or 1.
    Binary,
}

#[derive(Args, Debug)]
pub(crate) struct PredictArgs {
    /// A model file: classifier, tasks, grouped, labels, topics, ratings, table or mixture.
    pub(crate) model: PathBuf,
    /// New rows; for ratings, lines with row and column.
    #[arg(required_unless_present = "given", conflicts_with = "given")]
    file: Option<PathBuf>,
    /// A column to predict from the others, its own cells taken as unknown (table, mixture, classifier).
    #[arg(long, value_name = "COLUMN")]
    pub(crate) target: Vec<String>,
    /// With --target, one question instead of a file: what is known (may be repeated).
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) given: Vec<String>,
    /// Central intervals that hold this probability [default for ratings and --target: 0.9].
    #[arg(long, value_name = "P")]
    pub(crate) interval: Option<f64>,
    /// Answer for tasks and groups that were not in training, by their own labels if there are any.
    #[arg(long)]
    pub(crate) new_tasks: bool,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

impl PredictArgs {
    /// The file, which there is unless something is given.
    pub(crate) fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new("-"))
    }
}

#[derive(Args, Debug)]
pub(crate) struct ImputeArgs {
    /// A model file: classifier, mixture or table.
    pub(crate) model: PathBuf,
    /// The file to fill.
    pub(crate) file: PathBuf,
    /// So many completed tables, drawn, one below the other.
    #[arg(long, value_name = "N")]
    pub(crate) draws: Option<usize>,
    /// Standard deviations of filled numbers, as columns sd(NAME).
    #[arg(long, conflicts_with = "draws")]
    pub(crate) sd: bool,
    /// Central intervals that hold this probability, as columns lower(NAME), upper(NAME): of numbers and ordered levels.
    #[arg(long, value_name = "P", conflicts_with = "draws")]
    pub(crate) interval: Option<f64>,
    /// Seed of the draws, and of those behind intervals; that of the fit by default.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The rows are those of the fit.
    #[arg(long)]
    pub(crate) training: bool,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

#[derive(Args, Debug)]
#[command(after_long_help = ODD_CELLS)]
pub(crate) struct ScoreArgs {
    /// A model file: classifier, mixture or table.
    pub(crate) model: PathBuf,
    /// The rows.
    pub(crate) file: PathBuf,
    /// Cells instead of rows, the oddest first.
    #[arg(long)]
    pub(crate) cells: bool,
    /// With --cells, how many; so many are held in memory.
    #[arg(long, value_name = "N", default_value = "1000", requires = "cells")]
    pub(crate) top: NonZeroUsize,
    /// With --cells: the rows are those of the fit, which has seen them (table).
    #[arg(long, requires = "cells")]
    pub(crate) training: bool,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// A model file: table, mixture or classifier.
    pub(crate) model: PathBuf,
    /// How many rows.
    #[arg(long, short, value_name = "N")]
    pub(crate) n: NonZeroUsize,
    /// What is known of the rows; `npb impute --draws` draws the unknown cells of every row of a file.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) given: Vec<String>,
    /// Seed of the draws; that of the fit by default.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) out: Out,
}

#[derive(Args, Debug)]
pub(crate) struct SimilarArgs {
    /// A model file of a table.
    pub(crate) model: PathBuf,
    /// The file of the fit.
    pub(crate) file: PathBuf,
    /// The row, by its name, or by its number where rows have no names.
    #[arg(long, value_name = "NAME")]
    pub(crate) row: String,
    /// A column by whose clustering rows are alike (may be repeated) [default: all].
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: Vec<String>,
    /// How many rows.
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) top: NonZeroUsize,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

#[derive(Args, Debug)]
pub(crate) struct ClustersArgs {
    /// A model file of a table.
    pub(crate) model: PathBuf,
    /// The file of the fit.
    pub(crate) file: PathBuf,
    /// A column whose clusters are asked for (may be repeated) [default: all, columns with a joint law once].
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: Vec<String>,
    /// The cluster of each row instead of what each cluster is.
    #[arg(long)]
    pub(crate) rows: bool,
    /// How many columns say what sets a cluster apart: those where it is least like the whole table.
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) top: NonZeroUsize,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

#[derive(Args, Debug)]
pub(crate) struct RecommendArgs {
    /// A model file: ratings or groups.
    pub(crate) model: PathBuf,
    /// The row, by its name; somebody new by the ratings in the file of --exclude.
    #[arg(long, value_name = "NAME")]
    pub(crate) row: String,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// A file of ratings: what this row has rated there is left out, as what it had rated at the fit.
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude: Option<PathBuf>,
    /// What is best: `choice` (to come to rate and like), `mean`, 'P(>=4)' (groups: 'P(like)').
    #[arg(long, value_name = "WHAT", default_value = "choice")]
    pub(crate) by: String,
    /// Ratings from here on are likes, with `--by choice` (ratings) [default: the mean rating; groups: as fitted].
    #[arg(long, value_name = "RATING")]
    pub(crate) liked: Option<f64>,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) out: Out,
}

#[derive(Args, Debug)]
pub(crate) struct NextArgs {
    /// A model file of ratings.
    pub(crate) model: PathBuf,
    /// Ask this row only, by its name.
    #[arg(long, value_name = "NAME")]
    pub(crate) row: Option<String>,
    /// How many.
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    pub(crate) n: usize,
    /// A file of ratings that are known already.
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) out: Out,
}

#[derive(Args, Debug)]
pub(crate) struct DependenceArgs {
    /// A model file of a table.
    pub(crate) model: PathBuf,
    /// The rows to test on, such as those of the fit.
    pub(crate) file: PathBuf,
    /// A heat map to write, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// A column taken as known: information is that given it, p-values are of dependence as such.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) given: Vec<String>,
    /// Level of the test of each pair.
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    pub(crate) level: f64,
    /// Permutations behind each p-value, which is 1 / (N + 1) at least.
    #[arg(long, value_name = "N", default_value_t = 999)]
    pub(crate) permutations: usize,
    #[command(flatten)]
    pub(crate) how: HowToAsk,
}

#[derive(Args, Debug)]
pub(crate) struct DenoiseArgs {
    /// The image: PNG or TIFF, 8 or 16 bit, grey or colour. Transparent pixels are holes; alpha is left alone elsewhere.
    pub(crate) image: PathBuf,
    #[command(flatten)]
    pub(crate) how: ImageArgs,
}

#[derive(Args, Debug)]
pub(crate) struct InpaintArgs {
    /// The image: PNG or TIFF, 8 or 16 bit, grey or colour. Transparent pixels are holes.
    pub(crate) image: PathBuf,
    /// An image of the same size: what is not black is a hole; of one with transparent pixels, what is drawn on these.
    #[arg(long, value_name = "FILE")]
    pub(crate) mask: Option<PathBuf>,
    /// Take the noise out of the known pixels as well; otherwise these stay as they are.
    #[arg(long)]
    pub(crate) denoise: bool,
    #[command(flatten)]
    pub(crate) how: ImageArgs,
}

/// How an image is restored.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImageArgs {
    /// The image to write, PNG or TIFF by its name.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Standard deviations of the restored values, as .npy.
    #[arg(long, value_name = "FILE")]
    pub(crate) sd: Option<PathBuf>,
    /// A page about the run: before and after, what was taken out, noise, dictionary.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Keep what is reached in this file; the same command goes on from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// How often: `30s`, `10m`, `2h`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1m",
        requires = "checkpoint"
    )]
    pub(crate) every: String,
    /// What is told of progress, on standard error.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: Tell,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// A model file.
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) out: Out,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// A model file.
    pub(crate) model: PathBuf,
    /// Rows to try it on, best such as the fit has not seen: with labels, where it predicts them.
    pub(crate) file: Option<PathBuf>,
    /// The page to write: one HTML file that needs no other.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Seed of rows, hidden cells and made-up rows.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) layout: Layout,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A model file.
    pub(crate) model: PathBuf,
    /// What of it.
    #[arg(long, value_enum, default_value_t = Part::Model)]
    pub(crate) part: Part,
    /// File to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Model files of the same data and settings, with different seeds.
    #[arg(required = true, num_args = 2..)]
    pub(crate) models: Vec<PathBuf>,
    /// The model file to write.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// What `save` of the library has written.
    pub(crate) fit: PathBuf,
    /// What the columns of new files are [default: numbers, by the names that the fit has].
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// The model file to write.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder to write to.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
}

/// Parts of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The fit, as the library's `load` reads it.
    Model,
    /// The schema, as TOML.
    Schema,
    /// The settings, as TOML.
    Config,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}
