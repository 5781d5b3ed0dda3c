//! The canonical form of a typed id.

use std::any::TypeId;
use std::fmt::Display;
use std::str::FromStr;

use crate::id::{Id, InvalidId};

/// Returns the id that `text` spells when it is read as a `T`: parsed by the handler's own
/// [`FromStr`] and written back by [`Display`].
///
/// A text of more than [`Id::MAX_LEN`] bytes is refused before it is parsed, so nobody can have 64 KiB parsed. So is a number behind
/// hundreds of zeros; an insert refuses that spelling, too.
pub(super) fn canonical<T: FromStr + Display + 'static>(text: &str) -> Result<Id, InvalidId> {
    if text.len() > Id::MAX_LEN {
        return Err(InvalidId::TooLong { len: text.len() });
    }
    if is::<T, String>() {
        return Id::new(text);
    }
    let value: T = text.parse().map_err(|_| InvalidId::Malformed)?;
    let is_integer = is::<T, u64>()
        || is::<T, i64>()
        || is::<T, u32>()
        || is::<T, i32>()
        || is::<T, u128>()
        || is::<T, i128>();
    if is_integer && is_plain_decimal(text) { Id::new(text) } else { Id::display(&value) }
}

fn is<T: 'static, U: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

/// Whether an integer's text has no plus and no leading zeros.
fn is_plain_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|first| matches!(first, '1'..='9'))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn spelt<T: FromStr + Display + 'static>(text: &str) -> Result<String, InvalidId> {
        canonical::<T>(text).map(|id| String::from_utf8(id.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn every_spelling_that_the_type_reads_is_one_id() {
        for text in ["7", "007", "+7"] {
            assert_eq!(spelt::<u64>(text).as_deref(), Ok("7"), "{text}");
        }
        assert_eq!(spelt::<i64>("-0").as_deref(), Ok("0"));
        assert_eq!(spelt::<bool>("true").as_deref(), Ok("true"));
        assert_eq!(spelt::<Ipv6Addr>("0:0::0:1").as_deref(), Ok("::1"));
    }

    #[test]
    fn what_the_type_does_not_read_is_malformed() {
        for text in ["", " 7", "7.0", "-0", "7abc", "0x7", "18446744073709551616", "٧"] {
            assert_eq!(spelt::<u64>(text), Err(InvalidId::Malformed), "{text}");
        }
    }

    /// What takes a shorter way is what the type writes.
    #[test]
    fn an_integer_is_spelt_as_its_type_writes_it() {
        fn check<T: FromStr + Display + 'static>(text: &str) {
            let written = text.parse::<T>().map(|value| value.to_string());
            assert_eq!(spelt::<T>(text).ok(), written.ok(), "{text}");
        }
        let signs = ["", "+", "-", "--", "+-", " "];
        let digits = [
            "",
            "0",
            "7",
            "00",
            "07",
            "70",
            "10",
            "256",
            "4294967296",
            "18446744073709551616",
            "1e3",
            "1_0",
        ];
        for text in signs.iter().flat_map(|sign| digits.map(|digits| format!("{sign}{digits}"))) {
            check::<u32>(&text);
            check::<i32>(&text);
            check::<u64>(&text);
            check::<i64>(&text);
            check::<u128>(&text);
            check::<i128>(&text);
        }
    }

    #[test]
    fn a_string_is_taken_as_it_is() {
        for text in ["", "007", " Ä/ä ", "\0"] {
            assert_eq!(spelt::<String>(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_long_text_is_refused_before_it_is_parsed() {
        struct Unparsed;

        impl FromStr for Unparsed {
            type Err = std::convert::Infallible;

            fn from_str(_: &str) -> Result<Self, Self::Err> {
                panic!("parsed")
            }
        }

        impl Display for Unparsed {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                panic!("written")
            }
        }

        let text = "0".repeat(257);
        assert_eq!(canonical::<Unparsed>(&text), Err(InvalidId::TooLong { len: 257 }));
        assert_eq!(spelt::<u64>(&text[1..]).as_deref(), Ok("0"));
    }
}
