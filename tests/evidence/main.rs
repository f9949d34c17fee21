//! What somebody can find out who has a bundle and nothing else.

#[path = "../outside/drills.rs"]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/keys.rs"]
mod keys;
#[allow(dead_code, reason = "others look for a process by its command line")]
#[path = "../outside/left.rs"]
mod left;
#[path = "../outside/needs.rs"]
mod needs;
#[path = "../outside/said.rs"]
mod said;

mod bundle;
mod checks;
mod key_files;
mod killed;
mod machines;
mod redacted;
mod signed;
mod slices;
mod tampered;

use needs::test;
use std::process::ExitCode;

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(checks::each_check_of_the_page_passes_and_prints_its_word, "bash", "jq", "openssl"),
            test!(checks::each_check_of_the_page_fails_where_it_should, "bash", "jq", "openssl"),
            test!(checks::jq_and_sha256sum_are_enough_to_check_a_bundle, "jq"),
            test!(key_files::keys_of_openssl_sign_and_openssl_says_the_same_of_them, "openssl"),
            test!(key_files::a_key_of_ssh_keygen_signs_and_its_public_half_checks, "ssh-keygen"),
            test!(key_files::what_is_no_key_that_can_sign_is_said_with_what_would_be_one, "openssl", "ssh-keygen"),
            test!(killed::a_killed_run_verifies_up_to_the_kill_and_is_incomplete),
            test!(killed::what_a_killed_run_had_sealed_cannot_be_changed_unseen),
            test!(killed::an_interrupted_run_says_so_and_is_signed_as_one_that_failed),
            test!(killed::a_run_that_was_interrupted_in_its_last_trial_is_incomplete),
            test!(killed::a_full_disk_never_yields_a_bundle_that_looks_whole, "mount"),
            test!(killed::a_full_disk_is_an_error_and_what_was_written_stays_readable, "mount"),
            test!(machines::the_workflow_for_github_is_accepted_by_its_linter, "packages of node"),
            test!(machines::the_workflow_for_github_drills_in_slices_and_joins_them, "bash"),
            test!(machines::the_jobs_for_kubernetes_are_accepted_by_its_schemas, "packages of python3"),
            test!(machines::the_jobs_for_kubernetes_drill_in_slices_and_join_them, "bash"),
            test!(redacted::values_of_redacted_variables_are_nowhere_in_the_bundle),
            test!(redacted::a_variable_that_is_not_set_or_too_short_is_an_error_and_one_that_nothing_uses_a_mistake),
            test!(signed::the_statements_say_what_was_drilled_and_what_came_of_it),
            test!(signed::keys_of_openssl_and_of_ssh_keygen_sign_and_another_verifier_agrees, "openssl", "ssh-keygen", "packages of python3"),
            test!(signed::another_key_than_the_one_that_is_trusted_is_none),
            test!(signed::a_key_that_cannot_sign_is_refused_before_anything_runs),
            test!(signed::a_run_that_failed_is_signed_as_one_that_failed),
            test!(slices::slices_are_joined_into_one_bundle_that_covers_every_trial_once),
            test!(slices::what_does_not_cover_every_trial_exactly_once_is_not_joined),
            test!(slices::bundles_of_different_drills_or_servers_are_not_joined),
            test!(slices::more_slices_than_trials_leave_some_without_any),
            test!(tampered::a_bundle_as_it_was_written_is_whole),
            test!(tampered::a_flipped_bit_is_found_in_every_file_wherever_it_is),
            test!(tampered::a_cut_tail_is_found_in_every_file),
            test!(tampered::what_was_removed_or_added_is_found),
            test!(tampered::a_forger_who_makes_the_digests_fit_is_found_by_what_does_not_follow),
            test!(tampered::a_signed_bundle_cannot_be_written_anew),
            test!(tampered::the_command_says_what_is_wrong_and_exits_so),
            test!(tampered::no_path_of_a_bundle_leads_out_of_it),
            test!(tampered::what_is_no_file_is_named_and_not_waited_for),
            test!(tampered::a_signature_that_was_taken_away_is_missed),
            test!(tampered::a_manifest_of_another_schema_is_not_guessed_at),
        ],
    )
}
