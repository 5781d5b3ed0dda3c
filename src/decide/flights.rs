//! Single flight: of several requests for an id of which nothing is known, one goes first.
//!
//! The others wait until it is answered, and are then decided anew. Unlike in Go's `singleflight`, the answer is not shared.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::recent::IdHash;

/// The most requests that wait for one id, and for all ids. Further ones do not wait.
const WAITING_FOR_ONE: usize = 1_024;
const WAITING: usize = 16_384;
/// The most ids with a first request under way. Requests for further ids all go at once.
const FLYING: usize = 65_536;
const PARTS: usize = 16;

pub(crate) struct Flights {
    max_wait: Duration,
    parts: [Mutex<HashMap<IdHash, Flight>>; PARTS],
    room: Arc<Semaphore>,
}

struct Flight {
    /// When all waiting for this flight ends.
    until: Instant,
    /// Closed when the first request is answered. Made for the first waiter.
    arrival: Option<Arc<Semaphore>>,
}

pub(crate) enum Turn<W> {
    /// The request goes. With a lead others wait for it.
    Go(Option<Lead>),
    /// The request waits for this, and is then decided anew.
    Wait(W),
}

/// Other requests for the id wait until it is dropped.
pub(crate) struct Lead {
    flights: Arc<Flights>,
    id: IdHash,
}

impl Flights {
    pub(crate) fn new(max_wait: Duration) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(WAITING));
        Arc::new(Self { max_wait, parts: Default::default(), room })
    }

    pub(crate) fn enter(
        self: &Arc<Self>,
        id: IdHash,
        now: Instant,
    ) -> Turn<impl Future<Output = ()> + Send + use<>> {
        let mut part = self.part(id).lock();
        let is_full = part.len() == FLYING / PARTS;
        let mut flight = match part.entry(id) {
            Entry::Vacant(_) if is_full => return Turn::Go(None),
            Entry::Vacant(room) => {
                room.insert(Flight { until: now + self.max_wait, arrival: None });
                return Turn::Go(Some(Lead { flights: Arc::clone(self), id }));
            }
            Entry::Occupied(flight) => flight,
        };
        let flight = flight.get_mut();
        let arrival = flight.arrival.get_or_insert_with(|| Arc::new(Semaphore::new(0)));
        // Each waiter holds a reference.
        if now >= flight.until || Arc::strong_count(arrival) > WAITING_FOR_ONE {
            return Turn::Go(None);
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            return Turn::Go(None);
        };
        let (arrived, until) = (Arc::clone(arrival).acquire_owned(), flight.until);
        Turn::Wait(async move {
            let _ends = timeout_at(until, arrived).await;
            drop(place);
        })
    }

    fn part(&self, id: IdHash) -> &Mutex<HashMap<IdHash, Flight>> {
        &self.parts[id.part(PARTS)]
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let flight = self.flights.part(self.id).lock().remove(&self.id);
        // Waiters are woken without the lock.
        if let Some(arrival) = flight.and_then(|flight| flight.arrival) {
            arrival.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::decide::recent::IdHasher;
    use crate::id::Id;

    const MAX_WAIT: Duration = Duration::from_secs(1);

    fn hash(id: u64) -> IdHash {
        IdHasher::new().hash(&Id::display(&id).unwrap())
    }

    fn lead<W>(turn: Turn<W>) -> Option<Lead> {
        let Turn::Go(lead) = turn else { panic!("it waits") };
        lead
    }

    fn wait<W>(turn: Turn<W>) -> W {
        let Turn::Wait(arrival) = turn else { panic!("it goes") };
        arrival
    }

    #[tokio::test(start_paused = true)]
    async fn the_others_wait_until_the_first_is_answered() {
        let (flights, id) = (Flights::new(MAX_WAIT), hash(1));
        let first = lead(flights.enter(id, Instant::now())).unwrap();
        let mut others: Vec<_> =
            (0..3).map(|_| Box::pin(wait(flights.enter(id, Instant::now())))).collect();
        assert!(timeout(MAX_WAIT / 2, &mut others[0]).await.is_err());
        assert!(lead(flights.enter(hash(2), Instant::now())).is_some(), "another id");
        drop(first);
        let began = Instant::now();
        for other in others {
            other.await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(lead(flights.enter(id, Instant::now())).is_some(), "the next one leads");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_request_costs_others_one_wait_altogether() {
        let (flights, id) = (Flights::new(MAX_WAIT), hash(1));
        let began = Instant::now();
        let _first = lead(flights.enter(id, began)).unwrap();
        advance(MAX_WAIT * 3 / 4).await;
        wait(flights.enter(id, Instant::now())).await;
        assert_eq!(began.elapsed(), MAX_WAIT);
        assert!(lead(flights.enter(id, Instant::now())).is_none(), "nobody waits any more");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_wait_than_there_is_room_for() {
        let (flights, now) = (Flights::new(MAX_WAIT), Instant::now());
        let leads: Vec<_> = (0..17).map(|id| (hash(id), 0)).collect();
        let mut kept = Vec::new();
        let mut waiting = Vec::new();
        for (id, _) in &leads {
            kept.push(lead(flights.enter(*id, now)));
            for _ in 0..WAITING_FOR_ONE {
                match flights.enter(*id, now) {
                    Turn::Wait(arrival) => waiting.push(arrival),
                    Turn::Go(lead) => assert!(lead.is_none()),
                }
            }
            assert!(lead(flights.enter(*id, now)).is_none(), "so many wait for one");
        }
        assert_eq!(waiting.len(), WAITING);
        // Whoever leaves makes room: of all, and of those that wait for one.
        waiting.pop();
        let id = hash(99);
        kept.push(lead(flights.enter(id, now)));
        for _ in 0..2 * WAITING_FOR_ONE {
            drop(wait(flights.enter(id, now)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_ids_under_way_are_bounded() {
        let (flights, now) = (Flights::new(MAX_WAIT), Instant::now());
        let hasher = IdHasher::new();
        let ids = (0..2 * FLYING as u64).map(|id| hasher.hash(&Id::display(&id).unwrap()));
        let leads: Vec<_> = ids.filter_map(|id| lead(flights.enter(id, now))).collect();
        assert_eq!(leads.len(), FLYING);
        drop(leads);
        assert!(flights.parts.iter().all(|part| part.lock().is_empty()));
    }
}
