//! What becomes of a request: one table, two sets of ids and one lane.
//!
//! The first row that fits decides. Nothing here knows HTTP or Redis.
//!
//! | the request's id | the request |
//! |---|---|
//! | found lately in this process, or in its copy and not suspect | passes, and nobody is asked |
//! | absent, by the filter or by a null that speaks for the request | 404; a small sample passes (the canary) |
//! | present, and not missed lately | passes |
//! | missed lately, or unknown | enters the lane, or is answered 503 |

pub(crate) mod bucket;
pub(crate) mod gate;
pub(crate) mod lane;
pub(crate) mod policy;
pub(crate) mod recent;
