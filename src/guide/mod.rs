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

macro_rules! pages {
    ($($page:ident: $($text:literal),+;)*) => {
        $(
            #[doc = include_str!("links.txt")]
            $(#[doc = include_str!($text)])+
            pub mod $page {}
        )*
    };
}

pages! {
    getting_started: "getting_started.md";
    contract: "contract.md";
    requests: "requests.md";
    redis: "redis.md";
    rebuilds: "rebuilds.md";
    fleet: "fleet.md";
    attackers: "attackers.md";
    operating: "operating.md";
    other_filters: "other_filters.md";
    format: "format.md", "../filter/format.md";
    design: "design.md";
}
