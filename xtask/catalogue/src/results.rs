//! Results of experiments: what is stored of them, which numbers pages name, and what they say about claims.

mod cells;
mod claims;
mod judge;
mod rows;
mod store;

pub use cells::{Cell, decimals};
pub use claims::{CLAIMS, Claim, Claims, Job, Judge, Paper, Tolerance, capital};
pub use judge::{Finding, JobTable, Verdict, fill, finding, in_words, job_table, tally};
pub use rows::{ResultRow, Stored, head_text, rows_text};
pub use store::{FOLDER, Store, file_of};
