//! What opens the gate and what closes it.

#[expect(clippy::wildcard_imports, reason = "what these tests share")]
use super::*;

fn first_line(said: &Said) -> &str {
    said.out.lines().next().unwrap_or_default()
}

/// So many days from today, in UTC.
fn day(from_today: i64) -> String {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * from_today);
    then.strftime("%Y-%m-%d").to_string()
}

fn waiver(until: &str) -> String {
    format!(
        "waivers: [{{ question: eof, server: deploy, reason: waits for the API, owner: jane@example.org, until: {until} }}]\n"
    )
}

pub fn a_good_server_goes_out_and_its_broken_twin_does_not() {
    let ground = drilled();
    policy(&ground, "");
    let good = gate(&ground, &[]);
    assert_eq!(good.code, Some(0), "{good}");
    assert!(
        first_line(&good).starts_with("GO: 6 answers held"),
        "{good}"
    );

    let last = ground
        .run()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    with_fault(&ground, "ignores-eof");
    let new = run(&ground, &[]);
    // The latest run is the one that counts where none is named.
    let broken = gate(&ground, &["--baseline", &last]);
    assert_eq!(broken.code, Some(1), "{broken}");
    assert_eq!(first_line(&broken), "NO-GO: 1 reason", "{broken}");
    let because = "eof of deploy is broken at idle, after-acceptance";
    assert!(broken.out.contains(because), "{broken}");
    let change = "held in the last release, broken now";
    assert_eq!(broken.out.matches(change).count(), 2, "{broken}");
    let folder = format!("reports/runs/{new}/deploy__idle  events ");
    assert!(broken.out.contains(&folder), "{broken}");

    // A run is named by its folder, or by itself.
    let folder = format!("reports/runs/{last}");
    for named in [last.as_str(), folder.as_str()] {
        assert_eq!(gate(&ground, &[named]).code, Some(0));
    }
    // Of both, the newer one counts, and that is told.
    let both = gate(&ground, &[&new, &last]);
    assert_eq!(both.code, Some(1), "{both}");
    let note = format!("run {last}: a newer run counts for 2 trials of it");
    assert!(both.out.contains(&note), "{both}");
}

pub fn a_waiver_lasts_until_its_day() {
    let ground = drilled();
    with_fault(&ground, "ignores-eof");
    run(&ground, &[]);
    policy(&ground, &waiver(&day(10)));
    let waived = gate(&ground, &[]);
    assert_eq!(waived.code, Some(0), "{waived}");
    assert!(first_line(&waived).contains("2 waived"), "{waived}");
    assert!(waived.out.contains("(10 days left)"), "{waived}");
    assert!(
        waived.out.contains("jane@example.org: waits for the API"),
        "{waived}"
    );

    policy(&ground, &waiver(&day(-2)));
    let ended = gate(&ground, &[]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_eq!(first_line(&ended), "NO-GO: 2 reasons", "{ended}");
    assert!(ended.out.contains("2 days ago"), "{ended}");
}

pub fn a_waiver_that_nothing_needs_is_in_the_way() {
    let ground = drilled();
    policy(&ground, &waiver(&day(10)));
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("is not needed: eof holds now"), "{said}");
}

pub fn what_was_not_run_or_not_drilled_is_not_fine() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", POINTS, &[]));
    run(&ground, &["idle"]);
    policy(
        &ground,
        "rules: [{ servers: [deploy] }, { servers: [notes] }]",
    );
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(first_line(&said), "NO-GO: 2 reasons", "{said}");
    let filtered = "deploy was not run at after-acceptance: filtered out";
    assert!(said.out.contains(filtered), "{said}");
    assert!(said.out.contains("no bundle has a drill notes"), "{said}");
}

pub fn a_bundle_that_was_changed_closes_the_gate() {
    let ground = drilled();
    policy(&ground, "");
    let results = ground.run().join("results.json");
    let text = fs::read_to_string(&results).unwrap();
    fs::write(&results, text.replace("build", "bui1d")).unwrap();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("results.json: it was changed"), "{said}");
}

pub fn a_run_that_was_killed_is_not_complete() {
    let ground = drilled();
    policy(&ground, "evidence: { complete: true }");
    let manifest = ground.run().join("manifest.json");
    let mut value = json_in(&ground.run(), "manifest.json");
    value.as_object_mut().unwrap().remove("finished");
    fs::write(&manifest, value.to_string()).unwrap();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("is incomplete"), "{said}");
}

pub fn what_cannot_be_decided_is_neither() {
    let ground = drilled();
    policy(&ground, "");
    for (arguments, because) in [
        (
            vec!["20200101T000000Z-0000"],
            "no run 20200101T000000Z-0000",
        ),
        (vec!["nowhere"], "nowhere is neither a folder nor a run"),
        (vec!["drills"], "it holds no bundle"),
        (vec!["--sign", "nowhere.pem"], "failed to read the key"),
        (vec!["--baseline", "drills"], "it holds no bundle"),
    ] {
        let said = gate(&ground, &arguments);
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.err.contains(because), "`{because}` in {said}");
        assert_eq!(said.out, "");
    }
    let fresh = Ground::new();
    policy(&fresh, "");
    let said = gate(&fresh, &[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("no run in"), "{said}");
}

pub fn the_decision_is_told_to_machines_and_to_a_page() {
    let ground = drilled();
    with_fault(&ground, "ignores-eof");
    run(&ground, &[]);
    policy(&ground, "");
    let value = decision(&ground, &[]);
    assert_eq!(value["decision"], "no-go");
    assert_eq!(value["reasons"][0]["kind"], "broken");
    assert_eq!(value["reasons"][0]["question"], "eof");
    let case = &value["reasons"][0]["cases"][0];
    assert_eq!(case["trial"], "deploy::idle");
    assert!(!case["events"].as_array().unwrap().is_empty());
    let page = gate(&ground, &["--format", "markdown"]);
    assert_eq!(page.code, Some(1));
    assert!(page.out.starts_with("# NO-GO: 1 reason\n"), "{page}");
}

/// A server's own words stand in the sentence: its stdout is quoted where it is no JSON-RPC.
pub fn in_a_job_of_github_nothing_that_is_shown_is_taken_for_a_command() {
    let ground = drilled();
    policy(&ground, "");
    let run = ground.run();
    let run = run.file_name().unwrap().to_str().unwrap();
    let fenced = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let token = lines
            .first()
            .and_then(|line| line.strip_prefix("::stop-commands::"));
        token.is_some_and(|token| lines.last() == Some(&format!("::{token}::").as_str()))
    };
    let in_job = |arguments: &[&str]| {
        let mut command = ground.command([]);
        say(command.args(arguments).env("GITHUB_ACTIONS", "true"))
    };
    for shown in [
        vec!["show"],
        vec!["gate", "--policy", "release.yaml"],
        vec!["controls"],
        vec!["verify", &format!("reports/runs/{run}")],
        vec!["diff", run, run],
        vec!["idle"],
    ] {
        let said = in_job(&shown);
        assert!(fenced(&said.out), "{shown:?}: {said}");
    }
    // What a program reads is whole, and fenced all the same.
    let json = ["gate", "--policy", "release.yaml", "--format", "json"];
    let said = in_job(&json);
    assert!(serde_json::from_str::<Value>(&said.out).is_ok(), "{said}");
    assert!(fenced(&said.err), "{said}");
    // Annotations are commands: the fence ends before them.
    let said = in_job(&["--format", "github"]);
    assert_eq!(said.out.matches("::stop-commands::").count(), 1, "{said}");
    assert!(!said.err.contains("::stop-commands::"), "{said}");
    let outside = gate(&ground, &[]);
    assert!(!outside.out.contains("::stop-commands::"), "{outside}");
}

pub fn what_a_server_says_is_text_in_every_form() {
    let ground = Ground::new();
    let hostile = "\\u001b[2J| <script>alert(1)</script> [x](https://e.example)";
    let server = format!("import sys\nprint(\"{hostile}\", flush=True)\nsys.stdin.read()\n");
    fs::write(ground.path().join("server.py"), server).unwrap();
    ground.drill(
        "hostile",
        "drill: hostile\nserver: { command: [python3, '{{ root }}/server.py'] }\ncall: { tool: x }\ncrash: [startup]\n",
    );
    run(&ground, &[]);
    policy(
        &ground,
        "rules: [{ servers: ['*'], questions: [protocol] }]",
    );
    let pretty = gate(&ground, &[]);
    assert_eq!(pretty.code, Some(1), "{pretty}");
    assert!(pretty.out.contains("alert(1)"), "{pretty}");
    assert!(!pretty.out.contains('\u{1b}'), "{pretty}");
    let page = gate(&ground, &["--format", "markdown"]).out;
    assert!(page.contains("\\<script\\>alert(1)"), "{page}");
    assert!(
        !page.contains(" <script>") && !page.contains("://"),
        "{page}"
    );
    let json = gate(&ground, &["--format", "json"]).out;
    assert!(!json.contains("\\u001b"), "{json}");
}
