//! How a command ends, and what it says.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use bloom_guard::inspect::InspectError;
use bloom_guard::{FleetError, StoreError};
use serde_json::{Value, json};

/// How a command ended that could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Fine,
    /// It found something wrong.
    Wrong,
}

/// Why a command could not do its work: one sentence or two that name the value, and what to do. None where nobody reads them, as behind
/// `head`.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Outcome = Result<Ending, Failure>;

impl Ending {
    pub(crate) fn wrong_if(is_wrong: bool) -> Self {
        if is_wrong { Self::Wrong } else { Self::Fine }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(advised(&error, error.advice()))
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self(advised(&error, error.advice()))
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        match error {
            InspectError::Store(error) => error.into(),
            InspectError::NoKey => Self(
                "The filter's secret key is not kept in Redis: set BLOOM_GUARD_SECRET_KEY to the \
                 application's, as 32 hex digits."
                    .to_owned(),
            ),
            error => Self(format!("{error}.")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self(String::new());
        }
        Self(format!("Reading or writing failed: {error}."))
    }
}

fn advised(error: &dyn Display, advice: &str) -> String {
    // Redis's own words may end with a full stop.
    format!("{}. {advice}", error.to_string().trim_end_matches('.'))
}

/// Writes lines of words, or their JSON.
pub(crate) fn say(json: bool, words: &str, value: &Value) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{}", words.trim_end())?;
    }
    Ok(())
}

/// Says why there is no result, if there is none, and returns the exit status.
pub(crate) fn tell(outcome: Outcome, json: bool) -> ExitCode {
    match outcome {
        Ok(Ending::Fine) => ExitCode::SUCCESS,
        Ok(Ending::Wrong) => ExitCode::from(1),
        Err(Failure(sentence)) if sentence.is_empty() => ExitCode::from(2),
        Err(Failure(sentence)) => {
            let mut first = sentence.chars();
            let sentence: String =
                first.next().into_iter().flat_map(char::to_uppercase).chain(first).collect();
            // Nobody is left to be told where this fails.
            let _told = if json {
                writeln!(io::stderr(), "{}", json!({ "error": sentence }))
            } else {
                writeln!(io::stderr(), "{sentence}")
            };
            ExitCode::from(2)
        }
    }
}
