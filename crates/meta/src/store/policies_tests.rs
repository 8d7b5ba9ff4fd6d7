use super::super::fixture::*;
use super::*;
use weft_format::records::Kind;

#[test]
fn equal_policies_have_one_id() {
    let (store, _) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let other = PolicyRecord { code: "rs:2+1".into(), write_margin: 1 };
    let id = store.set_policy(directory, &other, at(5)).unwrap();
    assert_ne!(id, store.volume().default_policy);
    assert_eq!(store.set_policy(directory, &other, at(5)).unwrap(), id);
    assert_eq!(store.policy(id).unwrap(), other);
    assert_eq!(store.policies().unwrap(), [(PolicyId(0), default_policy()), (id, other.clone())]);
    let attributes = store.attributes(directory).unwrap();
    assert_eq!((attributes.policy, attributes.ctime), (id, at(5)));
    let child = store.create(directory, b"child", &new_inode(Kind::File), at(6)).unwrap();
    assert_eq!(child.policy, id);
    assert_eq!(store.set_policy(directory, &default_policy(), at(7)).unwrap(), PolicyId(0));
    assert_eq!(store.attributes(child.ino).unwrap().policy, id);
    assert_eq!(kind_of(&store.set_policy(file, &other, at(8)).unwrap_err()), "NotDirectory");
    assert_eq!(kind_of(&store.policy(PolicyId(77)).unwrap_err()), "Damaged");
    assert_clean(&store);
}
