//! Results of experiments: what is stored of them, which numbers pages name, and what they say about claims.

mod cells;
mod claims;
mod duels;
mod jobs;
mod judge;
mod rows;
mod store;

pub use cells::{Cell, decimals};
pub use claims::{CLAIMS, Claim, Claims, Job, Judge, Paper, Tolerance, capital};
pub use jobs::{JobTable, job_table};
pub use judge::{Finding, Verdict, fill, finding, tally, verdicts};
pub use rows::{ResultRow, Stored, head_text, rows_text};
pub use store::{FOLDER, Store, file_of};
