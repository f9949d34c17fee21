//! The files for engines that run a slice on each machine: their own linters accept them, and their commands do what they
//! are there for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_drill::bundle::verify;
use serde_json::Value;

use crate::bundle::make_key;
use crate::drills::deploy_at;
use crate::ground::{Ground, folders_in};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn yaml(name: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(file(name)).unwrap()).unwrap()
}

fn ground() -> Ground {
    let ground = Ground::new();
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle, before-dispatch, after-result", &[]),
    );
    ground.drill("other", &deploy_at("other", "idle", &[]));
    make_key(&ground.path().join("key.pem"));
    ground
}

/// Runs a script as an engine does, where `cargo drill` is installed.
fn run(ground: &Ground, script: &str, variables: &[(&str, &str)]) {
    let program = Path::new(env!("CARGO_BIN_EXE_cargo-drill"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-e", "-c", script])
        .current_dir(ground.path())
        .env("PATH", path)
        .env("TMPDIR", ground.path().join("tmp"))
        .env_remove("CI")
        .env_remove("NEXTEST_RUN_ID")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}\n{said}\n{errors}");
}

fn is_whole_and_signed(run: &Path) {
    let verification = verify(run, &[]).unwrap();
    assert!(verification.is_good(), "{:?}", verification.findings);
    assert_eq!(verification.trials, 4);
    let manifest: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["shards"].as_array().unwrap().len(), 3);
    assert!(run.join("attestation.intoto.jsonl").exists());
}

pub fn the_workflow_for_github_is_accepted_by_its_linter() {
    let output = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/evidence/lint_workflow.cjs"
        ))
        .arg(file("ci/github-actions.yml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

pub fn the_workflow_for_github_drills_in_slices_and_joins_them() {
    let ground = ground();
    let workflow = yaml("ci/github-actions.yml");
    let step = |job: &str, name: &str| {
        let steps = workflow["jobs"][job]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["name"] == name);
        let step = step.unwrap_or_else(|| panic!("no step {name} in {job}"));
        step["run"].as_str().unwrap().to_owned()
    };
    for slice in workflow["jobs"]["drill"]["strategy"]["matrix"]["slice"]
        .as_array()
        .unwrap()
    {
        let script = step("drill", "Drill").replace("${{ matrix.slice }}", &slice.to_string());
        assert!(!script.contains("${{"), "{script}");
        run(&ground, &script, &[]);
        // As upload-artifact and download-artifact carry it.
        let artifact = ground.path().join(format!("slices/slice-{slice}"));
        fs::create_dir_all(&artifact).unwrap();
        let folder = ground.run();
        fs::rename(&folder, artifact.join(folder.file_name().unwrap())).unwrap();
    }
    let key = fs::read_to_string(ground.path().join("key.pem")).unwrap();
    let temp = ground.path().join("tmp");
    let variables = [
        ("DRILL_SIGNING_KEY", key.trim_end()),
        ("RUNNER_TEMP", temp.to_str().unwrap()),
    ];
    run(&ground, &step("evidence", "Join"), &variables);
    run(&ground, &step("evidence", "Verify"), &[]);
    is_whole_and_signed(&ground.run());
}

pub fn the_jobs_for_kubernetes_are_accepted_by_its_schemas() {
    for name in ["ci/kubernetes-job.yaml", "ci/kubernetes-evidence.yaml"] {
        let output = Command::new(file("python/.venv/bin/kubernetes-validate"))
            .arg("--strict")
            .arg(file(name))
            .output()
            .expect("the Python packages of fixtures/python");
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

pub fn the_jobs_for_kubernetes_drill_in_slices_and_join_them() {
    let ground = ground();
    let reports = ground.path().join("shared").display().to_string();
    let script = |name: &str| {
        let job = yaml(name);
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let script = container["command"][2].as_str().unwrap().to_owned();
        let keys = ground.path().join("key.pem").display().to_string();
        let script = script
            .replace("/reports", &reports)
            .replace("/keys/key.pem", &keys);
        (job, script)
    };
    let (job, drill) = script("ci/kubernetes-job.yaml");
    let pods = job["spec"]["completions"].as_u64().unwrap();
    for index in 0..pods {
        run(
            &ground,
            &drill,
            &[("JOB_COMPLETION_INDEX", &index.to_string())],
        );
    }
    let (_, join) = script("ci/kubernetes-evidence.yaml");
    run(&ground, &join, &[]);
    let joined = folders_in(&ground.path().join("shared/joined/runs"));
    is_whole_and_signed(&joined[0]);
}
