//! The id is a header's value.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use http::HeaderName;
use http::request::Parts;

use super::{Extraction, IdExtractor, typed};
use crate::id::{Id, InvalidId};

/// Takes the id out of a request header.
///
/// A request without the header is unguarded; one that has it twice, with different values, is
/// [ambiguous](InvalidId::Ambiguous): some handlers read the first and some the last. A value that is not
/// UTF-8 is [no text](InvalidId::NotText). Nothing is trimmed and a comma does not split.
///
/// ```
/// use bloom_guard::Id;
/// use bloom_guard::extract::{Extraction, Header, IdExtractor};
///
/// let user = Header::<u64>::new("x-user-id")?;
/// let (request, ()) = http::Request::get("/").header("X-User-Id", "007").body(())?.into_parts();
/// assert_eq!(user.extract(&request), Extraction::Id(Id::new("7")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Header<T = String> {
    name: HeaderName,
    id: PhantomData<fn() -> T>,
}

impl<T> Header<T> {
    /// Creates an extractor for the header of this name.
    ///
    /// # Errors
    ///
    /// When the text is no header name. A [`HeaderName`] always is one.
    pub fn new<N>(name: N) -> Result<Self, N::Error>
    where
        N: TryInto<HeaderName>,
    {
        Ok(Self { name: name.try_into()?, id: PhantomData })
    }
}

impl<T> IdExtractor for Header<T>
where
    T: FromStr + fmt::Display + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        let mut values = parts.headers.get_all(&self.name).iter();
        let Some(value) = values.next() else { return Extraction::Unguarded };
        if values.any(|other| other != value) {
            return Extraction::Invalid(InvalidId::Ambiguous);
        }
        // Not `HeaderValue::to_str`, which is for ASCII only: some handlers read UTF-8, and a text that
        // a handler can read must not be refused.
        std::str::from_utf8(value.as_bytes())
            .map_err(|_| InvalidId::NotText)
            .and_then(typed::canonical::<T>)
            .into()
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        typed::canonical::<T>(text)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn extract<T>(values: &[&[u8]]) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        let (mut parts, ()) = Request::new(()).into_parts();
        for value in values {
            parts.headers.append("x-user-id", HeaderValue::from_bytes(value).unwrap());
        }
        Header::<T>::new("X-User-Id").unwrap().extract(&parts)
    }

    fn id(text: &str) -> Extraction {
        Extraction::Id(Id::new(text).unwrap())
    }

    #[test]
    fn a_value_is_read_as_its_type() {
        assert_eq!(extract::<u64>(&[b"007"]), id("7"));
        assert_eq!(extract::<String>(&["ä, b ".as_bytes()]), id("ä, b "));
        assert_eq!(extract::<u64>(&[b"7 "]), Extraction::Invalid(InvalidId::Malformed));
        assert_eq!(extract::<u64>(&[b""]), Extraction::Invalid(InvalidId::Malformed));
    }

    #[test]
    fn a_missing_header_is_unguarded_and_one_that_contradicts_itself_is_ambiguous() {
        assert_eq!(extract::<u64>(&[]), Extraction::Unguarded);
        assert_eq!(extract::<u64>(&[b"7", b"7"]), id("7"), "a client's and its gateway's");
        assert_eq!(extract::<u64>(&[b"7", b"8"]), Extraction::Invalid(InvalidId::Ambiguous));
    }

    #[test]
    fn opaque_bytes_are_no_text() {
        assert_eq!(extract::<String>(&[b"\xff"]), Extraction::Invalid(InvalidId::NotText));
    }

    #[test]
    fn a_name_is_checked() {
        assert!(Header::<u64>::new("x user").is_err());
        assert!(Header::<u64>::new(http::header::ETAG).is_ok());
    }
}
