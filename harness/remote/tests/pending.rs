//! Connections held pending, as the fallback cell holds them: no packet socket, the kernel's own repetitions.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::bench::{Bench, read};
use super::routes::BUILDS;
use crate::journal::Event;
use crate::remote::Hold;

/// Asks from a thread of its own, since connecting blocks while it is pending.
fn ask_beside(bench: &Bench) -> std::thread::JoinHandle<u16> {
    let port = bench.port;
    std::thread::spawn(move || {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = b"POST /builds HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{}";
        std::io::Write::write_all(&mut client, head).unwrap();
        read(&mut client).status
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_held_before_its_first_byte_and_goes_on_at_the_release() {
    let bench = Bench::new(BUILDS).await;
    let looked = Arc::new(Mutex::new(Vec::new()));
    let looks = Arc::clone(&looked);
    let look = move |connection| looks.lock().unwrap().push(connection);
    let hold = Hold::Connection { nth: 1 };
    bench.remote.arm(hold, Some(Arc::new(look))).await.unwrap();
    let client = ask_beside(&bench);
    bench
        .until(|event| matches!(event, Event::ConnectionHeld { .. }).then_some(()))
        .await;
    assert_eq!(*looked.lock().unwrap(), [1]);
    assert_eq!(bench.kinds(), ["connection-sought", "connection-held"]);
    bench.remote.release().await;
    let status = tokio::task::spawn_blocking(|| client.join().unwrap()).await;
    assert_eq!(status.unwrap(), 201);
    assert_eq!(
        bench.kinds()[2..6],
        [
            "remote-released",
            "connection-released",
            "connection-accepted",
            "request-received"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_connections_are_looked_at_and_let_through() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Connection { nth: 2 }).await;
    let first = ask_beside(&bench);
    let status = tokio::task::spawn_blocking(|| first.join().unwrap()).await;
    assert_eq!(status.unwrap(), 201);
    let second = ask_beside(&bench);
    bench
        .until(|event| matches!(event, Event::ConnectionHeld { connection: 2 }).then_some(()))
        .await;
    assert_eq!(bench.remote.effects().len(), 1);
    bench.remote.release().await;
    let status = tokio::task::spawn_blocking(|| second.join().unwrap()).await;
    assert_eq!(status.unwrap(), 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_before_arming_are_served_while_the_door_is_closed() {
    let bench = Bench::new(BUILDS).await;
    let mut early = bench.send_bytes(b"GET /builds HTTP/1.1\r\nHost: r\r\n");
    bench.arm(Hold::Connection { nth: 1 }).await;
    std::io::Write::write_all(&mut early, b"\r\n").unwrap();
    let status = tokio::task::spawn_blocking(move || read(&mut early).status).await;
    assert_eq!(status.unwrap(), 200);
}
