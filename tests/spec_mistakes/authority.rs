//! Mistakes about who issues, approves and revokes.

use super::{drill_with, each_is_shown};

#[test]
fn an_authority_is_of_one_form_and_gives_what_that_form_has() {
    each_is_shown(&[
        (
            drill_with("authority: { oauth: {}, «bearer: A }"),
            "`bearer` does not go together with `oauth`",
        ),
        (
            drill_with("authority: { oauth: { tokens: «jwts } }"),
            "did you mean `jwt`?",
        ),
        (
            drill_with("authority: { oauth: { resource: «checks-signature } }"),
            "an opaque token has no signature",
        ),
        (
            drill_with("authority: { oauth: { «token: jwt } }"),
            "did you mean `tokens`?",
        ),
        (
            drill_with("authority: { «command: { issue: [x] } }"),
            "has no `revoke`",
        ),
        (
            // The server gets no token there.
            drill_with("authority: { gateway: { approvals: «/decisions } }")
                .replace(", TOKEN: '{{ authority.token }}'", ""),
            "no route with `approval: true` is on `/decisions`",
        ),
        (
            drill_with("authority: { command: { revoke: [x, '{{ «authority.kee }}'] } }"),
            "did you mean `authority.key`?",
        ),
        (
            drill_with("server: { command: [x], env: { R: '{{ «authority.refresh }}' } }"),
            "`authority.refresh` needs an `authority` with `oauth`",
        ),
        (
            drill_with("server: { command: [x], env: { R: '{{ «authority.key }}' } }"),
            "`authority.key` is not known here",
        ),
        (
            drill_with("expect: { revocation: { of: [«token] } }"),
            "`token` is not a thing to revoke",
        ),
        (
            drill_with("expect: { revocation: { «of: [job] } }"),
            "a job alone leaves its run what it was",
        ),
        (
            drill_with("expect: { revocation: { «of: [run, job] } }"),
            "no `expect.ownership.record.effect` says where that is",
        ),
        (
            drill_with("expect: { revocation: { «of: [] } }"),
            "empty list",
        ),
    ]);
}

#[test]
fn a_decision_is_held_where_somebody_asks_for_one() {
    each_is_shown(&[
        (
            drill_with("crash: [«before-approval]"),
            "no route of the remote has `approval: true`",
        ),
        (
            drill_with("crash: [{ at: idle, «decision: refused }]"),
            "only `before-approval` and `after-approval` hold a decision",
        ),
    ]);
}
