//! Runs the command, and compares what it says with kept text, in which no time stands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What became of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program. It is built with the features that all others are built with, so little is built anew. `BLOOM_GUARD_BIN` names
/// one that is there.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(program) = std::env::var_os("BLOOM_GUARD_BIN") {
            return program.into();
        }
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test.ancestors().nth(2).expect("it is in target/<profile>/deps");
        let target = profile.parent().expect("a target directory");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--all-features", "--bin", "bloom-guard"]);
        // With an example beside it, cargo takes what the tests depend on as they have built it.
        build.args(["--example", "hyper"]);
        build.arg("--target-dir").arg(target);
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        // Of which package a test is: build scripts that read theirs would run anew, here and in the next run of the tests.
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                build.env_remove(name);
            }
        }
        match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") => {}
            name => drop(build.args(["--profile", name.expect("a profile")])),
        }
        assert!(build.status().expect("cargo").success(), "the command does not build");
        profile.join("bloom-guard")
    })
}

impl Ran {
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::fed(arguments, "", &[])
    }

    /// Runs it with these lines on its standard input, and variables in its environment.
    pub(crate) fn fed(arguments: &[&str], input: &str, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(program())
            .args(arguments)
            .env_remove("BLOOM_GUARD_SECRET_KEY")
            .env_remove("BLOOM_GUARD_URL")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        // It may end before it has read all.
        process.stdin.take().expect("a pipe").write_all(input.as_bytes()).ok();
        let ended = process.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let status = ended.status.code().expect("it was not killed");
        let ran = Self { status, out: text(ended.stdout), err: text(ended.stderr) };
        assert!(!ran.err.contains("panicked") && !ran.err.contains("RUST_BACKTRACE"), "{ran:?}");
        ran
    }

    /// Its output and its status, without times.
    pub(crate) fn said(&self) -> String {
        format!("{}{}status {}\n", plain(&self.out), plain(&self.err), self.status)
    }

    /// Compares that with the kept text of this name.
    pub(crate) fn is_as_kept(&self, name: &str) {
        is_as_kept(name, &self.said());
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Compares what was said with the kept text of this name. `KEEP=1` keeps what is said now.
pub(crate) fn is_as_kept(name: &str, said: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("cli/kept/{name}.txt"));
    if std::env::var_os("KEEP").is_some() {
        std::fs::write(&path, said).expect("it can be kept");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(said, kept, "{name}: KEEP=1 keeps what is said now");
}

/// What times are told in.
const UNITS: [&str; 5] = ["ms", "s", "min", "h", "days"];

/// A text without times and what else differs from run to run.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let named = words.iter().enumerate().map(|(at, word)| {
            let next = words.get(at + 1).map_or("", |next| bare(next));
            named(word, next)
        });
        plain.push_str(&named.collect::<Vec<_>>().join(" "));
        plain.push('\n');
    }
    for unit in UNITS {
        plain = plain.replace(&format!("TIME {unit}"), "TIME");
    }
    plain
}

fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| !letter.is_alphanumeric())
}

/// A word; a generation, or a number that is a time, by a name.
fn named(word: &str, next: &str) -> String {
    let of = bare(word);
    let name = if of.len() == 16 && of.bytes().all(|byte| byte.is_ascii_digit()) {
        "GENERATION"
    } else if of.len() == 32 && of.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        "DIGEST"
    } else if of.parse::<f64>().is_ok() && UNITS.contains(&next) {
        "TIME"
    } else if of
        .split_once(':')
        .is_some_and(|(host, port)| host == "127.0.0.1" && port.parse::<u16>().is_ok())
    {
        "ADDRESS"
    } else if of.split('.').count() == 3 && of.split('.').all(|part| part.parse::<u32>().is_ok()) {
        "VERSION"
    } else if of == "111" || of == "61" {
        // What the system calls a connection that is refused.
        "REFUSED"
    } else {
        return word.to_owned();
    };
    word.replace(of, name)
}
