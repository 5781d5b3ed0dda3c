//! The house: which room of `src/` may import from which; and that the pages' links lead somewhere.
//!
//! Reads the sources as text: see [`source`].

mod imports;
mod links;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use imports::{Import, imports};
use source::{Source, sources};

/// The rooms, the highest first. A room imports from lower rows, and from its own row where that makes no
/// circle.
const ORDER: [&[&str]; 11] = [
    // The command.
    &["bin"],
    &["command"],
    &["middleware", "builder"],
    &["guard"],
    &["decide", "rebuild", "observe"],
    &["store"],
    &["nulls", "extract", "rejection", "settings"],
    &["filter"],
    &["error"],
    &["id", "mode", "verdict", "random", "background"],
    &["refusal"],
];
/// The rooms inside `store/`, in the same order. Those of one row do not know each other.
const STORES: [&[&str]; 4] = [
    &["redis", "foreign", "memory"],
    // Where Redis is.
    &["map"],
    &["link", "scan"],
    &["clock", "condition", "lookup", "progress", "store"],
];
/// What only some rooms and files may name of other crates, by the beginnings of their paths.
const CRATES: [(&str, &[&str]); 8] = [
    ("redis", &["store/link/", "store/map/", "store/redis/", "store/foreign/", "command/"]),
    ("chrono", &["rebuild/"]),
    ("croner", &["rebuild/"]),
    ("moka", &["nulls/"]),
    ("metrics", &["observe/"]),
    ("clap", &["command/"]),
    ("serde_json", &["command/"]),
    (
        "http",
        &["middleware/", "guard/", "extract/", "nulls/", "builder/", "rejection.rs", "settings.rs"],
    ),
];
/// What is no room: the crate's root and `access` re-export what users see, the guide is text.
const NO_ROOMS: [&str; 3] = ["lib", "access", "guide"];

fn row(room: &str) -> Option<usize> {
    ORDER.iter().position(|row| row.contains(&room))
}

#[test]
fn every_room_has_its_row() {
    let sources = sources();
    let rooms: BTreeSet<&str> = sources.iter().map(Source::room).collect();
    let unknown: Vec<_> =
        rooms.iter().filter(|room| row(room).is_none() && !NO_ROOMS.contains(room)).collect();
    assert!(unknown.is_empty(), "no row for {unknown:?}");
    let gone: Vec<_> =
        ORDER.iter().copied().flatten().filter(|room| !rooms.contains(*room)).collect();
    assert!(gone.is_empty(), "no room for {gone:?}");
}

#[test]
fn rooms_import_downwards_only() {
    let sources = sources();
    let mut wrong = Vec::new();
    for import in imports(&sources) {
        let Import { from, line, to } = import;
        let (below, above) = (row(sources[from].room()), row(sources[to].room()));
        if let (Some(importer), Some(imported)) = (below, above)
            && imported < importer
        {
            wrong.push(format!("{}:{line} imports {}", sources[from].path, sources[to].path));
        }
    }
    assert!(wrong.is_empty(), "{} imports upwards:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_store_knows_another_and_a_link_knows_none() {
    let sources = sources();
    let row = |room: &str| STORES.iter().position(|row| row.contains(&room));
    let room_of = |source: &Source| {
        let inside = source.path.strip_prefix("store/")?;
        let room = inside.split('/').next().unwrap_or(inside);
        Some(if room == "mod.rs" { "store" } else { room.trim_end_matches(".rs") }.to_owned())
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for import in imports(&sources) {
        let Import { from, line, to } = import;
        let (Some(importer), Some(imported)) = (room_of(&sources[from]), room_of(&sources[to]))
        else {
            continue;
        };
        seen += 1;
        let (above, below) = (row(&importer), row(&imported));
        assert!(above.is_some() && below.is_some(), "no row for {importer:?} or {imported:?}");
        // The seam's own file names the rooms that it has.
        if importer != imported && importer != "store" && above >= below {
            wrong.push(format!("{}:{line} imports {}", sources[from].path, sources[to].path));
        }
    }
    assert!(seen > 100, "the imports are not found: {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_stay_where_they_are_at_home() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (name, homes) in CRATES {
            let at_home = homes.iter().any(|home| source.path.starts_with(home));
            if let Some(line) = source.names_crate(name).filter(|_| !at_home) {
                wrong.push(format!("{}:{line} names {name}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let sources = sources();
    let mut next = BTreeMap::<usize, BTreeSet<usize>>::new();
    for Import { from, to, .. } in imports(&sources) {
        next.entry(from).or_default().insert(to);
    }
    let circles: Vec<String> = circles(&next)
        .into_iter()
        .map(|circle| {
            let names: Vec<&str> = circle.iter().map(|file| sources[*file].path.as_str()).collect();
            names.join(" > ")
        })
        .collect();
    assert!(circles.is_empty(), "{} circles:\n{}", circles.len(), circles.join("\n"));
}

/// A shortest circle through each file that is on one and on none found before.
fn circles(next: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for start in next.keys() {
        if found.iter().any(|circle| circle.contains(start)) {
            continue;
        }
        if let Some(circle) = way_back(next, *start) {
            found.push(circle);
        }
    }
    found
}

fn way_back(next: &BTreeMap<usize, BTreeSet<usize>>, start: usize) -> Option<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for file in next.get(way.last()?).into_iter().flatten() {
                if *file == start {
                    return Some([way, vec![start]].concat());
                }
                if seen.insert(*file) {
                    longer.push([way.clone(), vec![*file]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[test]
fn the_guide_lists_all_its_pages() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/guide");
    let listed = std::fs::read_to_string(guide.join("mod.rs")).expect("the guide");
    let pages: Vec<String> = std::fs::read_dir(&guide)
        .expect("the guide")
        .filter_map(|entry| entry.expect("a page").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .collect();
    assert!(pages.len() > 10, "{pages:?}");
    let rows: String = listed.lines().filter(|line| line.starts_with("//! |")).collect();
    let missing: Vec<_> =
        pages.iter().filter(|page| !rows.contains(&format!("[`{page}`]"))).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}
