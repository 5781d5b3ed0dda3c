//! The shape of whatever may say "absent", and of the load of a copy: header, what is asked for, metadata, header.
//!
//! Both headers must be of one filter that is live, by the metadata too, in the joined incarnation; its stamp must reach the last number.

use super::Turn;
use crate::instance::Reading;
use crate::rules::Rule;
use crate::state::{Bits, Evidence, State};

impl Turn<'_> {
    /// The header, if it is one of a live filter of this process of Redis and this incarnation.
    pub(super) fn header(&self, incarnation: u8) -> Option<Bits> {
        let bits = self.state.redis.bits.filter(|bits| !bits.is_disproved)?;
        let is_of_here = bits.run == self.process().run && bits.incarnation == incarnation;
        (is_of_here || !self.model.has(Rule::R8Disproved)).then_some(bits)
    }

    /// Whether two filters are one.
    pub(super) fn is_same(&self, one: (u8, u8), other: (u8, u8)) -> bool {
        one.0 == other.0 && (one.1 == other.1 || !self.model.has(Rule::R13Nonce))
    }

    /// Begins to ask for what concerns one filter, or whichever is live if that is none.
    pub(super) fn evidence(&self, filter: Option<(u8, u8)>) -> Evidence {
        let (token, nonce) = filter.unwrap_or_default();
        let incarnation = self.process().incarnation;
        Evidence { incarnation, token, nonce, ..Evidence::default() }
    }

    /// The reading that comes next, of those.
    pub(super) fn reading(readings: &[Reading], evidence: &Evidence) -> Option<Reading> {
        readings.get(usize::from(evidence.read)).copied()
    }

    /// Reads the header or the metadata. `None` where they speak against it.
    pub(super) fn read(
        &self,
        reading: Reading,
        evidence: &Evidence,
        next: &mut State,
    ) -> Option<Evidence> {
        let mut read = Evidence { read: evidence.read + 1, ..*evidence };
        match reading {
            Reading::Asked => {}
            Reading::Header => {
                let bits = self.header(evidence.incarnation)?;
                if read.token == 0 {
                    (read.token, read.nonce) = (bits.token, bits.nonce);
                }
                let is_known = self.is_same((bits.token, bits.nonce), (read.token, read.nonce));
                let is_newer = bits.stamp >= read.stamp && bits.stamp >= read.last;
                if !is_known || !is_newer {
                    return None;
                }
                if read.stamp == 0 {
                    read.stamp = bits.stamp;
                }
            }
            Reading::Metadata => {
                let meta = &next.redis.meta;
                // Where they are read first, no header says yet what should be live.
                let is_live = read.token == meta.live
                    || read.token == 0
                    || !self.model.has(Rule::R15Live)
                    || !self.model.has(Rule::R15Between);
                if meta.incarnation != read.incarnation || !is_live {
                    return None;
                }
                read.last = meta.last;
                if !self.is_settled(next) {
                    return None;
                }
            }
        }
        Some(read)
    }
}
