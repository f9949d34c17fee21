//! The words for the things that events speak of.

use crate::journal::{Credential, Limit, Moment, Phase, Session};

/// The beginning of an id.
pub(super) fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    }
}

pub(super) fn credential_name(credential: &Credential) -> String {
    match credential {
        Credential::Absent => "no credential".to_owned(),
        Credential::Foreign => "a credential that is not the drill's".to_owned(),
        Credential::Authority { wider: false } => "the authority's key".to_owned(),
        Credential::Authority { wider: true } => "a wider key of the authority's".to_owned(),
        Credential::Run {
            run,
            derived,
            revoked,
        } => {
            let whose = match run {
                Session::A | Session::Revoked => "run A".to_owned(),
                Session::B => "run B".to_owned(),
                Session::Beside => "the run beside".to_owned(),
            };
            let which = if *derived {
                "second credential"
            } else {
                "credential"
            };
            let state = if *revoked { ", revoked" } else { "" };
            format!("{which} of {whose}{state}")
        }
    }
}

pub(super) fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Processes => "processes",
        Limit::Threads => "threads",
        Limit::Memory => "memory",
        Limit::Cpu => "CPU time",
    }
}

pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "Prepare",
        Phase::SessionA => "Session A",
        Phase::Arm => "Up to the crash point",
        Phase::Evidence => "Evidence before the crash",
        Phase::Crash => "Crash",
        Phase::Observe => "Observe",
        Phase::Release => "The remote goes on",
        Phase::Quiet => "Quiet period",
        Phase::EvidenceAgain => "Evidence again",
        Phase::Revoke => "Revoke",
        Phase::Stop => "Stop what is left",
        Phase::SessionB => "Session B recovers",
        Phase::Beside => "The session beside",
        Phase::RevokedSession => "A session with what was revoked",
        Phase::RevokeJob => "The operator cancels the job",
        Phase::Close => "Close",
    }
}

pub(crate) fn moment_name(moment: Moment) -> &'static str {
    match moment {
        Moment::Beside => "when the session beside was open",
        Moment::Dispatch => "at dispatch",
        Moment::Point => "at the crash point",
        Moment::PointAgain => "at the crash point, again",
        Moment::ClientGone => "when the client was gone",
        Moment::Deadline => "at the deadline",
        Moment::End => "after the observation",
        Moment::EndAgain => "after the observation, again",
        Moment::AfterTerm => "after SIGTERM",
        Moment::AfterStop => "after SIGKILL",
        Moment::Recovered => "when session B had recovered",
        Moment::AfterSessionB => "after session B",
        Moment::AfterBeside => "after the session beside",
        Moment::BeforeRevokedSession => "before the revoked session",
        Moment::AfterRevokedSession => "after the revoked session",
        Moment::BeforeCancel => "before the job is cancelled",
    }
}
