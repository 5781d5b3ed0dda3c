//! Links, as they are followed in a clone or on a forge; and those of the guide as rustdoc follows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 6] = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "tests/README.md",
    "benches/README.md",
    "examples/observe/README.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The guide's files in a clone.
fn guide() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("src/guide")).expect("the guide");
    let paths = entries.map(|entry| entry.expect("a page").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns a page without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// The targets that stand beside their links' texts.
fn inline(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// What labels lead to, as the lines `[label]: target` say.
fn definitions(prose: &str) -> BTreeMap<&str, &str> {
    let lines = prose.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    lines.collect()
}

/// The labels of links whose targets are defined elsewhere.
fn labels(prose: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = prose;
    while let Some(at) = rest.find(['`', '[']) {
        let is_code = rest[at..].starts_with('`');
        let (text, after) =
            rest[at + 1..].split_once(if is_code { '`' } else { ']' }).expect("its end");
        rest = after;
        if is_code || rest.starts_with(['(', ':']) {
            continue;
        }
        let mut label = text;
        if let Some(second) = rest.strip_prefix('[') {
            (label, rest) = second.split_once(']').expect("its end");
        }
        labels.push(label.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    labels
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Whether a target leads to a file of the clone and, if it names one, to a heading there.
fn leads_somewhere(page: &Path, target: &str) -> bool {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { page.to_owned() } else { page.with_file_name(path) };
    let is_heading =
        |line: &str| line.starts_with('#') && slug(line.trim_start_matches('#').trim()) == heading;
    file.exists() && (heading.is_empty() || prose(&read(&file)).lines().any(is_heading))
}

#[test]
fn the_links_of_a_clone_lead_somewhere() {
    let mut followed = 0;
    let mut dead = Vec::new();
    for page in PAGES.iter().map(|page| root().join(page)).chain(guide()) {
        let prose = prose(&read(&page));
        for target in inline(&prose).chain(definitions(&prose).into_values()) {
            if !target.contains("://") {
                followed += 1;
                if !leads_somewhere(&page, target) {
                    dead.push(format!("{}: {target}", page.display()));
                }
            }
        }
    }
    assert!(followed > 200, "the links are not found: {followed}");
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn a_label_of_the_guide_leads_to_the_same_page_in_a_clone_and_in_rustdoc() {
    let all = read(&root().join("src/guide/links.txt"));
    let of_rustdoc = definitions(&all);
    let mut used = 0;
    let mut wrong = Vec::new();
    for page in guide() {
        let prose = prose(&read(&page));
        let own = definitions(&prose);
        for label in labels(&prose) {
            used += 1;
            let targets = own.get(&*label).zip(of_rustdoc.get(&*label));
            let is_same =
                targets.is_some_and(|(own, path)| match path.strip_prefix("crate::guide::") {
                    Some(path) => {
                        path.replacen('#', ".md#", 1) == *own || format!("{path}.md") == *own
                    }
                    None => own.ends_with(".rs"),
                });
            if !is_same {
                wrong.push(format!("{}: [{label}]: {targets:?}", page.display()));
            }
        }
    }
    assert!(used > 150, "the labels are not found: {used}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
