//! The state of a guard as gauges, for the recorder of the feature `metrics`.

use std::time::Duration;

use metrics::{Gauge, Unit, describe_gauge, gauge};

use super::activity::WorkState;
use super::state::GuardState;
use crate::mode::Mode;

/// Every gauge once: its name after `bloom_guard_`, its unit, its help, and its value in a state.
macro_rules! gauges {
    ($($name:ident, $unit:ident, $help:literal, $value:expr;)*) => {
        pub(crate) struct Gauges { $($name: Gauge,)* }

        impl Gauges {
            pub(crate) fn new(filter: &str) -> Self {
                $(describe_gauge!(concat!("bloom_guard_", stringify!($name)), Unit::$unit, $help);)*
                Self {
                    $($name: gauge!(
                        concat!("bloom_guard_", stringify!($name)), "filter" => filter.to_owned()
                    ),)*
                }
            }

            /// Sets all of them. What is not known is no number.
            pub(crate) fn set(&self, state: &GuardState) {
                $(
                    let value: fn(&GuardState) -> Option<f64> = $value;
                    self.$name.set(value(state).unwrap_or(f64::NAN));
                )*
            }
        }
    };
}

#[rustfmt::skip]
gauges! {
    enforcing, Count, "1 while absent ids are refused, 0 in the modes Shadow and Off and while a new filter settles",
        |state| is(state.mode == Mode::Enforce && state.settling.is_none());
    settling_seconds, Seconds, "For how long a new filter still settles; 0 once it has, or waits for a rebuild",
        |state| Some(state.settling.unwrap_or_default().as_secs_f64());
    filter_live, Count, "1 while a filter answers, also one that settles, otherwise 0; of a filter in shards the share that answers",
        |state| state.shards.map_or(is(state.is_ready()), |shards| Some(shards.live as f64 / shards.all as f64));
    filter_age_seconds, Seconds, "Time since the build of the live filter began",
        |state| Some(state.live.ok()?.age.as_secs_f64());
    filter_items, Count, "Ids that the live filter was built from",
        |state| Some(state.live.ok()?.items as f64);
    filter_capacity, Count, "Ids that the live filter was sized for",
        |state| Some(state.live.ok()?.capacity as f64);
    filter_expected_rate, Count, "False-positive rate to expect of the live filter, 0 to 1",
        |state| Some(state.live.ok()?.expected_rate);
    filter_measured_rate, Count, "False-positive rate that requests have met, 0 to 1",
        |state| state.live.ok()?.measured_rate;
    copy_bytes, Bytes, "Bytes of this process's copy of the filter, 0 without one",
        |state| Some(state.copy.map_or(0.0, |copy| copy.bytes as f64));
    copy_age_seconds, Seconds, "Time since the copy began to be read",
        |state| Some(state.copy?.age.as_secs_f64());
    copy_silent_share, Count, "Share of all ids about which the copy is silent for want of room for suspects, 0 to 1",
        |state| Some(state.copy?.silent);
    checks_failing_seconds, Seconds, "Time since the first of the checks that failed in a row, 0 after a success",
        |state| failing(&state.checks);
    checks_succeeded_seconds, Seconds, "Time since the last check that succeeded",
        |state| succeeded(&state.checks);
    inserts_failing_seconds, Seconds, "Time since the first of the inserts that failed in a row, 0 after a success",
        |state| failing(&state.inserts);
    inserts_succeeded_seconds, Seconds, "Time since the last insert that succeeded",
        |state| succeeded(&state.inserts);
    rebuilds_failing_seconds, Seconds, "Time since the first of the rebuilds that failed in a row, 0 after a success",
        |state| failing(&state.rebuilds);
    rebuilds_succeeded_seconds, Seconds, "Time since the last rebuild of this process that succeeded",
        |state| succeeded(&state.rebuilds);
    record_ids, Count, "Ids that the record of recent inserts holds",
        |state| Some(state.record?.ids as f64);
    record_reaches_seconds, Seconds, "How far back the record of recent inserts reaches; infinite while it holds every insert",
        |state| Some(state.record?.reaches.as_ref().map_or(f64::INFINITY, Duration::as_secs_f64));
    record_required_seconds, Seconds, "How far back the record must reach for a rebuild that begins now",
        |state| Some(state.record?.required.as_secs_f64());
    lane_in_use, Count, "Requests in the lane",
        |state| Some(state.lane.in_use as f64);
    lane_width, Count, "Requests that the lane lets through at once",
        |state| Some(state.lane.width as f64);
}

fn is(condition: bool) -> Option<f64> {
    Some(u8::from(condition).into())
}

fn failing(work: &WorkState) -> Option<f64> {
    Some(work.failing.as_ref().map_or(0.0, |failure| failure.since.as_secs_f64()))
}

fn succeeded(work: &WorkState) -> Option<f64> {
    work.succeeded.as_ref().map(Duration::as_secs_f64)
}
