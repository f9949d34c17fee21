//! Chromium, without a screen and without a network, and what it makes of a page.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde::Deserialize;

/// What a page looks like from within.
#[derive(Debug, Deserialize)]
pub struct Seen {
    /// Of the document, as it is when all is done.
    pub title: String,
    /// Sections of trials.
    pub trials: usize,
    /// Elements that no page of ours has.
    pub of_server: Vec<String>,
    /// Attributes that are event handlers.
    pub handlers: usize,
    /// Links that lead away from the bundle.
    pub far_links: Vec<String>,
    /// Links into the page.
    pub links: usize,
    /// Those of them that lead nowhere.
    pub dead_links: Vec<String>,
    pub wider_than_the_window: Vec<String>,
    /// Words of a picture that do not fit into it.
    pub cut_labels: Vec<String>,
    /// Words of a picture that something else is drawn through.
    pub crossed_labels: Vec<String>,
}

/// Looks at the page and writes what it sees into the place of the page's text. It stands in a file of its own in a frame
/// around the page, so that the page is as it was.
const LOOK: &str = include_str!("look.html");

/// Opens a page in a window of this width, in CSS pixels.
pub fn look(page: &Path, width: u32) -> Seen {
    let name = page.file_name().unwrap().to_str().unwrap();
    let around = page.with_file_name(format!("look-at-{name}"));
    let text = LOOK
        .replace("/*page*/", name)
        .replace("/*width*/", &width.to_string());
    fs::write(&around, text).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        // The frame is another file, and this one is to see into it.
        .args([
            "--allow-file-access-from-files",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(&around)
        .output()
        .expect("chromium is needed to test the page: apt-get install chromium");
    let dom = String::from_utf8_lossy(&output.stdout);
    let said = dom
        .split_once("seen:")
        .and_then(|(_, rest)| rest.split_once(":seen"));
    let (said, _) = said.unwrap_or_else(|| {
        panic!(
            "chromium saw nothing: {dom}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    let said = said
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Whoever asks this address was made to: nothing of ours knows it.
pub struct Catcher {
    port: u16,
    caught: Arc<Mutex<Vec<String>>>,
}

impl Catcher {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let caught = Arc::new(Mutex::new(Vec::new()));
        let catches = Arc::clone(&caught);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut head = [0; 512];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                catches.lock().unwrap().push(head);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            }
        });
        Self { port, caught }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn caught(&self) -> Vec<String> {
        self.caught.lock().unwrap().clone()
    }
}
