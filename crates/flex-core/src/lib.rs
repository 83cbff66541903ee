//! The engine.
#![no_std]
