//! This project's CPU backend and `burn-ndarray`. One program, because both modules need `burn-ndarray`, most
//! of which the compiler translates once for each program.
#![allow(missing_docs)]

mod differential;
mod disagreements;
