//! Chains of daemons, on real sockets.

use super::*;
use crate::signed_request::SignedRequest;
use weft_codes::{Matrix, Program};
use weft_env::Env;
use weft_nodes::Link;
use weft_nodes::combine::{Combination, Part, combine_gets};

const DATA_BYTES: u64 = 40_000;
const TIMEOUT: Duration = Duration::from_secs(20);

fn own_key(number: u8) -> Option<Key> {
    Some(Key::new([number; 32]))
}

/// Daemons with a key each, some with TLS, each with a shard of its own.
async fn chain(count: u8) -> Vec<(Served, DaemonNode)> {
    let mut chain = Vec::new();
    for number in 0..count {
        let served = if number % 2 == 1 { serve_tls(own_key(number)).await } else { serve(own_key(number)).await };
        let node = node_of(&served, number, own_key(number)).await;
        node.put(key(number.into(), 0), &[shard(IDENTITY.volume, key(number.into(), 0), DATA_BYTES, number.into())])
            .await
            .unwrap();
        chain.push((served, node));
    }
    chain
}

async fn node_of(served: &Served, number: u8, key: Option<Key>) -> DaemonNode {
    let identity = NodeIdentity { node: NodeId(100 + u128::from(number)), ..IDENTITY };
    DaemonNode::create(&served.url(), &format!("n{number}"), identity, key, &Env::system()).await.unwrap()
}

/// What the helper of that number is to compute.
fn combination(number: usize) -> Combination {
    let coefficients = Matrix::from_fn(2, 2, |row, column| (7 * number + 3 * row + column + 1) as u8);
    let part = |start: u64| Part { starts: vec![start, start + 9_000], bytes: 3_000 };
    let program = Program::from_matrix(&coefficients);
    Combination { payload_bytes: DATA_BYTES, program, parts: vec![part(0), part(12_345)] }
}

/// The same request, but for what `change` makes of it.
fn changed(link: &Link, change: impl FnOnce(&mut SignedRequest)) -> Link {
    let mut request = link.request::<SignedRequest>().expect("a daemon's").clone();
    change(&mut request);
    Link::new(link.shard(), request)
}

/// The links from the last to the first.
fn linked(nodes: &[&DaemonNode], timeout: impl Fn(usize) -> Duration) -> Link {
    let mut link: Option<Link> = None;
    for (number, node) in nodes.iter().enumerate().rev() {
        link = node.link(key(number as u64, 0), &combination(number), link.as_ref(), timeout(number));
    }
    link.expect("a link")
}

fn nodes(chain: &[(Served, DaemonNode)]) -> Vec<&DaemonNode> {
    chain.iter().map(|(_, node)| node).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_out_of_a_chain_is_the_sum_of_what_each_computes() {
    let chain = chain(5).await;
    let mut right = vec![0; 12_000];
    for (number, node) in nodes(&chain).into_iter().enumerate() {
        let stored = key(number as u64, 0);
        let own = combine_gets(node, "plainly", IDENTITY.volume, stored, &combination(number)).await.unwrap();
        right.iter_mut().zip(&own).for_each(|(sum, own)| *sum ^= own);
    }
    for _ in 0..3 {
        let sum = nodes(&chain)[0].pull(linked(&nodes(&chain), |_| TIMEOUT)).await.unwrap();
        assert!(sum == right);
    }
    let asked = chain[4].0.raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(asked.contains("weft_node_requests_total{request=\"combine\",status=\"200\"} 3"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_made_once_and_not_changed() {
    let chain = chain(2).await;
    let link = linked(&nodes(&chain), |_| TIMEOUT);
    nodes(&chain)[0].pull(link.clone()).await.unwrap();
    assert_eq!(refusal(nodes(&chain)[0].pull(link).await).0, NodeErrorKind::Denied, "repeated");

    // A helper has no key but its own: what it asks of others otherwise than it was told is refused.
    let other = changed(&linked(&nodes(&chain), |_| TIMEOUT), |request| request.shard = key(1, 0));
    assert_eq!(refusal(nodes(&chain)[0].pull(other).await).0, NodeErrorKind::Denied);
    let body = changed(&linked(&nodes(&chain), |_| TIMEOUT), |request| {
        let mut bytes = request.body.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        request.body = bytes.into();
    });
    assert_eq!(refusal(nodes(&chain)[0].pull(body).await).0, NodeErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_breaks_further_on_is_not_blamed_on_the_first() {
    let mut chain = chain(4).await;
    // Somebody else is where the third was.
    let strange = serve(secret()).await;
    let stranger = node_of(&strange, 77, secret()).await;
    let third = nodes(&chain)[2];
    let gone = nodes(&chain)[3].link(key(3, 0), &combination(3), None, TIMEOUT).unwrap();
    let elsewhere = third.link(key(2, 0), &combination(2), Some(&gone), TIMEOUT).unwrap();
    let elsewhere = changed(&elsewhere, |request| request.url = strange.url());
    let first = nodes(&chain)[0].link(key(0, 0), &combination(0), Some(&elsewhere), TIMEOUT).unwrap();
    let (kind, detail) = refusal(nodes(&chain)[0].pull(first).await);
    assert_eq!(kind, NodeErrorKind::Unsupported, "{detail}");
    drop(stranger);

    // The last is not there, and then takes connections and says nothing.
    let (last, _) = chain.pop().unwrap();
    let silent = last.address;
    let with_last = |chain: &[(Served, DaemonNode)], timeout: fn(usize) -> Duration| {
        let url = DaemonUrl { authority: silent.to_string(), tls: None };
        let node =
            DaemonNode::open(&url, "n3", NodeIdentity { node: NodeId(103), ..IDENTITY }, own_key(3), &Env::system())
                .unwrap();
        let mut all = nodes(chain);
        all.push(&node);
        linked(&all, timeout)
    };
    last.end().await;
    let (kind, detail) = refusal(nodes(&chain)[0].pull(with_last(&chain, |_| TIMEOUT)).await);
    assert!(kind == NodeErrorKind::Unsupported && detail.contains(&silent.to_string()), "{kind:?} {detail}");
    let _listener = TcpListener::bind(silent).await.unwrap();
    let shorter = |number: usize| TIMEOUT - Duration::from_secs(6) * number as u32;
    let (kind, detail) = refusal(nodes(&chain)[0].pull(with_last(&chain, shorter)).await);
    assert!(kind == NodeErrorKind::Unsupported && detail.contains("does not answer"), "{kind:?} {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_without_a_key_asks_nobody() {
    let (open, keyed) = (serve(None).await, serve(own_key(1)).await);
    let (first, last) = (node_of(&open, 0, None).await, node_of(&keyed, 1, own_key(1)).await);
    for (node, number) in [(&first, 0), (&last, 1)] {
        node.put(key(number, 0), &[shard(IDENTITY.volume, key(number, 0), DATA_BYTES, number)]).await.unwrap();
    }
    let (kind, detail) = refusal(first.pull(linked(&[&first, &last], |_| TIMEOUT)).await);
    assert!(kind == NodeErrorKind::Unsupported && detail.contains("has no key"), "{kind:?} {detail}");
    // It may be the last.
    let (onward, behind) = (first.link(key(0, 0), &combination(0), None, TIMEOUT), &last);
    let link = behind.link(key(1, 0), &combination(1), onward.as_ref(), TIMEOUT).unwrap();
    assert_eq!(last.pull(link).await.unwrap().len(), 12_000);
}
