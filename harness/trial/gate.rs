//! The gate in a trial: how a system call becomes the crash point, and when it lets go.

use super::stage::Stage;
use crate::journal::{Entry, Event};
use crate::spec::{Crash, CrashPoint, Syscall};

/// Counts from now on, and holds the server where the crash says so. The reason where that cannot be.
pub(super) fn arm(stage: &Stage, crash: &Crash) -> Result<(), String> {
    let at = (crash.at == CrashPoint::Syscall)
        .then_some(crash.syscall)
        .flatten();
    match (&stage.gate, at) {
        (Some(gate), at) => gate.count(at),
        (None, None) => {}
        (None, Some(_)) => {
            let because = stage.journal.latest(|entry| match &*entry.event {
                Event::GateUnavailable { because } => Some(because.clone()),
                _ => None,
            });
            return Err(format!(
                "system calls cannot be held here: {}",
                because.unwrap_or_else(|| "nothing was handed over".to_owned())
            ));
        }
    }
    Ok(())
}

/// The crash has happened: the call that is held goes on, or fails as the drill says.
pub(super) fn release(stage: &Stage, crash: &Crash) {
    if let Some(gate) = &stage.gate {
        gate.release(crash.errno);
    }
}

/// The proof that a system call is the crash point that was reached.
pub(super) fn sign(entry: &Entry) -> Option<String> {
    match &*entry.event {
        Event::SyscallHeld { pid, name, nth } => {
            let call = Syscall {
                name: *name,
                nth: *nth,
            };
            Some(format!(
                "process {pid} is held in {} number {} since the call was issued",
                call.name, call.nth
            ))
        }
        _ => None,
    }
}

/// The system calls that were seen instead, as `connect 2, openat 1`; how often each came.
pub(super) fn seen_so_far(stage: &Stage) -> Option<String> {
    stage.gate.as_ref()?;
    let mut times: Vec<(String, u32)> = Vec::new();
    stage.journal.collect::<()>(|entry| {
        if let Event::SyscallEntered { name, nth, .. } = &*entry.event {
            let name = name.to_string();
            match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, times)) => *times = *nth,
                None => times.push((name, *nth)),
            }
        }
        None
    });
    let told: Vec<String> = times
        .into_iter()
        .map(|(name, times)| format!("{name} {times}"))
        .collect();
    Some(if told.is_empty() {
        "it made none of the system calls that can be held".to_owned()
    } else {
        format!(
            "of the system calls that can be held it made {}",
            told.join(", ")
        )
    })
}
