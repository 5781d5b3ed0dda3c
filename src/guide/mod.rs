//! The guide: one page a subject, in this order. [`requests`](requests#words) ends with the words that are used on all pages.
//!
//! | | page | answers |
//! |---|---|---|
//! | 1 | [`getting_started`] | How is a guard set up, put in front of the handlers, and tested with them? |
//! | 2 | [`contract`] | What must the application do, so that no existing record is refused? |
//! | 3 | [`requests`] | What becomes of a request, case by case, and what is promised? |
//! | 4 | [`redis`] | What does Redis have to be, what is kept there, what does each outage do? |
//! | 5 | [`rebuilds`] | Where do the ids come from, how large is a filter, which settings are there? |
//! | 6 | [`fleet`] | How is a running service changed: first deploy, roll-back, another name, key or Redis? |
//! | 7 | [`attackers`] | What can an attacker make the database do, and at what price is that bounded? |
//! | 8 | [`operating`] | What does a guard say of itself? Users get 404 for records that exist: was it the guard? |
//! | 9 | [`other_filters`] | How is a filter guarded that another system writes, and what is that worth? |
//! | 10 | [`format`](mod@format) | How can another program read the stored filter? |
//! | 11 | [`design`] | Why is the guard built as it is? For those who change the code. |

// A label's first definition counts: rustdoc goes by those of `links.txt`, a forge by those at the end of a page.

#[doc = include_str!("links.txt")]
#[doc = include_str!("getting_started.md")]
pub mod getting_started {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("contract.md")]
pub mod contract {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("requests.md")]
pub mod requests {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("redis.md")]
pub mod redis {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("rebuilds.md")]
pub mod rebuilds {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("fleet.md")]
pub mod fleet {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("attackers.md")]
pub mod attackers {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("other_filters.md")]
pub mod other_filters {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("format.md")]
#[doc = include_str!("../filter/format.md")]
pub mod format {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("design.md")]
pub mod design {}
