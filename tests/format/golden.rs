//! The stored format against vectors of a second, independent implementation: `tests/golden/make.py`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::Value;

use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::filter::{Filter, Generation, Geometry, Header, Membership, Sizing, State};
use crate::id::{Digest, Digester, Id, SecretKey};

fn vectors(section: &str) -> Value {
    let vectors: Value = serde_json::from_str(include_str!("../golden/vectors.json")).unwrap();
    vectors[section].clone()
}

fn number<T: TryFrom<u64>>(value: &Value) -> T {
    let number = value.as_u64().and_then(|number| T::try_from(number).ok());
    number.unwrap_or_else(|| panic!("{value} is no number of that size"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits = text(value).as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().unwrap()
}

fn digester(vector: &Value) -> Digester {
    Digester::new(&SecretKey::new(array(&vector["key"])), text(&vector["namespace"]))
}

fn geometry(vector: &Value) -> Geometry {
    let seed = vector.get("seed").map_or(0, number);
    Geometry::new(number(&vector["blocks"]), number(&vector["hashes"]), seed).unwrap()
}

/// The header of a filter with so many ids.
fn sized(geometry: Geometry, items: u32) -> Header {
    let sizing = Sizing::new(1, 0.5).unwrap();
    let header = Header::new(Generation::new(1).unwrap(), 0, &sizing, 0);
    Header { geometry, items, ..header }
}

fn header(vector: &Value) -> Header {
    let mut header = sized(geometry(vector), number(&vector["items"]));
    header.generation = Generation::new(number(&vector["generation"])).unwrap();
    header.nonce = number(&vector["nonce"]);
    header.state = match number::<u8>(&vector["state"]) {
        0x33 => State::Building,
        0x55 => State::Live,
        other => panic!("{other} is no state"),
    };
    header.key_id = number(&vector["key_id"]);
    header.run = number(&vector["run"]);
    header.capacity = number(&vector["capacity"]);
    header.rate = vector["rate"].as_f64().unwrap() as f32;
    header
}

#[test]
fn key_namespace_and_id_make_these_digests() {
    for vector in vectors("digests").as_array().unwrap() {
        let digest = digester(vector).digest(&Id::new(bytes(&vector["id"])).unwrap());
        assert_eq!(digest.to_string(), text(&vector["digest"]));
    }
}

#[test]
fn digest_and_geometry_make_these_positions() {
    for vector in vectors("positions").as_array().unwrap() {
        let digest = Digest::from_bytes(array(&vector["digest"]));
        let position = geometry(vector).position(&digest);
        assert_eq!(position.block, number::<u32>(&vector["block"]));
        assert_eq!(position.byte_offset(), number::<u32>(&vector["byte_offset"]));
        let expected: Vec<u32> =
            vector["bit_offsets"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(position.bit_offsets().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn headers_and_trailers_are_these_bytes() {
    for vector in vectors("headers").as_array().unwrap() {
        let header = header(vector);
        assert_eq!(header.encode(), array(&vector["header"]));
        assert_eq!(header.trailer(), array(&vector["trailer"]));
        assert_eq!(Header::decode(&bytes(&vector["header"])), Ok(header));
    }
}

#[test]
fn a_whole_filter_is_these_bytes() {
    let vector = vectors("filter");
    let (header, digester) = (header(&vector), digester(&vector));
    let ids = vector["ids"].as_array().unwrap().iter().map(text);
    let digests: Vec<_> = ids.map(|id| digester.digest(&Id::new(id).unwrap())).collect();

    let filter = Filter::new(header.geometry);
    digests.iter().for_each(|digest| filter.insert(digest));
    let mut string = header.encode().to_vec();
    string.resize(FRONT_LEN, 0);
    filter.write_blocks(0..header.geometry.blocks, &mut string);
    string.extend(header.trailer());
    let expected = bytes(&vector["string"]);
    assert_eq!(string, expected);
    assert_eq!(header.string_len(), expected.len() as u64);

    let read = Header::decode(&expected).unwrap();
    for digest in &digests {
        assert_eq!(filter.lookup(digest), Membership::Possible);
        let position = read.geometry.position(digest);
        let block = &expected[position.byte_offset() as usize..][..BLOCK_LEN];
        let words = block.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word));
        let words: Vec<_> = words.collect();
        assert_eq!(position.is_in(&words.try_into().unwrap()), Membership::Possible);
    }
}

#[test]
fn false_positive_rates_are_those_of_the_closed_form() {
    for vector in vectors("rates").as_array().unwrap() {
        let rate = sized(geometry(vector), number(&vector["items"])).expected_rate();
        let expected = vector["rate"].as_f64().unwrap();
        assert!((rate / expected - 1.0).abs() < 1e-9, "{vector}: {rate}");
    }
}
