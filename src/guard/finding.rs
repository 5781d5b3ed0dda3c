//! A record that the guard held absent, as the application is told of it.

use crate::filter::Generation;
use crate::id::Id;
use crate::verdict::Proof;

/// A record that exists and that the guard held absent, as a request showed that was let through as a sample.
///
/// The id has been inserted meanwhile, if the store could do that. It comes again only if that failed, or if a
/// rebuild has put a filter live that lacks it: then the source misses it.
///
/// ```
/// use std::convert::Infallible;
///
/// use bloom_guard::{BloomGuard, BoxError, Mode, PathPattern, Proof, Schedule, from_iter};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // The source leaves user 7 out.
/// let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
///     .in_process()
///     .rebuild(Schedule::manual(), from_iter(|| 0..7_u64))
///     .build()?;
/// guard.ready().await;
/// guard.set_mode(Mode::Shadow); // every refusal is let through, not one a second
///
/// // A task of the application's, for as long as it runs:
/// let handle = guard.clone();
/// let first = tokio::spawn(async move {
///     loop {
///         let finding = handle.next_finding().await;
///         let id = String::from_utf8_lossy(finding.id.as_bytes()).into_owned();
///         eprintln!("user {id} was not in generation {:?}", finding.generation);
/// #       return (id, finding.proof);
///     }
/// });
///
/// let handler = tower::service_fn(|_: Request<String>| async {
///     Ok::<_, Infallible>(Response::new("user 7 is here".to_owned()))
/// });
/// guard.layer(handler).oneshot(Request::get("/users/7").body(String::new())?).await?;
/// assert_eq!(first.await?, ("7".to_owned(), Proof::Filter));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The record's id, in canonical form. `Debug` shows its length only.
    pub id: Id,
    /// The filter that was live when the record was held absent.
    pub generation: Option<Generation>,
    /// What was taken as a proof that there is no such record.
    pub proof: Proof,
}
