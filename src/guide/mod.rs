//! The guide: one page a subject, in this order.
//!
//! | | page | answers |
//! |---|---|---|
//! | 1 | [`getting_started`] | How is a guard set up, and put in front of the handlers? |
//! | 2 | [`contract`] | What must the application do, so that no existing record is refused? |
//! | 3 | [`requests`] | What becomes of a request, case by case, and what is promised? |
//! | 4 | [`attackers`] | What can an attacker make the database do, and at what price is that bounded? |
//! | 5 | [`redis`] | What is kept in Redis, what does Redis have to allow, what does each outage do? |
//! | 6 | [`rebuilds`] | Where do the ids come from, when, and what does a failed rebuild mean? |
//! | 8 | [`operating`] | What does a guard say of itself, and what is to be done about it? |
//! | 9 | [`fleet`] | How is a running service changed: first deploy, roll-back, another name, key or Redis? |
//! | 13 | [`other_filters`] | How is a filter guarded that another system writes, and what is that worth? |
//! | 14 | [`format`](mod@format) | How can another program read the stored filter? |
//! | 15 | [`design`] | Why is the guard built as it is? For those who change the code. |
//!
//! Some words, used on all pages:
//!
//! | word | meaning |
//! |---|---|
//! | id | the text that names a record in a request, in one [canonical form](crate::extract::IdExtractor::canonical) |
//! | filter | the Bloom filter of all ids; it can prove that an id was never inserted |
//! | generation | one build of the filter; of another system's, one statement of trust |
//! | null | a 404, or a deletion, that is remembered for a while |
//! | *found*, *missed*, *suspect* | [two sets of ids](attackers#found-missed-and-suspect) that each process keeps: seen to exist lately; missing or unanswered lately, or since the filter was copied |
//! | *copy* | [the live filter's bits](attackers#the-copy) in each process: what they hold passes, and Redis is not asked; what they lack waits for a *fence*, one question for all |
//! | lane | the way for requests whose id is *missed* or unknown: 64 at once and 500 a second unless set otherwise, the others 503 |
//! | record of recent inserts | [the ids inserted lately](redis#keys-and-memory): a rebuild reads there what its scan cannot see, and no null is stored for them |
//! | canary | a small sample of refusals that is let through, to see whether refusals are right |

// A label's first definition counts: rustdoc goes by those of `links.txt`, a forge by those at the page's end.

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
#[doc = include_str!("attackers.md")]
pub mod attackers {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("redis.md")]
pub mod redis {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("rebuilds.md")]
pub mod rebuilds {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("other_filters.md")]
pub mod other_filters {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("fleet.md")]
pub mod fleet {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("format.md")]
#[doc = include_str!("../filter/format.md")]
pub mod format {}

#[doc = include_str!("links.txt")]
#[doc = include_str!("design.md")]
pub mod design {}
