//! What a filter has to be able to that is left for another one.

use super::{BoxFuture, Store};
use crate::error::StoreError;

/// A filter that is to be left for another one.
pub(crate) trait Former: Store {
    /// Whether it says that the other one has taken its place.
    fn is_left(&self) -> bool;

    /// Has no process rely on it any more, for good. May be repeated.
    fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether it is a guard's own: it is rebuilt beside the other one, and its processes have a mode in common.
    fn is_own(&self) -> bool;
}
