//! What `doctor` found.

use std::fmt::Write as _;

use bloom_guard::StoreError;
use serde_json::{Value, json};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Sound,
    Note,
    Wrong,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Note => "note",
            Self::Wrong => "WRONG",
        }
    }
}

/// What was looked at: what it is, and what to do about it.
#[derive(Clone, PartialEq, Eq)]
struct Finding {
    level: Level,
    what: String,
    mend: String,
}

/// All that was looked at, in order.
#[derive(Default)]
pub(crate) struct Findings {
    all: Vec<Finding>,
    /// What is sound, where that is not all.
    only: &'static str,
}

impl Findings {
    fn add(&mut self, level: Level, what: impl Into<String>, mend: impl Into<String>) {
        self.all.push(Finding { level, what: what.into(), mend: mend.into() });
    }

    pub(crate) fn sound(&mut self, what: impl Into<String>) {
        self.add(Level::Sound, what, "");
    }

    pub(crate) fn note(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Note, what, mend);
    }

    pub(crate) fn wrong(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(Level::Wrong, what, mend);
    }

    /// Notes what Redis refused, with the library's own advice.
    pub(crate) fn refused(&mut self, error: &StoreError) {
        self.wrong(error.to_string(), error.advice());
    }

    /// Notes that a filter in shards may be there, or not.
    pub(crate) fn unseen_in_shards(&mut self, name: &str, user: &str) {
        self.note(
            format!("filter: this user may not see whether there is one of the name {name:?} in shards; else there is none yet"),
            format!("ACL SETUSER {user} ~bg:{{{name}#* if it is, or is to be, in shards; and give --shards then"),
        );
        self.only = " for a filter that is not in shards";
    }

    /// Adds what was found of each of some servers, and of which, where it is not the same of all.
    pub(crate) fn of_each(&mut self, each: &[(String, Self)]) {
        for (address, findings) in each {
            for finding in &findings.all {
                let is_of_all = each.iter().all(|(_, other)| other.all.contains(finding));
                let mut finding = finding.clone();
                if !is_of_all {
                    finding.what = format!("{address}: {}", finding.what);
                }
                if !self.all.contains(&finding) {
                    self.all.push(finding);
                }
            }
        }
    }

    pub(crate) fn wrong_count(&self) -> usize {
        self.all.iter().filter(|finding| finding.level == Level::Wrong).count()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Finding { level, what, mend } in &self.all {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{}: {what}", level.name());
            if !mend.is_empty() {
                let _written = writeln!(text, "  {mend}");
            }
        }
        text + &match self.wrong_count() {
            0 => format!("Redis is sound{}.", self.only),
            1 => "One thing is wrong.".to_owned(),
            _ => "Some things are wrong.".to_owned(),
        }
    }

    pub(crate) fn value(&self) -> Value {
        let finding = |finding: &Finding| {
            let level = finding.level.name().to_lowercase();
            json!({ "level": level, "what": finding.what, "mend": finding.mend })
        };
        let findings: Vec<Value> = self.all.iter().map(finding).collect();
        json!({ "sound": self.wrong_count() == 0, "findings": findings })
    }
}
