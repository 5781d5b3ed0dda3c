//! The edges: ids and how they are found in requests, HTTP, the tower contract, settings.

mod config;
mod contract;
mod explained;
mod extraction;
mod http;
mod list;
mod metrics;
mod url;
