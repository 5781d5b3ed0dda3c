//! The request lists several ids.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use http::request::Parts;

use super::{Extraction, IdExtractor, typed};
use crate::id::{Id, InvalidId};

/// Takes several ids out of the query, decoded as [`Query`](crate::extract::Query) decodes it.
///
/// Of all values of the parameter, each piece is read by the handler's type, as it stands: nothing is trimmed.
/// The request is refused only when all of them are absent. [`Verdicts`](crate::Verdicts) tells the handler
/// which are, and has an example; [`FoundIds`](crate::FoundIds) says what a list teaches. As with
/// [`Query`](crate::extract::Query), every route below the layer that gets the parameter is guarded.
///
/// | the list | the request |
/// |---|---|
/// | is not there, or empty (`?ids=`) | is unguarded |
/// | has pieces that the type does not read, and ids | is never refused as absent |
/// | has nothing else | is [invalid](crate::Builder::on_invalid) |
/// | has more than [`Id::MAX_LISTED`] pieces | is invalid ([`InvalidId::TooMany`]): 400, never 404 |
/// | names an id more than once | is as if it were there once |
///
/// ```
/// use bloom_guard::Id;
/// use bloom_guard::extract::{Extraction, IdExtractor, QueryList};
///
/// let users = QueryList::<u64>::separated("ids", ',');
/// let (request, ()) = http::Request::get("/users?ids=7,008%2C9").body(())?.into_parts();
/// let ids = ["7", "8", "9"].map(Id::new);
/// assert_eq!(users.extract(&request), Extraction::Ids(ids.to_vec()));
///
/// let users = QueryList::<u64>::repeated("id");
/// let (request, ()) = http::Request::get("/users?id=7&id=8&id=9").body(())?.into_parts();
/// assert_eq!(users.extract(&request), Extraction::Ids(ids.to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A guard has one extractor. [`IdExtractor`] has an example for one filter behind both `/users/zoe` and `/users?names=zoe,max`.
#[derive(Debug)]
pub struct QueryList<T = String> {
    key: Box<str>,
    separator: Option<char>,
    id: PhantomData<fn() -> T>,
}

impl<T> QueryList<T> {
    /// Creates an extractor for a parameter whose value is a list: `?ids=1,2,3`. The value is decoded first, so
    /// no id can contain the separator.
    #[must_use]
    pub fn separated(key: impl Into<Box<str>>, separator: char) -> Self {
        Self { key: key.into(), separator: Some(separator), id: PhantomData }
    }

    /// Creates an extractor for a parameter that is there once for each id: `?id=1&id=2`.
    #[must_use]
    pub fn repeated(key: impl Into<Box<str>>) -> Self {
        Self { key: key.into(), separator: None, id: PhantomData }
    }
}

impl<T> IdExtractor for QueryList<T>
where
    T: FromStr + fmt::Display + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        let query = parts.uri.query().unwrap_or_default();
        let mut ids = Vec::new();
        let mut len = 0;
        let mut is_empty = true;
        for (_, value) in
            form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| *key == *self.key)
        {
            for text in value.split(|letter| Some(letter) == self.separator) {
                len += 1;
                is_empty &= text.is_empty() && len == 1;
                // The others are counted.
                if len <= Id::MAX_LISTED {
                    ids.push(typed::canonical::<T>(text));
                }
            }
        }
        match len {
            _ if is_empty => Extraction::Unguarded,
            0..=Id::MAX_LISTED => Extraction::Ids(ids),
            len => Extraction::Invalid(InvalidId::TooMany { len }),
        }
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        typed::canonical::<T>(text)
    }
}

/// Returns the ids of a list, each once, in the order of their bytes, and how many listed texts are no ids. Fails if the list is too
/// long, or has no id.
pub(crate) fn readable(listed: Vec<Result<Id, InvalidId>>) -> Result<(Vec<Id>, usize), InvalidId> {
    let len = listed.len();
    if len > Id::MAX_LISTED {
        return Err(InvalidId::TooMany { len });
    }
    let first = listed.first().and_then(|id| id.as_ref().err().copied());
    let mut ids: Vec<Id> = listed.into_iter().flatten().collect();
    let unread = len - ids.len();
    ids.sort_unstable();
    ids.dedup();
    first.filter(|_| ids.is_empty()).map_or(Ok((ids, unread)), Err)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn extract<T>(list: &QueryList<T>, target: &str) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        let (parts, ()) = Request::get(target).body(()).unwrap().into_parts();
        list.extract(&parts)
    }

    fn ids(texts: &[&str]) -> Extraction {
        Extraction::Ids(texts.iter().map(Id::new).collect())
    }

    fn separated<T>(target: &str) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        extract(&QueryList::<T>::separated("ids", ','), target)
    }

    fn repeated<T>(target: &str) -> Extraction
    where
        T: FromStr + fmt::Display + 'static,
    {
        extract(&QueryList::<T>::repeated("id"), target)
    }

    #[test]
    fn all_ids_that_any_handler_could_read_are_listed() {
        assert_eq!(separated::<u64>("/?ids=1,%302&x=9&ids=3"), ids(&["1", "2", "3"]));
        assert_eq!(separated::<String>("/?ids=a+b,c%2Cd,"), ids(&["a b", "c", "d", ""]));
        assert_eq!(repeated::<u64>("/?id=1&x=9&id=2&i%64=1"), ids(&["1", "2", "1"]));
        assert_eq!(repeated::<String>("/?id=a,b&id&id=c"), ids(&["a,b", "", "c"]));
    }

    #[test]
    fn an_empty_list_asks_for_nothing() {
        for target in ["/", "/?x=1", "/?ids", "/?ids=", "/?id="] {
            assert_eq!(separated::<String>(target), Extraction::Unguarded, "{target}");
            assert_eq!(repeated::<u64>(target), Extraction::Unguarded, "{target}");
        }
    }

    #[test]
    fn what_is_no_id_stays_in_the_list() {
        let Extraction::Ids(listed) = separated::<u64>("/?ids=1,,+2") else { panic!("a list") };
        let malformed = Err(InvalidId::Malformed);
        assert_eq!(listed, [Id::new("1"), malformed.clone(), malformed]);
        let (ids, unread) = readable(listed).unwrap();
        assert_eq!((ids.len(), unread), (1, 2));
        let Extraction::Ids(listed) = separated::<u64>("/?ids=,") else { panic!("a list") };
        assert_eq!(readable(listed).err(), Some(InvalidId::Malformed));
    }

    #[test]
    fn a_list_has_at_most_100_ids_and_says_how_many_there_were() {
        let target = |len| format!("/?ids={}", vec!["7"; len].join(","));
        assert!(matches!(separated::<u64>(&target(100)), Extraction::Ids(ids) if ids.len() == 100));
        let too_many = InvalidId::TooMany { len: 101 };
        assert_eq!(separated::<u64>(&target(101)), Extraction::Invalid(too_many));
        assert_eq!(readable(vec![Id::new("7"); 101]).err(), Some(too_many));
        assert_eq!(too_many.to_string(), "list of 101 ids is longer than the limit of 100");
    }

    #[test]
    fn an_id_that_is_listed_twice_is_there_once() {
        let (ids, unread) = readable(["2", "1", "2"].map(Id::new).to_vec()).unwrap();
        assert_eq!(ids, ["1", "2"].map(|text| Id::new(text).unwrap()));
        assert_eq!(unread, 0);
        assert!(readable(Vec::new()).unwrap().0.is_empty());
    }
}
