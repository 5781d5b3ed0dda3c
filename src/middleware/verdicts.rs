//! What guard and handler tell each other of a list of ids.

use std::fmt;
use std::sync::Arc;

use crate::extract::{AsId, IdExtractor};
use crate::id::Id;
use crate::verdict::Verdict;

/// What is known of each id that a request [lists](crate::extract::QueryList): an extension of the request.
///
/// The handler should read all ids but those that are absent. **Not every request has it**: with
/// [`Mode::Off`](crate::Mode::Off), or with a method that is not guarded, there is none, and the handler reads all.
/// In axum, take an `Option<Extension<Verdicts>>`. Where two guards find a list in one request, it knows nothing of
/// any id, so that records of one kind are not taken for those of another; one with `Mode::Off` looks for none, and it is the other's.
///
/// In return the handler should say which records it found: [`FoundIds`].
///
/// ```
/// use std::convert::Infallible;
///
/// use bloom_guard::extract::QueryList;
/// use bloom_guard::{BloomGuard, BoxError, FoundIds, Schedule, Verdicts, from_iter};
/// use http::{Request, Response, StatusCode};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // Users 1 to 1,000 exist.
/// let guard = BloomGuard::builder("users", QueryList::<u64>::separated("ids", ','))
///     .in_process()
///     .rebuild(Schedule::manual(), from_iter(|| 1..=1_000_u64))
/// #     .capacity(10_000, 1e-9)
/// #     .audits_per_second(0)
///     .build()?;
/// guard.ready().await;
///
/// let handler = tower::service_fn(|request: Request<String>| async move {
///     let list = request.uri().query().and_then(|query| query.strip_prefix("ids="));
///     let mut ids: Vec<u64> = list.unwrap_or_default().split(',').flat_map(str::parse).collect();
///     let mut response = Response::new(String::new());
///     if ids.is_empty() {
///         // As the guard answers: were it 200, a list without an id would count as one of records that it refuses.
///         *response.status_mut() = StatusCode::NOT_FOUND;
///         return Ok(response);
///     }
///     if let Some(verdicts) = request.extensions().get::<Verdicts>() {
///         verdicts.drop_absent(&mut ids);
///     }
///     // SELECT id FROM users WHERE id = ANY($1)
///     let rows: Vec<u64> = ids.iter().copied().filter(|id| *id <= 1_000).collect();
///     *response.body_mut() = format!("read {ids:?}, found {rows:?}");
///     response.extensions_mut().insert(FoundIds::new(rows));
///     Ok::<_, Infallible>(response)
/// });
/// let service = guard.layer(handler);
/// let ask = async |list: &str| {
///     let request = Request::get(format!("/users?ids={list}")).body(String::new())?;
///     Ok::<_, BoxError>(service.clone().oneshot(request).await?)
/// };
///
/// assert_eq!(ask("7,7000,8").await?.body(), "read [7, 8], found [7, 8]");
/// assert_eq!(ask("7000,7001").await?.status(), StatusCode::NOT_FOUND);
/// assert_eq!(ask("a,b").await?.status(), StatusCode::NOT_FOUND);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Verdicts {
    pub(super) extractor: Arc<dyn IdExtractor>,
    /// In the order of the ids' bytes.
    pub(super) ids: Arc<[(Id, Verdict)]>,
}

impl Verdicts {
    /// Returns what is known of an id. One that was found lately, or that the copy holds, is present. Nothing is known of an id that is not
    /// listed, or of which the handler shall show whether it is absent indeed: the sample, and
    /// [`Mode::Shadow`](crate::Mode::Shadow).
    pub fn get(&self, id: &(impl AsId + ?Sized)) -> Option<Verdict> {
        let id = id.as_id(&*self.extractor).ok()?;
        let at = self.ids.binary_search_by(|(listed, _)| listed.cmp(&id)).ok()?;
        Some(self.ids[at].1)
    }

    /// Takes those ids out that are proven absent.
    pub fn drop_absent<T: AsId>(&self, ids: &mut Vec<T>) {
        ids.retain(|id| !matches!(self.get(id), Some(Verdict::Absent(_))));
    }
}

impl fmt::Debug for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.ids).finish()
    }
}

/// An extension by which a handler says which of the ids that a request lists it found: of the response, whatever its
/// status.
///
/// It must name all that are there, on whatever page: the others become *missed*, and later requests for them may meet a full
/// lane. It counts in each guard that has read a list from the request: where two have, about records of two kinds, leave it out, or an
/// id of one kind would disprove the filter of the other. No null is stored.
///
/// | the handler answers a list | an id that it was told is absent | any other |
/// |---|---|---|
/// | 408 or 5xx, or the request is given up | no change | becomes *missed*, unless it is *found* |
/// | with `FoundIds` that have the id | is looked into, as the canary's | becomes *found* |
/// | with `FoundIds` that do not | no change | is *found* no longer, or becomes *missed* |
/// | anything else, also with [`Missing`](crate::Missing) | no change | becomes suspect if the copy let it pass |
///
/// Without it an attacker can ask for the filter's false positives in lists as often as he likes:
/// [`guide::attackers`](crate::guide::attackers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIds(Vec<Id>);

impl FoundIds {
    /// Returns the extension for the ids of these records; for none, if all are missing.
    pub fn new<I>(ids: I) -> Self
    where
        I: IntoIterator<Item: fmt::Display>,
    {
        // What is too long was not listed.
        Self(ids.into_iter().flat_map(|id| Id::display(&id)).collect())
    }

    /// Returns the ids in the canonical form of `extractor`, in the order of their bytes.
    pub(super) fn canonical(&self, extractor: &dyn IdExtractor) -> Vec<Id> {
        let texts = self.0.iter().flat_map(|id| std::str::from_utf8(id.as_bytes()));
        let mut ids: Vec<Id> = texts.flat_map(|text| extractor.canonical(text)).collect();
        ids.sort_unstable();
        ids
    }
}
