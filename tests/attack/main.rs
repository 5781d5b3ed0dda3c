//! The database is shielded: what an attacker can make it do is bounded.

mod bound;
mod flood;
mod lanes;
mod neighbour;
