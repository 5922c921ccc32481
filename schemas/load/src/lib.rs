//! Figures on a load that several rooms state: each is defined here, once.

pub mod arrivals;
pub mod footprint;
pub mod sequence;
