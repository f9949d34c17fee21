//! The policy file: mistakes are shown with their place and with what would be right.

#[expect(clippy::wildcard_imports, reason = "what these tests share")]
use super::*;

/// The mistake of a policy is shown at this place, with these words, and nothing is decided.
fn is_mistaken(text: &str, place: &str, words: &[&str]) {
    let ground = Ground::new();
    fs::write(ground.path().join("release.yaml"), text).unwrap();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert_eq!(said.out, "");
    let place = format!("release.yaml:{place}");
    assert!(said.err.contains(&place), "`{place}` in {said}");
    for words in words {
        assert!(said.err.contains(words), "`{words}` in {said}");
    }
}

pub fn mistakes_are_shown_with_their_place_and_with_what_would_be_right() {
    let rules = "policy: release\nrules:\n  - { servers: ['*'] }\n";
    let waiver =
        |with: &str| format!("{rules}waivers:\n  - {{ question: eof, server: x, {with} }}\n");
    let complete = "reason: r, owner: o, until: 2027-01-31";
    let cases: [(String, &str, &[&str]); 13] = [
        (
            format!("{rules}evidnce: {{ max_age: 7d }}\n"),
            "4:1",
            &[
                "the policy has no key `evidnce`",
                "did you mean `evidence`?",
            ],
        ),
        (
            "policy: release\n".to_owned(),
            "1:1",
            &["the policy has no `rules`"],
        ),
        (
            "policy: release\nrules: [{ servers: ['Deploy?'] }]\n".to_owned(),
            "2:21",
            &["`Deploy?` is not a name of a drill in the letters `a-z`, `0-9`, `-` and `*`"],
        ),
        (
            "policy: release\nrules: []\n".to_owned(),
            "2:1",
            &["`rules` is an empty list"],
        ),
        (
            "policy: release\nrules: [{ servers: ['*'], questions: [eoff] }]\n".to_owned(),
            "2:39",
            &["`eoff` is not a question", "did you mean `eof`?"],
        ),
        (
            "policy: release\nrules: [{ servers: ['*'], known: maybe }]\n".to_owned(),
            "2:34",
            &["`maybe` is not", "`refuse` or `accept`"],
        ),
        (
            format!("{rules}evidence: {{ max_age: 7 days }}\n"),
            "4:22",
            &["`7 days` is not an age", "`12h`, `7d` or `2w`"],
        ),
        (
            waiver(&complete.replace("2027-01-31", "2027-02-31")),
            "5:61",
            &["`2027-02-31` is not a date", "`2027-01-31`"],
        ),
        (
            waiver(&complete.replace("2027-01-31", "soon")),
            "5:61",
            &["`soon` is not a date"],
        ),
        (
            waiver("reason: r, until: 2027-01-31"),
            "5:5",
            &["has no `owner`", "Who answers for it."],
        ),
        (
            waiver("owner: o, until: 2027-01-31"),
            "5:5",
            &["has no `reason`"],
        ),
        (
            waiver(&complete.replace("owner: o", "owner: ' '")),
            "5:51",
            &["`waivers[0].owner` is blank"],
        ),
        (
            format!("{rules}evidence: {{ signed_by: [keys/ci.pub] }}\n"),
            "4:25",
            &["failed to read the key", "relative to the policy file"],
        ),
    ];
    for (text, place, words) in &cases {
        is_mistaken(text, place, words);
    }
}

pub fn a_policy_that_is_not_there_or_empty_says_so() {
    let ground = Ground::new();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("this file cannot be read"), "{said}");
    fs::write(ground.path().join("release.yaml"), "# nothing\n").unwrap();
    let said = gate(&ground, &[]);
    let begins = "a policy file starts with `policy: NAME`";
    assert!(said.err.contains(begins), "{said}");
}

pub fn the_schema_of_the_policy_is_printed_and_describes_every_key() {
    let ground = Ground::new();
    let said = say(&mut ground.command(["schema", "--policy"]));
    assert_eq!(said.code, Some(0), "{said}");
    let schema: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(schema["title"], "A cargo-drill release policy");
    let committed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/policy/policy.schema.json"
    );
    assert!(
        fs::read_to_string(committed).unwrap_or_default() == said.out,
        "the policy's types have changed: cargo drill schema --policy > fixtures/policy/policy.schema.json"
    );
    let mut objects = vec![("", &schema)];
    objects.extend(
        schema["$defs"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(n, s)| (n.as_str(), s)),
    );
    for (name, object) in objects {
        let Some(properties) = object.get("properties").and_then(Value::as_object) else {
            continue;
        };
        assert_eq!(object["additionalProperties"], false, "{name}");
        for (key, property) in properties {
            assert!(property.get("description").is_some(), "{name}.{key}");
        }
    }
}

pub fn the_policy_that_ships_is_well_written_and_decides() {
    let ground = drilled();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/policy/release.yaml");
    let text = fs::read_to_string(shipped).unwrap();
    // It asks for one point more than this ground has.
    fs::write(ground.path().join("release.yaml"), &text).unwrap();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.starts_with("NO-GO: 1 reason\n"), "{said}");
    assert!(
        said.out.contains("deploy has no trial at before-dispatch"),
        "{said}"
    );
    // What stands in its comments is well written, too.
    let whole = text
        .replace("# waivers:", "waivers:")
        .replace("#   - question", "  - question")
        .replace("#     ", "    ");
    fs::write(ground.path().join("release.yaml"), whole).unwrap();
    let said = gate(&ground, &[]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out.contains("no bundle has a drill mcp-outline"),
        "{said}"
    );
}
