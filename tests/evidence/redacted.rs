//! What must not be in a bundle: what the drill minted, and the values of variables that `redact` names.

use std::fs;

use cargo_drill::bundle::verify;

use crate::bundle::files_in;
use crate::drills::{GOOD_SERVER, deploy_at};
use crate::ground::Ground;
use crate::said::{json_in, say};

const LICENCE: &str = "licence-7f3a-91c2";
const LITERAL: &str = "literal-55d0-18aa";

/// A server that tells its variables to anybody: in stderr, in an answer, in its record's file.
fn drill(more: &str) -> String {
    let server = "command: [sh, -c, 'echo \"$LICENCE and $LITERAL\" >&2; exec \"$0\" deploy', \"{{ fixture }}\"]";
    let text = deploy_at("deploy", "idle", &[(GOOD_SERVER, server)]);
    let env = "    RUN_ID: \"{{ run.id }}\"\n";
    assert!(text.contains(env));
    let variables =
        format!("{env}    LICENCE: \"{{{{ env.LICENCE }}}}\"\n    LITERAL: {LITERAL}\n");
    format!("{}\n{more}\n", text.replacen(env, &variables, 1))
}

pub fn values_of_redacted_variables_are_nowhere_in_the_bundle() {
    let ground = Ground::new();
    ground.drill("deploy", &drill("redact: [LICENCE, LITERAL]"));
    let said = say(ground.command([]).env("LICENCE", LICENCE));
    assert_eq!(said.code, Some(0), "{said}");
    let mut named = 0;
    for file in files_in(&ground.run()) {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        for value in [LICENCE, LITERAL] {
            assert!(!text.contains(value), "{value} is in {}", file.display());
        }
        named += text.matches("<value of LICENCE>").count();
    }
    assert!(named > 0, "the server told it, and nothing says so");
    let verification = verify(&ground.run(), &[]).unwrap();
    assert!(verification.is_good(), "{:?}", verification.findings);
    // What is redacted is no credential that was minted: the server did nothing wrong.
    let results = json_in(&ground.run(), "results.json");
    assert_eq!(results["trials"][0]["verdict"], "held");
}

pub fn a_variable_that_is_not_set_or_too_short_is_an_error_and_one_that_nothing_uses_a_mistake() {
    let ground = Ground::new();
    ground.drill("deploy", &drill("redact: [LICENCE, LITERAL]"));
    let said = say(ground.command([]).env_remove("LICENCE"));
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.out.contains("takes the variable LICENCE"), "{said}");
    let said = say(ground.command([]).env("LICENCE", "abc"));
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.out.contains("has 3 bytes"), "{said}");
    ground.drill("deploy", &drill("redact: [LICENCE, LITERALL]"));
    let said = say(&mut ground.command(["check"]));
    assert_eq!(said.code, Some(2), "{said}");
    assert!(
        said.err.contains("`server.env` has no `LITERALL`"),
        "{said}"
    );
    assert!(said.err.contains("LITERAL"), "{said}");
}
