//! Whatever is sent to a server with a guard in it, the guard's id is the id that the handler gets; it
//! is refused until it was inserted, and never after.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use bloom_guard::{
    BloomGuard, ChangeError, Extraction, Id, IdExtractor, InvalidId, OnInvalid, Query, Schedule,
    from_iter,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::application::{Seen, Value, agreement, by_query, paths, pattern};
use super::kept;
use super::targets::raw_targets;
use super::wire::{Answer, Client, Server};

/// How many targets are generated for each type of id.
const GENERATED: usize = 2_000;

/// An extractor that keeps what it found.
struct Recorder<E> {
    extractor: E,
    found: Arc<Mutex<Vec<Extraction>>>,
}

impl<E: IdExtractor> IdExtractor for Recorder<E> {
    fn extract(&self, parts: &Parts) -> Extraction {
        let extraction = self.extractor.extract(parts);
        self.found.lock().unwrap().push(extraction.clone());
        extraction
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        self.extractor.canonical(text)
    }
}

/// The application without a guard and with one.
struct Twins {
    bare: Vec<Client>,
    guarded: Vec<Client>,
    guard: BloomGuard,
    found: Arc<Mutex<Vec<Extraction>>>,
    inserted: HashSet<Vec<u8>>,
    _servers: [Server; 2],
}

impl Twins {
    async fn start(app: Router, extractor: impl IdExtractor, first: &'static str) -> Self {
        let found = Arc::new(Mutex::new(Vec::new()));
        let extractor = Recorder { extractor, found: Arc::clone(&found) };
        let guard = BloomGuard::builder("users", extractor)
            .in_process()
            .capacity(100_000, 1e-9)
            .audits_per_second(0)
            .rebuild(Schedule::manual(), from_iter(move || [first]))
            .on_invalid(OnInvalid::BadRequest)
            .build()
            .unwrap();
        guard.ready().await;
        let servers =
            [Server::start(app.clone()).await, Server::start(app.layer(guard.clone())).await];
        let mut clients = Vec::new();
        for server in &servers {
            clients.push(vec![Client::http1(server), Client::http2(server.address).await]);
        }
        let guarded = clients.pop().unwrap();
        let bare = clients.pop().unwrap();
        let inserted = HashSet::from([first.as_bytes().to_vec()]);
        Self { bare, guarded, guard, found, inserted, _servers: servers }
    }

    /// Asks for a target in each version of HTTP; returns how HTTP/1 ended.
    async fn compare(&mut self, target: &[u8]) -> Result<&'static str, String> {
        let outcome = self.compare_over(0, target).await?;
        self.compare_over(1, target).await.map_err(|difference| format!("HTTP/2: {difference}"))?;
        Ok(outcome)
    }

    async fn compare_over(&mut self, http: usize, target: &[u8]) -> Result<&'static str, String> {
        let Some(bare) = self.bare[http].ask(target).await else { return Ok("no request") };
        if !bare.arrived {
            let (guarded, found) = self.ask_guarded(http, target).await;
            let same = guarded == bare && found.is_empty();
            return if same { Ok("no request") } else { Err(format!("{bare:?}, {guarded:?}")) };
        }
        let seen = match bare.status {
            StatusCode::OK => Seen::Value(bare.body.clone()),
            StatusCode::BAD_REQUEST => Seen::Rejected,
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Seen::Nothing,
            other => return Err(format!("the application answers {other}")),
        };
        if let Seen::Value(value) = &seen {
            self.create(http, target, value).await?;
        }
        let (guarded, found) = self.ask_guarded(http, target).await;
        let [extraction] = found.as_slice() else { return Err(format!("extracted {found:?}")) };
        let uri = Uri::try_from(target).map_err(|error| error.to_string())?;
        let outcome = agreement(&uri, extraction, &seen)?;
        let expected = match extraction {
            Extraction::Invalid(_) => guarded.status == StatusCode::BAD_REQUEST,
            // Of an id that the handler does not get to see, the guard knows nothing.
            Extraction::Id(_) if seen == Seen::Rejected => guarded.status.is_client_error(),
            _ => guarded == bare,
        };
        if expected {
            Ok(outcome)
        } else {
            Err(format!("{extraction:?}: {guarded:?}, not {bare:?}"))
        }
    }

    /// Inserts the id that a handler got; until then it is refused.
    async fn create(&mut self, http: usize, target: &[u8], value: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
        if self.inserted.contains(value) {
            return Ok(());
        }
        let (before, _) = self.ask_guarded(http, target).await;
        match self.guard.insert(text).await {
            Ok(()) => {}
            Err(ChangeError::Invalid(InvalidId::TooLong { .. })) => return Ok(()),
            Err(error) => return Err(format!("not inserted: {error}")),
        }
        self.inserted.insert(value.to_vec());
        // A text too long for an id may spell a value that is not.
        match before.status {
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(()),
            other => Err(format!("{other} before it was created")),
        }
    }

    async fn ask_guarded(&mut self, http: usize, target: &[u8]) -> (Answer, Vec<Extraction>) {
        let answer = self.guarded[http].ask(target).await.unwrap();
        (answer, std::mem::take(&mut *self.found.lock().unwrap()))
    }
}

/// The guards before an application whose ids are of one type.
async fn guards<T: Value>(first: &'static str) -> Vec<Twins> {
    // The path is nothing to this extractor.
    let by_query = Router::new().fallback(by_query::<T>);
    vec![
        Twins::start(paths::<T>(), pattern::<T>(), first).await,
        Twins::start(paths::<T>(), bloom_guard::Captures::<T>::new("id"), first).await,
        Twins::start(by_query, Query::<T>::new("id"), first).await,
    ]
}

#[derive(Default)]
struct Tally {
    targets: usize,
    same: usize,
    invalid: usize,
    without: usize,
    refused: usize,
    differences: Vec<String>,
}

impl Tally {
    /// Puts targets to each guard. A target counts as what it was to the first for which it was an id.
    async fn ask(&mut self, guards: &mut [Twins], targets: &[Vec<u8>]) {
        for target in targets {
            let mut outcomes = Vec::new();
            for twins in &mut *guards {
                match twins.compare(target).await {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(difference) => {
                        self.differences.push(format!("{}: {difference}", line(target)));
                    }
                }
            }
            self.targets += 1;
            let any = |wanted: &[&str]| outcomes.iter().any(|outcome| wanted.contains(outcome));
            match () {
                () if any(&["same id"]) => self.same += 1,
                () if any(&["both refuse", "long", "other capture"]) => self.invalid += 1,
                () if any(&["no id"]) => self.without += 1,
                () => self.refused += 1,
            }
        }
    }
}

fn generated(count: usize) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::default();
    let strategy = raw_targets();
    let mut targets = HashSet::new();
    while targets.len() < count {
        targets.insert(strategy.new_tree(&mut runner).unwrap().current());
    }
    targets.into_iter().collect()
}

#[tokio::test]
async fn whatever_is_sent_the_guard_and_the_handler_mean_the_same_id() {
    let mut tally = Tally::default();
    let mut kept = kept::targets();
    // A server that reads the header of the first may hang up at the others: too many frames, and
    // too many bytes in few of them.
    kept.extend([10_000, 30_000].map(|len| format!("/users/{}", "ä".repeat(len)).into_bytes()));
    kept.push(format!("/users/{}", "0".repeat(65_400)).into_bytes());
    let mut targets = generated(3 * GENERATED);
    for mut guards in
        [guards::<u64>("4242").await, guards::<String>("4242").await, guards::<Uuid>(NIL).await]
    {
        tally.ask(&mut guards, &kept).await;
        tally.ask(&mut guards, &targets.split_off(targets.len() - GENERATED)).await;
    }
    let Tally { targets, same, invalid, without, refused, differences } = tally;
    for difference in &differences {
        println!("{difference}");
    }
    println!(
        "difference: {targets} targets, {same} same id, {invalid} rejected as invalid, {without} \
         without an id, {refused} no HTTP request, {} differences",
        differences.len()
    );
    assert!(
        differences.is_empty(),
        "{} differences, the first: {}",
        differences.len(),
        differences[0]
    );
    let least = GENERATED / 20;
    assert!(same > least && invalid > least && without > least && refused > least);
}

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// Writes a target as a line of the corpus.
fn line(target: &[u8]) -> String {
    let mut line = String::new();
    for byte in target {
        match byte {
            b'\\' => line.push_str("\\\\"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => line.push_str(&format!("\\x{byte:02x}")),
        }
    }
    line
}
