//! The database is shielded: what an attacker can make it do is bounded.

mod bound;
mod copies;
mod lanes;
mod neighbour;
