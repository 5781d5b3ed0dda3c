//! Makes the crate's sources parts of the simulation's two programs: as they are, and with every seeded
//! bug in, each behind a question whether it is in.
//!
//! What `src/lib.rs` declares and re-exports is declared and re-exported by the programs, too. A module
//! that the simulation declares itself stands in for the crate's of the same name.

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

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo runs this"));
    let sources = here.join("../../src").canonicalize()?;
    for watched in ["../../src", "main.rs", "seeded/list.rs", "plan/flavour.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    // The crate's features are off here, but for `redis`.
    println!(
        r#"cargo::rustc-check-cfg=cfg(feature, values("axum", "cli", "cron", "metrics", "tls", "uuid"))"#
    );

    let simulation = Items::read(&here.join("main.rs"))?;
    let crate_root = Items::read(&sources.join("lib.rs"))?.without(&simulation.modules);
    let clean =
        crate_root.declared("sources", &sources) + &crate_root.uses + &scripts(&sources)?.listed();
    fs::write(out.join("sources.rs"), clean)?;

    let copy = out.join("with_bugs");
    copy_tree(&sources, &copy)?;
    let unplaced = put_bugs_in(&copy, &scripts(&copy)?)?;
    let mut with_bugs = simulation.declared("simulation", &here)
        + &crate_root.declared("sources", &copy)
        + &crate_root.uses;
    with_bugs += &scripts(&copy)?.listed();
    writeln!(with_bugs, "pub(crate) const UNPLACED: &[&str] = &{unplaced:?};")
        .map_err(io::Error::other)?;
    fs::write(out.join("sources_with_bugs.rs"), with_bugs)
}

struct Module {
    name: String,
    /// Where it is, if not where its name says.
    path: Option<String>,
}

/// What a crate's root declares.
struct Items {
    modules: Vec<Module>,
    /// The re-exports, as they are written.
    uses: String,
}

impl Items {
    fn read(root: &Path) -> io::Result<Self> {
        let mut items = Self { modules: Vec::new(), uses: String::new() };
        let text = fs::read_to_string(root)?;
        let mut lines = text.lines();
        let mut attributes = String::new();
        while let Some(line) = lines.next() {
            let word = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if line.is_empty() || line.starts_with("//") || line.starts_with("#!") {
                continue;
            } else if line.starts_with("#[") {
                attributes.push_str(line);
                attributes.push('\n');
                continue;
            } else if let Some(module) = word.strip_prefix("mod ").and_then(|m| m.strip_suffix(';'))
            {
                if !attributes.contains("cfg(test)") {
                    let path = attributes
                        .split_once("path = \"")
                        .and_then(|(_, path)| path.split_once('"'));
                    let path = path.map(|(path, _)| path.to_owned());
                    items.modules.push(Module { name: module.to_owned(), path });
                }
            } else if line.starts_with("pub use ") {
                items.uses.push_str(&attributes);
                items.uses.push_str(line);
                items.uses.push('\n');
                let mut last = line;
                while !last.ends_with(';') {
                    last = lines.next().expect("a `pub use` ends");
                    items.uses.push_str(last);
                    items.uses.push('\n');
                }
            }
            attributes.clear();
        }
        Ok(items)
    }

    fn without(mut self, others: &[Module]) -> Self {
        self.modules.retain(|module| others.iter().all(|other| other.name != module.name));
        self
    }

    /// The modules' declarations, for files in this directory.
    fn declared(&self, room: &str, directory: &Path) -> String {
        let mut text = format!("#[path = {directory:?}]\nmod {room} {{\n");
        for Module { name, path } in &self.modules {
            if let Some(path) = path {
                text += &format!("    #[path = {path:?}]\n");
            }
            text += &format!("    pub(crate) mod {name};\n");
        }
        text += "}\n";
        for Module { name, .. } in &self.modules {
            text += &format!("use {room}::{name};\n");
        }
        text
    }
}

/// The crate's scripts: their files, by name.
struct Scripts(BTreeMap<String, PathBuf>);

impl Scripts {
    fn listed(&self) -> String {
        let mut text = "pub(crate) const SCRIPTS: &[(&str, &str)] = &[\n".to_owned();
        for (name, file) in &self.0 {
            text += &format!("    ({name:?}, include_str!({file:?})),\n");
        }
        text + "];\n"
    }
}

fn scripts(sources: &Path) -> io::Result<Scripts> {
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
    Ok(Scripts(found))
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
fn put_bugs_in(copy: &Path, scripts: &Scripts) -> io::Result<Vec<String>> {
    let mut unplaced = Vec::new();
    for (index, bug) in BUGS.iter().enumerate() {
        let asks = format!("crate::seeded::is({index})");
        for edit in bug.edits {
            let (file, from, to) = match edit {
                // The model changes it as it loads it.
                Edit::Script { file, from, .. } => {
                    (scripts.0.get(*file).cloned().unwrap_or_else(|| copy.join(file)), *from, None)
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
