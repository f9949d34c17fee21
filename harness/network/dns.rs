//! The DNS as it is in a cell (RFC 1035): there is no such name. That answer is final and quick for every resolver, where
//! a refusal, or silence, has some of them wait for seconds and try again.

use simple_dns::{OPCODE, Packet, PacketFlag, QTYPE, Question, RCODE};

use crate::journal::{Host, HostOutcome};

/// The reply to a message, and what was asked in it, with what comes of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub bytes: Vec<u8>,
    pub asked: Vec<(Host, HostOutcome)>,
}

/// Answers a message; `None` for what is no question at all.
pub(super) fn answer(message: &[u8]) -> Option<Reply> {
    let Ok(query) = Packet::parse(message) else {
        return unreadable(message);
    };
    if query.has_flags(PacketFlag::RESPONSE) {
        return None;
    }
    let mut reply = Packet::new_reply(query.id());
    *reply.opcode_mut() = query.opcode();
    reply.set_flags(PacketFlag::RECURSION_AVAILABLE);
    if query.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    let is_question = query.opcode() == OPCODE::StandardQuery;
    *reply.rcode_mut() = if is_question {
        RCODE::NameError
    } else {
        RCODE::NotImplemented
    };
    let asked = query.questions.iter().filter(|_| is_question);
    let asked = asked.map(|question| (host(question), HostOutcome::NoSuchName));
    let asked = asked.collect();
    reply.questions.clone_from(&query.questions);
    let bytes = reply.build_bytes_vec().ok()?;
    Some(Reply { bytes, asked })
}

fn host(question: &Question<'_>) -> Host {
    let name = question.qname.to_string();
    let record = match question.qtype {
        QTYPE::TYPE(of) => format!("{of:?}"),
        other => format!("{other:?}"),
    };
    // The root has no label.
    Host::name(if name.is_empty() { "." } else { &name }, &record)
}

/// To a question that cannot be read: a format error, with its number.
fn unreadable(message: &[u8]) -> Option<Reply> {
    /// The length of the header.
    const HEADER: usize = 12;
    /// Its third byte says that this is a response.
    const RESPONSE: u8 = 0x80;
    let [one, other, flags, ..] = *message.get(..HEADER)? else {
        return None;
    };
    if flags & RESPONSE != 0 {
        return None;
    }
    let mut reply = Packet::new_reply(u16::from_be_bytes([one, other]));
    *reply.rcode_mut() = RCODE::FormatError;
    let bytes = reply.build_bytes_vec().ok()?;
    let asked = Vec::new();
    Some(Reply { bytes, asked })
}

#[cfg(test)]
mod tests {
    use simple_dns::{CLASS, Name, QCLASS, TYPE};

    use super::*;

    fn query(name: &str, of: TYPE) -> Vec<u8> {
        let mut query = Packet::new_query(7);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new_unchecked(name);
        let question = Question::new(name, QTYPE::TYPE(of), QCLASS::CLASS(CLASS::IN), false);
        query.questions.push(question);
        query.build_bytes_vec().unwrap()
    }

    #[test]
    fn no_name_exists_and_each_question_is_told() {
        let Reply { bytes, asked } = answer(&query("Slack.com", TYPE::AAAA)).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert_eq!((reply.id(), reply.rcode()), (7, RCODE::NameError));
        assert!(reply.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_DESIRED));
        // Letter for letter as it was asked: some resolvers compare.
        assert_eq!(reply.questions[0].qname.to_string(), "Slack.com");
        assert!(reply.answers.is_empty());
        let host = Host::name("Slack.com", "AAAA");
        assert_eq!(asked, [(host, HostOutcome::NoSuchName)]);
    }

    #[test]
    fn what_is_no_question_is_not_answered() {
        let reply = answer(&query("a.example", TYPE::A)).unwrap().bytes;
        assert_eq!(answer(&reply), None);
        assert_eq!(answer(b"too short"), None);
    }

    #[test]
    fn what_cannot_be_read_gets_a_format_error_and_is_no_panic_and_no_loop() {
        let whole = query("a.example", TYPE::A);
        for length in 0..whole.len() {
            let reply = answer(&whole[..length]).filter(|reply| reply.asked.is_empty());
            assert_eq!(reply.is_some(), length >= 12, "{length}");
        }
        // A name that points at itself.
        let mut looping = whole[..12].to_vec();
        looping.extend([0xc0, 12, 0, 1, 0, 1]);
        let reply = answer(&looping).unwrap();
        assert_eq!(reply.bytes[3] & 0x0f, 1);
        // Every byte of a question, turned into every other.
        for place in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut odd = whole.clone();
                odd[place] = byte;
                let _ = answer(&odd);
            }
        }
    }

    #[test]
    fn a_long_name_of_odd_bytes_is_bounded() {
        let mut message = query("a", TYPE::A)[..12].to_vec();
        for _ in 0..3 {
            message.push(63);
            message.extend([0xff; 63]);
        }
        message.extend([0, 0, 1, 0, 1]);
        let asked = answer(&message).unwrap().asked;
        let [(Host::Name { name, .. }, _)] = asked.as_slice() else {
            panic!("{asked:?}");
        };
        assert!(name.len() < 400, "{name}");
    }
}
