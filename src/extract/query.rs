//! The id is a parameter of the query.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use http::request::Parts;

use super::{Extraction, IdExtractor, typed};
use crate::id::{Id, InvalidId};

/// Takes the id out of a query parameter, decoded as axum's `Query` decodes it: `+` is a space, and
/// bytes that are not UTF-8 become `U+FFFD`.
///
/// A request without the parameter is unguarded; one that has it twice is
/// [ambiguous](InvalidId::Ambiguous), as it is for a handler that reads a struct. A handler that
/// takes the first or the last of several needs an [`IdExtractor`] that does the same.
///
/// ```
/// use bloom_guard::Id;
/// use bloom_guard::extract::{Extraction, IdExtractor, Query};
///
/// let user = Query::<u64>::new("user");
/// let (request, ()) = http::Request::get("/posts?page=2&user=%30%37").body(())?.into_parts();
/// assert_eq!(user.extract(&request), Extraction::Id(Id::new("7")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Query<T = String> {
    key: Box<str>,
    id: PhantomData<fn() -> T>,
}

impl<T> Query<T> {
    /// Creates an extractor for the parameter of this name, written as it is when decoded.
    #[must_use]
    pub fn new(key: impl Into<Box<str>>) -> Self {
        Self { key: key.into(), id: PhantomData }
    }
}

impl<T> IdExtractor for Query<T>
where
    T: FromStr + fmt::Display + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        let query = parts.uri.query().unwrap_or_default();
        let mut values = form_urlencoded::parse(query.as_bytes())
            .filter_map(|(key, value)| (key == *self.key).then_some(value));
        match (values.next(), values.next()) {
            (None, _) => Extraction::Unguarded,
            (Some(text), None) => typed::canonical::<T>(&text).into(),
            (Some(_), Some(_)) => Extraction::Invalid(InvalidId::Ambiguous),
        }
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        typed::canonical::<T>(text)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn extract<T>(key: &str, target: &str) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        let (parts, ()) = Request::get(target).body(()).unwrap().into_parts();
        Query::<T>::new(key).extract(&parts)
    }

    fn id(text: &str) -> Extraction {
        Extraction::Id(Id::new(text).unwrap())
    }

    #[test]
    fn keys_and_values_are_decoded_as_a_form() {
        assert_eq!(extract::<String>("id", "/?id=a+b%2Bc"), id("a b+c"));
        assert_eq!(extract::<String>("id", "/?id=%FF%zz"), id("\u{fffd}%zz"));
        assert_eq!(extract::<String>("a b", "/?x&a+b=1=2&y"), id("1=2"));
        assert_eq!(extract::<u64>("id", "/?%69d=007"), id("7"));
    }

    #[test]
    fn a_missing_parameter_is_unguarded_and_an_empty_one_is_not() {
        for target in ["/", "/?", "/?&&", "/?ID=7", "/?idx=7", "/?x=id=7"] {
            assert_eq!(extract::<u64>("id", target), Extraction::Unguarded, "{target}");
        }
        for target in ["/?id", "/?id=", "/?id=+7"] {
            let malformed = Extraction::Invalid(InvalidId::Malformed);
            assert_eq!(extract::<u64>("id", target), malformed, "{target}");
        }
        assert_eq!(extract::<String>("id", "/?id"), id(""));
    }

    #[test]
    fn a_repeated_parameter_is_ambiguous() {
        for target in ["/?id=1&id=1", "/?id=1&x=2&%69%64=3", "/?id&id"] {
            let ambiguous = Extraction::Invalid(InvalidId::Ambiguous);
            assert_eq!(extract::<u64>("id", target), ambiguous, "{target}");
        }
    }
}
