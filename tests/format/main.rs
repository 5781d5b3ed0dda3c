//! The stored format: the bits and the bytes of a filter, and the rate that a size keeps.
//!
//! No user sees these types. So they are compiled in from the crate's sources as they stand.

#![expect(unreachable_pub, reason = "the crate re-exports some of it")]

mod golden;
mod naive;
mod rates;

#[expect(dead_code, unused_imports, reason = "a part of what is compiled in is used")]
#[path = "../../src/filter/mod.rs"]
mod filter;
#[expect(dead_code, reason = "a part of what is compiled in is used")]
#[path = "../../src/id.rs"]
mod id;
mod error {
    pub(crate) use bloom_guard::SettingError;
}
mod verdict {
    pub(crate) use bloom_guard::Doubt;
}
