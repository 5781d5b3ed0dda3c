use ::redis::Value;

use super::*;
use crate::filter::{Generation, Header, Sizing};
use crate::id::{Digest, Digester, SecretKey};
use crate::store::link::reply::Reply;
use crate::store::redis::check::answer::PAGE;
use crate::store::redis::copy::tests::copy_of;

fn digest(byte: u8) -> Digest {
    Digest::from_bytes([byte; 16])
}

/// A copy that holds all inserts up to 10.
fn copy() -> Arc<FilterCopy> {
    let header = Header::new(Generation::new(1).unwrap(), 6, &Sizing::new(100, 0.001).unwrap(), 7);
    copy_of(header, &Digester::new(&SecretKey::new([7; 16]), "users"), 10)
}

fn page(entries: &[(u8, i64)]) -> Page {
    let digests = entries.iter().map(|(byte, _)| digest(*byte)).collect();
    Page { digests, greatest: entries.last().map(|(_, number)| *number), has_floor: false }
}

#[test]
fn a_copy_is_up_to_the_last_insert_only_where_record_metadata_and_header_agree_on_it() {
    for (entries, last, stamp, is_last) in [
        (&[][..], 10, 10, true),
        (&[(1, 11), (2, 12)], 12, 12, true),
        // The record is lost, or an older copy.
        (&[], 12, 12, false),
        (&[(1, 11)], 12, 12, false),
        // An insert came between the commands, or the metadata or the filter are older copies.
        (&[(1, 11)], 11, 12, false),
        (&[(1, 11)], 12, 11, false),
        (&[(1, 11)], 10, 11, false),
        (&[(1, 11)], 10, 10, false),
    ] {
        let copy = copy();
        assert_eq!(
            copy.take_page(&page(entries), &Head::at(last, stamp), 10),
            is_last,
            "{entries:?}"
        );
        assert_eq!(copy.position(), Some(if is_last { stamp } else { 10 }), "{entries:?}");
        for (byte, _) in entries {
            assert!(copy.holds(&digest(*byte)), "what was inserted is held all the same");
        }
    }
}

#[test]
fn a_copy_that_is_behind_by_more_than_a_page_answers_nothing_until_it_has_read_the_rest() {
    let copy = copy();
    let full: Vec<(u8, i64)> = (0..PAGE as i64).map(|n| (1, 11 + n)).collect();
    let greatest = 10 + PAGE as i64;
    assert!(!copy.take_page(&page(&full), &Head::at(greatest + 1, greatest + 1), 10));
    assert_eq!(copy.position(), Some(greatest));
    assert!(copy.take_page(
        &page(&[(2, greatest + 1)]),
        &Head::at(greatest + 1, greatest + 1),
        greatest
    ));
    assert_eq!(copy.position(), Some(greatest + 1));
}

#[test]
fn a_copy_that_lacks_what_the_record_has_dropped_is_read_again() {
    let copy = copy();
    let dropped = Page { has_floor: true, ..page(&[(1, 12)]) };
    assert!(!copy.take_page(&dropped, &Head::at(12, 12), 10));
    assert_eq!(copy.position(), None);
    copy.advance_to(13);
    assert_eq!(copy.position(), None, "a fence that was under way changes nothing");
}

#[test]
fn no_entry_is_passed_over_because_it_is_not_understood() {
    let read = |fields: &[&[u8]]| {
        let fields = fields.iter().map(|field| Value::BulkString(field.to_vec())).collect();
        Page::read(Reply::new("a fence", Value::Array(fields)))
    };
    let found = read(&[&[3; 16], b"7", b"floor", b"8"]).unwrap();
    assert_eq!((found.digests, found.greatest, found.has_floor), (vec![digest(3)], Some(8), true));
    assert_eq!(read(&[]).unwrap().greatest, None);
    for odd in [&[&[3_u8; 15][..], b"7"][..], &[b"ceiling", b"7"], &[&[3; 16], b"7.5"], &[&[3; 16]]]
    {
        assert!(read(odd).is_err(), "{odd:?}");
    }
}
