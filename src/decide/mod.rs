//! What becomes of a request: knows neither HTTP nor Redis.

mod brake;
pub(crate) mod bucket;
pub(crate) mod gate;
pub(crate) mod lane;
pub(crate) mod policy;
mod sightings;
pub(crate) mod visitors;
