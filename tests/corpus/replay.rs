//! The kept corpus without a fuzzer: every file through the same code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{extractor, header};

pub fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

fn files(target: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(target)).expect("the corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn replay(target: &str, run: fn(&[u8])) {
    let files = files(target);
    for file in &files {
        // What fails is named, by the last line before the panic.
        println!("{}", file.display());
        run(&fs::read(file).expect("a file"));
    }
    println!("corpus of {target}: {} files", files.len());
    assert!(files.len() >= 20, "the corpus of {target} is not there: {} files", files.len());
}

#[test]
fn no_stored_bytes_are_taken_for_another_filter() {
    replay("header", header::run);
}

#[test]
fn no_request_has_another_id_than_its_handler() {
    replay("extractor", extractor::run);
}

#[test]
fn the_corpus_is_small() {
    let targets = ["header", "extractor"];
    let sizes = targets
        .iter()
        .flat_map(|target| files(target))
        .map(|file| fs::metadata(file).expect("a file").len());
    assert!(sizes.sum::<u64>() < 300 * 1024);
}
