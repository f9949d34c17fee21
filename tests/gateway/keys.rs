//! The key is at the upstream and in the gateway, and nowhere else.

use std::fs;

use crate::place::{KEY, Place, gateway};

/// Everything that a caller, an operator or another process gets to see of one call.
fn seen(flags: &[&str]) -> Vec<(&'static str, String)> {
    let place = Place::new();
    let gateway = place.serve_run(flags);
    let call = gateway.call("call-1");
    let request = place.upstream.request();
    assert!(request.headers.contains(KEY));
    request.accept();
    let (_, reply) = call.answer();
    gateway.revoke("run-1");
    let (_, refusal) = gateway.call("call-2").answer();
    let shown = gateway.order(&["show"]).stdout;
    let argv = fs::read(format!("/proc/{}/cmdline", gateway.child.id())).unwrap();
    let ready = gateway.ready.clone();
    let (_, stderr) = gateway.end();
    let log = fs::read_to_string(place.log()).unwrap();
    vec![
        ("reply", reply),
        ("refusal", refusal),
        ("show", crate::place::text(&shown)),
        ("argv", crate::place::text(&argv)),
        ("stdout", ready),
        ("stderr", stderr),
        ("log", log),
    ]
}

fn where_the_key_is(flags: &[&str]) -> Vec<&'static str> {
    let mut seen = seen(flags);
    seen.retain(|(_, text)| text.contains(KEY));
    seen.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn nobody_gets_to_see_the_key() {
    assert_eq!(where_the_key_is(&[]), Vec::<&str>::new());
}

#[test]
fn with_key_to_caller_it_is_in_the_log() {
    assert_eq!(where_the_key_is(&["--fault", "key-to-caller"]), ["log"]);
}

#[test]
fn a_gateway_without_a_key_does_not_serve() {
    let place = Place::new();
    let mut command = place.command("gateway.sock", &[]);
    let output = command.env_remove("GATEWAY_KEY").output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}

#[test]
fn a_socket_that_was_left_is_taken_and_one_that_is_served_is_not() {
    let place = Place::new();
    let mut gateway = place.serve(&[]);
    let second = place.command("gateway.sock", &[]).output().unwrap();
    assert!(!second.status.success());
    gateway.kill();
    assert!(gateway.socket.exists());
    let again = place.serve(&[]);
    again.open("run-1");
    let socket = again.socket.clone();
    assert!(again.end().0.success());
    assert!(!socket.exists());
}

#[test]
fn the_help_names_each_command() {
    let help = gateway(&["--help"]).output().unwrap();
    let help = crate::place::text(&help.stdout);
    let commands = [
        "serve", "session", "refusals", "sessions", "activity", "verify", "mcp",
    ];
    for command in commands {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
}
