//! Over real TCP, with a client that blocks: what is asked, and the answer word for word.

mod client;
mod events;
mod evict;
mod faults;
mod lists;
mod patches;
mod rules;
mod tls;
mod watches;
mod writes;
