//! How much is measured, and for how long.

use std::time::Duration;

pub struct Scale {
    /// Ids in the filters that are asked.
    pub ids: u64,
    /// Ids that are filled in.
    pub fill_ids: u64,
    /// Of these, the ids that are filled in bit by bit.
    pub setbit_ids: u64,
    /// Ids in the filters in this process.
    pub local_ids: [u64; 2],
    /// Ids in the filters that are compared with each other.
    pub growth_ids: [u64; 3],
    pub check_rounds: usize,
    pub check_time: Duration,
    pub fill_rounds: usize,
    pub local_rounds: usize,
    pub http_rounds: usize,
    pub http_time: Duration,
    /// Whether the figures are worth keeping.
    pub recorded: bool,
}

impl Scale {
    pub const FULL: Self = Self {
        ids: 1_000_000,
        fill_ids: 10_000_000,
        setbit_ids: 500_000,
        local_ids: [1_000_000, 100_000_000],
        growth_ids: [1_000_000, 10_000_000, 100_000_000],
        check_rounds: 5,
        check_time: Duration::from_millis(400),
        fill_rounds: 3,
        local_rounds: 7,
        http_rounds: 7,
        http_time: Duration::from_secs(2),
        recorded: true,
    };

    pub const QUICK: Self = Self {
        ids: 100_000,
        fill_ids: 200_000,
        setbit_ids: 20_000,
        local_ids: [100_000, 2_000_000],
        growth_ids: [100_000, 200_000, 400_000],
        check_rounds: 2,
        check_time: Duration::from_millis(50),
        fill_rounds: 1,
        local_rounds: 2,
        http_rounds: 1,
        http_time: Duration::from_millis(300),
        recorded: false,
    };
}

/// The false-positive rate of all filters.
pub const RATE: f64 = 0.001;
