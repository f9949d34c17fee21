//! Texts that want to be more than text.

use super::*;

/// What a server may put into a sentence that quotes it.
const HOSTILE: &str = "\"a\" 'b' | c <script>alert(1)</script> ]]> =cmd|' /C calc'!A0\n::error::x\r\n##[error]y \
                       [z](http://evil.example) ![i](x.png) @someone https://evil.example `code` {0} \u{1b}[2J \u{202e}";

fn hostile() -> (Results, RunFacts) {
    let broken = answer(Question::Eof, Verdict::Broken, HOSTILE);
    let known = Answer {
        known: true,
        ..answer(Question::Quiet, Verdict::Broken, HOSTILE)
    };
    let run = results(vec![
        trial(&name("deploy", CrashPoint::Sent), vec![broken, known]),
        TrialResult::ignored(&name("notes", CrashPoint::Sent), HOSTILE),
    ]);
    let mut facts = facts();
    facts.population.clear();
    facts.drills[0].controls = vec![HOSTILE.to_owned(), "=1+1".to_owned()];
    facts.drills[0].about = Some(HOSTILE.to_owned());
    facts.drills[0].server.command = vec!["@SUM(A1)".to_owned()];
    facts.drills[0].known = BTreeMap::from([(Question::Quiet, HOSTILE.to_owned())]);
    facts.drills[0].file = "drills/a,b:c\n::error::d.yaml".to_owned();
    (run, facts)
}

#[test]
fn no_control_character_reaches_a_file() {
    let (run, facts) = hostile();
    let ended = EndedRun::new(&run, &facts, false);
    for (name, text) in files(&ended).unwrap() {
        let bad = text
            .chars()
            .find(|c| (c.is_control() && *c != '\n' && *c != '\r') || *c == '\u{202e}');
        assert_eq!(bad, None, "{name}");
    }
}

#[test]
fn every_annotation_is_one_command_on_one_line() {
    let (run, facts) = hostile();
    let said = render_annotations(&EndedRun::new(&run, &facts, false), "runs/x");
    let commands: Vec<&str> = said.lines().collect();
    assert_eq!(commands.len(), 3, "{said}");
    assert!(commands[0].starts_with(
        "::error file=tools/my drills/drills/a%2Cb%3Ac %3A%3Aerror%3A%3Ad.yaml,line=1,title="
    ));
    assert!(commands[1].starts_with("::warning "));
    assert!(commands[2].starts_with("::notice "));
    assert!(!said.contains('\r'));
}

#[test]
fn a_percent_sign_is_no_escape() {
    let broken = answer(Question::Eof, Verdict::Broken, "100%0A::error::x");
    let run = results(vec![trial(&name("deploy", CrashPoint::Sent), vec![broken])]);
    let said = render_annotations(&EndedRun::new(&run, &facts(), false), "runs/x");
    assert!(said.contains("100%250A::error::x"), "{said}");
}

#[test]
fn a_message_of_sarif_has_no_link_and_no_placeholder() {
    let (run, facts) = hostile();
    let log = sarif(&run, &facts);
    let text = log["results"][0]["message"]["text"].as_str().unwrap();
    assert!(text.contains("[z] (http"), "{text}");
    assert!(text.contains("{{0}}"), "{text}");
    assert!(!text.contains("]("), "{text}");
}

#[test]
fn no_cell_of_the_csv_is_a_formula() {
    let (run, facts) = hostile();
    let matrix = Matrix::of(&[EndedRun::new(&run, &facts, false)]);
    let text = render_csv(&matrix).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut lines = 0;
    for record in reader.records() {
        lines += 1;
        for field in &record.unwrap() {
            assert!(!field.starts_with(['=', '+', '-', '@']), "{field}");
        }
    }
    // Two controls of one drill, and one of the other.
    assert_eq!(lines, 3 * Question::ALL.len());
    assert!(text.contains("'=1+1"), "{text}");
}

#[test]
fn the_page_has_no_tag_of_theirs() {
    let (run, facts) = hostile();
    let page = render_html(&Matrix::of(&[EndedRun::new(&run, &facts, false)])).unwrap();
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn a_command_to_copy_runs_nothing_else() {
    let mut run = eventful();
    run.trials[1].name = "deploy::sent; $(touch /tmp/x) 'y'".to_owned();
    let said = render_summary(&EndedRun::new(&run, &facts(), false));
    let expected = "`cargo drill 'deploy::sent; $(touch /tmp/x) '\\''y'\\''' --exact`";
    assert!(said.contains(expected), "{said}");
}
