//! The id is a segment of the path.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::{Extraction, IdExtractor, typed};
use crate::id::{Id, InvalidId};

/// Takes the id out of the path, as axum's router would.
///
/// A pattern is written as an axum route, matched by the same matcher (`matchit`) on the raw path,
/// and its capture is percent-decoded afterwards, so an encoded slash does not end a segment. A
/// path that matches no pattern is unguarded.
///
/// `T` is the type that the handler reads: `u64`, `String`, `Uuid` (whose spellings, hyphenated or
/// not, braced, `urn:uuid:`, in capitals, are one id), anything that has [`FromStr`] and
/// [`Display`](fmt::Display).
///
/// ```
/// use bloom_guard::extract::{Extraction, IdExtractor};
/// use bloom_guard::{Id, PathPattern};
///
/// let users = PathPattern::<u64>::new("/users/{id}")?.except("/users/me")?;
///
/// let (request, ()) = http::Request::get("/users/%30%307?full=1").body(())?.into_parts();
/// assert_eq!(users.extract(&request), Extraction::Id(Id::new("7")?));
///
/// let (request, ()) = http::Request::get("/users/me").body(())?.into_parts();
/// assert_eq!(users.extract(&request), Extraction::Unguarded);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Name the routes that win.** The pattern does not know the application's other routes. If
/// `/users/me` is a route beside `/users/{id}`, then [`except`](Self::except) must say so, or `me`
/// is taken for an id and refused.
///
/// The path is the request's as it arrives at the guard. A guard inside a router that is nested at
/// `/api` sees the path without `/api`; one around the whole application sees it with. **What rewrites
/// paths goes outside of the guard.** Where a `NormalizePathLayer` inside of it makes `/users/7` of
/// `/users/7/`, the guard has let that pass as another route.
#[derive(Debug)]
pub struct PathPattern<T = String> {
    /// The capture that is the id; none for an excepted route.
    router: matchit::Router<Option<Box<str>>>,
    /// What stands before the id, if there is one pattern whose last segment is the id: quicker than the matcher.
    prefix: Option<Box<str>>,
    capture: Box<str>,
    /// Whether there are several patterns, or captures beside the id.
    ambiguous: bool,
    id: PhantomData<fn() -> T>,
}

impl<T> PathPattern<T> {
    /// Creates an extractor for a pattern with one capture: `/users/{id}`, or `/files/{*path}` for
    /// a capture that spans several segments.
    ///
    /// # Errors
    ///
    /// When the pattern does not begin with `/`, has no capture or several, or is none to the
    /// matcher.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::over(pattern, None)
    }

    /// Creates an extractor for a pattern with several captures, of which the one named `name` is
    /// the id.
    ///
    /// The id must name the record **without the other captures**. If `/a/users/7` and `/b/users/7`
    /// are two records, their ids must differ: write an [`IdExtractor`] whose ids hold both parts.
    ///
    /// # Errors
    ///
    /// When the pattern does not begin with `/`, has no capture of that name or two, or is none to
    /// the matcher.
    pub fn capture(pattern: &str, name: &str) -> Result<Self, PatternError> {
        Self::over(pattern, Some(name))
    }

    fn over(pattern: &str, name: Option<&str>) -> Result<Self, PatternError> {
        let captures = captures(pattern)?;
        let capture = chosen(pattern, &captures, name)?;
        let mut new = Self {
            router: matchit::Router::new(),
            prefix: None,
            capture: capture.into(),
            ambiguous: captures.len() > 1,
            id: PhantomData,
        };
        new.insert(pattern, Some(capture.into()))?;
        new.prefix = self::prefix(pattern, capture).map(Box::from);
        Ok(new)
    }

    /// Adds a further pattern under which the same records are found. Its id is the capture named
    /// as the first pattern's, or else its only one.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and when the matcher cannot tell the pattern from an earlier one.
    pub fn or(mut self, pattern: &str) -> Result<Self, PatternError> {
        let captures = captures(pattern)?;
        let name = captures.contains(&self.capture).then_some(&*self.capture);
        let capture = chosen(pattern, &captures, name)?;
        self.insert(pattern, Some(capture.into()))?;
        self.ambiguous = true;
        Ok(self)
    }

    /// Leaves a route of the application unguarded that would otherwise match a pattern:
    /// `/users/me`, `/users/{id}/avatar`, `/users/by-name/{*name}`. It wins where axum would let it
    /// win.
    ///
    /// # Errors
    ///
    /// When the route does not begin with `/`, is none to the matcher, or is one of the patterns.
    pub fn except(mut self, route: &str) -> Result<Self, PatternError> {
        self.insert(route, None)?;
        Ok(self)
    }

    fn insert(&mut self, pattern: &str, id: Option<Box<str>>) -> Result<(), PatternError> {
        self.prefix = None;
        insert(&mut self.router, pattern, id)
    }

    fn raw<'path>(&self, path: &'path str) -> Option<&'path str> {
        if let Some(prefix) = &self.prefix {
            return path.strip_prefix(&**prefix).filter(|id| !id.is_empty() && !id.contains('/'));
        }
        let found = self.router.at(path).ok()?;
        found.params.get(found.value.as_ref()?)
    }
}

impl<T> IdExtractor for PathPattern<T>
where
    T: FromStr + fmt::Display + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        // The path is empty for an authority-form target and `*` for an asterisk-form one: neither
        // matches, as every pattern begins with a slash.
        let Some(raw) = self.raw(parts.uri.path()) else { return Extraction::Unguarded };
        decoded(raw).and_then(|text| typed::canonical::<T>(&text)).into()
    }

    /// `false` for a single pattern with a single capture, which names the record and nothing else.
    fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        typed::canonical::<T>(text)
    }
}

fn prefix<'pattern>(pattern: &'pattern str, name: &str) -> Option<&'pattern str> {
    let prefix = pattern.strip_suffix('}')?.strip_suffix(name)?.strip_suffix('{')?;
    (prefix.ends_with('/') && !prefix.contains(['{', '}'])).then_some(prefix)
}

/// Decodes a raw capture as axum does: a broken escape stays as it is, and the result is UTF-8.
fn decoded(raw: &str) -> Result<Cow<'_, str>, InvalidId> {
    // An escape takes three bytes for one.
    if raw.len() > 3 * Id::MAX_LEN {
        return Err(InvalidId::TooLong { len: raw.len() });
    }
    if !raw.contains('%') {
        return Ok(raw.into());
    }
    percent_decode_str(raw).decode_utf8().map_err(|_| InvalidId::NotText)
}

fn captures(pattern: &str) -> Result<Vec<Box<str>>, PatternError> {
    let mut router = matchit::Router::new();
    insert(&mut router, pattern, ())?;
    // A pattern, read as a path, matches itself. So only the matcher parses its syntax.
    let itself = pattern.replace("{{", "{").replace("}}", "}");
    let found = router.at(&itself);
    Ok(found.iter().flat_map(|found| found.params.iter()).map(|(name, _)| name.into()).collect())
}

/// Returns the capture that is the id: the one of this name, or else the only one.
fn chosen<'a>(
    pattern: &str,
    captures: &'a [Box<str>],
    name: Option<&str>,
) -> Result<&'a str, PatternError> {
    let mut fitting = captures.iter().filter(|capture| name.is_none_or(|name| ***capture == *name));
    let problem = match (fitting.next(), fitting.next(), name) {
        (Some(capture), None, _) => return Ok(capture),
        (None, _, None) => "has no capture like `{id}`".to_owned(),
        (None, _, Some(name)) => format!("has no capture `{name}`"),
        (Some(_), Some(_), None) => "has several captures and none is chosen".to_owned(),
        (Some(_), Some(_), Some(name)) => format!("has more than one capture `{name}`"),
    };
    Err(PatternError::new(pattern, problem))
}

fn insert<V>(router: &mut matchit::Router<V>, pattern: &str, value: V) -> Result<(), PatternError> {
    if !pattern.starts_with('/') {
        return Err(PatternError::new(pattern, "does not begin with `/`"));
    }
    // The matcher panics at its 26th capture.
    if pattern.matches('{').count() > 25 {
        return Err(PatternError::new(pattern, "has more than 25 captures"));
    }
    router.insert(pattern, value).map_err(|refused| {
        PatternError::new(pattern, format!("is not accepted by the path matcher: {refused}"))
    })
}

/// Why a text is not a [`PathPattern`](crate::PathPattern).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern `{pattern}` {problem}")]
pub struct PatternError {
    pattern: Box<str>,
    problem: Box<str>,
}

impl PatternError {
    fn new(pattern: &str, problem: impl Into<Box<str>>) -> Self {
        Self { pattern: pattern.into(), problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Uri};

    use super::*;

    fn extract<T>(pattern: &PathPattern<T>, target: &str) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        let uri: Uri = target.parse().unwrap();
        pattern.extract(&Request::get(uri).body(()).unwrap().into_parts().0)
    }

    fn id(text: &str) -> Extraction {
        Extraction::Id(Id::new(text).unwrap())
    }

    #[track_caller]
    fn refused<T: fmt::Debug>(pattern: Result<PathPattern<T>, PatternError>, why: &str) {
        let told = pattern.unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }

    #[test]
    fn a_capture_is_decoded_once_and_after_matching() {
        let files = PathPattern::<String>::new("/files/{name}").unwrap();
        assert_eq!(extract(&files, "/files/a%2Fb"), id("a/b"));
        assert_eq!(extract(&files, "/files/%2537"), id("%37"));
        assert_eq!(extract(&files, "/files/50%"), id("50%"));
        assert_eq!(extract(&files, "/files/%zz+%00"), id("%zz+\0"));
        assert_eq!(extract(&files, "/files/%C3%A4"), id("ä"));
        assert_eq!(extract(&files, "/files/a/b"), Extraction::Unguarded);
        assert_eq!(extract(&files, "/files/"), Extraction::Unguarded);
        for overlong in ["%C0%AF", "%FF", "%ED%A0%80"] {
            let not_text = Extraction::Invalid(InvalidId::NotText);
            assert_eq!(extract(&files, &format!("/files/{overlong}")), not_text);
        }
    }

    #[test]
    fn a_single_pattern_finds_what_the_matcher_finds() {
        let parts = ["", "/", "//", "users", "7", "{id}", "%2F", "a b", "é"];
        let paths = parts.iter().flat_map(|a| parts.map(|b| format!("{a}{b}"))).collect::<Vec<_>>();
        for pattern in
            ["/users/{id}", "/{id}", "//{id}", "/é/users/{id}", "/users/7/{id}", "/u/{a}/{id}"]
        {
            let short = PathPattern::<u64>::capture(pattern, "id").unwrap();
            let mut matched = PathPattern::<u64>::capture(pattern, "id").unwrap();
            matched.prefix = None;
            assert_eq!(short.prefix.is_none(), pattern.contains("{a}"), "{pattern}");
            let stem = pattern.trim_end_matches("{id}");
            for path in paths
                .iter()
                .flat_map(|path| [path.clone(), format!("{stem}{path}"), format!("/{path}")])
            {
                assert_eq!(short.raw(&path), matched.raw(&path), "{pattern} at {path}");
            }
        }
        for (pattern, name) in [("/files/{*id}", "id"), ("/{id}/x", "id"), ("/{{x}}/{id}", "id")] {
            assert_eq!(
                PathPattern::<u64>::capture(pattern, name).unwrap().prefix,
                None,
                "{pattern}"
            );
        }
        let users = PathPattern::<u64>::new("/users/{id}").unwrap();
        assert_eq!(users.except("/users/me").unwrap().prefix, None);
    }

    #[test]
    fn a_target_may_be_absolute_and_need_not_be_a_path() {
        let users = PathPattern::<u64>::new("/users/{id}").unwrap();
        assert_eq!(extract(&users, "http://example.org:80/users/7?a=/users/8"), id("7"));
        for target in ["*", "example.org:443", "http://example.org"] {
            assert_eq!(extract(&users, target), Extraction::Unguarded, "{target}");
            let all = PathPattern::<String>::new("/{*all}").unwrap();
            assert_eq!(extract(&all, target), Extraction::Unguarded, "{target}");
        }
    }

    #[test]
    fn a_named_route_wins_over_the_pattern() {
        let users = PathPattern::<u64>::new("/users/{id}")
            .and_then(|users| users.except("/users/me"))
            .and_then(|users| users.except("/users/tmp-{token}"))
            .unwrap();
        assert_eq!(extract(&users, "/users/me"), Extraction::Unguarded);
        assert_eq!(extract(&users, "/users/tmp-7"), Extraction::Unguarded);
        assert_eq!(extract(&users, "/users/7"), id("7"));
        // As in axum: these are other paths, and the pattern takes them.
        let malformed = Extraction::Invalid(InvalidId::Malformed);
        assert_eq!(extract(&users, "/users/%6De"), malformed);
        assert_eq!(extract(&users, "/users/tmp-"), malformed);
    }

    #[test]
    fn several_patterns_share_one_id() {
        let users = PathPattern::<u64>::capture("/{tenant}/users/{user}", "user")
            .and_then(|users| users.or("/v2/{region}/people/{user}"))
            .and_then(|users| users.or("/u/{id}"))
            .unwrap();
        for target in ["/acme/users/7", "/v2/eu/people/07", "/u/%37"] {
            assert_eq!(extract(&users, target), id("7"), "{target}");
        }
        refused(users.or("/w/{a}/{b}"), "has several captures and none is chosen");
    }

    #[test]
    fn a_wildcard_spans_segments() {
        let files = PathPattern::<String>::new("/files/{*path}").unwrap();
        assert_eq!(extract(&files, "/files/a/b%2Fc//d/"), id("a/b/c//d/"));
        assert_eq!(extract(&files, "/files/../x"), id("../x"));
        assert_eq!(extract(&files, "/files/"), Extraction::Unguarded);
    }

    #[test]
    fn an_oversized_segment_is_refused_and_never_cut() {
        let users = PathPattern::<String>::new("/users/{id}").unwrap();
        let encoded = |len| format!("/users/{}", "%61".repeat(len));
        assert_eq!(extract(&users, &encoded(256)), id(&"a".repeat(256)));
        for len in [257, 20_000] {
            let extraction = extract(&users, &encoded(len));
            assert!(matches!(extraction, Extraction::Invalid(InvalidId::TooLong { .. })), "{len}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_work_is_an_error() {
        let new = PathPattern::<u64>::new;
        refused(new("users/{id}"), "does not begin with `/`");
        refused(new(""), "does not begin with `/`");
        refused(new("/users/:id"), "has no capture like `{id}`");
        refused(new("/users/{{id}}"), "has no capture like `{id}`");
        refused(new("/{a}/{b}"), "has several captures and none is chosen");
        refused(new(&"/{a}".repeat(26)), "has more than 25 captures");
        refused(PathPattern::<u64>::capture("/{a}/{b}", "c"), "has no capture `c`");
        refused(PathPattern::<u64>::capture("/{a}/{a}", "a"), "has more than one capture `a`");
        refused(new("/users/{id}").unwrap().except("users/me"), "does not begin with `/`");
        refused(new("/users/{id"), "`/users/{id` is not accepted by the path matcher: ");
        refused(new("/users/{id}").unwrap().or("/users/{user}"), "matcher: ");
    }

    #[test]
    fn escaped_braces_are_letters() {
        let odd = PathPattern::<u64>::new("/{{x}}/{id}").unwrap();
        assert_eq!(extract(&odd, "/{x}/7"), id("7"));
        assert_eq!(extract(&odd, "/y/7"), Extraction::Unguarded);
    }
}
