//! Every kernel by itself: identities of its closed forms, its update, its predictions, extreme and bad cells.

mod angles;
mod counts;
mod curves;
mod levels;
mod network;
mod positive;
mod series;
mod single;
mod spikes;
mod support;
mod vectors;
