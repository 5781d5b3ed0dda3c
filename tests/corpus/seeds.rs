//! What a fuzzer begins with: the crate's own bytes, and targets known to be nasty.

use std::fs;

use crate::filter::lengths::FRONT_LEN;
use crate::filter::{Filter, Generation, Header, Sizing, State};
use crate::id::{Digester, Id, SecretKey};
use crate::replay::directory;
use crate::{extractor, header, kept};

const STATES: [State; 4] = [State::Loading, State::CatchingUp, State::Live, State::Disproved];

/// Whole filters in each state, and some that are cut short, grown or damaged.
fn filters() -> Vec<Vec<u8>> {
    let digester = Digester::new(&SecretKey::new([7; 16]), "users");
    let mut seeds = Vec::new();
    for (capacity, rate) in [(1, 0.5), (30, 0.01), (40, 1e-6)] {
        let sizing = Sizing::new(capacity.max(10), rate).expect("a size");
        let filter = Filter::new(sizing.geometry(0x5eed));
        for id in 0..capacity {
            filter.insert(&digester.digest(&Id::display(&id).expect("an id")));
        }
        let generation = Generation::new(1_700_000_000_000_000).expect("a time");
        let mut header = Header::new(generation, 0xfeed, &sizing, 0x5eed);
        header.key_id = digester.key_id();
        for state in STATES {
            let mut string = header.with_state(state).encode().to_vec();
            string.resize(FRONT_LEN, 0);
            filter.write_blocks(0..header.geometry.blocks(), &mut string);
            string.extend(header.trailer());
            seeds.push(string);
        }
    }
    let whole = seeds[2].clone();
    for len in [0, 1, 63, 64, 65, 127, 128, 129, 191, 192, whole.len() - 1] {
        seeds.push(whole[..len].to_vec());
    }
    for (at, byte) in
        [(0, b'b'), (8, 1), (9, 2), (10, 2), (11, 0), (11, 3), (12, 33), (35, 9), (63, 0)]
    {
        let mut damaged = whole.clone();
        damaged[at] = byte;
        seeds.push(damaged);
    }
    seeds
}

/// Each extractor with what `tests/extraction` keeps.
fn requests() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = kept::targets()
        .iter()
        .enumerate()
        .map(|(n, target)| {
            // In an order that gives each kind of target to each type of id.
            let kind = if target.starts_with(b"/posts") { 2 } else { n as u8 % 2 };
            [&[n as u8 / 2 % 4 * 4 + kind], target.as_slice()].concat()
        })
        .collect();
    for value in ["7", "007", " 7", "", "a,b", "\u{e4}", "{67e5504410b1426f9247bb680e5fe0c8}"] {
        seeds.extend([3, 7, 11, 15].map(|kind| [&[kind], value.as_bytes()].concat()));
    }
    seeds.push(b"\x0b\xff".to_vec());
    for patterns in [
        "/users/{id}\n/users/{id}/posts\n/users/me\n/users/%37",
        "/users/{id}\n/people/{user}\n\n/people/7",
        "/files/{*path}\n\n/files/tmp-{x}\n/files/a//b/",
        "/{{x}}/{id}\n\n\n/{x}/7",
        "/users/new-{id}\n/users/{id}.json\n/users/{a}/{*b}\n/users/7.json",
        "/{a}/{b}\n\n\n/1/2",
        "/s{|}}\u{5}}\n\n\n/s7",
        "users\n\n\n/",
    ] {
        seeds.push([b"\x10", patterns.as_bytes()].concat());
    }
    seeds
}

/// The corpus holds what the crate writes today. `WRITE_SEEDS=1` puts it there.
fn kept(target: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    for (n, seed) in seeds.iter().enumerate() {
        let file = directory(target).join(format!("seed-{n:03}"));
        if std::env::var_os("WRITE_SEEDS").is_some() {
            fs::create_dir_all(directory(target)).expect("a directory");
            fs::write(&file, seed).expect("a file");
        }
        let stored = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(stored, *seed, "{}: write it anew with WRITE_SEEDS=1", file.display());
        run(seed);
    }
}

#[test]
fn the_corpus_has_the_filters_that_are_written_today() {
    kept("header", &filters(), header::run);
}

#[test]
fn the_corpus_has_every_kept_target() {
    kept("extractor", &requests(), extractor::run);
}
