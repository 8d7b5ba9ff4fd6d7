//! Each thing that can be wrong is made wrong, found, and mended where it can be.

use super::*;
use crate::keys::{Counter, Key, Table};
use crate::kv::{Batch, Kv};
use crate::store::fixture::*;
use crate::store::values::{self, Dirent, Usage};
use weft_format::records::{Attributes, Kind};

struct Volume {
    store: Store,
    kv: std::sync::Arc<StrictKv>,
    directory: Ino,
    file: Ino,
    orphan: Ino,
}

/// A directory with a file of two extents and a journal page, a symbolic link, an orphan, a dead segment.
fn sample() -> Volume {
    let (store, kv) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let file = make(&store, directory, "file", Kind::File);
    make(&store, Ino::ROOT, "link", Kind::Symlink);
    let orphan = make(&store, Ino::ROOT, "orphan", Kind::Fifo);
    store.unlink(Ino::ROOT, b"orphan", at(2)).unwrap();
    write(&store, file, 0, 1000, 1);
    write(&store, file, 2000, 1000, 2);
    write(&store, file, 0, 1000, 3);
    let mut commit = file_commit(&store.attributes(file).unwrap(), Vec::new());
    commit.journal = vec![crate::JournalPage { page: 0, ranges: vec![(0, vec![1, 2])] }];
    store.commit_files(&[], &[commit], at(4)).unwrap();
    assert_clean(&store);
    Volume { store, kv, directory, file, orphan }
}

impl Volume {
    fn put(&self, key: Key<'_>, value: Vec<u8>) {
        self.write(key, Some(value));
    }

    fn write(&self, key: Key<'_>, value: Option<Vec<u8>>) {
        self.kv.commit(Batch { writes: vec![(key.encode(), value)], ..Batch::default() }).unwrap();
    }

    fn change(&self, ino: Ino, change: impl FnOnce(&mut Attributes)) {
        let mut attributes = self.store.attributes(ino).unwrap();
        change(&mut attributes);
        self.put(Key::Inode(ino), attributes.encode().to_vec());
    }

    fn dump(&self) -> Vec<crate::kv::Pair> {
        self.kv.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap()
    }
}

/// Breaks the sample, expects the finding, and after a repair everything as it was before.
#[track_caller]
fn mends(break_it: impl Fn(&Volume), sentence: &str) {
    let volume = sample();
    let before = volume.dump();
    break_it(&volume);
    let report = check(&volume.store, &mut |_| {}).unwrap();
    let sentences: Vec<_> = report.findings.iter().map(|(finding, mend)| (finding.to_string(), *mend)).collect();
    assert!(sentences.iter().any(|(found, _)| found == sentence), "{sentences:#?}");
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.findings.iter().any(|(finding, mend)| finding.to_string() == sentence && *mend == Mend::Done));
    assert_clean(&volume.store);
    let after = volume.dump();
    assert_eq!(after.len(), before.len(), "{sentence}");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after, "{}: {sentence}", crate::keys::printable(&before.0));
    }
}

/// Breaks the sample and expects the finding, which no repair touches.
#[track_caller]
fn tells(break_it: impl Fn(&Volume), sentence: &str) {
    let volume = sample();
    break_it(&volume);
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    let sentences: Vec<_> = report.findings.iter().map(|(finding, mend)| (finding.to_string(), *mend)).collect();
    assert!(sentences.contains(&(sentence.to_string(), Mend::Impossible)), "{sentences:#?}");
    assert!(!report.is_clean());
}

#[test]
fn the_tree_is_mended() {
    let (d, f) = (sample().directory, sample().file);
    mends(|v| v.write(Key::Entry(d, 17), None), &format!("record entry/{d}/17 is missing"));
    mends(|v| v.put(Key::Entry(d, 99), values::entry(f, b"file")), &format!("record entry/{d}/99 belongs to nothing"));
    let wrong = Dirent { ino: f, kind: Kind::Fifo, cookie: 17 }.encode();
    mends(
        |v| v.put(Key::Dirent(d, b"file"), wrong.clone()),
        &format!("the name file in directory {d} says another kind than its inode {f}"),
    );
    mends(
        |v| v.put(Key::Entry(d, 17), values::entry(Ino(99), b"file")),
        &format!("the listing of directory {d} has file in a wrong place"),
    );
    let dangling = Dirent { ino: Ino(77), kind: Kind::File, cookie: 500 };
    mends(
        |v| v.put(Key::Dirent(d, b"gone"), dangling.encode()),
        &format!("the name gone in directory {d} leads to inode 77, which does not exist"),
    );
    mends(|v| v.change(f, |file| file.nlink = 5), &format!("inode {f} has 1 links and says 5"));
    mends(|v| v.change(Ino::ROOT, |root| root.nlink = 2), "inode 1 has 3 links and says 2");
    mends(|v| v.change(d, |directory| directory.parent = f), &format!("directory {d} is in directory 1 and says {f}"));
    mends(|v| v.change(f, |file| file.ino = Ino(5000)), &format!("inode {f} says it is inode 5000"));
    mends(
        |v| v.write(Key::UnreferencedInode(v.orphan), None),
        &format!("record unreferenced/inode/{} is missing", sample().orphan),
    );
    mends(
        |v| v.put(Key::UnreferencedInode(f), values::mark()),
        &format!("record unreferenced/inode/{f} belongs to nothing"),
    );
    mends(
        |v| v.put(Key::UnreferencedInode(Ino(777)), values::mark()),
        "record unreferenced/inode/777 belongs to nothing",
    );
    mends(|v| v.put(Key::Symlink(f), b"x".to_vec()), &format!("record symlink/{f} belongs to nothing"));
    mends(|v| v.put(Key::Xattr(Ino(777), b"user.x"), Vec::new()), "record xattr/777/user.x belongs to nothing");
}

#[test]
fn the_data_is_mended() {
    let f = sample().file;
    let (dead, live) = (segment_id(1), segment_id(2));
    let stray = extent(0, 10, live, 0);
    mends(
        |v| v.put(Key::Extent(Ino(777), 10), values::extent(Ino(777), &stray).1),
        "record extent/777/10 belongs to nothing",
    );
    let page = crate::JournalPage { page: 0, ranges: vec![(0, vec![1])] };
    mends(|v| v.put(Key::Journal(Ino(777), 0), values::journal_page(&page)), "record journal/777/0 belongs to nothing");
    mends(|v| v.change(f, |file| file.allocated_bytes = 1), &format!("inode {f} has extents of 2000 bytes and says 1"));
    mends(
        |v| v.put(Key::Live(live), values::number(7)),
        &format!("files refer to 1000 bytes of segment {live}, which says 7"),
    );
    mends(|v| v.write(Key::Live(live), None), &format!("files refer to 1000 bytes of segment {live}, which says 0"));
    mends(
        |v| {
            v.write(Key::Live(live), None);
            v.put(Key::UnreferencedSegment(live), values::number(5));
        },
        &format!("segment {live} is in the trash and files refer to 1000 bytes of it"),
    );
    mends(
        |v| v.put(Key::Live(dead), values::number(0)),
        &format!("no file refers to segment {dead}, which is not in the trash"),
    );
    mends(|v| v.write(Key::UsedBy(live, f), None), &format!("record used-by/{live}/{f} is missing"));
    mends(|v| v.put(Key::UsedBy(dead, f), values::mark()), &format!("record used-by/{dead}/{f} belongs to nothing"));
    let (node, unknown) = (node_id(1), segment_id(99));
    mends(|v| v.write(Key::OnNode(node, live), None), &format!("record on-node/{node}/{live} is missing"));
    mends(
        |v| v.put(Key::Damaged(unknown), weft_format::records::DamageRecord::default().encode()),
        &format!("record {} belongs to nothing", Key::Damaged(unknown)),
    );
    for key in [Key::OnNode(node, unknown), Key::UsedBy(unknown, f)] {
        mends(|v| v.put(key, values::mark()), &format!("record {key} belongs to nothing"));
    }
    for key in [Key::Live(unknown), Key::UnreferencedSegment(unknown)] {
        mends(|v| v.put(key, values::number(1)), &format!("record {key} belongs to nothing"));
    }
}

/// When it died is not known any more: it waits anew.
#[test]
fn a_dead_segment_that_is_in_no_queue_is_queued_again() {
    let (volume, dead) = (sample(), segment_id(1));
    volume.write(Key::UnreferencedSegment(dead), None);
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    let sentences: Vec<_> = report.findings.iter().map(|(finding, _)| finding.to_string()).collect();
    assert_eq!(sentences, [format!("no file refers to segment {dead}, which is not in the trash")]);
    assert_clean(&volume.store);
    assert_eq!(trash(&volume.store), [(9000, dead)]);
}

#[test]
fn totals_are_mended() {
    let wrong = Usage { inodes: 1, live_bytes: 1 };
    mends(|v| v.put(Key::Usage, wrong.encode()), "the volume has 5 inodes and 2000 live bytes, and says otherwise");
    let volume = sample();
    volume.put(Key::Counter(Counter::Ino), values::number(3));
    volume.put(Key::Counter(Counter::Cookie), values::number(16));
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    let sentences: Vec<_> = report.findings.iter().map(|(finding, _)| finding.to_string()).collect();
    let expected =
        ["counter/ino would give out 3, and 5 is in use", "counter/cookie would give out 16, and 18 is in use"];
    assert_eq!(sentences, expected);
    assert_clean(&volume.store);
}

#[test]
fn what_cannot_be_recomputed_is_told() {
    let Volume { directory: d, file: f, .. } = sample();
    let (live, unknown) = (segment_id(2), segment_id(99));
    tells(
        |v| {
            v.write(Key::Dirent(d, b"file"), None);
            v.write(Key::Entry(d, 17), None);
        },
        &format!("inode {f} has no name and says it has 1 links"),
    );
    tells(
        |v| v.put(Key::Dirent(f, b"odd"), Dirent { ino: d, kind: Kind::Directory, cookie: 400 }.encode()),
        &format!("the name odd is in inode {f}, which is no directory"),
    );
    tells(
        |v| v.put(Key::Dirent(d, b"again"), Dirent { ino: d, kind: Kind::Directory, cookie: 400 }.encode()),
        &format!("directory {d} has 2 names"),
    );
    tells(
        |v| {
            v.write(Key::Dirent(Ino::ROOT, b"directory"), None);
            v.put(Key::Dirent(d, b"loop"), Dirent { ino: d, kind: Kind::Directory, cookie: 400 }.encode());
        },
        &format!("directory {d} cannot be reached from the root"),
    );
    tells(|v| v.change(f, |file| file.policy = PolicyId(9)), &format!("inode {f} has policy 9, which does not exist"));
    tells(|v| v.change(f, |file| file.size = 2500), &format!("file {f} of 2500 bytes has data up to 3000"));
    tells(|v| v.change(f, |file| file.kind = Kind::Fifo), &format!("inode {f} is no file and has file data"));
    let place = |v: &Volume, extent: crate::Extent| {
        let (key, value) = values::extent(f, &extent);
        v.put(key, value);
    };
    tells(|v| place(v, extent(1500, 1000, live, 0)), &format!("file {f} has two extents for the bytes before 2500"));
    tells(
        |v| place(v, extent(1000, 10, unknown, 0)),
        &format!("bytes 1000 to 1010 of file {f} are in segment {unknown}, which does not exist"),
    );
    tells(
        |v| place(v, extent(1000, 10, live, 991)),
        &format!("bytes 1000 to 1010 of file {f} are beyond the end of segment {live}"),
    );
    tells(
        |v| v.write(Key::Node(node_id(1)), None),
        &format!("segment {live} has a shard on node {}, which the volume does not have", node_id(1)),
    );
    tells(|v| v.write(Key::Symlink(Ino(4)), None), "record symlink/4 is missing");
}

/// A node may be removed while a segment that nobody needs is still to be removed from it.
#[test]
fn a_dead_segment_may_be_on_a_node_that_is_none() {
    let volume = sample();
    let dead = segment_id(1);
    assert!(volume.store.segment(dead).unwrap().is_some() && volume.store.live_bytes(dead).unwrap() == 0);
    volume.write(Key::Node(node_id(1)), None);
    let report = check(&volume.store, &mut |_| {}).unwrap();
    let is_of_dead = |finding: &Finding| matches!(finding, Finding::UnknownNode { segment, .. } if *segment == dead);
    assert!(!report.findings.iter().any(|(finding, _)| is_of_dead(finding)), "{:?}", report.findings);
    assert!(!report.is_clean(), "the living one is a finding");
}

/// While a record cannot be read nothing is mended: what seems superfluous may be what it needs.
#[test]
fn nothing_is_mended_around_what_cannot_be_read() {
    let volume = sample();
    volume.put(Key::Dirent(volume.directory, b"file"), vec![9]);
    volume.change(volume.directory, |directory| directory.nlink = 40);
    let before = volume.dump();
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    assert!(!report.is_clean());
    assert!(report.findings.iter().all(|(_, mend)| *mend == Mend::Impossible));
    assert_eq!(volume.dump(), before);

    let volume = sample();
    let unknown = vec![200, 1, 2];
    let batch = Batch { writes: vec![(unknown, Some(Vec::new()))], ..Batch::default() };
    volume.kv.commit(batch).unwrap();
    volume.change(volume.file, |file| file.nlink = 40);
    let report = repair(&volume.store, at(9), &mut |_| {}).unwrap();
    let sentence =
        "\\xc8\\x01\\x02 is no key of this format: restore the metadata from a copy, or use the program that wrote it";
    assert!(report.findings.iter().any(|(finding, _)| finding.to_string() == sentence), "{report:#?}");
    assert_eq!(volume.store.attributes(volume.file).unwrap().nlink, 40);
}

/// Every key of the sample removed, one at a time: found, but for the few that nothing else speaks of.
#[test]
fn a_lost_record_is_noticed() {
    let silent = [Table::Roster, Table::Journal, Table::Policy];
    for (key, _) in sample().dump() {
        let volume = sample();
        let typed = Key::parse(&key).unwrap();
        volume.write(typed, None);
        let noticed = !check(&volume.store, &mut |_| {}).unwrap().findings.is_empty();
        assert!(noticed || silent.contains(&typed.table()), "{typed}");
        repair(&volume.store, at(9), &mut |_| {}).unwrap();
    }
}
