//! The table: all small servers, and what each of them breaks.

use serde_json::{Value, json};

#[expect(clippy::enum_glob_use, reason = "a table is full of them")]
use super::row::Point::*;
use super::row::{FROM_DISPATCH_ON, Row, WITHOUT_RESULT, node, perl, python, shell};

pub fn table() -> Vec<Row> {
    [
        good_servers(),
        launchers(),
        the_end(),
        helpers(),
        effects(),
        record(),
        credential(),
        mistakes(),
        wire(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Characters of two, three and four bytes, and separators that are line ends to some, in every chunk of a pipe.
fn large_text() -> Value {
    json!("é漢𝄞 \u{2028}\u{2029}".repeat(20_000))
}

fn good_servers() -> Vec<Row> {
    vec![
        python("good")
            .good()
            .at(&[FirstConnection, Sent, StdinClosed], ""),
        python("tasks").at(&[BeforeDispatch, Held, StdinClosed], ""),
        python("good")
            .named("large-arguments")
            .set("/call/arguments/text", large_text())
            .at(&[Held, AfterResult], ""),
        python("slow").good(),
        python("pool").at(&[BeforeDispatch, Held, AfterResult], ""),
        python("helper_ends").good_at_each_stage(),
        python("durable")
            .set(
                "/expect/helpers",
                json!({ "allow": [{ "command": "^sleep 60$", "because": "it is a cache" }] }),
            )
            .good_at_each_stage(),
        python("refuses")
            .set("/recover", json!({ "operator": true }))
            .good_at_each_stage(),
        keyless(python("asks")).good(),
        exchange(python("exchanges")).good_at_each_stage(),
        python("loud").good_at_each_stage(),
        python("rotates").good_at_each_stage(),
        node("good").good().at(&[Sent, StdinClosed], ""),
        node("drains").good(),
        node("keep_alive").good_at_each_stage(),
        node("large")
            .set("/call/arguments/text", large_text())
            .good_at_each_stage(),
        // What is on its way when the call is answered still comes.
        python("answers_first")
            .set(
                "/expect/revocation",
                json!({ "skip": "it answers before it has asked" }),
            )
            .at(&[Held], ""),
        perl("good").good(),
    ]
}

/// What stands between the client and the server.
fn launchers() -> Vec<Row> {
    vec![
        shell("sh-exec", "exec python3 -S @python/good.py").at(&[Idle, Held], ""),
        shell("sh-stays", "python3 -S @python/good.py; true").good_at_each_stage(),
        shell("stderr-closed", "exec python3 -S @python/good.py 2>&-").good_at_each_stage(),
        // The server is the child of the cell's init: a watch over its parent's pid must not be alarmed.
        shell(
            "launcher-has-gone",
            "exec 3<&0; python3 -S @python/good.py <&3 3<&- &",
        )
        .good(),
        python("relay").argument("@python/good.py").named("relay").good_at_each_stage(),
        // The server behind it still waits for its stdin to end.
        python("relay")
            .argument("@python/good.py")
            .argument("stay")
            .named("relay-stays")
            .outlives_eof()
            .at(&[Idle, Held, AfterResult], "eof helpers"),
        // A launcher that stays with a server that stays.
        shell("sh-before-non-daemon", "python3 -S @python/non_daemon.py; true")
            .outlives_eof()
            .at(&[Idle], "eof helpers"),
        shell(
            "sh-deaf",
            "trap '' TERM; python3 -S @python/non_daemon.py; true",
        )
        .outlives_eof()
        .at(&[Idle], "eof helpers quiet"),
        python("relay")
            .argument("@python/good.py")
            .named("relay-without-signals")
            .unseen(
                &[Idle],
                "whether a signal would have been passed on shows in a server that outlives EOF, and each survivor is \
                 sent SIGTERM for itself",
            ),
    ]
}

/// A server that is there when the remote lets the connection go on: what was pending is sent late.
fn stays(row: Row) -> Row {
    row.outlives_eof()
        .at(&[Idle, Held, AfterResult], "eof")
        .at(&[BeforeDispatch], "eof quiet effects")
}

fn the_end() -> Vec<Row> {
    vec![
        python("blocking")
            .set("/expect/eof/within", json!("1500ms"))
            .at(&[Idle, Given, AfterResult], "")
            .at(&[BeforeDispatch, FirstConnection], "eof quiet effects")
            .at(&[Held], "eof"),
        // Work that ends is no spinning, on a loaded machine either.
        python("works")
            .set("/expect/eof/within", json!("6s"))
            .at(&[Held], "eof"),
        python("scribbles").outlives_eof().at(&[Idle], "eof quiet?"),
        stays(python("non_daemon")).at(&[Given], "eof"),
        python("spins").outlives_eof().at(&[Idle], "eof quiet"),
        python("retries").outlives_eof().at(&[Held], "eof quiet"),
        python("last_words").at(&[Idle, AfterResult], "quiet"),
        // What the API refuses it after the revocation, it does not record.
        python("polls")
            .outlives_eof()
            .at(&[Idle], "eof quiet revocation"),
        stays(node("data_only")).unseen(
            &[Given],
            "its answer finds a broken pipe, and it exits with 1, in time",
        ),
        stays(node("listens")).at(&[Given], "eof"),
        // Where a reply comes while it storms, it does not close the connection.
        node("epipe_storm")
            .outlives_eof()
            .at(&[Idle, BeforeDispatch, AfterResult], "eof quiet")
            .at(&[Held, Given], "eof quiet resources"),
        node("aborts")
            .at(&[Given], "eof")
            .elsewhere_unseen("only an answer that nobody reads shows that the pipe has broken"),
        node("resends")
            .at(&[BeforeDispatch, Held], "quiet")
            .elsewhere_unseen("no reply is lost"),
    ]
}

fn helpers() -> Vec<Row> {
    vec![
        python("daemon").outlives_eof().at(&[Idle, Held], "helpers"),
        python("worker_stays")
            .outlives_eof()
            .with_a_call_and_without("helpers"),
        node("detached")
            .outlives_eof()
            .with_a_call_and_without("helpers"),
        python("orphan_writer")
            .set("/expect/eof/within", json!("1500ms"))
            .at(&[BeforeDispatch], "helpers quiet effects")
            .at(&[Held], "helpers")
            .elsewhere_unseen("no request is open when the server ends"),
        python("kills_sibling").unseen(
            &[Idle, AfterResult],
            "the sessions of a trial come one after another, so there is no living sibling",
        ),
        python("pid_file").at(&[Idle, AfterResult], "resources reconcile? revocation?"),
        python("close_wait").with_a_call_and_without("resources"),
        python("descriptors").unseen(
            &[AfterResult],
            "a session makes one call, and its descriptors end with its process",
        ),
    ]
}

/// A remote that takes no key.
fn keyless(row: Row) -> Row {
    row.set("/remote/routes/0/key", Value::Null)
        .set("/expect/ownership/record/key", Value::Null)
        .set(
            "/expect/handle",
            json!({ "skip": "a job is told by the call that its body names" }),
        )
}

fn effects() -> Vec<Row> {
    let first_is_right = "without an effect of session A, session B makes the first";
    let nobody_retries = "a client that has its result does not retry";
    let retries_always = |row: Row| row.set("/recover", json!({ "retry": "always" }));
    vec![
        keyless(python("blind_replay"))
            .at(WITHOUT_RESULT, "reconcile")
            .unseen(&[AfterResult], nobody_retries)
            .elsewhere_unseen(first_is_right),
        retries_always(keyless(python("blind_replay")))
            .named("blind-replay-always")
            .at(&[AfterResult], "reconcile"),
        python("newborn_key")
            .at(WITHOUT_RESULT, "reconcile")
            .unseen(&[AfterResult], nobody_retries)
            .elsewhere_unseen(first_is_right),
        retries_always(python("newborn_key"))
            .named("newborn-key-always")
            .at(&[AfterResult], "reconcile"),
        retries_always(python("good"))
            .named("good-always")
            .at(&[AfterResult], ""),
        // With an authority, whose revoked session starts on the same work folder, as without one.
        python("outbox")
            .at(&[BeforeDispatch, Held], "reconcile")
            .elsewhere_unseen("the outbox is empty"),
        // Session B is turned away by the lock that session A has left.
        python("lock_around_call")
            .at(&[BeforeDispatch, Held], "reconcile")
            .elsewhere_unseen("no call is open when the session ends"),
    ]
}

fn record() -> Vec<Row> {
    vec![
        python("forgets")
            .at(&[Held], "ownership")
            // Where the client is gone nobody could have read an answer, and only the record is missed.
            .at(&[StdinClosed], "ownership protocol"),
        node("forgets")
            .at(&[BeforeDispatch, Held], "ownership")
            .at(&[StdinClosed], "ownership protocol")
            .unseen(&[Idle, AfterResult], "no call is open"),
        python("guesses")
            .unseen(
                &[BeforeDispatch],
                "nothing was applied, so \"failed\" is true",
            )
            .at(&[Held], "ownership"),
        python("crash_as_clean")
            .at(&[BeforeDispatch, Held], "ownership")
            .unseen(
                &[Idle, AfterResult],
                "no call is open when the session ends",
            ),
        python("afterwards").at(&[BeforeDispatch, AfterResult], "ownership"),
        python("buffered")
            .at(FROM_DISPATCH_ON, "ownership")
            .elsewhere_unseen("nothing is dispatched"),
    ]
}

/// An authority that gives a second credential for the first, which the API takes for as long as it likes.
fn exchange(row: Row) -> Row {
    row.set(
        "/authority/exchange",
        json!({ "on": "POST /token", "outlives_run": true, "reply": { "json": { "access_token": "{{ authority.derived }}" } } }),
    )
}

fn credential() -> Vec<Row> {
    let nothing_cached = "session A has not asked for anything that it could keep";
    vec![
        python("heirs").at(&[Idle, AfterResult], "secrets"),
        python("spawns").at(&[Idle], "secrets"),
        python("flatters").at(&[Idle, AfterResult], "revocation"),
        python("refusals").at(&[Idle, AfterResult], "revocation"),
        python("second_credential")
            .set("/server/env/AMBIENT_TOKEN", json!("of-somebody-else"))
            .with_a_call_and_without("revocation"),
        python("widens").with_a_call_and_without("revocation"),
        exchange(python("cached_token"))
            .at(FROM_DISPATCH_ON, "revocation")
            .elsewhere_unseen(nothing_cached),
    ]
}

/// What a server does whose drill is mistaken: it says nothing of the server.
fn mistakes() -> Vec<Row> {
    let all = "eof? helpers? quiet? effects? reconcile? ownership? revocation? protocol? secrets? resources?";
    vec![
        python("tells_tools_apart")
            .named("no-such-tool")
            .set("/call/tool", json!("start_jobs"))
            .at(&[Idle], "reconcile? revocation?")
            .at(&[Held, AfterResult], all),
        python("tells_tools_apart")
            .named("no-such-tool-to-recover")
            .set("/recover", json!({ "tool": "find_job" }))
            .at(&[Idle, Held], "reconcile?"),
        python("tells_tools_apart")
            .named("no-such-tool-after-revoking")
            .set("/expect/revocation/call", json!({ "tool": "stop_job" }))
            .at(&[Idle, Held], "revocation?"),
        python("tells_tools_apart")
            .named("no-such-tool-before")
            .set("/call/before", json!([{ "tool": "log_in" }]))
            .at(&[Held], all),
        python("tells_tools_apart").good_at_each_stage(),
        python("good")
            .named("a-tool-that-is-not-listed")
            .set("/call/tool", json!("start_jobs"))
            .at(&[Idle, Held, AfterResult], ""),
        python("hides_tools").at(&[Idle, Held, AfterResult], ""),
        python("many_tools").at(&[Idle, Held, AfterResult], ""),
        python("api_key")
            .set("/authority/bearer", json!("X-Api-Key"))
            .good_at_each_stage(),
        python("api_key")
            .named("api-key-elsewhere")
            .at(&[Idle, BeforeDispatch], "reconcile? revocation?")
            .at(&[Sent, Held, AfterResult], all),
        python("fixed_host")
            .at(&[Idle], "reconcile? revocation?")
            .at(&[BeforeDispatch, Held], all)
            .at(&[AfterResult], "effects? reconcile? ownership? revocation?"),
        python("basic")
            .at(&[Idle], "reconcile? revocation?")
            .at(&[Held], all),
    ]
}

fn wire() -> Vec<Row> {
    vec![
        python("tells").at(&[AfterResult], "protocol secrets"),
        // Session A's line came in two parts, session B's in one: one key, and two payloads.
        node("splits")
            .set("/call/arguments/text", large_text())
            .at(&[Held], "reconcile")
            .unseen(
                &[AfterResult],
                "a client that has its result does not retry",
            ),
        // It ends over the message of the call: session A never gets to the crash, and no later session to its answer.
        python("strict")
            .set("/call/arguments/text", large_text())
            .at(&[Idle], "protocol reconcile revocation"),
        python("line_separators")
            .set("/call/arguments/text", large_text())
            .at(&[Idle], "protocol reconcile revocation"),
    ]
}
