//! Targets that go wrong.

use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

/// Parts of paths that go wrong.
const NASTY: &str = r"
    7 0 007 +7 -7 -0 + - %37 %30 %2B7 %2b7 %2F %2f %00 %zz % %3 %C0%AF %FF %ff %ED%A0%80 %C3%A4
    %2537 %25 %2500 ä a%CC%88 ٧ ;a=b .. . %2e%2e / // me %6De new- posts 7.0 1e3 0x7 7_0 a A %20
    +7+ %0A ~ %u0037 \ { } {id} * :id @ 18446744073709551615 18446744073709551616
    9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
    67e55044-10b1-426f-9247-bb680e5fe0c8 67E55044-10B1-426F-9247-BB680E5FE0C8
    67e5504410b1426f9247bb680e5fe0c8 {67e55044-10b1-426f-9247-bb680e5fe0c8}
    %7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D {67e5504410b1426f9247bb680e5fe0c8}
    urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8 URN:UUID:67e55044-10b1-426f-9247-bb680e5fe0c8
    urn:uuid:67e5504410b1426f9247bb680e5fe0c8 67e55044-10b1-426f-9247-bb680e5fe0c
    67e55044-10b1-426f-9247-bb680e5fe0c8-
";

pub fn nasty_parts() -> Vec<&'static str> {
    NASTY.split_whitespace().collect()
}

/// Parts that go wrong by their length: around the limit, decoded and not, and far beyond.
pub fn long() -> Vec<String> {
    let mut long = Vec::new();
    for len in [254, 255, 256, 257, 767, 20_000] {
        long.extend(["0", "x", "%30", "%78", "ä"].map(|letter| letter.repeat(len)));
    }
    long
}

pub const PREFIXES: &[&str] = &[
    "/users/",
    "/users/",
    "/users/",
    "/users",
    "/users/new-",
    "/users//",
    "//users/",
    "/Users/",
    "/%75sers/",
    "/t/acme/users/",
    "/t/%FF/users/",
    "/t//users/",
    "/files/",
    "/files/a/",
    "/",
    "http://h/users/",
    "http://h:80/files/",
    "http://h",
    "/users/../users/",
];

pub const SUFFIXES: &[&str] =
    &["", "", "", "", "/", "/posts", "/posts/", "//posts", "?id=8", "?/users/8"];

/// One nasty part mostly, so that it is often a whole segment; several, to combine them.
pub fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => select(nasty_parts()).prop_map(str::to_owned),
        1 => select(long()),
        5 => proptest::collection::vec(select(nasty_parts()), 0..5).prop_map(|parts| parts.concat()),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        2 => any::<u128>().prop_map(|bits| Uuid::from_u128(bits).to_string()),
        2 => proptest::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| {
            bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
        }),
    ]
}

pub fn targets() -> impl Strategy<Value = String> {
    (select(PREFIXES), nasty(), select(SUFFIXES))
        .prop_map(|(prefix, nasty, suffix)| format!("{prefix}{nasty}{suffix}"))
}

pub fn queries() -> impl Strategy<Value = String> {
    const KEYS: &[&str] =
        &["id", "id", "id", "id", "%69d", "i%64", "ID", "idx", "", "x", "+id", "id%00", "i", "%FF"];
    let pair = (select(KEYS), select(&["=", "=", "=", "=", "", "==", "%3D"]), nasty());
    let pair = pair.prop_map(|(key, equals, value)| format!("{key}{equals}{value}"));
    proptest::collection::vec(pair, 0..4).prop_map(|pairs| format!("/posts?{}", pairs.join("&")))
}

/// Targets as no library would send them: with letters spelt in another way, a fragment, or a byte of any kind in them.
pub fn raw(targets: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    let fragment = select(&["", "", "", "", "", "#", "#8", "#/users/8", "?#", "#?id=8"]);
    let ways = proptest::collection::vec(0..48_u8, 1..40);
    let odd = proptest::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>()));
    (targets, ways, any::<bool>(), fragment, odd).prop_map(|(target, ways, ids_only, end, odd)| {
        let from = if ids_only { target.rfind(['/', '=']).map_or(0, |at| at + 1) } else { 0 };
        let (head, tail) = target.as_bytes().split_at(from);
        let spelt = tail.iter().zip(ways.iter().cycle()).flat_map(|(byte, way)| match way {
            0 => format!("%{byte:02X}").into_bytes(),
            1 => format!("%{byte:02x}").into_bytes(),
            2 => format!("%25{byte:02X}").into_bytes(),
            3 if byte.is_ascii_alphabetic() => vec![byte ^ 0x20],
            _ => vec![*byte],
        });
        let mut target: Vec<u8> = head.iter().copied().chain(spelt).chain(end.bytes()).collect();
        if let Some((at, byte)) = odd {
            target.insert(at.index(target.len() + 1), byte);
        }
        target
    })
}
