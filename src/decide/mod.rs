//! What becomes of a request: one table, two sets of ids and one lane. Nothing here knows HTTP or Redis.

pub(crate) mod bucket;
pub(crate) mod gate;
pub(crate) mod lane;
pub(crate) mod recent;
