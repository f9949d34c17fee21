//! `cargo drill`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(played) = cargo_drill::roles::play() {
        return played;
    }
    let path = std::env::args().nth(1).unwrap();
    let file = cargo_drill::spec::load(std::path::Path::new(&path))
        .map_err(|e| eprintln!("{:?}", miette::Report::new(e)))
        .unwrap();
    let (_tx, rx) = tokio::sync::watch::channel(false);
    for t in file.trials() {
        let bundle =
            std::path::PathBuf::from(format!("/tmp/bundles/{}", t.name.replace("::", "__")));
        let _ = std::fs::remove_dir_all(&bundle);
        let trial = cargo_drill::trial::Trial {
            name: t.name.clone(),
            drill: std::sync::Arc::new(file.drill.clone()),
            crash: t.crash,
        };
        let s = cargo_drill::trial::Surroundings {
            cell: match std::env::var("CARGO_DRILL_CELL").as_deref() {
                Ok("subreaper") => cargo_drill::cell::Wanted::Subreaper,
                _ => cargo_drill::cell::Wanted::Best,
            },
            root: file.root.clone(),
            drill_folder: file.path.parent().unwrap().to_owned(),
            fixture: std::env::current_exe()
                .ok()
                .map(|p| p.with_file_name("drill-fixture")),
            interrupted: rx.clone(),
        };
        let start = std::time::Instant::now();
        let j = cargo_drill::trial::run(&trial, &s, &bundle);
        println!("{} {:?} {:#?}", t.name, start.elapsed(), j);
    }
    ExitCode::SUCCESS
}
