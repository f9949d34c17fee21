//! What somebody can find out who has a bundle and nothing else.

#[path = "../outside/drills.rs"]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[allow(dead_code, reason = "others look for a process by its command line")]
#[path = "../outside/left.rs"]
mod left;
#[path = "../outside/said.rs"]
mod said;

mod bundle;
mod checks;
mod killed;
mod machines;
mod redacted;
mod signed;
mod slices;
mod tampered;
