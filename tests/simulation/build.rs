//! Makes the crate's sources part of the simulation, with every seeded bug in them, each behind a question
//! whether it is in; none with `SIM_CLEAN` set.
//!
//! What `src/lib.rs` declares and re-exports is declared and re-exported by the simulation, too.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::list::{BUGS, Edit};

#[path = "plan/flavour.rs"]
mod flavour;
#[expect(dead_code, reason = "for this, a bug is what it changes")]
#[path = "seeded/list.rs"]
mod list;
mod plan {
    pub(crate) use crate::flavour::Flavour;
}

/// The crate's modules in whose place the simulation has its own, and the command, which is no part of a process that guards.
const REPLACED: [&str; 3] = ["background", "command", "random"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo runs this"));
    let mut sources = here.join("../../src").canonicalize()?;
    for watched in ["../../src", "seeded/list.rs", "plan/flavour.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=SIM_CLEAN");
    // The crate's features are off here, but for `redis`.
    println!(
        r#"cargo::rustc-check-cfg=cfg(feature, values("axum", "cli", "cron", "metrics", "tls", "uuid"))"#
    );

    let clean = env::var_os("SIM_CLEAN").is_some();
    let mut unplaced = Vec::new();
    let copy = out.join("sources");
    copy_tree(&sources, &copy)?;
    have_more_fences(&copy)?;
    sources = copy;
    if !clean {
        unplaced = put_bugs_in(&sources)?;
        for bug in &unplaced {
            println!("cargo::warning={bug}");
        }
    }
    let mut text = crate_root(&sources)?;
    text += "pub(crate) const SCRIPTS: &[(&str, &str)] = &[\n";
    for (name, file) in scripts(&sources)? {
        text += &format!("    ({name:?}, include_str!({file:?})),\n");
    }
    text += "];\n";
    writeln!(text, "pub(crate) const CLEAN: bool = {clean};").map_err(io::Error::other)?;
    writeln!(text, "pub(crate) const UNPLACED: &[&str] = &{unplaced:?};")
        .map_err(io::Error::other)?;
    fs::write(out.join("sources.rs"), text)
}

/// What the crate's root declares and re-exports.
fn crate_root(sources: &Path) -> io::Result<String> {
    let root = fs::read_to_string(sources.join("lib.rs"))?;
    let (mut modules, mut uses, mut attributes) = (Vec::new(), String::new(), String::new());
    let mut lines = root.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            attributes.push_str(line);
            attributes.push('\n');
            continue;
        }
        let module = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        if let Some(module) = module.and_then(|module| module.strip_suffix(';')) {
            if !attributes.contains("cfg(test)") && !REPLACED.contains(&module) {
                modules.push(module.to_owned());
            }
        } else if line.starts_with("pub use ") {
            uses.push_str(&attributes);
            let mut last = line;
            uses += &format!("{last}\n");
            while !last.ends_with(';') {
                last = lines.next().expect("a `pub use` ends");
                uses += &format!("{last}\n");
            }
        }
        attributes.clear();
    }
    let declared: String =
        modules.iter().map(|name| format!("    pub(crate) mod {name};\n")).collect();
    let used: String = modules.iter().map(|name| format!("use sources::{name};\n")).collect();
    Ok(format!("#[path = {sources:?}]\nmod sources {{\n{declared}}}\n{used}{uses}"))
}

/// The crate's scripts: their files, by name.
fn scripts(sources: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![sources.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                let name = path.file_name().expect("a file").to_string_lossy().into_owned();
                assert!(!found.contains_key(&name), "two scripts are called {name}");
                found.insert(name, path);
            }
        }
    }
    Ok(found)
}

/// Few ids are inserted in a run, and few requests are under way at a time: a copy is behind by more than a page sooner, and three
/// lone ids in four wait for a fence, too.
fn have_more_fences(sources: &Path) -> io::Result<()> {
    let edits = [
        ("answer.rs", "const PAGE: usize = 512;", "const PAGE: usize = 3;"),
        (
            "batch.rs",
            "part.asked.len() == 1",
            "part.asked.len() == 1 && crate::random::scatter() % 4 == 0",
        ),
    ];
    for (file, from, to) in edits {
        let file = sources.join("store/redis/check").join(file);
        let text = fs::read_to_string(&file)?;
        assert!(text.contains(from), "{from:?} is not in {file:?}");
        fs::write(file, text.replacen(from, to, 1))?;
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &copy)?;
        } else {
            fs::copy(entry.path(), copy)?;
        }
    }
    Ok(())
}

/// Puts every bug in; returns those whose place is not there exactly once, in words.
fn put_bugs_in(copy: &Path) -> io::Result<Vec<String>> {
    let scripts = scripts(copy)?;
    let mut unplaced = Vec::new();
    for (index, bug) in BUGS.iter().enumerate() {
        let asks = format!("crate::seeded::is({index})");
        for edit in bug.edits {
            let (file, from, to) = match edit {
                // The model changes it as it loads it.
                Edit::Script { file, from, .. } => {
                    (scripts.get(*file).cloned().unwrap_or_else(|| copy.join(file)), *from, None)
                }
                Edit::Source { file, from, to } => {
                    let to = format!("(if {asks} {{ {to} }} else {{ {from} }})");
                    (copy.join(file), *from, Some(to))
                }
                Edit::Raw { file, from, to } => {
                    (copy.join(file), *from, Some(to.replace("SEEDED", &asks)))
                }
            };
            let text = fs::read_to_string(&file).unwrap_or_default();
            let found = text.matches(from).count();
            if found != 1 {
                let (name, file) = (bug.name, file.strip_prefix(copy).unwrap_or(&file).display());
                unplaced.push(format!(
                    "{name:?}: the text to change is {found} times in {file}: {from}"
                ));
            } else if let Some(to) = to {
                fs::write(&file, text.replace(from, &to))?;
            }
        }
    }
    Ok(unplaced)
}
