use super::*;

/// A node that sends back what it gets, at the end of these cables.
fn echo(cables: [Arc<Cable>; 2]) -> (Relay, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let node = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let _ = io::copy(&mut &stream, &mut &stream);
        let _ = stream.shutdown(Shutdown::Both);
    });
    let relay = Relay::start(node, cables).unwrap();
    let stream = TcpStream::connect(relay.address()).unwrap();
    (relay, stream)
}

/// Sends `sent` and reads until the end; the seconds that it took.
fn there_and_back(stream: &TcpStream, sent: &[u8]) -> f64 {
    let began = Instant::now();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&mut &*stream).write_all(sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&mut &*stream).read_to_end(&mut received).unwrap();
    });
    assert_eq!(received, sent);
    began.elapsed().as_secs_f64()
}

#[test]
fn bytes_travel_unchanged_and_no_faster_than_the_slower_cable() {
    let sent: Vec<u8> = (0..1_000_000u32).map(|index| (index % 251) as u8).collect();
    let (_relay, stream) = echo([Cable::new(Line::even(5e6)), Cable::new(Line::even(4e6))]);
    let seconds = there_and_back(&stream, &sent);
    // The catch-up of each direction is all that may be missing of a quarter of a second.
    assert!(seconds > 0.25 - 0.02, "{seconds}");
}

#[test]
fn latency_is_paid_both_ways() {
    let line = Line { latency: Duration::from_millis(60), ..Line::unlimited() };
    let (_relay, stream) = echo([Cable::new(line), Cable::new(Line::unlimited())]);
    let seconds = there_and_back(&stream, b"a word");
    assert!(seconds >= 0.12, "{seconds}");
}

#[test]
fn jitter_adds_to_latency_and_others_take_their_part_of_a_line() {
    let (latency, jitter) = (Duration::from_millis(10), Duration::from_millis(40));
    let cable = Cable::new(Line { latency, jitter, load: 0.75, ..Line::even(1e6) });
    let latencies: Vec<Duration> = (0..100).map(|_| cable.latency()).collect();
    assert!(latencies.iter().all(|one| (latency..latency + jitter).contains(one)));
    let (least, most) = (latencies.iter().min().unwrap(), latencies.iter().max().unwrap());
    assert!(*most - *least > jitter / 2, "{least:?} to {most:?}");
    // A quarter of a megabyte a second is left.
    let first = cable.carry(Direction::Down, 100_000);
    assert_eq!(cable.carry(Direction::Down, 100_000) - first, Duration::from_millis(400));
}

#[test]
fn the_directions_do_not_share_bandwidth_and_a_cable_may_change() {
    let cable = Cable::new(Line::even(1.0));
    let line = Line { up_bytes_per_second: 2e6, ..Line::unlimited() };
    cable.set_line(line);
    let began = Instant::now();
    let up = cable.carry(Direction::Up, 1_000_000);
    let down = cable.carry(Direction::Down, 1_000_000);
    assert!(up >= began + Duration::from_millis(490) && down <= Instant::now());
    // Two that share it wait for each other.
    assert_eq!(cable.carry(Direction::Up, 1_000_000) - up, Duration::from_millis(500));
}

#[test]
fn a_relay_that_is_dropped_and_a_node_that_is_gone_end_their_connections() {
    let (relay, mut stream) = echo([Cable::new(Line::unlimited()), Cable::new(Line::unlimited())]);
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    drop(relay);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let relay = Relay::start(nobody, [Cable::new(Line::unlimited()), Cable::new(Line::unlimited())]).unwrap();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}
