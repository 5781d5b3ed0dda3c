//! What is fuzzed (see `tests/fuzz`), and the kept corpus, replayed without a fuzzer.
//!
//! This file is two crates: an integration test, and, not as one, the library of the fuzz targets.

#![expect(unreachable_pub, reason = "the library's face")]

#[path = "../edge/extraction/application.rs"]
mod application;
pub mod extractor;
pub mod header;
mod patterns;
#[expect(dead_code, reason = "a part of what is compiled in is used")]
mod replies;

#[cfg(test)]
mod replay;

// `replies` finds its neighbours where they are in the crate: the filter and the ids, from their
// sources, too, and the rest from what is public.
#[expect(dead_code, unused_imports, reason = "a part of what is compiled in is used")]
#[path = "../../src/filter/mod.rs"]
mod filter;
mod error {
    pub(crate) use bloom_guard::{SettingError, StoreError};
}
#[expect(dead_code, reason = "a part of what is compiled in is used")]
#[path = "../../src/id.rs"]
mod id;
#[expect(dead_code, reason = "a part of what is compiled in is used")]
#[path = "../../src/store/link"]
mod link {
    pub(crate) mod reply;
}
mod store {
    pub(crate) use crate::link;
}
mod refusal {
    pub(crate) use bloom_guard::Refusal;
}
mod verdict {
    pub(crate) use bloom_guard::Doubt;
}
