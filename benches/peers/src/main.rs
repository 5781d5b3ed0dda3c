//! The race: bloom-guard beside what others do, on one Redis, one machine, in one run.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml [-- checks fill local growth http flood] [--quick] [--out DIR]`
//! runs the sections named, or all. It prints tables, and writes `peers.json` and charts into `benches/results`;
//! with `--quick`, whose figures mean nothing, below `target`.

mod chart;
mod checks;
mod contender;
mod fill;
mod growth;
mod http;
mod ids;
mod local;
mod redis_server;
mod redisbloom;
mod redisbloom_module;
mod report;
mod scale;

// The look-up in this process is private to the crate, so it is compiled in from its sources as they stand.
#[expect(dead_code, unused_imports, reason = "a part of what is compiled in is used")]
#[path = "../../../src/filter/mod.rs"]
mod filter;
#[expect(dead_code, reason = "a part of what is compiled in is used")]
#[path = "../../../src/id.rs"]
mod id;
mod error {
    pub(crate) use bloom_guard::SettingError;
}
mod verdict {
    pub(crate) use bloom_guard::Doubt;
}

use std::path::PathBuf;

use crate::report::Report;
use crate::scale::Scale;

type Section = fn(&Scale, &mut Report);

const SECTIONS: [(&str, Section); 6] = [
    ("checks", checks::run),
    ("fill", fill::run),
    ("local", local::run),
    ("growth", growth::run),
    ("http", http::run),
    ("flood", http::flood),
];

fn main() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (mut scale, mut directory, mut chosen) = (Scale::FULL, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--quick" => scale = Scale::QUICK,
            "--out" => {
                directory = Some(PathBuf::from(arguments.next().expect("--out names a directory")))
            }
            name => {
                let section = SECTIONS.iter().find(|(known, _)| *known == name);
                chosen.push(*section.unwrap_or_else(|| panic!("there is no section {name}")));
            }
        }
    }
    if chosen.is_empty() {
        // The last is a part of the one before.
        chosen.extend(&SECTIONS[..5]);
    }
    let kept = if scale.recorded { here.join("../results") } else { here.join("target/results") };
    let directory = directory.unwrap_or(kept);
    std::fs::create_dir_all(&directory).expect("a directory that can be written");
    let mut report = Report::new();
    for (name, section) in chosen {
        println!("\n== {name}");
        section(&scale, &mut report);
    }
    report.write(&directory);
    chart::draw(&report, &directory);
}
