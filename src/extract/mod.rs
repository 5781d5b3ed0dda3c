//! Where the id of a request comes from, and its canonical form: [`PathPattern`], [`Query`], [`QueryList`], [`Header`],
//! `Captures` with the crate feature `axum`, or any other [`IdExtractor`].
//!
//! The guard must see the id that the handler will see. A typed extractor parses the raw text with
//! the handler's own [`FromStr`](std::str::FromStr) and writes it back with
//! [`Display`](std::fmt::Display), so `007`, `%37` and `7` are one id exactly when the handler
//! treats them as one.

#[cfg(feature = "axum")]
mod captures;
mod header;
mod list;
mod path;
mod query;
mod typed;

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

#[cfg(feature = "axum")]
pub use self::captures::Captures;
pub use self::header::Header;
pub use self::list::QueryList;
pub(crate) use self::list::readable;
pub use self::path::{PathPattern, PatternError};
pub use self::query::Query;

use crate::id::{Id, InvalidId};

/// What a request says about its resource id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extraction {
    /// The request is about this id.
    Id(Id),
    /// The request lists these, at most [`Id::MAX_LISTED`]. One that is no id may still mean something to the
    /// handler, so a list with such a one is not refused as absent; a list without any id is refused as invalid.
    Ids(Vec<Result<Id, InvalidId>>),
    /// The request is about no id: the guard lets it pass.
    Unguarded,
    /// The request names an id that the handler could not read either.
    Invalid(InvalidId),
}

impl From<Result<Id, InvalidId>> for Extraction {
    fn from(id: Result<Id, InvalidId>) -> Self {
        match id {
            Ok(id) => Self::Id(id),
            Err(invalid) => Self::Invalid(invalid),
        }
    }
}

/// Takes the resource id out of a request.
///
/// A closure from [`&Parts`](Parts) to [`Extraction`] is an extractor whose ids are taken as they
/// are written. It has to see what the handler sees: in a path or a query that is percent-encoded, and an
/// empty segment is mostly another route. The extractors of this crate do that, so others are best built
/// around them:
///
/// ```
/// use bloom_guard::extract::{Extraction, IdExtractor, QueryList};
/// use bloom_guard::{Id, InvalidId, PathPattern};
/// use http::request::Parts;
///
/// /// Names that the database compares without regard to case, in the path or listed in the query.
/// struct Names {
///     one: PathPattern<String>,
///     many: QueryList<String>,
/// }
///
/// fn folded(id: &Id) -> Result<Id, InvalidId> {
///     Id::new(String::from_utf8_lossy(id.as_bytes()).to_lowercase())
/// }
///
/// impl IdExtractor for Names {
///     fn extract(&self, parts: &Parts) -> Extraction {
///         let found = match self.one.extract(parts) {
///             Extraction::Unguarded if parts.uri.path() == "/users" => self.many.extract(parts),
///             found => found,
///         };
///         match found {
///             Extraction::Id(id) => folded(&id).into(),
///             Extraction::Ids(ids) => Extraction::Ids(ids.into_iter().map(|id| folded(&id?)).collect()),
///             other => other,
///         }
///     }
///
///     fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
///         folded(&self.one.canonical(text)?)
///     }
///
///     fn is_ambiguous(&self) -> bool {
///         self.one.is_ambiguous()
///     }
/// }
///
/// let names = Names {
///     one: PathPattern::new("/users/{name}")?,
///     many: QueryList::separated("names", ','),
/// };
/// let extract = |target: &str| {
///     let (request, ()) = http::Request::get(target).body(()).expect("is valid").into_parts();
///     names.extract(&request)
/// };
/// assert_eq!(extract("/users/Zo%C3%8B?names=Max"), Extraction::Id(Id::new("zoë")?));
/// assert_eq!(extract("/users?names=Zoe,MAX"), Extraction::Ids(vec![Id::new("zoe"), Id::new("max")]));
/// assert_eq!(extract("/orders?names=Zoe"), Extraction::Unguarded);
/// assert_eq!(names.canonical("ZOË")?, Id::new("zoë")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IdExtractor: Send + Sync + 'static {
    /// Returns what the request says about its id.
    fn extract(&self, parts: &Parts) -> Extraction;

    /// Returns the canonical id for a text that names it: the one that [`extract`](Self::extract)
    /// would find in a request whose decoded path segment, query value or header is this text.
    ///
    /// Inserts, removals, checks and rebuilds all go through here.
    ///
    /// # Errors
    ///
    /// The reason why the text is no id. Whatever is refused here is refused in a request.
    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        Id::new(text)
    }

    /// Whether a 404 may be about something else than the record with this id: a route that does not
    /// exist, a part of the record, a page beyond the last. Then it is remembered as a null only with
    /// the [`Missing`](crate::Missing) mark, unless
    /// [`require_marker`](crate::NegativeCaching::require_marker) says otherwise.
    ///
    /// Defaults to `true`.
    fn is_ambiguous(&self) -> bool {
        true
    }
}

impl<F> IdExtractor for F
where
    F: Fn(&Parts) -> Extraction + Send + Sync + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        self(parts)
    }
}

impl<E: IdExtractor + ?Sized> IdExtractor for Arc<E> {
    fn extract(&self, parts: &Parts) -> Extraction {
        (**self).extract(parts)
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        (**self).canonical(text)
    }

    fn is_ambiguous(&self) -> bool {
        (**self).is_ambiguous()
    }
}

/// Whether a request without an id would have one if a layer within cut the path's final slash, made double slashes one, or
/// decoded `%2F`.
pub(crate) fn has_id_rewritten(extractor: &dyn IdExtractor, parts: &Parts) -> bool {
    let path = parts.uri.path();
    let is_odd = |odd: &[&str]| odd.iter().any(|odd| path.contains(odd));
    if path == "/" || !(path.ends_with('/') || is_odd(&["//", "%2F", "%2f"])) {
        return false;
    }
    let path = path.replace("%2F", "/").replace("%2f", "/");
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let Ok(uri) = format!("/{}{query}", segments.join("/")).parse() else { return false };
    let mut rewritten = parts.clone();
    rewritten.uri = uri;
    extractor.extract(&rewritten) != Extraction::Unguarded
}

/// An id as the application names it: anything with a [`Display`](fmt::Display) form, or an [`Id`]
/// that is already canonical.
pub trait AsId {
    /// Returns the id in the canonical form of `extractor`.
    ///
    /// # Errors
    ///
    /// The reason why the value is no id.
    fn as_id(&self, extractor: &dyn IdExtractor) -> Result<Id, InvalidId>;
}

impl<T: fmt::Display + ?Sized> AsId for T {
    fn as_id(&self, extractor: &dyn IdExtractor) -> Result<Id, InvalidId> {
        let text = Id::display(self)?;
        let text = std::str::from_utf8(text.as_bytes()).map_err(|_| InvalidId::NotText)?;
        extractor.canonical(text)
    }
}

impl AsId for Id {
    fn as_id(&self, _: &dyn IdExtractor) -> Result<Id, InvalidId> {
        Ok(self.clone())
    }
}
