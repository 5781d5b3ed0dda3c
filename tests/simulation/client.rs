//! The clients, the handler behind the guard, and what is made of the answers.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::database::{self, Reading, Seen};
use crate::nulls::rules::{is_found, reads};
use crate::plan::{Answers, Ask, Asked, Caller, NEVER};
use crate::rejection::{RejectReason, Rejected};
use crate::{BloomGuard, Missing, Mode, Proof, Verdict};
use crate::{copies, net, oracle, trace};

/// How a request or a check was answered by the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It did not answer: it let the request pass.
    Not,
    /// That there is no such record.
    Absent,
    /// That there is no room.
    Busy,
}

/// The service within has failed.
#[derive(Debug)]
struct Failure;

/// What the handler has done so far.
#[derive(Debug, Default)]
struct Handled {
    reached: AtomicBool,
    deleted: AtomicBool,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Asks the guard itself.
pub(crate) async fn check(guard: BloomGuard, instance: usize, id: u64, healed: bool) {
    let before = database::see(id);
    let asked = Instant::now();
    let verdict = guard.check(&id).await.expect("a number is an id");
    oracle::waited(instance, asked, ms(0), 1);
    // What a look-up says, a guard that refuses nothing does not act on.
    let refused = matches!(verdict, Verdict::Absent(_)) && guard.mode() == Mode::Enforce;
    let answered = if refused { Answered::Absent } else { Answered::Not };
    note(instance, id, answered);
    if id >= NEVER {
        oracle::never_was(refused, healed);
    } else {
        judge(instance, id, before, answered);
    }
}

fn note(instance: usize, id: u64, answered: Answered) {
    trace::mix(&[instance as u8, answered as u8]);
    trace::mix(&id.to_be_bytes());
    trace::mix(&net::now_ms().to_be_bytes());
}

/// Judges an answer to a caller that is shown the row, if it is there.
fn judge(instance: usize, id: u64, before: Seen, answered: Answered) {
    if before.lasted(id) {
        oracle::existed(id, instance, answered);
    }
}

impl Ask {
    /// Sends it; returns how the guard answered, unless the client hung up.
    pub(crate) async fn send(self, guard: BloomGuard) -> Option<Answered> {
        let Self { instance, id, asked, caller, .. } = self;
        let handled = Arc::new(Handled::default());
        let (seen, mode, sent) = (database::see(id), guard.mode(), Instant::now());
        let response = self.answer(&guard, &handled).await?;
        let reached = handled.reached.load(Ordering::Relaxed);
        let busy = if reached { ms(self.before) + ms(self.after) } else { ms(0) };
        // For its check, and for its null.
        oracle::waited(instance, sent, busy, 2);
        let Ok(response) = response else { return Some(Answered::Not) };
        let answered = match response.status() {
            StatusCode::NOT_FOUND if !reached => Answered::Absent,
            StatusCode::SERVICE_UNAVAILABLE if !reached => Answered::Busy,
            _ => Answered::Not,
        };
        note(instance, id, answered);
        if response.extensions().get().is_some_and(by_null) {
            oracle::note(|findings| findings.nulls += 1);
        }
        if id >= NEVER {
            let enforced = mode == Mode::Enforce && asked != Asked::Delete;
            if enforced {
                oracle::never_was(answered == Answered::Absent, false);
            }
        } else if caller.sees(database::owner(id)) {
            judge(instance, id, seen, answered);
        }
        if handled.deleted.load(Ordering::Relaxed) {
            copies::removed(&guard, instance, id);
            let _ = guard.remove(&id).await;
        }
        Some(answered)
    }

    /// What the client gets, if it waits for it.
    async fn answer(
        &self,
        guard: &BloomGuard,
        handled: &Arc<Handled>,
    ) -> Option<Result<Response<()>, Failure>> {
        let (ask, progress) = (self.clone(), Arc::clone(handled));
        let handler = tower::service_fn(move |_request: Request<()>| {
            progress.reached.store(true, Ordering::Relaxed);
            ask.clone().handle(Arc::clone(&progress))
        });
        let mut service = guard.rejecting_with(not_found).layer(handler);
        let ready = service.ready().await.expect("always ready");
        let mut request = copies::Request::begin(guard, self.instance, self.id);
        let (answer, is_unasked) = request.send(|| ready.call(self.request()));
        // A guard that stands aside asks nobody, and none asks about what it found lately or has a copy of.
        let silent = guard.mode() == Mode::Off || is_unasked;
        let answer = request.answer(async {
            if silent {
                oracle::note(|findings| findings.quiet += 1);
                net::quiet(answer).await
            } else {
                answer.await
            }
        });
        let answer = match self.hangs_up {
            None => Some(answer.await),
            Some(at) => timeout(ms(at), answer).await.ok(),
        };
        let reached = handled.reached.load(Ordering::Relaxed);
        request.end(reached && answer.as_ref().is_some_and(|answer| self.has_found(answer)));
        answer
    }

    /// Whether an answer shows the row to be there.
    fn has_found(&self, answer: &Result<Response<()>, Failure>) -> bool {
        let status = answer.as_ref().ok().map(Response::status);
        reads(&self.asked.method()) && status.is_some_and(is_found)
    }

    fn request(&self) -> Request<()> {
        let query = if self.asked == Asked::Query { "?part=9" } else { "" };
        let mut request =
            Request::builder().method(self.asked.method()).uri(format!("/r/{}{query}", self.id));
        if let Some((name, value)) = self.caller.header() {
            request = request.header(name, value);
        }
        request.body(()).expect("a request")
    }

    /// The handler.
    async fn handle(self, handled: Arc<Handled>) -> Result<Response<()>, Failure> {
        sleep(ms(self.before)).await;
        let Answers::Truly { marked, gone } = self.answers else {
            sleep(ms(self.after)).await;
            return self.answers.untruly();
        };
        let reading = if self.asked == Asked::Delete {
            self.delete(&handled).await
        } else {
            let reading = database::read(self.id, self.lag, self.caller);
            sleep(ms(self.after)).await;
            reading
        };
        let mut response = Response::new(());
        *response.status_mut() = match reading {
            Reading::Found => StatusCode::OK,
            Reading::Missing if gone => StatusCode::GONE,
            Reading::Missing | Reading::Hidden => StatusCode::NOT_FOUND,
        };
        if reading == Reading::Missing && marked {
            response.extensions_mut().insert(Missing);
        }
        Ok(response)
    }

    /// Deletes the row, if this caller is shown it and no transaction is at it.
    async fn delete(&self, handled: &Handled) -> Reading {
        let reading = database::read(self.id, 0, self.caller);
        let transaction =
            (reading == Reading::Found).then(|| database::lock(self.id, true)).flatten();
        if let Some(transaction) = &transaction {
            transaction.begin_deletion();
        }
        sleep(ms(self.after)).await;
        let gone = transaction.map(|it| it.commit(false, Caller::Anybody)).is_some();
        handled.deleted.store(gone, Ordering::Relaxed);
        reading
    }
}

impl Answers {
    /// An answer that says nothing of the row.
    fn untruly(self) -> Result<Response<()>, Failure> {
        let Self::Always(status, header) = self else { return Err(Failure) };
        let mut response = Response::builder().status(status);
        if let Some((name, value)) = header {
            response = response.header(name, value);
        }
        Ok(response.body(()).expect("a response"))
    }
}

/// Asks for these rows, all at one moment, as the callers that are shown them; returns how many there are, and those that
/// did not pass unasked.
pub(crate) async fn ask_for_rows(
    guard: &BloomGuard,
    instance: usize,
    ids: Vec<u64>,
) -> (u64, Vec<u64>) {
    let (rows, mut asked, mut answers) = (ids.len() as u64, Vec::new(), Vec::new());
    for id in ids {
        let ask = Ask { caller: database::owner(id), ..Ask::get(instance, id) };
        let handler =
            tower::service_fn(|_: Request<()>| ready(Ok::<_, Failure>(Response::new(()))));
        let mut service = guard.rejecting_with(not_found).layer(handler);
        let mut request = copies::Request::begin(guard, instance, id);
        // It is always ready.
        let (answer, is_unasked) = request.send(|| service.call(ask.request()));
        asked.extend((!is_unasked).then_some(id));
        answers.push((request, answer));
    }
    for (mut request, answer) in answers {
        let answer = request.answer(answer).await;
        request.end(answer.is_ok_and(|answer| is_found(answer.status())));
    }
    (rows, asked)
}

/// Refuses as an application would that thinks of nothing but missing records.
fn not_found(_: &Rejected) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn by_null(rejected: &Rejected) -> bool {
    rejected.reason() == RejectReason::Absent(Proof::Null)
}
