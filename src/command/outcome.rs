//! How a command ends, and what it says.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use crate::error::StoreError;

/// Why a command could not do its work, and what to do. Empty if standard output is closed, as behind `head`.
#[derive(Debug)]
pub(super) struct Failure(pub(super) String);

/// Whether something is wrong, as the command's help says.
pub(super) type Outcome = Result<bool, Failure>;

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: &(dyn Error + 'static) = &error;
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return Self(String::new());
        }
        let advice = error.downcast_ref::<StoreError>().map(StoreError::advice);
        Self(advice.map_or_else(|| error.to_string(), |advice| advised(error, advice)))
    }
}

pub(super) fn advised(what: impl Display, advice: &str) -> String {
    // Redis's own words may end with a full stop.
    format!("{}. {advice}", what.to_string().trim_end_matches('.'))
}

pub(super) fn say(json: bool, words: &str, value: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        let value = serde_json::to_string(value).map_err(io::Error::from)?;
        writeln!(out, "{}", for_terminal(&value))?;
    } else {
        writeln!(out, "{}", for_terminal(words.trim_end()))?;
    }
    Ok(())
}

pub(super) fn tell(outcome: Outcome, json: bool) -> ExitCode {
    match outcome {
        Ok(is_wrong) => ExitCode::from(u8::from(is_wrong)),
        Err(Failure(words)) if words.is_empty() => ExitCode::from(2),
        Err(Failure(words)) => {
            // Nobody is left to be told where this fails.
            let _told = if json {
                let value = json!({ "error": words }).to_string();
                writeln!(io::stderr(), "{}", for_terminal(&value))
            } else {
                writeln!(io::stderr(), "error: {}", for_terminal(&words))
            };
            ExitCode::from(2)
        }
    }
}

/// Escapes control characters: ids, names and replies of Redis may hold them. JSON keeps its meaning.
fn for_terminal(text: &str) -> String {
    let escape = |letter: char| match letter {
        '\n' => "\n".to_owned(),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_steers_a_terminal() {
        let words = "a\nb\x1b[2J\u{9b}ü";
        assert_eq!(for_terminal(words), "a\nb\\u001b[2J\\u009bü");
        let shown = for_terminal(&json!(words).to_string());
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), words);
    }
}
