use super::*;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Both ends of a connection; the first is waited for by the thread that asks.
fn pair() -> (OwnStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    own.set_nonblocking(true).unwrap();
    (OwnStream::new(own), listener.accept().unwrap().0)
}

#[test]
fn what_others_do_wakes_the_thread() {
    let runtime = runtime();
    assert_eq!(block_on(runtime.handle(), async { 7 }), 7);
    let began = Instant::now();
    block_on(runtime.handle(), async { tokio::time::sleep(Duration::from_millis(20)).await });
    assert!(began.elapsed() >= Duration::from_millis(20));
    let done = block_on(runtime.handle(), async {
        let slow = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(5)).await });
        let blocking = tokio::task::spawn_blocking(|| 8);
        slow.await.unwrap();
        blocking.await.unwrap()
    });
    assert_eq!(done, 8);
}

#[test]
fn an_answer_is_received_by_the_thread_that_asked_and_many_follow_each_other() {
    let (runtime, (mut own, mut other)) = (runtime(), pair());
    let answering = std::thread::spawn(move || {
        let mut question = [0; 4];
        for _ in 0..1000 {
            other.read_exact(&mut question).unwrap();
            other.write_all(&question).unwrap();
        }
    });
    for number in 0..1000_u32 {
        let answer = block_on(runtime.handle(), async {
            own.write_u32(number).await.unwrap();
            own.read_u32().await.unwrap()
        });
        assert_eq!(answer, number);
    }
    answering.join().unwrap();
    // The other end is closed.
    let ended = block_on(runtime.handle(), async {
        own.0.look_again();
        own.read_u32().await
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn much_is_sent_and_received_at_once() {
    const BYTES: usize = 8 << 20;
    let (runtime, (own, mut other)) = (runtime(), pair());
    let echoing = std::thread::spawn(move || {
        let mut all = vec![0; BYTES];
        other.read_exact(&mut all).unwrap();
        other.write_all(&all).unwrap();
    });
    let sent: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let received = block_on(runtime.handle(), async {
        let (mut reader, mut writer) = tokio::io::split(own);
        let mut received = vec![0; BYTES];
        tokio::try_join!(writer.write_all(&sent), reader.read_exact(&mut received)).unwrap();
        received
    });
    assert!(received == sent);
    echoing.join().unwrap();
}

#[test]
fn a_deadline_ends_the_wait_for_a_socket_and_a_closed_one_is_not_waited_for() {
    let (runtime, (mut own, _other)) = (runtime(), pair());
    let late = block_on(runtime.handle(), async {
        let late = tokio::time::timeout(Duration::from_millis(20), own.read_u32()).await.is_err();
        drop(own);
        tokio::time::sleep(Duration::from_millis(5)).await;
        late
    });
    assert!(late);
}

#[test]
fn wakes_from_another_thread_are_never_lost() {
    let (runtime, (mut own, _other)) = (runtime(), pair());
    let (sender, receiver) = mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
    let waking = std::thread::spawn(move || receiver.into_iter().for_each(|waiting| waiting.send(()).unwrap()));
    for _ in 0..20_000 {
        let (done, is_done) = tokio::sync::oneshot::channel();
        sender.send(done).unwrap();
        block_on(runtime.handle(), async {
            tokio::select! {
                _ = own.read_u32() => panic!("nobody says anything"),
                done = is_done => done.unwrap(),
            }
        });
    }
    drop(sender);
    waking.join().unwrap();
}

#[test]
fn a_thread_that_waits_already_leaves_the_rest_to_the_runtime() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    assert!(!is_here());
    block_on(runtime.handle(), async { assert!(is_here()) });
    assert!(!is_here());
    let (mut own, _other) = pair();
    let error = handle.block_on(own.read_u32()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
}
