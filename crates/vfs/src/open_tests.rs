use super::*;
use weft_env::Env;
use weft_env::SystemClock;
use weft_format::records::{NodeState, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{PolicyId, VolumeId};
use weft_meta::engines::MemoryKv;
use weft_meta::owner::{Holder, OwnerLock};
use weft_nodes::NodeUrl;

fn record(folder: &Path, name: &str) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        url: NodeUrl::folder(&folder.join(name)).to_string(),
        state: NodeState::Active,
        domain: name.into(),
        weight: 1,
        secret: Default::default(),
        limits: NodeLimits::default(),
    }
}

fn store(folder: &Path) -> Store {
    let kv = Arc::new(MemoryKv::default());
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    Store::format(kv.clone(), &volume, &PolicyRecord::of("rs:2+1", Some(1)), Timestamp::default(), &Env::system())
        .expect("formatted");
    let store = Store::open(kv, &Env::system()).expect("opened");
    for (id, name) in [(1, "a"), (2, "b")] {
        store.add_node(NodeId(id), &record(folder, name)).expect("added");
    }
    store
}

fn anew() -> Opener {
    Opener::new(Kinds::new(weft_nodes::kinds::local()))
}

/// Which of the nodes are the very same as before.
fn same(before: &Members, now: &Members) -> Vec<bool> {
    let known = |id| before.iter().find(|(known, ..)| *known == id);
    now.iter().map(|(id, _, node)| known(*id).is_some_and(|(.., before)| Arc::ptr_eq(before, node))).collect()
}

#[test]
fn nodes_that_are_reached_as_before_stay_open() {
    let folder = Path::new("/nowhere");
    let (store, opener) = (store(folder), anew());
    let first = opener.members(&store).expect("opened");
    store.add_node(NodeId(3), &record(folder, "c")).expect("added");
    let heavy = NodeRecord { weight: 5, state: NodeState::ReadOnly, ..record(folder, "a") };
    store.update_node(NodeId(1), &record(folder, "a"), &heavy).expect("changed");
    let second = opener.members(&store).expect("opened");
    assert_eq!(same(&first, &second), [true, true, false]);
    assert_eq!(second[0].1, heavy);

    let limits = NodeLimits { requests: 1, ..NodeLimits::default() };
    store.update_node(NodeId(1), &heavy, &NodeRecord { limits, ..heavy.clone() }).expect("changed");
    let elsewhere = NodeRecord { url: record(folder, "z").url, ..record(folder, "b") };
    store.update_node(NodeId(2), &record(folder, "b"), &elsewhere).expect("changed");
    let third = opener.members(&store).expect("opened");
    assert_eq!(same(&second, &third), [false, false, true]);

    let leaving = NodeRecord { state: NodeState::Draining, ..record(folder, "c") };
    store.update_node(NodeId(3), &record(folder, "c"), &leaving).expect("changed");
    assert!(store.remove_node(NodeId(3), true).expect("nothing refers to it"));
    assert_eq!(opener.members(&store).expect("opened").len(), 2);
}

#[test]
fn a_volume_that_is_in_use_is_told_from_one_that_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let url = MetaUrl::from(path.as_path());
    url.create().expect("made");
    let mount = OwnerLock::acquire(&path, &Holder::this_process(Some(Path::new("/mnt")), &SystemClock), &SystemClock)
        .expect("free");
    for access in [Access::Owner, Access::ShortLived] {
        let error = open_store(&url, access, None, &Env::system()).err();
        assert!(matches!(&error, Some(MetaError::InUse(who)) if who.contains("/mnt")), "{error:?}");
    }
    drop(mount);
    let error = open_store(&url, Access::Owner, None, &Env::system()).err();
    assert!(matches!(&error, Some(MetaError::Refused(_))), "it is not formatted: {error:?}");
}

#[tokio::test]
async fn a_change_of_other_nodes_does_not_make_a_wiped_folder_an_absent_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, opener) = (store(folder.path()), anew());
    let identity = NodeIdentity { volume: VolumeId(7), node: NodeId(1) };
    weft_nodes::FolderNode::create(&folder.path().join("a"), "a", identity).expect("made");
    let kind = |members: Members| async move { members[0].2.space().await.map_err(|error| error.kind) };
    assert!(kind(opener.members(&store).expect("opened")).await.is_ok());
    std::fs::remove_dir_all(folder.path().join("a")).expect("removed");
    let wiped = Err(weft_nodes::NodeErrorKind::Wiped);
    assert_eq!(kind(opener.members(&store).expect("opened")).await, wiped);
    store.add_node(NodeId(3), &record(folder.path(), "c")).expect("added");
    assert_eq!(kind(opener.members(&store).expect("opened")).await, wiped);
    // Whoever never saw it cannot tell.
    let unknown = Err(weft_nodes::NodeErrorKind::Unavailable);
    assert_eq!(kind(anew().members(&store).expect("opened")).await, unknown);
}
