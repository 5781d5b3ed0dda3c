//! Which 404 says that a record is missing, and for which requests; and the nulls kept in this process.

pub(crate) mod cache;
pub(crate) mod rules;
pub(crate) mod scope;
