//! The catalogue of findings: each thing that a question can find has a stable code, and one row here.
//!
//! A snapshot, SARIF, a diff and a policy speak of codes, since a sentence holds pids, times and chance. What the row says is
//! the same in every trial; what was seen in one of them is the sentence of its answer. `cargo drill explain CODE` prints a
//! row, the page shows its hint, and `docs/findings.md` lists them all.
//!
//! A code is `QUESTION/THING`. Those of `trial/…` can stand at every question: they say why the trial decides nothing.
//! What holds has no code.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Verdict;
use crate::spec::Question;

/// A row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub code: Code,
    /// `eof/still-running`.
    pub id: &'static str,
    /// What an answer with it is: broken or unproven.
    pub verdict: Verdict,
    /// What was found, in one sentence.
    pub found: &'static str,
    /// What that means for whoever runs the server.
    pub means: &'static str,
    /// What to do about it: the server's author where it is broken, the drill's where it is unproven.
    pub hint: &'static str,
}

macro_rules! catalogue {
    ($($code:ident $verdict:ident $id:literal $found:literal means $means:literal hint $hint:literal;)+) => {
        /// The name of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $found] $code,)+
        }

        /// All findings, in the order of the questions.
        pub static FINDINGS: &[Finding] = &[
            $(Finding {
                code: Code::$code,
                id: $id,
                verdict: Verdict::$verdict,
                found: $found,
                means: $means,
                hint: $hint,
            },)+
        ];
    };
}

catalogue! {
    // ---- trial: why nothing is decided ---------------------------------------------------------------------------
    TrialNoHandshake Unproven "trial/no-handshake"
        "Session A never got past its handshake, so there was no session to crash."
        means "The server does not start with what the drill gives it. Nothing can be said about its behaviour in a crash."
        hint "Run the command of the drill by hand with the same variables; read the server's stderr in the trial's folder.";
    TrialNotReached Unproven "trial/point-not-reached"
        "The crash point was not reached."
        means "The call did not get as far as the moment at which the client should die. A crash that does not land proves nothing."
        hint "Look at the requests that the call made: a route that is missing, arguments that the tool refuses, or a point that this call never passes.";
    TrialEndedEarly Unproven "trial/ended-early"
        "The server had ended, or closed its stdout, before the crash."
        means "There was no server left to crash."
        hint "Read the server's exit status and stderr; a server that ends by itself in the middle of a session has a fault of its own.";
    TrialPointLost Unproven "trial/point-lost"
        "What was to be held until the crash did not hold, so the crash fell on another moment."
        means "The trial shows what happens at some other moment than the one it names."
        hint "Run it again. If it repeats, the server ends what is held by itself, with a time limit shorter than the drill's.";
    TrialDispatchedEarly Unproven "trial/dispatched-early"
        "The effect had been applied when the client died, although the crash point is before its dispatch."
        means "The connection that was held is not the one that carries the effect, so the crash fell on a later moment than the one it names."
        hint "Name the connection that carries the effect by `connection`; where the order of the call's requests changes from run to run, use `sent` or `after-acceptance`.";
    TrialStartUnproven Unproven "trial/start-unproven"
        "No session with this server was opened, so nothing shows that it would have started."
        means "A command that ends at once would look the same at `startup`."
        hint "Give the drill a `recover`, so that a later session starts the server, or correct its command.";
    TrialCallFailed Unproven "trial/call-failed"
        "The call was answered with an error and made no effect, so there was no result to crash after."
        means "The control trial did not do what it is to control."
        hint "Correct the call's arguments or the remote's routes until the call succeeds.";
    TrialUnknownTool Unproven "trial/unknown-tool"
        "The drill calls a tool that the server does not list."
        means "The mistake is the drill's: a call of this tool says nothing of the server."
        hint "Write the tool's name as the server lists it; the sentence names the line of the drill and the nearest name.";
    TrialCredentialForm Unproven "trial/credential-form"
        "The server sends its credential in another form than the drill declares, and the remote refused it for that."
        means "The mistake is the drill's: the credential was there, and the mock looked for it elsewhere."
        hint "Declare under `authority` the header that carries the credential; the sentence names the line of the drill and what to write.";
    TrialRemoteNotReached Unproven "trial/remote-not-reached"
        "No request of the call reached the remote, in any session of the trial."
        means "The server sought another host, failed before it sent anything, or does not use the remote for this call. Without a request nothing shows how many effects it makes."
        hint "Point the server at the remote: write `{{ remote.url }}` where its configuration names the API, in a variable under `server.env`, in an argument, or in a file under `server.files`. The sentence says what it sought instead, how it ended and what it wrote last.";
    TrialNoEvidence Unproven "trial/no-evidence"
        "The journal does not have the events that this answer needs."
        means "The trial ended, or was ended, before this question was decided."
        hint "Run the trial again to its end.";
    TrialCutShort Unproven "trial/cut-short"
        "The trial was interrupted or killed before this question was decided."
        means "What is missing from the journal may or may not have happened."
        hint "Run the trial again to its end.";
    TrialLimitExceeded Unproven "trial/limit-exceeded"
        "The sandbox ended all processes because a limit was exceeded, before this question was decided."
        means "The processes of a session used more than `server.limits` allows; `resources` says which limit."
        hint "Mend what `resources` found, or raise the limit that the drill names.";
    TrialRecordUnreadable Unproven "trial/record-unreadable"
        "The ownership record could not be read."
        means "Nothing can be said of what it holds."
        hint "Name a regular file inside the work folder that the server writes one JSON object a line to.";

    // ---- eof -----------------------------------------------------------------------------------------------------
    EofStillRunning Broken "eof/still-running"
        "The server was still running when its time to exit was over."
        means "After its client has died, the server runs on with its credentials for longer than the drill allows."
        hint "End when stdin ends, also while a call waits for the remote: cancel or time out the request, and stop the timers and sockets that keep the event loop alive.";
    EofClientLostPatience Broken "eof/client-lost-patience"
        "The server had not exited when its client, shutting down politely, sent SIGTERM."
        means "Real clients of this SDK will signal this server, and kill it soon after."
        hint "End within the time that the SDK's clients wait after they close stdin: 2 s for TypeScript and Python, 3 s for Rust.";
    EofStdinHeld Broken "eof/stdin-held"
        "A process that the server started holds the write end of the server's stdin, so EOF never arrived."
        means "The server cannot learn that its client has died."
        hint "Give each child process a stdin of its own, and open descriptors close-on-exec.";
    EofSignal Broken "eof/signal"
        "A signal ended the server where it should have exited."
        means "An abort, a panic or SIGPIPE skips the server's own clean-up, and the exit status says nothing true."
        hint "Handle the closed pipe: ignore SIGPIPE, treat EPIPE on stdout and stderr as the end of the session, and exit with a status.";
    EofStatus Broken "eof/status"
        "The server exited with a status that the drill does not allow."
        means "A supervisor that goes by the status is told something else than what happened."
        hint "Exit with a status that `expect.eof.status` lists.";
    EofClientHoldsStdin Unproven "eof/client-holds-stdin"
        "A process that the client started holds the write end of the server's stdin, so EOF never arrived."
        means "The client is at fault; the server was not tested."
        hint "Remove `client.leak_stdin_to` to test the server, or keep it to see what revocation alone contains.";
    EofNotSeen Unproven "eof/not-seen"
        "Nothing shows that EOF arrived in the server's stdin."
        means "Whether the server reacts to it is not known."
        hint "Use a crash that closes the server's stdin.";
    EofNotWatched Unproven "eof/not-watched"
        "The server was not watched until its time to exit was over."
        means "It may have exited in time or not."
        hint "Run the trial again to its end.";

    // ---- helpers -------------------------------------------------------------------------------------------------
    HelpersAlive Broken "helpers/alive"
        "A process that the server started was still alive at the end."
        means "A browser, a tunnel or a watcher stays behind, perhaps with the session's credentials."
        hint "End each child when stdin ends, and wait for it; a child in a session or group of its own must be ended by its pid. Declare a helper that may stay under `expect.helpers.allow`.";
    HelpersOutlived Broken "helpers/outlived"
        "A process that the server started was still alive when the server had gone and the time to exit was over."
        means "It ended later, because the remote let go of its request; without that it would have stayed."
        hint "End each child when stdin ends, and wait for it before the server exits.";
    HelpersInUse Unproven "helpers/in-use"
        "EOF never reached the server, so what it has started is still in use."
        means "Nothing told the server to end its helpers."
        hint "See what `eof` says about who holds the server's stdin.";

    // ---- quiet ---------------------------------------------------------------------------------------------------
    QuietLateRequest Broken "quiet/late-request"
        "The server made a request after its session was gone."
        means "It starts external operations, with live credentials, that nobody owns any more."
        hint "Stop schedulers, queues and retries when stdin ends; check before each dispatch that the session still exists.";
    QuietLateWrite Broken "quiet/late-write"
        "A request that was pending when the client died was sent after its session was gone."
        means "The server finished a write for a client that had died before anything was dispatched."
        hint "Cancel requests that are still connecting when stdin ends.";
    QuietLateConnection Broken "quiet/late-connection"
        "The server began a connection to the remote after its session was gone."
        means "It was about to start an external operation that nobody owns."
        hint "Stop schedulers, queues and retries when stdin ends.";
    QuietSpinning Broken "quiet/spinning"
        "A process used the CPU after the session was gone and came no nearer to an end."
        means "A server that nobody uses takes a whole processor."
        hint "End the read loop when a read returns 0 or null; do not log to a broken pipe from the handler of that pipe's error.";
    QuietIgnoresSigterm Broken "quiet/ignores-sigterm"
        "A process ignored SIGTERM and had to be killed."
        means "Orderly containment does not work: only SIGKILL ends it, which skips its clean-up."
        hint "Exit on SIGTERM within two seconds, also when stdin is open or a call is in flight.";
    QuietEndNotSeen Unproven "quiet/end-not-seen"
        "The moment at which the session was gone was not observed, so later requests cannot be classified."
        means "Requests after the crash may have been on their way before."
        hint "See what `eof` says about who holds the server's stdin.";
    QuietNotWatched Unproven "quiet/not-watched"
        "The quiet period was not watched to its end."
        means "What the server does when nobody asks it is not known."
        hint "Run the trial again to its end; choose `expect.quiet.for` of 200 ms or more.";

    QuietWorkUndecided Unproven "quiet/work-undecided"
        "A process still worked when its time to exit was over, and reads or writes meanwhile."
        means "It may come to an end by itself, or never: what was seen shows neither."
        hint "End what works when stdin ends; where the work is right and long, raise `expect.eof.within` so that it is seen to end.";

    // ---- effects -------------------------------------------------------------------------------------------------
    EffectsDuplicate Broken "effects/duplicate"
        "The remote applied more effects for this one call than are right."
        means "One request of a user became several builds, issues or payments."
        hint "Send an idempotency key that is derived from the call, and do not repeat a write whose outcome is unknown without it.";
    EffectsUnwanted Broken "effects/unwanted"
        "The remote applied an effect where none is right at this moment."
        means "The client had died before the write was dispatched, and the server made it all the same."
        hint "Check that the session still exists before each dispatch, and cancel what is pending when stdin ends.";
    EffectsMissing Broken "effects/missing"
        "The remote applied fewer effects for this call than are right."
        means "A write that the client was told of, or that had been sent, is not there."
        hint "Answer a call only when the remote has confirmed the write.";
    EffectsAgainstDecision Broken "effects/against-decision"
        "The remote applied an effect after the approval of the call had been refused."
        means "A refusal does not stop the write."
        hint "Wait for the decision, and treat everything but an approval as a refusal.";
    EffectsBeside Broken "effects/beside"
        "The call of the session beside was answered as done and did not make one effect of its own."
        means "A session that was not crashed lost its write, or got that of another."
        hint "Keep the state of each session apart: keys, queues and caches by run and call.";

    // ---- reconcile -----------------------------------------------------------------------------------------------
    ReconcileDuplicate Broken "reconcile/duplicate"
        "After recovery the remote holds more effects than are right."
        means "The retry of a call whose outcome was unknown made it a second time."
        hint "Derive an idempotency key from the call, record it before you send, and send it again on a retry; where the remote has no keys, look for the effect first.";
    ReconcileMissing Broken "reconcile/missing"
        "After recovery the remote holds fewer effects than are right."
        means "The retry was answered, and the write is not there."
        hint "Answer a retry from the remote's state, and make the write where there is none.";
    ReconcileKeyCollision Broken "reconcile/key-collision"
        "The retry was answered with the effect of another call: their idempotency keys are the same."
        means "A write is lost because another session's write has its key."
        hint "Derive the key from the call's own correlation, not from a counter or a JSON-RPC id.";
    ReconcileNoAnswer Broken "reconcile/no-answer"
        "Session B's call was not answered."
        means "Whoever recovers learns nothing of the call's outcome."
        hint "Answer each call, also where its outcome is unknown.";
    ReconcileError Broken "reconcile/error"
        "Session B's call was answered with an error, although it was to recover."
        means "The server does not report what the remote holds."
        hint "Answer the retry of a call that has been applied with its stored or looked-up result.";
    ReconcileReplayed Broken "reconcile/replayed"
        "Session B made an effect although the outcome of session A's call is not known."
        means "The server replays where only an operator can decide."
        hint "Refuse a call whose recorded intent has no known outcome, and say so.";
    ReconcileNotRefused Broken "reconcile/not-refused"
        "Session B did not refuse, where the outcome of session A's call is not known."
        means "The operator is not told that a decision is needed."
        hint "Answer with an error that says that the outcome is unknown and where the record is.";
    ReconcileNoReason Broken "reconcile/no-reason"
        "Session B refused without saying why."
        means "The operator cannot tell what to decide."
        hint "Say in the error what is not known, and how the effect can be found.";
    ReconcileNotTried Unproven "reconcile/not-tried"
        "Session B did not get to its call."
        means "Whether the server recovers is not known."
        hint "See what `resources` says about session B, and read its stderr.";
    ReconcileUnmatched Unproven "reconcile/unmatched-request"
        "Session B's call failed after a request that matches no route of the drill."
        means "The mock does not have what the server needs to recover."
        hint "Add the route that the run prints, ready to paste.";

    // ---- handle --------------------------------------------------------------------------------------------------
    HandleNotFindable Broken "handle/not-findable"
        "An effect of unknown outcome cannot be found from the record alone."
        means "Whoever cleans up has neither its key nor the remote's id of it."
        hint "Record the idempotency key before you send, and the remote's id as soon as it is known.";

    // ---- ownership -----------------------------------------------------------------------------------------------
    OwnershipNoRecord Broken "ownership/no-record"
        "The record did not exist when the request was dispatched."
        means "Nothing names the owner of a write that may have happened."
        hint "Write a row that names run, call, process and target, and flush it, before you send.";
    OwnershipNoRow Broken "ownership/no-row"
        "No row of the record named the call when the request was dispatched."
        means "Nothing names the owner of a write that may have happened."
        hint "Write a row that names the call's correlation, and flush it, before you send.";
    OwnershipNoIntent Broken "ownership/no-intent"
        "No row of the call said that it was intended when the request was dispatched."
        means "The record cannot tell a call that was tried from one that was not."
        hint "Record the intent with one of the words of `expect.ownership.outcomes.intended` before you send.";
    OwnershipIncomplete Broken "ownership/incomplete"
        "The row of the intent does not name all that the drill requires."
        means "Whoever finds the call cannot tell who owns it."
        hint "Put every field of `expect.ownership.record` into the row.";
    OwnershipWrongOwner Broken "ownership/wrong-owner"
        "The row of the intent names another run, approval, process or key than the call's."
        means "The write is attributed to somebody else."
        hint "Take the owner from the environment or the approval of this session, never from a constant or an older session.";
    OwnershipBelievesClient Broken "ownership/believes-client"
        "The row of the intent names the run that the client declared about itself."
        means "Every client can put its writes on somebody else's account: `clientInfo` is not verified."
        hint "Take the run from what your operator gave this process, not from `clientInfo`.";
    OwnershipNotDurable Broken "ownership/not-durable"
        "The row of the intent was not synced to the disk before dispatch."
        means "A power cut could lose the only trace of the write."
        hint "Call fsync or fdatasync on the log, or open it with O_DSYNC, before you send.";
    OwnershipTorn Broken "ownership/torn-record"
        "A line of the record cannot be read as a JSON object."
        means "A row is lost, and perhaps the one that is needed."
        hint "Write each row with one write call in append mode.";
    OwnershipNoOutcome Broken "ownership/no-outcome"
        "When the server had ended, no row told the outcome of the call."
        means "The record leaves open whether the write happened, also where the server knew."
        hint "Record the outcome on every way out, also failed, refused and unknown, and when the session ends with a call in flight.";
    OwnershipUnheard Broken "ownership/unheard"
        "The outcome can only have been told to a client that had gone."
        means "A record that dies with its client is no durable record."
        hint "Write the record to a file or to a collector that outlives the client.";
    OwnershipFalseOutcome Broken "ownership/false-outcome"
        "The record tells another outcome than the remote's."
        means "Whoever goes by the record does the wrong thing: repeats what was done, or leaves what was not."
        hint "Record success only with the remote's confirmation, failed only where nothing was applied, and otherwise unknown.";
    OwnershipAuthorityJournal Broken "ownership/authority-journal"
        "The authority's own journal does not verify."
        means "Its entries may have been changed or lost."
        hint "Find out with the authority's own tools where its journal stops being whole.";
    OwnershipBeside Broken "ownership/beside"
        "The record does not attribute the call of the session beside to that session."
        means "Two sessions at work are mixed up in the record."
        hint "Take run, approval and process from the session that makes the call, not from the one that started last.";
    OwnershipSyncUnseen Unproven "ownership/sync-unseen"
        "Whether the intent was on the disk before dispatch was not observed."
        means "The drill asks for durability, and nothing could see the sync."
        hint "Let the drill see system calls, and use a kernel that allows it.";
    OwnershipKilledFirst Unproven "ownership/killed-first"
        "The server had to be killed, so no outcome was due."
        means "It had no chance to write the outcome."
        hint "See what `eof` and `quiet` say about its end.";

    // ---- revocation ----------------------------------------------------------------------------------------------
    RevocationStillWorks Broken "revocation/still-works"
        "A request got through with the revoked credential."
        means "Revoking the run does not stop what holds its token."
        hint "Ask the authority about the token at each protected call, or keep tokens so short-lived that it does not matter.";
    RevocationSecondCredential Broken "revocation/second-credential"
        "A request got through with a second credential of the revoked run."
        means "Revoking the first credential leaves one that was derived from it."
        hint "Bind derived credentials to the run, and revoke them with it.";
    RevocationRefreshed Broken "revocation/refreshed"
        "A request got through with a token that was refreshed although the refresh token was revoked."
        means "The chain of tokens goes on after its root was revoked."
        hint "Revoke the whole family of tokens, and treat a refused refresh as the end.";
    RevocationAuthorityCalls Broken "revocation/authority-calls"
        "The authority still made calls for a run that it had revoked."
        means "The gateway does not enforce its own revocation."
        hint "Look up the run at each call, and refuse where it is not found.";
    RevocationWidened Broken "revocation/widened"
        "Calls of a run were made with a wider key than that of the run."
        means "A run that is not found, or any run, can do more than it was allowed."
        hint "Treat a run that is not found as one that may do nothing.";
    RevocationFellBack Broken "revocation/fell-back"
        "The server used a credential that is not of the revoked run."
        means "Revoking the run does not stop the server: it has another way in."
        hint "Do not fall back to ambient credentials when the run's own is refused.";
    RevocationWithoutCredential Broken "revocation/without-credential"
        "The server asked without any credential where that of the run is refused."
        means "The server tries whether the remote lets it in unnamed."
        hint "Treat 401 as the end of the call.";
    RevocationLateDispatch Broken "revocation/late-dispatch"
        "The server dispatched an approved call after its run was revoked."
        means "Only the remote stood between the revoked run and the effect."
        hint "Check the run again between the approval and the dispatch.";
    RevocationEffect Broken "revocation/effect"
        "The revoked session made an effect."
        means "A revoked run can still write."
        hint "Ask the authority about the run at each protected call.";
    RevocationAnsweredSuccess Broken "revocation/answered-success"
        "The revoked session's call was answered as a success."
        means "Its client believes that the write was made."
        hint "Answer a refused call with `isError: true` or a JSON-RPC error.";
    RevocationNoAnswer Broken "revocation/no-answer"
        "The revoked session's call got no answer, where an error is due."
        means "Its client does not learn that it was refused."
        hint "Answer a refused call with `isError: true` or a JSON-RPC error.";
    RevocationLate Broken "revocation/late"
        "The revoked session's call was refused later than the drill allows."
        means "A cached credential or decision outlives the revocation."
        hint "Shorten or drop the cache, or raise `expect.revocation.within` if that is your policy.";
    RevocationUnrecorded Broken "revocation/unrecorded"
        "A refusal after the revocation is not in the record."
        means "Nobody can see afterwards that the revoked run tried."
        hint "Record each refusal with the call's id and one of the words of `expect.ownership.outcomes.refused`.";
    RevocationFalseRecord Broken "revocation/false-record"
        "The record tells something else of a refused call than that it was refused."
        means "A reviewer of the record believes that the revoked run wrote."
        hint "Take the outcome from the remote's status, not from the absence of an exception.";
    RevocationNotListed Broken "revocation/not-listed"
        "The authority lists no refusal of the revoked session's calls."
        means "The authority keeps no trace of what it refused."
        hint "Have the gateway record each refusal with run, call and target.";
    RevocationAuthorityJournal Broken "revocation/authority-journal"
        "After the revoked session the authority's own journal does not verify."
        means "The refusals that stand in it may have been changed or lost, so they prove nothing."
        hint "Find out with the authority's own tools where its journal stops being whole.";
    RevocationLimit Broken "revocation/limit"
        "The processes of the revoked session used more than they may."
        means "A server that is refused takes the machine from everything beside it."
        hint "Bound what a refused call starts and keeps: do not retry a refusal, and start nothing for it.";
    RevocationJobStands Broken "revocation/job-stands"
        "The remote job still stands after the operator tried to cancel it with what the record holds."
        means "Work that was started for the revoked run goes on."
        hint "Record the remote's id of the job as soon as it is known.";
    RevocationNotRevoked Unproven "revocation/not-revoked"
        "Run A was not revoked."
        means "Nothing can be asked about what comes after."
        hint "Check the authority's `revoke` command: its exit status and what it wrote are in the journal.";
    RevocationUntested Unproven "revocation/untested"
        "Nothing shows that the revoked session's call was refused because of the revocation."
        means "The call may fail for other reasons, or the session did not get that far."
        hint "Make sure that the call works before the revocation: correct its arguments, or give the drill a `recover`.";
    RevocationForeignCredential Unproven "revocation/foreign-credential"
        "The server showed a credential that the drill did not mint, and never the run's own."
        means "Revoking the run's credential says nothing about this server."
        hint "Give the server `{{ authority.token }}` in the variable that it reads.";
    RevocationMockAccepts Unproven "revocation/mock-accepts"
        "The mock did not refuse the revoked credential, or would have refused it for its age."
        means "The mock's own behaviour does not allow an answer."
        hint "Give the token a longer `lifetime`; if that does not help, report it as a fault of this tool.";
    RevocationListUnreadable Unproven "revocation/list-unreadable"
        "The authority's refusals could not be read."
        means "Whether they are recorded is not known."
        hint "Check the authority's `refusals` command: its exit status and what it wrote are in the journal.";
    RevocationJobNotTried Unproven "revocation/job-not-tried"
        "The cancellation of the remote job was not tried."
        means "Whether the record is enough to cancel it is not known."
        hint "Run the trial again to its end.";

    // ---- protocol ------------------------------------------------------------------------------------------------
    ProtocolNoise Broken "protocol/noise"
        "A line on stdout is not JSON-RPC."
        means "Strict clients end the session over it; others skip it and may lose a message."
        hint "Log to stderr, and give libraries and child processes another stdout.";
    ProtocolUnasked Broken "protocol/unasked"
        "The server answered a request that was never made, or one request twice."
        means "A client may take the answer for that of another request."
        hint "Answer each id once, and only ids of requests (JSON-RPC 2.0, section 5).";
    ProtocolTorn Broken "protocol/torn-line"
        "The server ended its stdout in the middle of a line."
        means "An answer is cut, and the client cannot read it."
        hint "Flush stdout before you exit; `process.exit` cuts what is still queued for a pipe.";
    ProtocolNoHandshake Broken "protocol/no-handshake"
        "The server did not answer the handshake as MCP asks."
        means "No client can open a session with it."
        hint "Read the server's stderr; answer `initialize`, or `server/discover` since 2026-07-28.";
    ProtocolLost Broken "protocol/lost-request"
        "A request that the server had been given was never answered, although its client could still read."
        means "The client cannot tell whether the call was made."
        hint "Answer or refuse what has been read before you exit, or record its outcome.";
    ProtocolPerhapsLost Unproven "protocol/perhaps-lost"
        "The server left while a request was not answered, and nothing shows whether it had read that."
        means "A server may leave before it reads what its client writes; of one that has read it the request is lost."
        hint "Give the server a pipe as its stdin, whose unread rest the kernel tells, and run the drill again.";

    // ---- secrets -------------------------------------------------------------------------------------------------
    SecretsArgv Broken "secrets/argv"
        "A credential stood in the arguments of a process."
        means "Every user of the machine can read it with `ps`."
        hint "Pass credentials by environment, stdin or a file with mode 0600.";
    SecretsEnvironment Broken "secrets/environment"
        "A credential stood in the environment of a process that does not serve the session."
        means "A helper can use it, and keeps it when the session is over."
        hint "Start helpers with an environment that lists what they need.";
    SecretsStderr Broken "secrets/stderr"
        "A credential stood in the server's stderr."
        means "Clients keep stderr in their logs."
        hint "Redact headers and arguments before you log them.";
    SecretsStdout Broken "secrets/stdout"
        "A credential stood in the server's stdout."
        means "It became part of an answer, which the model and its provider see."
        hint "Do not put an HTTP client's error object, which holds the request's headers, into an answer.";
    SecretsLog Broken "secrets/log"
        "A credential stood in the server's log."
        means "Whoever can read the log can use it."
        hint "Redact headers and arguments before you log them.";
    SecretsUnreadable Unproven "secrets/unreadable"
        "The environment of a process could not be read."
        means "Whether it holds a credential is not known."
        hint "A process that makes itself non-dumpable hides its environment; run the drill as root, or leave `secrets` out with the reason.";
    SecretsNotSearched Unproven "secrets/not-searched"
        "The output of a session was not searched for the credential."
        means "Whether it holds one is not known."
        hint "Run the trial again to its end.";

    // ---- resources -----------------------------------------------------------------------------------------------
    ResourcesZombie Broken "resources/zombie"
        "A process that had ended was never waited for."
        means "Each session leaves an entry in the process table until there is no room for more."
        hint "Wait for each child process, also when the session ends.";
    ResourcesCloseWait Broken "resources/close-wait"
        "A socket to the remote stayed half-closed, in `CLOSE_WAIT`."
        means "The remote has closed the connection and the server has not: descriptors leak with each call."
        hint "Close or read to the end each response body, also on errors.";
    ResourcesNextSession Broken "resources/next-session"
        "Session B's server did not start as session A's did."
        means "Session A left a lock, a pid file, a port or a broken state behind."
        hint "Tie locks to the life of the process (flock, not a file's existence), and check what a pid file names before you believe it.";
    ResourcesLimit Broken "resources/limit"
        "The processes of a session used more than the drill's limits allow."
        means "A fork bomb, a leak or a loop takes the machine down with it."
        hint "Find what starts processes or takes memory without an end, or raise `server.limits` if it is right.";
    ResourcesBeside Broken "resources/beside-disturbed"
        "The session beside was disturbed by the crash of session A."
        means "The death of one client breaks the session of another."
        hint "Do not signal other processes by name or pid file, and do not share mutable state between sessions.";
    ResourcesNotSeen Unproven "resources/not-seen"
        "What the session left was not observed well enough to decide."
        means "The trial ended, or another session failed, before this was decided."
        hint "Read the stderr of the session that the sentence names, and run the trial again.";
}

impl Code {
    /// Its row in the catalogue.
    #[must_use]
    pub fn finding(self) -> &'static Finding {
        &FINDINGS[self as usize]
    }

    /// The question that finds it; none for what can stand at every question.
    #[must_use]
    pub fn question(self) -> Option<Question> {
        let (name, _) = self.finding().id.split_once('/')?;
        Question::ALL
            .into_iter()
            .find(|question| question.to_string() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.finding().id)
    }
}

/// No finding has this code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no finding has the code `{0}`")]
pub struct NoSuchCode(pub String);

impl FromStr for Code {
    type Err = NoSuchCode;

    fn from_str(text: &str) -> Result<Self, NoSuchCode> {
        let found = FINDINGS.iter().find(|finding| finding.id == text);
        found
            .map(|finding| finding.code)
            .ok_or_else(|| NoSuchCode(text.to_owned()))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.finding().id)
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_code_is_a_question_and_a_thing_and_stands_once() {
        let mut seen = BTreeSet::new();
        for finding in FINDINGS {
            let (question, thing) = finding.id.split_once('/').unwrap();
            assert!(
                question == "trial" || finding.code.question().is_some(),
                "{} belongs to no question",
                finding.id
            );
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(!thing.is_empty() && thing.chars().all(is_plain), "{thing}");
            assert!(seen.insert(finding.id), "duplicate code {}", finding.id);
            assert_eq!(finding.id.parse(), Ok(finding.code));
            assert_eq!(finding.code.finding(), finding);
        }
    }

    #[test]
    fn each_row_says_what_was_found_what_it_means_and_what_to_do() {
        for finding in FINDINGS {
            for text in [finding.found, finding.means, finding.hint] {
                assert!(text.ends_with('.') && text.len() > 20, "{}", finding.id);
            }
            assert!(
                matches!(finding.verdict, Verdict::Broken | Verdict::Unproven),
                "{}",
                finding.id
            );
        }
    }

    #[test]
    fn an_unknown_code_is_named() {
        let error = "eof/whatever".parse::<Code>().unwrap_err();
        assert_eq!(error.to_string(), "no finding has the code `eof/whatever`");
    }
}
