//! A clock beside the runtime: when its timers are late as well, the machine was busy, and when only the
//! runtime's are, something sat on the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::site::DEADLINE;

/// A thread that does nothing but sleep for as long as a check may take.
pub(crate) struct Pulse {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    latest_us: AtomicU64,
}

impl Pulse {
    pub(crate) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let beats = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !beats.stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(DEADLINE);
                let late = begun.elapsed().saturating_sub(DEADLINE);
                beats.latest_us.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self { shared, thread }
    }

    /// Returns how late it was at most.
    pub(crate) fn end(self) -> Duration {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("nothing panics there");
        Duration::from_micros(self.shared.latest_us.load(Ordering::Relaxed))
    }
}
