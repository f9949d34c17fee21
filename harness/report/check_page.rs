//! `README.md` of a bundle: what it is, and how to check it without this tool.

use super::results::Results;

/// A check that a reader can make with public tools.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    pub title: &'static str,
    pub about: &'static str,
    /// For bash, in the bundle's folder. It prints the last word of `passes` and nothing else where all is well.
    pub script: &'static str,
}

/// The checks, in the order in which they lean on one another.
pub const CHECKS: [Check; 5] = [
    Check {
        title: "Every file is as the manifest says, and there is no other",
        about: "Prints `files whole`.",
        script: r#"jq -r '.files | to_entries[] | "\(.value.sha256)  \(.key)"' manifest.json | sha256sum --check --quiet --strict &&
find . -mindepth 1 ! -type d -printf '%P\n' | grep -vxE 'manifest\.json|attestation\.intoto\.jsonl|signer\.pem' | LC_ALL=C sort |
  diff - <(jq -r '(.files + (.others // {})) | keys_unsorted[]' manifest.json | LC_ALL=C sort) && echo files whole"#,
    },
    Check {
        title: "No line of a journal was changed, dropped or moved, and no tail was cut",
        about: "Each line's `hash` is the SHA-256 of its RFC 8785 form without `hash`, its `prev` is the hash of the line before, and \
                the manifest has the last one. Prints `journals whole`.",
        script: r#"jq -r '.journals | to_entries[] | "\(.value.head) \(.key)"' manifest.json | while read -r head journal; do
  jq -cS 'del(.hash)' "$journal" | while IFS= read -r line; do printf %s "$line" | sha256sum | cut -d' ' -f1; done |
    diff -q - <(jq -r .hash "$journal") &&
  diff -q <(jq -r .prev "$journal" | tail -n +2) <(jq -r .hash "$journal" | head -n -1) &&
  [ "$(tail -n 1 "$journal" | jq -r .hash)" = "$head" ] || { echo "broken: $journal"; break; }
done | { ! grep .; } && echo journals whole"#,
    },
    Check {
        title: "Every trial that was found has a result, or a reason for not having been run",
        about: "Prints the reasons, and then `population whole`.",
        script: r#"jq -r '.population[] | select(.not_run) | "\(.trial // .drill): \(.not_run)"' manifest.json
jq -r '.population[] | select(.not_run | not) | .trial' manifest.json | LC_ALL=C sort |
  diff - <(jq -r '.trials[] | select(.verdict != "ignored") | .name' results.json | LC_ALL=C sort) && echo population whole"#,
    },
    Check {
        title: "The results say what each trial's answers say",
        about: "Of trials that were not repeated. That these follow from the journals only `cargo drill verify` can tell. Prints `answers equal`.",
        script: r#"jq -r '.trials[] | select(.bundle and (.repeats | not) and (.error | not)) | .bundle' results.json | while read -r bundle; do
  diff -q <(jq -S '[.answers[] | {question, verdict, because}]' "$bundle/answers.json") \
    <(jq -S --arg b "$bundle" '[.trials[] | select(.bundle == $b) | .answers[] | {question, verdict, because}]' results.json) ||
    echo "differ: $bundle"
done | { ! grep .; } && echo answers equal"#,
    },
    Check {
        title: "The signature is by a key that you trust, and of this manifest",
        about: "`KEY` is the signer's public key in PEM, from whoever vouches for it; `signer.pem` in the bundle proves nothing by itself. \
                Prints `Signature Verified Successfully` and `signed whole`. For ed25519; for P-256 use `openssl dgst -sha256 -verify`. \
                This is the first statement; the second, `sed -n 2p`, is checked in the same way.",
        script: r#"line=$(head -n 1 attestation.intoto.jsonl); work=$(mktemp -d)
printf %s "$line" | jq -rj .payload | base64 -d > "$work/payload"
printf %s "$line" | jq -rj '.signatures[0].sig' | base64 -d > "$work/sig"
{ printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(wc -c < "$work/payload")"; cat "$work/payload"; } > "$work/signed"
openssl pkeyutl -verify -pubin -inkey "${KEY:-signer.pem}" -rawin -in "$work/signed" -sigfile "$work/sig" &&
jq -r '.subject[] | select(.name == "manifest.json") | "\(.digest.sha256)  manifest.json"' "$work/payload" |
  sha256sum --check --quiet --strict && echo signed whole"#,
    },
];

/// The page.
pub(super) fn render(results: &Results, signer: Option<&str>) -> String {
    use std::fmt::Write as _;
    let run = &results.run;
    let vouched = match signer {
        Some(key) => format!(
            "It is signed by the key `{key}` (the SHA-256 of the public key in DER). Compare that with what its owner says."
        ),
        None => {
            "**It is not signed**: whoever could write to this folder could have written all of it."
                .to_owned()
        }
    };
    let mut page = format!(
        "# Evidence of run {run}\n\n\
         Crash drills of MCP servers, made with `cargo drill` {}. {vouched}\n\n\
         `cargo drill verify .` checks everything, offline: digests, chains, population, signature, and that each answer follows \
         from its journal. The essential checks need public tools alone. They are for bash, in this folder, with jq, sha256sum and \
         openssl.\n",
        env!("CARGO_PKG_VERSION")
    );
    for (number, check) in (1..).zip(CHECKS) {
        let Check {
            title,
            about,
            script,
        } = check;
        let _ = write!(
            page,
            "\n## {number}. {title}\n\n{about}\n\n```bash\n{script}\n```\n"
        );
    }
    page += "\n## What lies where\n\n\
             | | |\n|---|---|\n\
             | `report.html` | all of it for people: open it in a browser; it needs no network |\n\
             | `results.json` | every trial with its verdict and answers |\n\
             | `junit.xml`, `results.sarif`, `oscal.json`, `summary.md`, `controls.csv` | the same for other tools |\n\
             | `manifest.json` | what was found and not run, tool, commit, machine, and the digest of every file |\n\
             | `TRIAL/journal.jsonl` | what happened, an event a line, hash-chained |\n\
             | `TRIAL/drill.json` | what was asked |\n\
             | `TRIAL/answers.json` | what the judge says, with the numbers of the events that prove it |\n\
             | `TRIAL/seal.json` | the digest of each file of the trial, from when it ended |\n";
    page
}
