//! What the model server does, and what each of its bad twins does instead.
//!
//! The binary is driven directly, with lines on pipes and a listener that plays the build API, so that these tests
//! say nothing about the harness: a drill that disagrees with them has the harness to blame.

mod faults_of_the_call;
mod faults_of_the_process;
mod good;
mod room;
