//! The copy of the sources with all bugs in it, each behind a question whether it is in.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::list::{BUGS, Edit};
use crate::scripts;

/// Makes the copy and compiles it; returns the program. What goes wrong is told in words.
pub(crate) fn build() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target directory")?;
    let there = target.join("tmp").join("simulation-with-bugs");
    fill(here, &there).map_err(|error| format!("cannot copy the sources: {error}"))?;
    put_bugs_in(&there)?;
    compile(&there, target)
}

fn fill(here: &Path, there: &Path) -> io::Result<()> {
    if there.exists() {
        fs::remove_dir_all(there)?;
    }
    for tree in ["src", "tests/simulation", "tests/support"] {
        copy_tree(&here.join(tree), &there.join(tree))?;
    }
    // The simulation names the sources it needs; the library itself is none of them.
    fs::write(there.join("src/lib.rs"), "")?;
    let renamed =
        |text: String| text.replace("name = \"bloom-guard\"", "name = \"bloom-guard-with-bugs\"");
    let manifest = renamed(fs::read_to_string(here.join("Cargo.toml"))?);
    fs::write(there.join("Cargo.toml"), only_the_simulation(&manifest))?;
    fs::write(there.join("Cargo.lock"), renamed(fs::read_to_string(here.join("Cargo.lock"))?))
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
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

/// Leaves out of a manifest the targets that the copy has no files for.
fn only_the_simulation(manifest: &str) -> String {
    let mut kept = String::new();
    let mut keep = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            keep = !matches!(line, "[[bench]]" | "[[example]]" | "[[bin]]")
                && !line.starts_with("[lints");
        }
        if keep && !line.starts_with("readme") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    // A copy inside another package's directory belongs to no workspace but its own.
    kept + "\n[workspace]\n"
}

/// Puts every bug in.
fn put_bugs_in(there: &Path) -> Result<(), String> {
    for bug in BUGS {
        let asks = format!("crate::seeded::is_in({:?})", bug.name);
        for edit in bug.edits {
            let (file, from, to) = match edit {
                Edit::Script { file, from, .. } => (scripts::path(file), *from, None),
                Edit::Source { file, from, to } => {
                    let to = format!("(if {asks} {{ {to} }} else {{ {from} }})");
                    ((*file).to_owned(), *from, Some(to))
                }
                Edit::Raw { file, from, to } => {
                    ((*file).to_owned(), *from, Some(to.replace("SEEDED", &asks)))
                }
            };
            let path = there.join("src").join(&file);
            let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            let found = text.matches(from).count();
            if found != 1 {
                let name = bug.name;
                return Err(format!(
                    "{name:?}: the text to change is {found} times in {file}: {from}"
                ));
            }
            if let Some(to) = to {
                fs::write(&path, text.replace(from, &to)).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

fn compile(there: &Path, target: &Path) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(there).args(["test", "--no-run", "--offline", "--test", "simulation"]);
    command.args(["--message-format", "json"]);
    command.arg("--target-dir").arg(target);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // With the features of this build, the dependencies compiled for it serve the copy, too.
    let features = [
        ("axum", cfg!(feature = "axum")),
        ("metrics", cfg!(feature = "metrics")),
        ("tls", cfg!(feature = "tls")),
        ("uuid", cfg!(feature = "uuid")),
    ];
    for (feature, _) in features.iter().filter(|(_, on)| *on) {
        command.args(["--features", feature]);
    }
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    program(&output).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("the copy with the bugs does not compile:\n{errors}\n{}", rendered(&output))
    })
}

/// The compiled program, as cargo's messages name it.
fn program(output: &Output) -> Option<PathBuf> {
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "simulation")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .filter(|_| output.status.success())
}

/// The compiler's errors.
fn rendered(output: &Output) -> String {
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["message"]["level"] == "error")
        .filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned))
        .collect()
}
