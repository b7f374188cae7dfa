//! Criterion benchmarks of the npb workspace; run them with `cargo bench -p npb-benches`.
//!
//! Here: the measurement of those that take the processor time of one thread, so that other work on the machine counts little.

use std::fs;
use std::time::{Duration, Instant};

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Benchmarks by processor time.
pub type Processor = Criterion<ProcessorTime>;

/// The configuration of benchmarks by processor time.
pub fn on_processor_time() -> Processor {
    Criterion::default().with_measurement(ProcessorTime {
        since: Instant::now(),
    })
}

/// The first target of a group: one thread, whatever the machine has, the one whose time is taken.
pub fn one_thread(_: &mut Processor) {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build_global()
        .expect("the first pool of this process");
}

/// Processor time of this thread; the wall clock where the system does not tell.
pub struct ProcessorTime {
    since: Instant,
}

impl ProcessorTime {
    fn now(&self) -> Duration {
        // The system brings its account up to date when a thread gives way, else only some hundred times a second.
        std::thread::yield_now();
        let statistics = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanoseconds = statistics.split_whitespace().next();
        let processor = nanoseconds.and_then(|n| n.parse().ok());
        processor.map_or_else(|| self.since.elapsed(), Duration::from_nanos)
    }
}

impl Measurement for ProcessorTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        self.now()
    }

    fn end(&self, start: Duration) -> Duration {
        self.now() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        WallTime.add(a, b)
    }

    fn zero(&self) -> Duration {
        WallTime.zero()
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Time on the clock and of the processor, in seconds.
#[derive(Clone, Copy)]
pub struct Seconds {
    /// By the clock.
    pub clock: f64,
    /// Of all threads of this process; by the clock where the system does not tell.
    pub processor: f64,
}

/// Does the work and takes its time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Seconds) {
    let clock = Instant::now();
    let before = of_process();
    let made = work();
    let clock = clock.elapsed().as_secs_f64();
    let processor = before.zip(of_process()).map_or(clock, |(a, b)| b - a);
    (made, Seconds { clock, processor })
}

/// Processor seconds of all threads of this process until now, which the system counts in hundredths.
fn of_process() -> Option<f64> {
    let statistics = fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = statistics.rsplit(')').next()?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}
