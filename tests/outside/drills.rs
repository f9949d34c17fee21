//! The drills that these tests run: the one that ships, changed in what a test is about.

/// The drill that ships, of the server that does everything right.
pub const DEPLOY: &str = include_str!("../../drills/deploy.yaml");

/// The drill that ships under another name, with `changes` made to its text. Each must have something to change.
pub fn deploy_as(name: &str, changes: &[(&str, &str)]) -> String {
    let mut text = DEPLOY.replace("\ndrill: deploy\n", &format!("\ndrill: {name}\n"));
    for (old, new) in changes {
        assert!(text.contains(old), "the drill has no `{old}`");
        text = text.replace(old, new);
    }
    text
}

/// At one crash point only.
pub fn deploy_at(name: &str, crash: &str, changes: &[(&str, &str)]) -> String {
    let text = deploy_as(name, changes);
    let (head, rest) = text.split_once("\ncrash:\n").unwrap();
    let (_, tail) = rest.split_once("\n\n").unwrap();
    format!("{head}\ncrash: [{crash}]\n\n{tail}")
}

/// The server of the drill that ships, as a change for [`deploy_as`].
pub const GOOD_SERVER: &str = "command: [\"{{ fixture }}\", deploy]";
