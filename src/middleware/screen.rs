//! What a request turns out to be before anybody is asked.

use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::request::{Admitted, Pending};
use crate::extract::{Extraction, readable};
use crate::guard::Guard;
use crate::id::InvalidId;
use crate::mode::Mode;
use crate::nulls::rules::reads;
use crate::rejection::Rejected;

/// What a request turns out to be before anybody is asked.
pub(super) enum Screened {
    /// Nothing to check. It may belong to the sample of those that would be refused, which shows whether that is right.
    Pass(Option<Admitted>),
    /// Refused as it is.
    Reject(Rejected),
    /// About ids.
    About(Pending),
}

impl Guard {
    /// Sorts a request by its head alone.
    #[inline]
    pub(super) fn screen(self: &Arc<Self>, parts: &Parts) -> Screened {
        self.metrics.requests.add(1);
        let mode = self.gate.mode();
        let extraction = if mode != Mode::Off && self.options.methods.contains(&parts.method) {
            let extraction = self.extractor.extract(parts);
            self.no_id.note(&extraction, self.name());
            extraction
        } else {
            Extraction::Unguarded
        };
        match extraction {
            Extraction::Id(id) => Screened::About(Pending::new([id], None, self)),
            Extraction::Ids(listed) => match readable(listed) {
                Ok((ids, _)) if ids.is_empty() => self.unguarded(),
                Ok((ids, unread)) => Screened::About(Pending::new(ids, Some(unread), self)),
                Err(reason) => self.screen_invalid(reason, mode, &parts.method),
            },
            Extraction::Unguarded => self.unguarded(),
            Extraction::Invalid(reason) => self.screen_invalid(reason, mode, &parts.method),
        }
    }

    fn unguarded(&self) -> Screened {
        self.metrics.unguarded.add(1);
        Screened::Pass(None)
    }

    fn screen_invalid(
        self: &Arc<Self>,
        reason: InvalidId,
        mode: Mode,
        method: &Method,
    ) -> Screened {
        self.metrics.invalid.add(1);
        // A list that is too long says nothing of what is an id, and one of it costs thousands of look-ups.
        let tells = reads(method) && !matches!(reason, InvalidId::TooMany { .. });
        match self.options.on_invalid.status(reason) {
            None => Screened::Pass(None),
            Some(_) if tells && (mode == Mode::Shadow || self.invalid.takes()) => {
                Screened::Pass(Some(Admitted::sample(self, reason)))
            }
            Some(_) if mode == Mode::Shadow => Screened::Pass(None),
            Some(status) => Screened::Reject(Rejected::invalid(reason, status, method.clone())),
        }
    }
}
