//! How long work takes on a machine that others use as well.

use std::fs;
use std::time::Instant;

/// Seconds that this thread takes for `work`: of the processor's time where the system tells, else of the wall clock.
pub fn seconds_of<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let (wall, processor) = (Instant::now(), processor_seconds());
    let result = work();
    let seconds = match (processor, processor_seconds()) {
        (Some(start), Some(end)) => end - start,
        _ => wall.elapsed().as_secs_f64(),
    };
    (seconds, result)
}

fn processor_seconds() -> Option<f64> {
    // The system brings its account up to date when a thread gives way, else only some hundred times a second.
    std::thread::yield_now();
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = statistics.split_whitespace().next()?.parse().ok()?;
    Some(1e-9 * nanoseconds)
}
