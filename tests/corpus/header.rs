//! The stored filter: whatever the bytes, reading them never panics, and what is taken for a filter is
//! one by the format's own words.

use bloom_guard::{Doubt, StoreError};
use redis::Value;

use crate::filter::format::STATE_OFFSET;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN, HEADER_LEN, TRAILER_LEN};
use crate::filter::{Filter, Header, Membership};
use crate::id::Digest;
use crate::replies;

/// Longer strings are judged by their headers only.
const MOST_BLOCKS: u32 = 64;

/// What a state may be: building, live, disproved, disproved twice.
const STATES: [u8; 4] = [0x33, 0x55, 0x66, 0x69];

/// Reads the bytes as a stored filter; then once more with what a fuzzer can hardly guess put right.
pub fn run(data: &[u8]) {
    stored(data);
    if let Some(mended) = mended(data) {
        stored(&mended);
    }
}

fn stored(string: &[u8]) {
    let header = decoded(string);
    judged(string, header.ok());
    if let Ok(header) = header {
        flipped(&header);
        whole(string, &header);
    }
}

/// What is decoded is what the format asks for, and encodes back to the same bytes.
fn decoded(string: &[u8]) -> Result<Header, Doubt> {
    let decoded = Header::decode(string);
    assert_eq!(decoded.is_ok(), is_header(string), "{decoded:?}");
    match &decoded {
        Ok(header) => assert_eq!(header.encode(), string[..HEADER_LEN]),
        Err(doubt) => assert_eq!(*doubt, Doubt::Damaged),
    }
    decoded
}

/// A check trusts a key that holds a header in the live state, under its own checksum, in a string of the
/// length it names; nothing else.
fn judged(string: &[u8], header: Option<Header>) {
    let len = header.map_or(string.len() as u64, |header| header.string_len());
    for len in [len, string.len() as u64, len + 1, len - len.min(1)] {
        let is_whole = header.is_some_and(|header| header.string_len() == len);
        let is_live = is_whole && string[STATE_OFFSET] == 0x55;
        let verdict = live(b"string", string, len).expect("a reply of the right shape");
        assert_eq!(verdict.is_ok(), is_live, "{verdict:?} of {len} bytes");
        match verdict {
            Ok(found) => assert_eq!(Some(found), header),
            Err(Doubt::NoFilter) => panic!("there is something"),
            Err(_) => {}
        }
    }
    for kind in [b"none" as &[u8], b"hash", b"stream", b"STRING", b"", string] {
        let verdict = live(kind, string, len);
        assert!(kind == b"string" || !matches!(verdict, Ok(Ok(_))), "not a string: {verdict:?}");
    }
}

fn live(kind: &[u8], string: &[u8], len: u64) -> Result<Result<Header, Doubt>, StoreError> {
    let head = string[..string.len().min(HEADER_LEN)].to_vec();
    let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    let len = Value::Int(i64::try_from(len).expect("no string is that long"));
    replies::live(Value::Array(vec![
        bulk(kind),
        Value::BulkString(head),
        len,
        bulk(b"none"),
        bulk(b""),
        Value::Int(0),
        bulk(b"1700000000"),
        bulk(b"0"),
        bulk(b"sixteen bytes..."),
        bulk(b"0"),
        bulk(b"0"),
        bulk(b"0"),
        bulk(b"0"),
        Value::Int(0),
    ]))
}

/// One flipped bit is found out wherever it is; in the state, which no checksum covers, three are.
fn flipped(header: &Header) {
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = header.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&bytes).is_err(), "bit {bit} of {header:?}");
    }
    for mask in (1..=u8::MAX).filter(|mask| mask.count_ones() <= 3) {
        let mut bytes = header.encode();
        bytes[STATE_OFFSET] ^= mask;
        assert!(Header::decode(&bytes).is_err(), "state {mask:#04x} of {header:?}");
    }
}

/// The ids of a whole string are within its blocks, and are there when their bits are set.
fn whole(string: &[u8], header: &Header) {
    if header.geometry.blocks > MOST_BLOCKS || string.len() as u64 != header.string_len() {
        return;
    }
    if string.ends_with(&header.trailer()) {
        let trailer = *string.last_chunk().expect("a trailer");
        assert_eq!(i64::from_be_bytes(trailer), header.generation.trailer_number());
    }
    let filter = Filter::new(header.geometry);
    for digest in string.as_chunks().0.iter().copied().map(Digest::from_bytes).take(8) {
        let position = header.geometry.position(&digest);
        let at = position.byte_offset() as usize;
        assert!(at >= FRONT_LEN && at + BLOCK_LEN <= string.len() - TRAILER_LEN, "{at}");
        let bit = |bit: u32| string[bit as usize / 8] & (0x80 >> (bit % 8)) != 0;
        let words = string[at..at + BLOCK_LEN].as_chunks().0;
        let words = std::array::from_fn(|n| u64::from_be_bytes(words[n]));
        let all = position.bit_offsets().all(bit);
        assert_eq!(position.is_in(&words) == Membership::Possible, all);
        filter.insert(&digest);
        assert_eq!(filter.lookup(&digest), Membership::Possible);
    }
}

/// The format's specification once more, written without a look at the crate's reader.
fn is_header(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return false };
    let field = |range: std::ops::Range<usize>| {
        header[range].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let rate = f32::from_bits(field(56..60) as u32);
    header.starts_with(b"BLMGUARD\x00\x02\x01")
        && STATES.contains(&header[11])
        && (1..=32).contains(&header[12])
        && field(13..16) == 0
        && (1..=(1 << 53) - 2).contains(&field(16..24))
        && (1..=8_388_605).contains(&field(32..36))
        && field(52..56) > 0
        && rate > 0.0
        && rate < 1.0
        && field(60..64) == u64::from(crc(header))
}

/// CRC-32/ISO-HDLC of bytes 0 to 59, the state taken as zero, bit by bit.
fn crc(header: &[u8; HEADER_LEN]) -> u32 {
    let covered = header[..60].iter().enumerate();
    !covered.fold(u32::MAX, |crc, (at, byte)| {
        let byte = if at == 11 { 0 } else { *byte };
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// Puts magic, version, layout, reserved bytes, most states and the checksum right.
fn mended(data: &[u8]) -> Option<Vec<u8>> {
    let mut mended = data.to_vec();
    let header: &mut [u8; HEADER_LEN] = mended.first_chunk_mut()?;
    header[..11].copy_from_slice(b"BLMGUARD\x00\x02\x01");
    header[13..16].fill(0);
    if let Some(state) = STATES.get(usize::from(header[11] % 5)) {
        header[11] = *state;
    }
    let checksum = crc(header);
    header[60..].copy_from_slice(&checksum.to_be_bytes());
    Some(mended)
}
