//! The secrets that a drill mints: looked for everywhere, written nowhere.
//!
//! Each secret has a name, as `token of run A`. Whatever is written down carries the name in place of the value; the
//! search for leaks alone knows the value.

use std::fmt::Write as _;
use std::sync::{Arc, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The secrets minted so far. Cheap to clone; all clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    /// Finds every form of every secret in one pass; absent as long as there is none.
    forms: Option<AhoCorasick>,
}

/// A secret and the forms in which it can appear.
#[derive(Debug, Clone)]
pub struct Secret {
    pub name: String,
    /// The value itself first, then in hex, then its base64 forms.
    pub forms: Vec<String>,
}

impl Secrets {
    /// From here on `value` is replaced by its name and searched for.
    pub fn mint(&self, name: &str, value: &str) {
        let secret = Secret {
            name: name.to_owned(),
            forms: forms_of(value),
        };
        let mut known = self.write();
        known.secrets.push(secret);
        let forms = known.secrets.iter().flat_map(|secret| &secret.forms);
        // Each secret that is minted makes it anew, and little is searched with it: what is quickly made will do. It fails
        // for more patterns than a trial can have.
        known.forms = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(forms)
            .ok();
    }

    /// All secrets so far.
    pub fn all(&self) -> Vec<Secret> {
        self.read().secrets.clone()
    }

    /// The text with the name of each secret, in angle brackets, in place of its value.
    pub fn conceal(&self, text: &str) -> String {
        let known = self.read();
        let mut concealed = text.to_owned();
        if !known.may_be_in(text.as_bytes()) {
            return concealed;
        }
        for secret in &known.secrets {
            for form in &secret.forms {
                if concealed.contains(form.as_str()) {
                    concealed = concealed.replace(form.as_str(), &format!("<{}>", secret.name));
                }
            }
        }
        concealed
    }

    /// The names of the secrets that stand in these bytes.
    pub fn seen_in(&self, bytes: &[u8]) -> Vec<String> {
        let known = self.read();
        if known.may_be_in(bytes) {
            names_in(&known.secrets, bytes)
        } else {
            Vec::new()
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Known {
    fn may_be_in(&self, bytes: &[u8]) -> bool {
        let none = self.secrets.is_empty();
        !none
            && self
                .forms
                .as_ref()
                .is_none_or(|forms| forms.is_match(bytes))
    }
}

/// The names of those of `secrets` that stand in `bytes`, in any of their forms.
pub fn names_in(secrets: &[Secret], bytes: &[u8]) -> Vec<String> {
    // The forms are ASCII, so what is not UTF-8 around them neither hides nor makes one; and a search in text is fast.
    let text = String::from_utf8_lossy(bytes);
    secrets
        .iter()
        .filter(|secret| secret.forms.iter().any(|form| text.contains(form.as_str())))
        .map(|secret| secret.name.clone())
        .collect()
}

/// A secret inside a longer text that is base64-encoded as a whole stands at one of three alignments. The characters
/// at both ends depend on the neighbours, so only the middle is looked for.
fn forms_of(value: &str) -> Vec<String> {
    let mut hex = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    let mut forms = vec![value.to_owned(), hex];
    for lead in 0..3_usize {
        let mut padded = vec![0_u8; lead];
        padded.extend_from_slice(value.as_bytes());
        let encoded = STANDARD_NO_PAD.encode(&padded);
        let first = (lead * 8).div_ceil(6);
        let whole = padded.len() * 8 / 6;
        forms.push(encoded[first..whole].to_owned());
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_by_its_name() {
        let secrets = Secrets::default();
        secrets.mint("token of run A", "drill-3f9a1c77e0b2");
        assert_eq!(
            secrets.conceal("Authorization: Bearer drill-3f9a1c77e0b2!"),
            "Authorization: Bearer <token of run A>!"
        );
    }

    #[test]
    fn a_secret_is_found_inside_a_base64_text_at_every_alignment() {
        let secrets = Secrets::default();
        secrets.mint("token", "drill-3f9a1c77e0b2");
        for user in ["", "a", "ab", "abc"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{user}:drill-3f9a1c77e0b2:x"));
            assert_eq!(secrets.seen_in(encoded.as_bytes()), ["token"], "{encoded}");
        }
        assert_eq!(
            secrets.seen_in(b"\xff\xc3drill-3f9a1c77e0b2\xe2"),
            ["token"]
        );
        assert!(secrets.seen_in(b"nothing here").is_empty());
    }
}
