//! What servers were found not to answer in time, so that they are asked once, and not again for each session, rehearsal
//! and trial.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::spec::Protocol;

/// How the server of each drill speaks. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Spoken(Arc<Mutex<HashMap<String, Manner>>>);

#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// A server that is older than `server/discover` may let that question run into its time limit of 10 s.
    protocol: Option<Protocol>,
    /// It has let `tools/list` run into its time limit.
    hides_tools: bool,
}

impl Spoken {
    pub(super) fn protocol(&self, drill: &str) -> Option<Protocol> {
        self.lock().get(drill)?.protocol
    }

    pub(super) fn note_protocol(&self, drill: &str, protocol: Protocol) {
        self.of(drill, |manner| manner.protocol = Some(protocol));
    }

    pub(super) fn hides_tools(&self, drill: &str) -> bool {
        let known = self.lock();
        known.get(drill).is_some_and(|manner| manner.hides_tools)
    }

    pub(super) fn note_hidden_tools(&self, drill: &str) {
        self.of(drill, |manner| manner.hides_tools = true);
    }

    fn of(&self, drill: &str, note: impl FnOnce(&mut Manner)) {
        note(self.lock().entry(drill.to_owned()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Manner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
