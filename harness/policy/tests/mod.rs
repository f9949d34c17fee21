//! A decision for each thing that a policy can ask: one that opens the gate, and one that closes it.

mod bench;
mod evidence;
mod rules;
mod shown;
mod waivers;
