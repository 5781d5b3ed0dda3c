//! The edges: ids and how they are found in requests, HTTP, the tower contract, settings, stored bytes.

mod config;
mod contract;
mod extraction;
mod filter;
mod golden;
mod http;
mod ids;
mod list;
mod metrics;
