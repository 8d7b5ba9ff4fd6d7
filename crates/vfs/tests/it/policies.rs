//! Changing one's mind about the code of files, while they are read and written.

use crate::support::{CALLER, World};
use std::collections::HashSet;
use weft_format::Ino;
use weft_format::records::{RetainedRecord, Succession, Wanted};
use weft_vfs::{Caller, Demand, POLICY_XATTR, Volume};

fn create(volume: &Volume, parent: Ino, name: &str, data: &[u8]) -> Ino {
    let (attributes, handle) = volume.create(&CALLER, parent, name.as_bytes(), 0o644, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, data, false).expect("writes");
    volume.release(handle);
    attributes.ino
}

fn read(volume: &Volume, ino: Ino) -> Vec<u8> {
    let handle = volume.open(ino, 0).expect("opens");
    let data = volume.read(handle, 0, 64 << 20).expect("reads").to_vec();
    volume.release(handle);
    data
}

/// The codes of the segments that a file has bytes in.
fn codes(volume: &Volume, ino: Ino) -> HashSet<String> {
    let extents = volume.store().extents(ino, 0..u64::MAX).expect("metadata can be read");
    let record = |segment| volume.store().segment(segment).expect("metadata can be read").expect("it lives");
    extents.iter().map(|extent| record(extent.segment).code).collect()
}

/// What the care worker does beside a mount; the previous shards go when `keeps` says no.
fn convert(world: &World, keeps: bool) -> usize {
    let (store, transfer) = (world.volume.store(), world.volume.transfer());
    let mut converted = 0;
    for (segment, record) in store.segments(None, usize::MAX).expect("metadata can be read") {
        let Wanted::Code(code) = store.wanted_code(segment, Default::default()).expect("metadata can be read") else {
            continue;
        };
        let recoded = world.runtime.block_on(transfer.recode(segment, &record, &code, None)).expect("recodes");
        let retained = RetainedRecord::of(&record, &recoded.record, 0, 0);
        let previous = retained.clone().map(|retained| retained.record);
        let succession = Succession { retained: retained.filter(|_| keeps), restored: None };
        store.replace_segment(segment, &record, &recoded.record, &succession, None).expect("commits");
        if let Some(previous) = previous.filter(|_| !keeps) {
            world.runtime.block_on(transfer.withdraw(segment, &previous));
        }
        converted += 1;
    }
    converted
}

#[test]
fn a_files_policy_is_that_of_what_is_written_to_it_from_now_on_and_a_conversion_does_the_rest() {
    let world = World::new("replica:3", 12);
    let volume = &world.volume;
    let large = create(volume, Ino::ROOT, "large", &vec![7; 3 << 20]);
    let open = volume.open(large, 0).expect("opens");
    volume.sync().expect("syncs");
    volume.set_policy(Ino::ROOT, "rs:4+2").expect("there are nodes");
    assert_eq!(
        volume.get_xattr(large, POLICY_XATTR).expect("there"),
        b"replica:3 margin 1",
        "what is there stays as it is"
    );
    assert_eq!(convert(&world, true), 0);
    volume.set_policy(large, "rs:8+3").expect("there are nodes");
    assert_eq!(volume.get_xattr(large, POLICY_XATTR).expect("there"), b"rs:8+3");
    // It was open all the while.
    volume.write(open, 3 << 20, &vec![8; 2 << 20], false).expect("writes");
    volume.sync().expect("syncs");
    assert_eq!(codes(volume, large), ["replica:3", "rs:8+3"].map(String::from).into());
    let whole = [vec![7; 3 << 20], vec![8; 2 << 20]].concat();
    assert!(read(volume, large) == whole);
    // The mount knows the previous record; it reads by it while its shards are there, and by the new one when they are not.
    for (keeps, count) in [(true, 1), (false, 2)] {
        assert_eq!(convert(&world, keeps), count);
        assert!(read(volume, large) == whole, "{keeps}");
        volume.set_policy(large, "rs:4+2").expect("there are nodes");
    }
    assert_eq!(codes(volume, large), ["rs:4+2".to_owned()].into());
    volume.release(open);
    world.fsck();
}

#[test]
fn a_segment_of_files_that_want_unlike_codes_is_divided() {
    let world = World::new("replica:3", 12);
    let volume = &world.volume;
    let files: Vec<Ino> =
        (0..10).map(|number| create(volume, Ino::ROOT, &format!("f{number}"), &[number; 9_000])).collect();
    volume.sync().expect("syncs");
    let segments = |ino| {
        let extents = volume.store().extents(ino, 0..u64::MAX).expect("metadata can be read");
        extents.iter().map(|extent| extent.segment).collect::<HashSet<_>>()
    };
    assert_eq!(segments(files[0]), segments(files[9]), "small files share one");
    for ino in &files[..5] {
        volume.set_policy(*ino, "rs:8+3").expect("there are nodes");
    }
    assert_eq!(convert(&world, true), 0, "not all of its files want that");
    world.runtime.block_on(volume.fleet().refresh_space());
    let divided = volume.compact(Demand::Worthwhile, &mut HashSet::new()).expect("compacts");
    assert_eq!((divided.chosen_count, divided.emptied_count), (1, 1));
    for (number, ino) in (0..).zip(&files) {
        let code = if number < 5 { "rs:8+3" } else { "replica:3" };
        assert_eq!(codes(volume, *ino), [code.to_owned()].into());
        assert!(read(volume, *ino) == [number; 9_000]);
    }
    let nothing = volume.compact(Demand::Worthwhile, &mut HashSet::new()).expect("compacts");
    assert_eq!(nothing.chosen_count, 0);
    // Directories hand the rule on as it is.
    let text = b"replica:3 then rs:8+3 after 30d";
    volume
        .set_xattr(&Caller::new(0, CALLER.gid), Ino::ROOT, POLICY_XATTR, text, weft_meta::XattrMode::Any)
        .expect("sets");
    let child = create(volume, Ino::ROOT, "child", b"x");
    assert_eq!(volume.get_xattr(child, POLICY_XATTR).expect("there"), text);
    assert!(volume.set_policy(child, "replica:3 then rs:20+4 after 1d").is_err(), "too few nodes for that, ever");
    world.fsck();
}

#[test]
fn finding_15_a_policy_is_for_the_owner_and_root_to_choose() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    let file = create(volume, Ino::ROOT, "file", b"x");
    let set = |uid, ino| {
        let caller = Caller::new(uid, CALLER.gid);
        volume
            .set_xattr(&caller, ino, POLICY_XATTR, b"replica:3", weft_meta::XattrMode::Any)
            .map_err(|error| error.errno())
    };
    // As where a directory is open to all: the kernel lets everybody write.
    assert_eq!(set(1001, file), Err(libc::EPERM));
    assert_eq!(set(1000, Ino::ROOT), Err(libc::EPERM));
    assert_eq!([set(1000, file), set(0, file), set(0, Ino::ROOT)], [Ok(()); 3]);
    // A user comes to an end, before root does, with an error that says so.
    let mut outcome = Ok(());
    for number in 1.. {
        let own = create(volume, Ino::ROOT, &format!("own{number}"), b"");
        let text = format!("rs:4+2 then replica:3 after {number}s");
        let set = volume.set_xattr(&CALLER, own, POLICY_XATTR, text.as_bytes(), weft_meta::XattrMode::Any);
        if set.is_err() {
            outcome = set;
            break;
        }
    }
    let refused = outcome.expect_err("it ends");
    assert_eq!(refused.errno(), libc::EDQUOT);
    assert!(refused.to_string().contains("use one of them"), "{refused}");
    volume.set_policy(Ino::ROOT, "rs:4+2 then replica:3 after 99d").expect("root makes more");
    world.fsck();
}
