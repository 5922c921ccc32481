//! Figures that several rooms state: each is defined here, once.

pub mod arrivals;
pub mod distribution;
pub mod footprint;
pub mod sequence;
