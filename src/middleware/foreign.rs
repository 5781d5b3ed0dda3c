//! A guard that stands in front of a filter which another system writes.

use std::collections::BTreeSet;

use super::layer::BloomGuard;
use crate::extract::AsId;
use crate::id::Id;
use crate::store::foreign::trust::TrustError;

/// Of other systems' filters, with the crate feature `redis`.
impl BloomGuard {
    /// States that [another system's filter](crate::Builder::foreign) holds every id there is, and so that an id which it lacks
    /// does not exist. The statement is kept in Redis beside the filter, and holds for all processes and restarts of the service.
    ///
    /// `known` are ids that exist, some of the oldest and some of the newest, in the form in which requests name them: a hundred of
    /// each, say. All must be in the filter. They show that layout, numbers and the form of ids are those of the programs that
    /// write it. Enough are needed that under wrong numbers all would be in it once in 10⁹ filters: five at a rate of 1 %.
    ///
    /// To be called by hand: once, when the guard is put in front of the filter, and again after whatever ended trust, as
    /// a failover or a lost key; first have the other system write again what may be missing. Not with every start, and by no timer.
    /// [`state`](Self::state) says afterwards how many ids the filter has: compare that with the database.
    ///
    /// # Errors
    ///
    /// [`TrustError`] says what does not fit, and what to compare. What was stated before stays. Of a filter that is spread over
    /// several Redis servers, some parts may be trusted.
    pub async fn trust_foreign<I>(&self, known: I) -> Result<(), TrustError>
    where
        I: IntoIterator<Item: AsId>,
    {
        let guard = self.start();
        let ids = known.into_iter().map(|id| id.as_id(&*guard.extractor));
        let ids = ids.collect::<Result<BTreeSet<Id>, _>>()?;
        guard.foreign.as_ref().ok_or(TrustError::NotForeign)?.trust(&ids).await
    }
}
