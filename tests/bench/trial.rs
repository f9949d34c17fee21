//! What a trial costs, beside its floor: the bare life of two sessions with the same server and the same remote.
//!
//! Floor: spawn the server, handshake, call, close stdin, wait for the exit; twice, one after the other, with nothing of
//! the harness. The call's remote answers at once from a thread of this process. A trial does that and everything else:
//! a cell, a client process for each session, the looks, the journal, the judgement.
//!
//! Both are measured in turn, in one run, so that a drifting machine drifts for both. So are a trial with the gate and one
//! without it. And all trials of the shipped drill are run side by side, as a run does it: how many come to their end in a
//! second? `cargo bench` prints it; nothing is asserted.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cargo_drill::cell::Wanted;
use cargo_drill::journal::Secrets;
use cargo_drill::judge::Verdict;
use cargo_drill::spec;
use cargo_drill::trial::{self, Spoken, Surroundings, Trial};
use serde_json::{Value, json};

const FIXTURE: &str = env!("CARGO_BIN_EXE_drill-fixture");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Pairs of one floor and one trial.
const ROUNDS: usize = 20;

/// How often the trials of the shipped drill are run side by side.
const TIMES_OVER: usize = 8;

fn main() -> ExitCode {
    // The cell and the clients of a trial are this program in another role.
    if let Some(played) = cargo_drill::roles::play() {
        return played;
    }
    let remote = remote();
    // The drill without its revoked session, so that a trial has two sessions as the floor has.
    let file = spec::load(&Path::new(ROOT).join("drills/deploy.yaml"))
        .expect("the shipped drill is whole");
    println!(
        "{:24} {:>9} {:>9} {:>9}   of the medians",
        "", "min", "median", "max"
    );
    for point in ["idle", "after-result"] {
        let mut floors = Vec::new();
        let mut trials = Vec::new();
        for _ in 0..ROUNDS {
            floors.push(time(|| {
                session(&remote, point != "idle");
                session(&remote, true);
            }));
            let (trial, surroundings) = two_sessions(&file, point);
            trials.push(time(|| run(&trial, &surroundings)));
        }
        let (floor, trial) = (
            show(&format!("{point}, floor"), floors),
            show(&format!("{point}, trial"), trials),
        );
        let ratio = trial.as_secs_f64() / floor.as_secs_f64();
        let share = 100.0 * (1.0 - 1.0 / ratio);
        println!(
            "{:57}ratio {ratio:.2}, the harness's share {share:.0} %",
            ""
        );
    }
    gated(&file);
    side_by_side(&file);
    ExitCode::SUCCESS
}

/// What the gate costs a trial, where it holds nothing.
fn gated(file: &spec::DrillFile) {
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..ROUNDS {
        let (trial, surroundings) = two_sessions(file, "after-result");
        without.push(time(|| run(&trial, &surroundings)));
        let mut drill = (*trial.drill).clone();
        drill.gate = true;
        let trial = Trial {
            drill: Arc::new(drill),
            ..trial
        };
        with.push(time(|| run(&trial, &surroundings)));
    }
    let without = show("without the gate", without);
    let with = show("with the gate", with);
    let more = with.as_secs_f64() - without.as_secs_f64();
    println!("{:57}the gate's share {:+.1} ms", "", more * 1e3);
}

/// All trials of the shipped drill, several times over, as many at once as a run has.
fn side_by_side(file: &spec::DrillFile) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    let points: Vec<String> = file.trials().into_iter().map(|trial| trial.name).collect();
    let queue = Mutex::new(vec![points.clone(); TIMES_OVER].concat());
    let trials = points.len() * TIMES_OVER;
    let took = time(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().expect("nobody panics with it").pop();
                        let Some(name) = next else { return };
                        let (trial, surroundings) = whole(file, &name);
                        run(&trial, &surroundings);
                    }
                });
            }
        });
    });
    let seconds = took.as_secs_f64();
    let per_second = f64::from(u32::try_from(trials).expect("a few hundred")) / seconds;
    println!(
        "{trials} trials, {threads} at a time: {seconds:.1} s, {per_second:.0} trials per second"
    );
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn show(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let median = times[times.len() / 2];
    println!(
        "{what:24} {:>9} {:>9} {:>9}",
        ms(times[0]),
        ms(median),
        ms(times[times.len() - 1])
    );
    median
}

fn two_sessions(file: &spec::DrillFile, point: &str) -> (Trial, Surroundings) {
    let (trial, surroundings) = whole(file, &format!("deploy::{point}"));
    let mut drill = (*trial.drill).clone();
    drill.expect.revocation = spec::Asked::Skip {
        skip: "two sessions are measured".to_owned(),
    };
    let drill = Arc::new(drill);
    (Trial { drill, ..trial }, surroundings)
}

fn whole(file: &spec::DrillFile, name: &str) -> (Trial, Surroundings) {
    let planned = file.trials().into_iter().find(|trial| trial.name == name);
    let planned = planned.expect("the shipped drill has this point");
    let (_, interrupted) = tokio::sync::watch::channel(false);
    let surroundings = Surroundings {
        places: file.places(),
        cell: Wanted::Best,
        root: file.root.clone(),
        drill_folder: file.root.join("drills"),
        fixture: Some(FIXTURE.into()),
        interrupted,
        spoken: Spoken::default(),
    };
    (
        Trial {
            name: planned.name,
            drill: Arc::new(file.drill.clone()),
            crash: planned.crash,
        },
        surroundings,
    )
}

fn run(trial: &Trial, surroundings: &Surroundings) {
    let bundle = tempfile::tempdir().expect("a temporary folder");
    let played =
        trial::run(trial, surroundings, bundle.path(), &Secrets::default()).expect("it runs");
    assert_eq!(
        played.judgement.verdict,
        Verdict::Held,
        "{:#?}",
        played.judgement
    );
}

/// One bare session with the server.
fn session(remote: &str, call: bool) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Command::new(FIXTURE)
        .arg("deploy")
        .env_clear()
        .env("BUILD_API", remote)
        .env("ACTIVITY_LOG", folder.path().join("activity.jsonl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the fixture starts");
    let mut stdin = server.stdin.take().expect("it is piped");
    let mut stdout = BufReader::new(server.stdout.take().expect("it is piped"));
    let mut ask = |id: u32, method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "dev.cargo-drill/correlationId": format!("call-{id}"),
        });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{request}").expect("the server reads");
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server answers");
        let answer: Value = serde_json::from_str(&line).expect("with JSON");
        assert!(
            answer["result"]["isError"] != json!(true) && answer["error"].is_null(),
            "{answer}"
        );
    };
    ask(1, "server/discover", json!({}));
    if call {
        let arguments = json!({ "app": "shop", "ref": "v1.2.3" });
        ask(
            2,
            "tools/call",
            json!({ "name": "deploy_build", "arguments": arguments }),
        );
    }
    drop(stdin);
    assert!(server.wait().expect("it is our child").success());
}

/// The least that the server can talk to: answers every request with one build.
fn remote() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !request.ends_with(b"}")
                && !request
                    .windows(4)
                    .any(|w| w == b"\r\n\r\n" && request.starts_with(b"GET"))
            {
                match stream.read(&mut chunk) {
                    Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                    _ => break,
                }
            }
            let body = r#"{"id":"1","state":"queued"}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    format!("http://{address}")
}
