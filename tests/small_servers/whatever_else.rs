//! Each question has the same answer whatever else the drill asks.
//!
//! ```text
//!   servers  ×  subsets of what a drill can ask besides  ──> cargo-drill, once ──> the same answers in each subset
//! ```
//!
//! What is done for one question (a session with a revoked credential, a session beside, the cancelling of a job) leaves
//! something on disk and at the remote: here are servers that would take it for session A's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::answers::difference;
use super::row;

/// What a drill asks for besides, of [`ALL`].
#[derive(Debug, Clone, Copy)]
struct Subset(usize);

const ALL: [&str; 4] = ["authority", "beside", "ownership", "job"];

impl Subset {
    /// A job is revoked by its id in the record, together with its run.
    fn all() -> impl Iterator<Item = Self> {
        let can_be = |subset: &Self| {
            !subset.has("job") || (subset.has("authority") && subset.has("ownership"))
        };
        (0..1 << ALL.len()).map(Self).filter(can_be)
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        let is_in = move |(place, _): &(usize, &str)| self.0 >> place & 1 == 1;
        ALL.into_iter()
            .enumerate()
            .filter(is_in)
            .map(|(_, word)| word)
    }

    fn has(self, word: &str) -> bool {
        self.words().any(|own| own == word)
    }
}

/// A server, and the questions that it breaks where they are asked, whatever else is.
struct Server {
    file: &'static str,
    breaks: &'static [&'static str],
    /// The record does not name all of its jobs, so not all can be cancelled.
    leaves_jobs: bool,
}

const SERVERS: [Server; 3] = [
    Server {
        file: "good",
        breaks: &[],
        leaves_jobs: false,
    },
    Server {
        file: "outbox",
        breaks: &["reconcile"],
        leaves_jobs: true,
    },
    // Session B is turned away, so that nothing ever records the id of session A's job.
    Server {
        file: "lock_around_call",
        breaks: &["reconcile"],
        leaves_jobs: true,
    },
];

const CRASHES: [&str; 2] = ["before-dispatch", "after-acceptance"];

fn name(server: &Server, subset: Subset) -> String {
    let mut words: Vec<String> = vec![server.file.replace('_', "-")];
    words.extend(subset.words().map(str::to_owned));
    words.join("-")
}

fn drill(name: &str, server: &Server, subset: Subset) -> Value {
    let file = format!("@python/{}.py", server.file);
    let mut drill = row::drill(name, &["python3", "-S", &file]);
    drill["crash"] = json!(CRASHES);
    drill["remote"]["routes"].as_array_mut().unwrap().push(json!(
        { "on": "POST /jobs/{id}/cancel", "cancel": "job", "by": { "path": "id" }, "reply": { "json": {} } }
    ));
    if !subset.has("authority") {
        drill.as_object_mut().unwrap().remove("authority");
        drill["server"]["env"]["API_TOKEN"] = json!("");
        drill["expect"]
            .as_object_mut()
            .unwrap()
            .remove("revocation");
    }
    if subset.has("beside") {
        drill["client"] = json!({ "beside": true });
    }
    if !subset.has("ownership") {
        drill["expect"].as_object_mut().unwrap().remove("ownership");
    }
    if subset.has("job") {
        drill["expect"]["revocation"]["of"] = json!(["run", "job"]);
    }
    drill
}

/// The questions that are to break at this crash.
fn right(server: &Server, subset: Subset, crash: &str) -> BTreeSet<String> {
    let is_in_call = crash != "before-dispatch" || server.file != "lock_around_call";
    let mut right: BTreeSet<String> = server.breaks.iter().map(|q| (*q).to_owned()).collect();
    // What is revoked is the question's own subject.
    if subset.has("job") && server.leaves_jobs && is_in_call {
        right.insert("revocation".to_owned());
    }
    right
}

pub fn each_question_has_the_same_answer_whatever_else_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    fs::create_dir(&drills).unwrap();
    let pairs = |server| Subset::all().map(move |subset| (server, subset));
    let rows: Vec<(&Server, Subset)> = SERVERS.iter().flat_map(pairs).collect();
    for (server, subset) in &rows {
        let name = name(server, *subset);
        let path = drills.join(format!("{name}.yaml"));
        fs::write(path, drill(&name, server, *subset).to_string()).unwrap();
    }
    let trials = super::run(&drills, &folder.path().join("reports"));

    let mut wrong = String::new();
    let mut found: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (server, subset) in &rows {
        for crash in CRASHES {
            let right = right(server, *subset, crash);
            let name = format!("{}::{crash}", name(server, *subset));
            wrong += &difference(&trials, &name, &right).unwrap_or_default();
            for answer in trials[&name]["answers"].as_array().unwrap() {
                let question = answer["question"].as_str().unwrap().to_owned();
                let is_of_job = question == "revocation" && subset.has("job");
                let answered = found.entry((server.file, crash, question, is_of_job));
                let codes = format!("{} {}", answer["verdict"], answer["codes"]);
                answered.or_default().insert(codes);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for (asked, answers) in found {
        assert_eq!(answers.len(), 1, "{asked:?}: {answers:?}");
    }
}
