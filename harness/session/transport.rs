//! The client's side of the three pipes, under rmcp: raw lines both ways, told to the harness as they pass.
//!
//! rmcp reports a request as sent when it is queued; only the transport knows when the last byte was written. And rmcp
//! decodes an answer by its shape; what came back for a tool call is read here, from the line itself.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, watch};

use super::message::{Told, Write};
use super::notes::Notes;
use super::stdin::{Stdin, left_unread};
use super::teller::Teller;
use crate::cell;
use crate::journal::{AnswerShape, LineShape, Stamp, Way, excerpt};

/// A longer line is not a message but a flood: it is told as noise and passed over.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Text and structured content of an answer, as far as it is kept.
const LONGEST_ANSWER: usize = 16 * 1024;

/// What lines are told of that nobody has asked for, noise and notifications; of more than these the rest is passed over.
const MOST_ASIDE: usize = 10_000;

/// The kernel tells nobody that a pipe was read from, so it is asked this often.
const ASK_AGAIN: Duration = Duration::from_micros(200);

/// How the next tool call is written; whole, once it was.
#[derive(Default)]
pub(super) struct Writing(Mutex<Write>);

impl Writing {
    pub fn next(&self, write: Write) {
        *lock(&self.0) = write;
    }

    fn take(&self) -> Write {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Whether stdout is read on.
#[derive(Clone, Default)]
pub(super) struct Reading {
    stopped: Arc<watch::Sender<bool>>,
}

impl Reading {
    /// From here on nothing is read any more.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Whether it had been stopped.
    pub fn go_on(&self) -> bool {
        self.stopped.send_replace(false)
    }

    async fn becomes(&self, wanted: bool) {
        // The sender is ours.
        let mut stopped = self.stopped.subscribe();
        drop(stopped.wait_for(|stopped| *stopped == wanted).await);
    }
}

/// The methods of the requests that have no answer yet.
type Outstanding = Arc<Mutex<HashMap<String, String>>>;

/// An rmcp transport over the server's pipes.
pub(super) struct Pipes {
    stdin: Stdin,
    messages: mpsc::UnboundedReceiver<Value>,
    outstanding: Outstanding,
    writing: Arc<Writing>,
    tell: Teller,
    /// The question which revision the server speaks, once it is given up.
    probe: Option<Probe>,
}

/// An older server that starts slowly answers `server/discover` with an error when rmcp has long begun to `initialize`. rmcp
/// would take that for the end of the session.
struct Probe {
    id: String,
    given_up: bool,
}

impl Probe {
    fn is_answered_by(&self, message: &Value) -> bool {
        self.given_up
            && shape_of(message) == LineShape::Response
            && id_of(message).as_ref() == Some(&self.id)
    }
}

impl Pipes {
    fn note_probe(&mut self, message: &Value) {
        match (method_of(message).as_deref(), id_of(message)) {
            (Some("server/discover"), Some(id)) => {
                self.probe = Some(Probe {
                    id,
                    given_up: false,
                });
            }
            (Some("initialize"), _) => {
                if let Some(probe) = &mut self.probe {
                    probe.given_up = true;
                }
            }
            _ => {}
        }
    }

    /// Reads `stdout` from its first byte on, whether rmcp asks for messages or not.
    pub fn open(
        stdin: Stdin,
        stdout: impl AsyncRead + AsFd + Send + Unpin + 'static,
        writing: Arc<Writing>,
        reading: Reading,
        notes: Notes,
        tell: Teller,
    ) -> (Self, tokio::task::AbortHandle) {
        let outstanding = Outstanding::default();
        let (found, messages) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read_lines(
            stdout,
            Arc::clone(&stdin),
            reading,
            notes,
            found,
            Arc::clone(&outstanding),
            tell.clone(),
        ));
        (
            Self {
                stdin,
                messages,
                outstanding,
                writing,
                tell,
                probe: None,
            },
            reader.abort_handle(),
        )
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (stdin, tell) = (Arc::clone(&self.stdin), self.tell.clone());
        let outstanding = Arc::clone(&self.outstanding);
        let writing = Arc::clone(&self.writing);
        let message = serde_json::to_value(&item);
        if let Ok(message) = &message {
            self.note_probe(message);
        }
        async move {
            let message = message?;
            let mut text = message.to_string();
            let method = method_of(&message);
            let write = match method.as_deref() {
                Some("tools/call") => writing.take(),
                _ => Write::Whole,
            };
            if let (Some(id), Some(method)) = (id_of(&message), method) {
                lock(&outstanding).insert(id, method);
            }
            text.push('\n');
            if write == Write::Half {
                let half = &text.as_bytes()[..text.len() / 2];
                let at = write_to(&stdin, half).await?;
                let (bytes, of) = (half.len() as u64, text.len() as u64);
                tell.tell_at(at, Told::CallTorn { bytes, of });
                // The other half never comes.
                return std::future::pending().await;
            }
            let cut = (write == Write::Cut)
                .then(|| within_a_character(&text))
                .flatten();
            let (first, second) = text.as_bytes().split_at(cut.unwrap_or(text.len()));
            let mut at = write_to(&stdin, first).await?;
            if !second.is_empty() {
                until_read(&stdin).await?;
                at = write_to(&stdin, second).await?;
            }
            text.pop();
            tell.tell_at(at, told(Way::ToServer, shape_of(&message), &message, text));
            match write {
                Write::Whole | Write::Cut | Write::Half => {}
                Write::Unread => {
                    let bytes = unread(&stdin).await?;
                    tell.tell(Told::CallUnread { bytes });
                }
                Write::Taken => {
                    until_read(&stdin).await?;
                    tell.tell(Told::CallTaken);
                }
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.messages.recv().await?;
            let is_late = |probe: &Probe| probe.is_answered_by(&message);
            if self.probe.as_ref().is_some_and(is_late) {
                continue;
            }
            if let Ok(understood) = serde_json::from_value(message.clone()) {
                return Some(understood);
            }
            // A response that the library cannot decode must not leave its request waiting for ever.
            if shape_of(&message) == LineShape::Response
                && let Ok(refused) = serde_json::from_value(json!({
                    "jsonrpc": "2.0",
                    "id": message.get("id"),
                    "error": { "code": -32603, "message": "the client could not decode this answer" },
                }))
            {
                return Some(refused);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.take();
        Ok(())
    }
}

/// Returns when the last of it was written: what the server makes of it comes after that.
async fn write_to(stdin: &Stdin, bytes: &[u8]) -> io::Result<Stamp> {
    let mut stdin = stdin.lock().await;
    let writer = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    writer.make_room(bytes.len());
    writer.write(bytes).await
}

/// A place inside of the first character that has more than one byte.
fn within_a_character(text: &str) -> Option<usize> {
    text.find(|c: char| !c.is_ascii()).map(|start| start + 1)
}

/// Returns when nothing in the server's stdin is unread.
async fn until_read(stdin: &Stdin) -> io::Result<()> {
    while unread(stdin).await? > 0 {
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Ok(())
}

async fn unread(stdin: &Stdin) -> io::Result<u64> {
    let stdin = stdin.lock().await;
    stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?.unread()
}

async fn read_lines(
    mut stdout: impl AsyncRead + AsFd + Unpin,
    stdin: Stdin,
    reading: Reading,
    mut notes: Notes,
    found: mpsc::UnboundedSender<Value>,
    outstanding: Outstanding,
    tell: Teller,
) {
    let mut pending = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    let mut flooded = false;
    let mut aside = 0;
    loop {
        // The harness has asked while something was in the pipe, and that has been taken since.
        if notes.owes() && cell::unread_in_pipe(stdout.as_fd()).unwrap_or_default() == 0 {
            notes.answer().await;
        }
        let read = tokio::select! {
            biased;
            () = reading.becomes(true) => {
                take_nothing(&reading, &mut notes).await;
                continue;
            }
            () = notes.asked() => continue,
            read = stdout.read(&mut chunk) => match read {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            },
        };
        let at = Stamp::now();
        let mut rest = &chunk[..read];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            pending.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if !std::mem::take(&mut flooded) {
                let line = Line {
                    at,
                    bytes: &pending,
                    aside: &mut aside,
                    notes: &mut notes,
                };
                take_line(line, &found, &outstanding, &tell).await;
            }
            pending.clear();
        }
        pending.extend_from_slice(rest);
        if pending.len() > LONGEST_LINE {
            if !flooded {
                let text = format!(
                    "{} (no end of line)",
                    excerpt(&String::from_utf8_lossy(&pending), 200)
                );
                tell.tell_at(
                    at,
                    told(Way::FromServer, LineShape::Noise, &Value::Null, text),
                );
            }
            flooded = true;
            pending.clear();
        }
    }
    let (now, unread) = (Stamp::now(), left_unread(&stdin));
    let torn = pending.len() as u64;
    tell.tell_at(now, Told::StdoutEnded { torn, unread });
}

/// The client reads nothing until it goes on: what it has received is all there is.
async fn take_nothing(reading: &Reading, notes: &mut Notes) {
    loop {
        tokio::select! {
            biased;
            () = reading.becomes(false) => return,
            () = notes.asked() => notes.answer().await,
        }
    }
}

/// A line of the server, and what is kept count of.
struct Line<'l> {
    /// When its end was read.
    at: Stamp,
    bytes: &'l [u8],
    aside: &'l mut usize,
    notes: &'l mut Notes,
}

async fn take_line(
    line: Line<'_>,
    found: &mpsc::UnboundedSender<Value>,
    outstanding: &Outstanding,
    tell: &Teller,
) {
    let Line {
        at,
        bytes,
        aside,
        notes,
    } = line;
    // White space between messages is white space of JSON.
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    let message = match std::str::from_utf8(bytes) {
        Ok(valid) => serde_json::from_str::<Value>(valid).unwrap_or(Value::Null),
        Err(_) => Value::Null,
    };
    let shape = shape_of(&message);
    let id = id_of(&message);
    notes.keep(&message);
    *aside += usize::from(matches!(shape, LineShape::Noise | LineShape::Notification));
    let is_flood = *aside > MOST_ASIDE && shape != LineShape::Response;
    if !is_flood {
        let told = told(Way::FromServer, shape, &message, text);
        tell.tell_bulk(at, told, bytes.len()).await;
    }
    if shape == LineShape::Noise {
        return;
    }
    let mut message = message;
    if shape == LineShape::Response
        && let Some(id) = id
    {
        match lock(outstanding).remove(&id).as_deref() {
            Some("tools/call") => {
                let (shape, text) = answer_of(&message);
                tell.tell_at(at, Told::Answer { id, shape, text });
            }
            // An older server may answer a method that it does not know with any result: that means "older", as an
            // error would.
            Some("server/discover")
                if message.pointer("/result/supportedVersions").is_none()
                    && message.get("error").is_none() =>
            {
                message = json!({
                    "jsonrpc": "2.0",
                    "id": message.get("id"),
                    "error": { "code": -32601, "message": "not a discover result" },
                });
            }
            _ => {}
        }
    }
    let _ = found.send(message);
}

fn told(way: Way, shape: LineShape, message: &Value, text: String) -> Told {
    Told::Line {
        way,
        shape,
        bytes: text.len() as u64 + 1,
        id: id_of(message),
        method: method_of(message),
        text,
    }
}

/// What a message is by JSON-RPC 2.0; anything else is noise. A batch (2025-03-26) is judged by its first member.
fn shape_of(message: &Value) -> LineShape {
    let single = match message {
        Value::Array(batch) => batch.first().unwrap_or(&Value::Null),
        other => other,
    };
    if single.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return LineShape::Noise;
    }
    let has = |field: &str| single.get(field).is_some();
    match (
        method_of(single).is_some(),
        has("id"),
        has("result") || has("error"),
    ) {
        (true, true, false) => LineShape::Request,
        (true, false, false) => LineShape::Notification,
        (false, _, true) => LineShape::Response,
        _ => LineShape::Noise,
    }
}

fn id_of(message: &Value) -> Option<String> {
    match message.get("id")? {
        Value::Null => None,
        Value::String(id) => Some(id.clone()),
        other => Some(other.to_string()),
    }
}

fn method_of(message: &Value) -> Option<String> {
    message.get("method")?.as_str().map(ToOwned::to_owned)
}

/// What came back for a tool call, and its text.
fn answer_of(message: &Value) -> (AnswerShape, String) {
    if let Some(error) = message.get("error") {
        let text = error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return (AnswerShape::Error, excerpt(text, LONGEST_ANSWER));
    }
    let result = message.get("result").unwrap_or(&Value::Null);
    let failed = result
        .get("isError")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let shape = if failed {
        AnswerShape::ToolError
    } else {
        AnswerShape::Result
    };
    let mut texts: Vec<String> = result
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text")?.as_str().map(ToOwned::to_owned))
        .collect();
    texts.extend(result.get("structuredContent").map(Value::to_string));
    (shape, excerpt(&texts.join("\n"), LONGEST_ANSWER))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_rpc_or_noise() {
        assert_eq!(
            shape_of(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})),
            LineShape::Request
        );
        assert_eq!(
            shape_of(&json!({"jsonrpc": "2.0", "method": "x"})),
            LineShape::Notification
        );
        assert_eq!(
            shape_of(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            LineShape::Response
        );
        assert_eq!(shape_of(&json!({"level": "info"})), LineShape::Noise);
        assert_eq!(shape_of(&json!("starting")), LineShape::Noise);
        assert_eq!(
            shape_of(&json!({"jsonrpc": "2.0", "id": 1})),
            LineShape::Noise
        );
    }

    #[test]
    fn a_probe_that_was_given_up_is_no_more_waited_for() {
        let mut probe = Probe {
            id: "0".to_owned(),
            given_up: false,
        };
        let late = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "?"}});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert!(!probe.is_answered_by(&late));
        probe.given_up = true;
        assert!(probe.is_answered_by(&late) && !probe.is_answered_by(&answer));
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
        assert!(
            !probe.is_answered_by(&request),
            "a request of the server's own"
        );
    }

    #[test]
    fn an_answer_is_a_result_a_tool_error_or_an_error() {
        let answer = |value| answer_of(&value);
        assert_eq!(
            answer(json!({"result": {"content": [{"type": "text", "text": "done"}]}})),
            (AnswerShape::Result, "done".to_owned())
        );
        assert_eq!(
            answer(json!({"result": {"isError": true}})).0,
            AnswerShape::ToolError
        );
        assert_eq!(
            answer(json!({"error": {"code": 1, "message": "no"}})),
            (AnswerShape::Error, "no".to_owned())
        );
    }
}
