//! One rebuild on Redis: its steps, each under the fencing token.
//!
//! | file | what |
//! |---|---|
//! | `begin` | the steps *lease* and *mark* |
//! | `lease` | keeps the lease alive and gives it back |
//! | `journal` | reads the journal and proves that nothing is missing |
//! | `build` | the steps *journal* to *replay* |
//! | `swap` | the steps *verify*, *swap* and *settle* |

mod begin;
pub(crate) mod build;
mod journal;
mod lease;
pub(crate) mod swap;
