//! Vectorised transcendental functions.
#![no_std]
