//! The ledger: what the remote has applied, and the promise of idempotency.
//!
//! A key is known within its kind. The same key with the same payload gets the first result again; with another
//! payload it is a conflict, as the IETF draft on the Idempotency-Key header has it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use crate::journal::{Event, Journal};

use super::reply::Reply;
use super::request::{Payload, Request};

/// Ids are digits, so that a drill can make numbers of them, and stand out in a log.
const FIRST_ID: u32 = 730_001;

/// A change that the remote has applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The remote's id of it: `730001` and on.
    pub id: String,
    /// From 1, over all kinds.
    pub number: u32,
    pub kind: String,
    /// The idempotency key that came with it.
    pub key: Option<String>,
    pub cancelled: bool,
    /// The request that made it.
    pub request: u32,
    /// It as the remote shows it: the fields of the request, over them those of the reply, over them the remote's own.
    pub object: Map<String, Value>,
}

/// The effects of a trial.
#[derive(Debug)]
pub(super) struct Ledger {
    journal: Journal,
    applied: Mutex<Vec<Applied>>,
}

#[derive(Debug)]
struct Applied {
    effect: Effect,
    payload: Payload,
    reply: Reply,
}

/// What became of a request for an effect.
#[derive(Debug)]
pub(super) enum Outcome {
    Applied(Reply),
    /// The first result again.
    Repeated(Reply),
    /// The key belongs to another payload.
    Conflict,
    /// The drill's reply could not be rendered: nothing was applied.
    Failed(String),
}

impl Ledger {
    pub fn new(journal: Journal) -> Self {
        Self {
            journal,
            applied: Mutex::default(),
        }
    }

    /// Applies the request, unless its key is known. `render` makes the reply from the effect as templates see it.
    pub fn apply(
        &self,
        request: &Request,
        number: u32,
        kind: &str,
        key: Option<String>,
        render: impl FnOnce(Value) -> Result<Reply, String>,
    ) -> Outcome {
        let mut applied = self.applied();
        let payload = request.payload();
        let known = applied
            .iter()
            .find(|known| key.is_some() && known.effect.key == key && known.effect.kind == kind);
        if let (Some(known), Some(key)) = (known, &key) {
            let (effect, key) = (known.effect.id.clone(), key.clone());
            if known.payload == payload {
                self.journal.append(Event::EffectRepeated {
                    request: number,
                    effect,
                    key,
                });
                return Outcome::Repeated(known.reply.clone());
            }
            self.journal.append(Event::KeyConflict {
                request: number,
                effect,
                key,
            });
            return Outcome::Conflict;
        }
        // A trial with 4 billion effects does not end.
        let count = u32::try_from(applied.len()).unwrap_or(u32::MAX);
        let mut effect = Effect {
            id: count.saturating_add(FIRST_ID).to_string(),
            number: count.saturating_add(1),
            kind: kind.to_owned(),
            key,
            cancelled: false,
            request: number,
            object: request.fields(),
        };
        effect.overlay(None);
        let mut seen = effect.object.clone();
        seen.insert(
            "request".to_owned(),
            request.json.clone().unwrap_or_default(),
        );
        let reply = match render(Value::Object(seen)) {
            Ok(reply) => reply,
            Err(because) => return Outcome::Failed(because),
        };
        effect.object = request.fields();
        effect.overlay(reply.json.as_ref());
        self.journal.append(Event::EffectApplied {
            request: number,
            effect: effect.id.clone(),
            of: effect.kind.clone(),
            key: effect.key.clone(),
        });
        applied.push(Applied {
            effect,
            payload,
            reply: reply.clone(),
        });
        Outcome::Applied(reply)
    }

    /// Cancels the effect of this kind with this id or key. `None` where there is none.
    ///
    /// One that is cancelled already is answered alike and not recorded again. A reply that cannot be rendered changes
    /// nothing.
    pub fn cancel(
        &self,
        number: u32,
        kind: &str,
        which: &str,
        render: impl FnOnce(Value) -> Result<Reply, String>,
    ) -> Option<Result<Reply, String>> {
        let mut applied = self.applied();
        let effect = &mut applied
            .iter_mut()
            .find(|known| known.effect.kind == kind && known.effect.answers_to(which))?
            .effect;
        let mut cancelled = effect.object.clone();
        cancelled.insert("state".to_owned(), "cancelled".into());
        let reply = match render(Value::Object(cancelled.clone())) {
            Ok(reply) => reply,
            Err(because) => return Some(Err(because)),
        };
        if !effect.cancelled {
            effect.cancelled = true;
            effect.object = cancelled;
            self.journal.append(Event::EffectCancelled {
                request: number,
                effect: effect.id.clone(),
            });
        }
        Some(Ok(reply))
    }

    /// All effects, in the order in which they were applied.
    pub fn effects(&self) -> Vec<Effect> {
        self.applied()
            .iter()
            .map(|applied| applied.effect.clone())
            .collect()
    }

    fn applied(&self) -> MutexGuard<'_, Vec<Applied>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Effect {
    /// Whether this names it: its id, or its key.
    pub(super) fn answers_to(&self, which: &str) -> bool {
        self.id == which || self.key.as_deref() == Some(which)
    }

    /// Lays the reply's fields over those of the request, and the remote's own over both. The reply decides the word
    /// for the state, and whether the id is a number or text.
    fn overlay(&mut self, reply: Option<&Value>) {
        let fields = reply.and_then(Value::as_object);
        let written = |name| fields.and_then(|fields| fields.get(name)).cloned();
        let id = written("id")
            .filter(|id| match id {
                Value::String(text) => *text == self.id,
                Value::Number(number) => number.as_u64() == self.id.parse().ok(),
                _ => false,
            })
            .unwrap_or_else(|| self.id.as_str().into());
        let state = written("state").unwrap_or_else(|| "applied".into());
        if let Some(fields) = fields {
            self.object.extend(fields.clone());
        }
        for (name, value) in [
            ("id", id),
            ("kind", self.kind.as_str().into()),
            ("key", self.key.clone().into()),
            ("state", state),
            ("number", self.number.into()),
        ] {
            self.object.insert(name.to_owned(), value);
        }
    }
}
