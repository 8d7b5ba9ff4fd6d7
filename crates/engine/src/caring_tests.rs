use super::*;
use std::sync::mpsc;
use std::time::Duration;
use weft_env::Env;
use weft_format::records::{PlacementRule, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{PolicyId, VolumeId};
use weft_meta::engines::MemoryKv;

/// A runtime of one thread serves a task while another one opens nodes.
#[test]
fn other_tasks_go_on_while_a_worker_follows_the_nodes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads");
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let (policy, env) = (PolicyRecord::of("rs:4+2", Some(1)), Env::system());
    let store =
        Store::format(Arc::new(MemoryKv::default()), &volume, &policy, Timestamp::default(), &env).expect("formatted");
    let (sender, received) = mpsc::channel();
    let received = Mutex::new(received);
    let open_nodes = move |_: &Store| {
        received.lock().recv_timeout(Duration::from_secs(10)).expect("the other task runs meanwhile");
        Ok(Vec::new())
    };
    let node_watcher = Mutex::new(NodeWatcher::new(Box::new(open_nodes)));
    let following = runtime.spawn(async move {
        let other = tokio::spawn(async move { sender.send(()) });
        let followed = follow(&node_watcher, &store, &Fleet::new(Vec::new(), PlacementRule::default(), &env));
        (followed, other.await)
    });
    let (followed, other) = runtime.block_on(following).expect("no panic");
    assert_eq!((followed, other.expect("no panic")), (Ok(()), Ok(())));
}
