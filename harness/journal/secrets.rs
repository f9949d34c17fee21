//! The secrets that a drill mints: looked for everywhere, written nowhere.
//!
//! Each secret has a name, as `token of run A`. Whatever is written down carries the name in place of the value; the
//! search for leaks alone knows the value. What a drill wants redacted is written by its name as well, and is no leak.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 3986 leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The secrets minted so far. Cheap to clone; all clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    /// Written by their names, and not looked for in what a server does.
    redacted: Vec<Secret>,
    /// Finds every form of every secret in one pass; absent as long as there is none.
    forms: Option<AhoCorasick>,
}

/// A secret and the forms in which it can appear.
#[derive(Debug, Clone)]
pub struct Secret {
    pub name: String,
    /// The value itself first, then in hex, quoted, percent-encoded, and its base64 forms.
    pub forms: Vec<String>,
}

impl Secrets {
    /// From here on `value` is replaced by its name and searched for.
    pub fn mint(&self, name: &str, value: &str) {
        let mut known = self.write();
        known.secrets.push(Secret::new(name, value));
        known.prepare();
    }

    /// From here on `value` is replaced by its name.
    pub fn redact(&self, name: &str, value: &str) {
        let mut known = self.write();
        let is_known = known.everything().any(|secret| secret.forms[0] == value);
        if !is_known {
            known.redacted.push(Secret::new(name, value));
            known.prepare();
        }
    }

    /// Takes in all that `other` knows.
    pub fn join(&self, other: &Self) {
        let other = other.read();
        let mut known = self.write();
        known.secrets.extend(other.secrets.iter().cloned());
        known.redacted.extend(other.redacted.iter().cloned());
        known.forms = None;
    }

    /// The names of all whose values stand in what is read, whether minted or redacted.
    pub fn found_in(&self, from: impl io::Read) -> io::Result<Vec<String>> {
        let mut known = self.write();
        known.prepare_if_needed();
        let (Some(forms), names) = (&known.forms, known.names_of_forms()) else {
            return Ok(Vec::new());
        };
        let mut found = BTreeSet::new();
        for hit in forms.stream_find_iter(from) {
            found.insert(names[hit?.pattern().as_usize()].to_owned());
        }
        Ok(found.into_iter().collect())
    }

    /// Copies what is read, with the name of each secret, in angle brackets, in place of its value.
    pub fn copy_concealed(&self, from: impl io::Read, to: impl io::Write) -> io::Result<()> {
        let mut known = self.write();
        known.prepare_if_needed();
        let (Some(forms), names) = (&known.forms, known.names_of_forms()) else {
            return Err(io::Error::other("there is nothing to conceal"));
        };
        forms.try_stream_replace_all_with(from, to, |hit, _, to| {
            write!(to, "<{}>", names[hit.pattern().as_usize()])
        })
    }

    /// All secrets that were minted so far.
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
        for secret in known.everything() {
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

    /// Whether the secret of this name stands in the text as it is, not only encoded.
    pub fn stands_plain_in(&self, name: &str, text: &str) -> bool {
        let known = self.read();
        let mut secrets = known.secrets.iter();
        secrets.any(|secret| secret.name == name && text.contains(&secret.forms[0]))
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

impl Secret {
    fn new(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            forms: forms_of(value),
        }
    }
}

impl Known {
    fn everything(&self) -> impl Iterator<Item = &Secret> {
        self.secrets.iter().chain(&self.redacted)
    }

    /// Each secret that is minted makes it anew, and little is searched with it: what is quickly made will do. It fails
    /// for more patterns than a run can have.
    fn prepare(&mut self) {
        let forms = self.everything().flat_map(|secret| &secret.forms);
        let forms = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(forms);
        self.forms = forms.ok();
    }

    fn prepare_if_needed(&mut self) {
        if self.forms.is_none() && self.everything().next().is_some() {
            self.prepare();
        }
    }

    /// The name of the secret that each form is one of.
    fn names_of_forms(&self) -> Vec<&str> {
        self.everything()
            .flat_map(|secret| secret.forms.iter().map(|_| secret.name.as_str()))
            .collect()
    }

    fn may_be_in(&self, bytes: &[u8]) -> bool {
        let none = self.everything().next().is_none();
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
    // As a logger writes it that writes JSON, and as it stands when that is quoted once more.
    let quoted = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = quoted(value);
    forms.extend([quoted(&once), once]);
    // In the query of a URL, of which some encode more and some less.
    for kept in [NON_ALPHANUMERIC, UNRESERVED] {
        forms.push(utf8_percent_encode(value, kept).to_string());
    }
    for lead in 0..3_usize {
        let mut padded = vec![0_u8; lead];
        padded.extend_from_slice(value.as_bytes());
        let encoded = STANDARD_NO_PAD.encode(&padded);
        let first = (lead * 8).div_ceil(6);
        let whole = padded.len() * 8 / 6;
        forms.push(encoded[first..whole].to_owned());
    }
    // The value itself stays the first.
    let mut known = BTreeSet::new();
    forms.retain(|form| known.insert(form.clone()));
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
    fn what_is_redacted_is_written_by_its_name_and_is_no_leak() {
        let secrets = Secrets::default();
        secrets.redact("value of LICENCE", "abcd-1234");
        assert_eq!(secrets.conceal("is abcd-1234."), "is <value of LICENCE>.");
        assert!(secrets.seen_in(b"abcd-1234").is_empty());
        assert_eq!(
            secrets.found_in(&b"\xffabcd-1234"[..]).unwrap(),
            ["value of LICENCE"]
        );
    }

    #[test]
    fn a_copy_has_the_names_in_place_of_the_values_of_all_that_were_joined() {
        let (run, one, two) = (Secrets::default(), Secrets::default(), Secrets::default());
        one.mint("token of run A", "drill-3f9a1c77e0b2");
        two.mint("token of run B", "drill-000000000000");
        run.join(&one);
        run.join(&two);
        let text = b"\xff drill-000000000000, drill-3f9a1c77e0b2 and drill-3f9a".as_slice();
        let mut copy = Vec::new();
        run.copy_concealed(text, &mut copy).unwrap();
        assert_eq!(
            copy,
            b"\xff <token of run B>, <token of run A> and drill-3f9a"
        );
        assert!(run.found_in(copy.as_slice()).unwrap().is_empty());
    }

    #[test]
    fn a_secret_is_found_as_it_stands_in_json_and_in_a_url() {
        let secrets = Secrets::default();
        secrets.redact("value of KEY", "-----BEGIN\nS3cr3t+/=\"x\"\n");
        for text in [
            r#"{"key":"-----BEGIN\nS3cr3t+/=\"x\"\n"}"#,
            r#"{"log":"{\"key\":\"-----BEGIN\\nS3cr3t+/=\\\"x\\\"\\n\"}"}"#,
            "key=-----BEGIN%0AS3cr3t%2B%2F%3D%22x%22%0A&x",
            "key=%2D%2D%2D%2D%2DBEGIN%0AS3cr3t%2B%2F%3D%22x%22%0A",
        ] {
            let concealed = secrets.conceal(text);
            assert!(concealed.contains("<value of KEY>"), "{concealed}");
            assert!(!concealed.contains("S3cr3t"), "{concealed}");
        }
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
