use super::*;
use crate::dial::Tcp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weft_env::Env;

/// One answer for each request; after the last of a connection that is closed.
type Script = Vec<Vec<&'static str>>;

async fn server(connections: Script) -> (Connections, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        let mut asked_count = 0;
        for answers in connections {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in answers {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                asked_count += 1;
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        asked_count
    });
    (Connections::new(&authority, None, Arc::new(Tcp), &Env::system().clock), serving)
}

fn request() -> Request<Parts> {
    Request::get("/x").body(Parts::of(&[])).unwrap()
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_not() {
    let (connections, serving) = server(vec![vec![HELLO; 3], vec![HELLO; 2]]).await;
    for _ in 0..5 {
        let (_, body) = connections.ask(request(), 5, &Watch::default()).await.unwrap();
        assert_eq!(body, "hello");
        // Where the server has closed it, it did so by now; the runtime sees that when it looks at the network again.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(serving.await.unwrap(), 5);
}

#[test]
fn a_thread_that_waits_itself_has_connections_of_its_own_and_sees_which_were_closed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (connections, serving) = runtime.block_on(server(vec![vec![HELLO; 3], vec![HELLO; 2]]));
    for _ in 0..5 {
        let (_, body) = waiter::block_on(runtime.handle(), connections.ask(request(), 5, &Watch::default())).unwrap();
        assert_eq!(body, "hello");
        assert!(connections.idle.lock().iter().all(|(connection, _)| connection.own.is_some()));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(runtime.block_on(serving).unwrap(), 5);
    // The runtime does not use them, nor does the thread those of the runtime.
    let (connections, _serving) = runtime.block_on(server(vec![vec![HELLO; 2], vec![HELLO; 2]]));
    waiter::block_on(runtime.handle(), connections.ask(request(), 5, &Watch::default())).unwrap();
    assert!(connections.idle.lock().last().unwrap().0.own.is_some());
    assert!(runtime.block_on(async { connections.take().is_none() }));
    assert!(waiter::block_on(runtime.handle(), async { connections.take().is_some() }));
}

#[tokio::test]
async fn what_was_kept_too_long_is_not_used_again() {
    let (connections, serving) = server(vec![vec![HELLO], vec![HELLO]]).await;
    connections.ask(request(), 5, &Watch::default()).await.unwrap();
    for (_, since) in connections.idle.lock().iter_mut() {
        *since -= IDLE + Duration::from_secs(1);
    }
    connections.ask(request(), 5, &Watch::default()).await.unwrap();
    assert_eq!(connections.idle.lock().len(), 1);
    assert_eq!(serving.await.unwrap(), 2);
}

#[tokio::test]
async fn answers_that_are_cut_off_too_long_or_none_are_errors_and_their_connections_are_closed() {
    let cut_off = "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello";
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let of_two_lengths =
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    for (answer, expected) in
        [(cut_off, "cut off"), (HELLO, "longer"), (endless, "longer"), (of_two_lengths, "longer"), ("what?", "broke")]
    {
        let bytes_max = if answer == HELLO { 4 } else { 50 };
        let (connections, serving) = server(vec![vec![answer]]).await;
        let error = connections.ask(request(), bytes_max, &Watch::default()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(connections.idle.lock().is_empty());
        serving.await.unwrap();
    }
    let (connections, serving) = server(vec![]).await;
    serving.await.unwrap();
    assert!(matches!(connections.ask(request(), 5, &Watch::default()).await, Err(ConnectionError::Connect(_))));
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connections =
        Connections::new(&listener.local_addr().unwrap().to_string(), None, Arc::new(Tcp), &Env::system().clock);
    let (mut stream, _) = {
        let watch = Watch::default();
        let mut asking = pin!(connections.ask(request(), 5, &watch));
        tokio::select! {
            _ = &mut asking => panic!("nobody answers"),
            accepted = listener.accept() => accepted.unwrap(),
        }
    };
    // To the end of what was sent, which there is.
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(connections.idle.lock().is_empty());
}
