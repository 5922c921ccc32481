//! The pacer in simulated time.
