//! Checks that wait to be sent.

use std::sync::Arc;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, oneshot};

use super::batch::Found;
use crate::id::Digest;
use crate::store::redis::link::connection::Connection;
use crate::verdict::Doubt;

/// The most checks in a batch, which keeps Redis busy for less than a millisecond.
pub(super) const BATCH: usize = 256;

/// The checks that no batch has taken yet, in the order in which they came.
pub(crate) struct Queue {
    places: Sender<Place>,
    waiting: Mutex<Receiver<Place>>,
}

/// One check's place in the queue, and then in a batch.
pub(super) struct Place {
    /// The connection whose secret key the digest was made with.
    pub(super) live: Arc<Connection>,
    pub(super) digest: Digest,
    pub(super) answer: oneshot::Sender<Result<Found, Doubt>>,
}

impl Queue {
    /// Returns a queue with room for so many.
    pub(crate) fn new(room: usize) -> Self {
        let (places, waiting) = mpsc::channel(room);
        Self { places, waiting: Mutex::new(waiting) }
    }

    /// Puts a check into the queue; returns what its answer comes by. Who drops that is not sent any more.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(super) fn enter(
        &self,
        live: Arc<Connection>,
        digest: Digest,
    ) -> Result<oneshot::Receiver<Result<Found, Doubt>>, Full> {
        let (answer, received) = oneshot::channel();
        self.places.try_send(Place { live, digest, answer }).map_err(|_| Full)?;
        Ok(received)
    }

    /// Waits until there are checks that somebody waits for, and takes as many as a batch holds.
    pub(super) async fn take(&self, places: &mut Vec<Place>) {
        let mut waiting = self.waiting.lock().await;
        while places.is_empty() {
            waiting.recv_many(places, BATCH).await;
            places.retain(|place| !place.answer.is_closed());
        }
    }
}

/// There is no room in the queue.
pub(super) struct Full;
