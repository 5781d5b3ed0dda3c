//! Why a filter that another system writes is not trusted.

use crate::error::StoreError;
use crate::id::InvalidId;

/// Why [`ForeignHandle::trust_after`](crate::ForeignHandle::trust_after) stated nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// One of the ids that exist is none.
    #[error(transparent)]
    Invalid(#[from] InvalidId),
    /// Too few ids that exist were given to show that the numbers are the writer's.
    #[error(
        "{given} ids were given that show a filter's numbers, and {needed} are needed: with wrong numbers one of them would be in \
         it all the same with a chance of {chance:.1e}. The hashes of short ids show nothing of a BKDR filter's"
    )]
    TooFew {
        /// How many different ids were given that show the numbers.
        given: u64,
        /// How many are needed.
        needed: u64,
        /// The chance that one id is found by chance.
        chance: f64,
    },
    /// Ids that exist are not in the filter.
    #[error(
        "{missing} of {given} ids that exist are not in {filter}: compare its layout and numbers, and how ids are written as \
         bytes, with the program that writes it; where they are right, have it write what is missing"
    )]
    Missing {
        /// The layout, its keys and its numbers.
        filter: String,
        /// How many of them are not in it.
        missing: u64,
        /// How many were given.
        given: u64,
    },
    /// A key has not the length that a filter of these numbers has.
    #[error(
        "key {key:?} has {bytes} bytes, and {filter} between {min} and {max}: compare the number of bits with the program that \
         writes it"
    )]
    Length {
        /// The key.
        key: String,
        /// Its length.
        bytes: u64,
        /// The least length that a filter with that many bits set has, but once in a thousand million filters.
        min: u64,
        /// The greatest length, the seal's included.
        max: u64,
        /// The layout, its keys and its numbers.
        filter: String,
    },
    /// Bits are set behind the last one that these numbers have, where only the seal may be.
    #[error(
        "key {key:?} has bits set from bit {end} on, where {filter} has none: compare the number of bits with the program that \
         writes it"
    )]
    Behind {
        /// The key.
        key: String,
        /// The first bit that no id's bits can fall on.
        end: u64,
        /// The layout, its keys and its numbers.
        filter: String,
    },
    /// Too many bits are set: an id that was never inserted is found in it all the same.
    #[error(
        "of ids that do not exist, {rate:.3} are in {filter}, and {limit} at the most can be where its numbers are right: compare \
         them with the program that writes it, or have it make a larger filter"
    )]
    Full {
        /// The layout, its keys and its numbers.
        filter: String,
        /// The share of ids that do not exist and are found.
        rate: f64,
        /// The greatest share.
        limit: f64,
    },
    /// A key holds no id, or has no room for a seal: nothing could show that it is whole.
    #[error("key {key:?}: {reason}, so nothing could show that it is whole")]
    Unsealable {
        /// The key.
        key: String,
        /// What it lacks.
        reason: &'static str,
    },
    /// The filter is not the one that was inspected.
    #[error("key {key:?} is not what was inspected: {what}. Inspect it again")]
    Changed {
        /// The key.
        key: String,
        /// What is another now.
        what: &'static str,
    },
    /// The key is trusted already, by a guard with another layout or other numbers.
    #[error(
        "{theirs} is trusted at this key, and this guard has {ours}: compare both with the program that writes it"
    )]
    Other {
        /// What this guard has.
        ours: String,
        /// What the statement beside the key is about.
        theirs: String,
    },
    /// Redis did not do what it was asked to.
    #[error(transparent)]
    Store(#[from] StoreError),
}
