//! Each rule against a slow, obvious reference, over every combination of small sets of users, modes and capabilities. What the kernel
//! itself says of the same is in `tests/it/access.rs`.

use super::*;
use weft_format::records::Timestamp;
use weft_format::{Ino, PolicyId};

const NONE: Capabilities = Capabilities::empty();

fn inode(kind: Kind, mode: u16, uid: u32, gid: u32) -> Attributes {
    Attributes {
        ino: Ino(9),
        kind,
        mode,
        uid,
        gid,
        nlink: 1,
        rdev: 0,
        size: 0,
        allocated_bytes: 0,
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        policy: PolicyId(0),
        parent: Ino::ROOT,
    }
}

/// Users 1 and 2, of group 1 or 2, alone or also in group 3, with each of these sets of capabilities.
fn callers(capabilities: &[Capabilities]) -> Vec<Caller> {
    let mut callers = Vec::new();
    for uid in [1, 2] {
        for gid in [1, 2] {
            for groups in [vec![], vec![3]] {
                for has in capabilities {
                    callers.push(Caller::new(uid, gid).with_groups(groups.clone()).with_capabilities(*has));
                }
            }
        }
    }
    callers
}

/// Every way in which a caller can have rights, as what it grants.
fn ways(caller: &Caller, inode: &Attributes) -> Vec<Wanted> {
    // As `ls -l` writes it.
    let letters: Vec<char> = "rwxrwxrwx".chars().collect();
    let written: String = (0..9).map(|bit| if inode.mode & (0o400 >> bit) != 0 { letters[bit] } else { '-' }).collect();
    let mut groups = caller.groups.clone();
    groups.push(caller.gid);
    let class = if inode.uid == caller.uid {
        &written[0..3]
    } else if groups.contains(&inode.gid) {
        &written[3..6]
    } else {
        &written[6..9]
    };
    let mut granted = Wanted::empty();
    granted.set(Wanted::READ, class.contains('r'));
    granted.set(Wanted::WRITE, class.contains('w'));
    granted.set(Wanted::EXECUTE, class.contains('x'));
    let mut ways = vec![granted];
    let is_directory = inode.kind == Kind::Directory;
    if caller.capabilities.contains(Capabilities::DAC_READ_SEARCH) {
        ways.push(if is_directory { Wanted::READ | Wanted::EXECUTE } else { Wanted::READ });
    }
    if caller.capabilities.contains(Capabilities::DAC_OVERRIDE) {
        let can_execute = is_directory || written.contains('x');
        ways.push(if can_execute { Wanted::all() } else { Wanted::READ | Wanted::WRITE });
    }
    ways
}

#[test]
fn some_way_grants_all_that_is_wanted_or_it_is_denied() {
    let sets = [
        NONE,
        Capabilities::DAC_READ_SEARCH,
        Capabilities::DAC_OVERRIDE,
        Capabilities::DAC_READ_SEARCH | Capabilities::DAC_OVERRIDE,
        // None of its business.
        Capabilities::FOWNER,
    ];
    for caller in callers(&sets) {
        for mode in 0..0o1000 {
            for (kind, gid) in [(Kind::File, 1), (Kind::File, 3), (Kind::Directory, 2), (Kind::Directory, 3)] {
                let inode = inode(kind, mode, 1, gid);
                for wanted in (0..8).map(Wanted::from_bits_truncate) {
                    let granted = ways(&caller, &inode).into_iter().any(|way| way.contains(wanted));
                    let expected = if granted { Ok(()) } else { Err(Denied::Mode) };
                    assert_eq!(permits(&caller, &inode, wanted), expected, "{caller:?} {inode:?} {wanted:?}");
                }
            }
        }
    }
}

#[test]
fn root_executes_only_what_somebody_may() {
    let root = Caller::new(0, 0);
    assert_eq!(permits(&root, &inode(Kind::File, 0o666, 1, 1), Wanted::EXECUTE), Err(Denied::Mode));
    assert_eq!(permits(&root, &inode(Kind::File, 0o001, 1, 1), Wanted::all()), Ok(()));
    let powerless = root.with_capabilities(NONE);
    assert_eq!(permits(&powerless, &inode(Kind::Directory, 0o700, 1, 1), Wanted::READ), Err(Denied::Mode));
}

#[test]
fn a_sticky_directory_gives_up_what_is_its_owners_or_the_victims() {
    for caller in callers(&[NONE, Capabilities::FOWNER, Capabilities::DAC_OVERRIDE, Capabilities::CHOWN]) {
        for (mode, owner, victim) in [0o777, 0o1777, 0o1555, 0o1700]
            .iter()
            .flat_map(|mode| [1, 2].iter().flat_map(move |owner| [1, 2].map(|victim| (*mode, *owner, victim))))
        {
            let directory = inode(Kind::Directory, mode, owner, 9);
            let victim = inode(Kind::File, 0, victim, 9);
            let may_write = permits(&caller, &directory, Wanted::WRITE | Wanted::EXECUTE).is_ok();
            let may_take = mode < 0o1000
                || caller.uid == directory.uid
                || caller.uid == victim.uid
                || caller.capabilities == Capabilities::FOWNER;
            let expected = match (may_write, may_take) {
                (false, _) => Err(Denied::Mode),
                (true, false) => Err(Denied::Privilege),
                (true, true) => Ok(()),
            };
            assert_eq!(may_remove(&caller, &directory, &victim), expected, "{caller:?} {directory:?} {victim:?}");
        }
    }
}

/// Of an owner who is in groups 1 and 3, a stranger in group 3, and each with a capability.
#[test]
fn chown_and_chmod_are_the_owners_within_its_groups() {
    let owner = Caller::new(1, 1).with_groups(vec![3]);
    let stranger = Caller::new(2, 3);
    let file = |mode| inode(Kind::File, mode, 1, 1);
    let give = |caller: &Caller, mode: u16, uid: Option<u32>, gid: Option<u32>| {
        may_change(caller, &file(mode), &SetAttributes { uid, gid, ..SetAttributes::default() }, Times::Kept)
            .map(|set| set.mode)
    };
    let refused = Err(Denied::Privilege);
    assert_eq!(give(&owner, 0o644, Some(1), None), Ok(None), "to itself");
    assert_eq!(give(&owner, 0o644, Some(2), None), refused);
    assert_eq!(give(&owner, 0o644, None, Some(3)), Ok(None), "to a group of its own");
    assert_eq!(give(&owner, 0o644, None, Some(2)), refused);
    assert_eq!(give(&stranger, 0o644, None, Some(3)), refused);
    assert_eq!(give(&owner, 0o6755, None, Some(3)), Ok(Some(0o755)));
    assert_eq!(give(&owner, 0o2644, None, Some(3)), Ok(None), "it means nothing without the group's execute bit");
    let giver = stranger.clone().with_capabilities(Capabilities::CHOWN);
    assert_eq!(give(&giver, 0o644, Some(2), Some(9)), Ok(None));
    assert_eq!(give(&giver, 0o4755, Some(2), None), refused, "it would change the mode of what is not its own");
    assert_eq!(give(&giver.with_capabilities(Capabilities::all()), 0o6755, Some(2), None), Ok(Some(0o755)));

    let chmod = |caller: &Caller, gid, mode| {
        let wanted = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        may_change(caller, &inode(Kind::Directory, 0o755, 1, gid), &wanted, Times::Kept).map(|set| set.mode)
    };
    assert_eq!(chmod(&owner, 3, 0o2777), Ok(Some(0o2777)));
    assert_eq!(chmod(&owner, 9, 0o2777), Ok(Some(0o777)), "a group that it is not in");
    assert_eq!(chmod(&owner.clone().with_capabilities(Capabilities::FSETID), 9, 0o2777), Ok(Some(0o2777)));
    assert_eq!(chmod(&stranger, 3, 0o777), refused);
    assert_eq!(chmod(&stranger.with_capabilities(Capabilities::FOWNER), 9, 0o6777), Ok(Some(0o4777)));
}

#[test]
fn a_new_owner_or_group_takes_capabilities_away() {
    let root = Caller::new(0, 0);
    let removes = |kind, wanted: SetAttributes| {
        may_change(&root, &inode(kind, 0o755, 1, 1), &wanted, Times::Kept).expect("root may").removes_capability
    };
    let (chown, chgrp, chmod) = (
        SetAttributes { uid: Some(1), ..SetAttributes::default() },
        SetAttributes { gid: Some(2), ..SetAttributes::default() },
        SetAttributes { mode: Some(0), ..SetAttributes::default() },
    );
    assert_eq!([chown, chgrp, chmod].map(|wanted| removes(Kind::File, wanted)), [true, true, false]);
    assert_eq!([chown, chgrp, chmod].map(|wanted| removes(Kind::Directory, wanted)), [false; 3]);
}

#[test]
fn capabilities_are_of_revision_2_or_3() {
    let value = |magic: u32, bytes: usize| {
        let mut value = magic.to_le_bytes().to_vec();
        value.resize(bytes, 0);
        is_capability(&value)
    };
    for effective in [0, 1] {
        assert!(value(0x0200_0000 | effective, 20) && value(0x0300_0000 | effective, 24));
    }
    let wrong = [(0x0100_0000, 12), (0x0200_0000, 24), (0x0300_0000, 20), (0x0200_0002, 20), (0x0400_0000, 24)];
    assert!(wrong.iter().all(|(magic, bytes)| !value(*magic, *bytes)) && !is_capability(b"") && !is_capability(b"abc"));
}

#[test]
fn times_are_touched_by_writers_and_set_by_owners() {
    let nothing = SetAttributes::default();
    let expected = [
        // Whose, its mode, touch, set.
        (1, 0o000, Ok(()), Ok(())),
        (2, 0o644, Err(Denied::Mode), Err(Denied::Privilege)),
        (2, 0o646, Ok(()), Err(Denied::Privilege)),
    ];
    for (uid, mode, touched, set) in expected {
        let (caller, file) = (Caller::new(uid, uid), inode(Kind::File, mode, 1, 1));
        let answer = |times| may_change(&caller, &file, &nothing, times).map(drop);
        assert_eq!((answer(Times::Touched), answer(Times::Set)), (touched, set), "user {uid}, mode {mode:o}");
        assert_eq!(answer(Times::Kept), Ok(()));
    }
}

#[test]
fn a_write_takes_away_what_the_bytes_were_given() {
    for caller in callers(&[NONE, Capabilities::FSETID, Capabilities::FOWNER]) {
        for mode in 0..0o10000 {
            let file = inode(Kind::File, mode, 1, 3);
            let is_in = caller.groups.contains(&3);
            let mut left = mode;
            if !caller.capabilities.contains(Capabilities::FSETID) {
                left &= !0o4000;
                // Without the group's execute bit the setgid bit once meant mandatory locking, which members may keep.
                if mode & 0o10 != 0 || !is_in {
                    left &= !0o2000;
                }
            }
            assert_eq!(mode_after_write(&caller, &file).unwrap_or(mode), left, "{caller:?} {mode:o}");
        }
    }
    assert_eq!(mode_after_write(&Caller::new(1, 1), &inode(Kind::Directory, 0o6777, 1, 1)), None);
}

#[test]
fn what_is_made_gets_no_rights_of_a_group_that_is_not_the_callers() {
    let made = |caller: &Caller, directory_mode, kind, mode| {
        let directory = inode(Kind::Directory, directory_mode, 9, 5);
        let mut new = NewInode { kind, mode, uid: caller.uid, gid: caller.gid, rdev: 0, symlink_target: Vec::new() };
        may_create(caller, &directory, &mut new).map(|()| new.mode)
    };
    let (stranger, member) = (Caller::new(1, 1), Caller::new(1, 1).with_groups(vec![5]));
    assert_eq!(made(&stranger, 0o2777, Kind::File, 0o6775), Ok(0o4775));
    assert_eq!(made(&stranger, 0o2777, Kind::File, 0o2665), Ok(0o2665), "it does not count");
    assert_eq!(made(&stranger, 0o777, Kind::File, 0o2775), Ok(0o2775), "the group is its own");
    assert_eq!(made(&member, 0o2777, Kind::File, 0o2775), Ok(0o2775));
    assert_eq!(made(&member, 0o777, Kind::Directory, 0o7777), Ok(0o1777), "from the parent, or not at all");
    assert_eq!(made(&member, 0o755, Kind::File, 0o644), Err(Denied::Mode));
    assert_eq!(made(&member, 0o777, Kind::CharDevice, 0o644), Ok(0o644), "a whiteout");
    assert_eq!(made(&member, 0o777, Kind::BlockDevice, 0o644), Err(Denied::Privilege));
    let maker = member.with_capabilities(Capabilities::MKNOD);
    assert_eq!(made(&maker, 0o777, Kind::BlockDevice, 0o644), Ok(0o644));
}

#[test]
fn others_link_plain_files_that_they_may_read_and_write() {
    let open = inode(Kind::Directory, 0o777, 9, 9);
    let link = |caller: &Caller, kind, mode| may_link(caller, &open, &inode(kind, mode, 1, 1));
    let (owner, stranger) = (Caller::new(1, 1), Caller::new(2, 2));
    let refused = Err(Denied::Privilege);
    for (kind, mode, by_stranger, by_owner) in [
        (Kind::File, 0o666, Ok(()), Ok(())),
        (Kind::File, 0o664, refused, Ok(())),
        (Kind::File, 0o000, refused, Ok(())),
        (Kind::File, 0o4666, refused, Ok(())),
        (Kind::File, 0o2676, refused, Ok(())),
        (Kind::File, 0o2666, Ok(()), Ok(())),
        (Kind::Fifo, 0o666, refused, Ok(())),
        (Kind::Symlink, 0o777, refused, Ok(())),
        (Kind::Directory, 0o777, refused, refused),
    ] {
        assert_eq!(
            (link(&stranger, kind, mode), link(&owner, kind, mode)),
            (by_stranger, by_owner),
            "{kind:?} {mode:o}"
        );
    }
    assert_eq!(link(&stranger.with_capabilities(Capabilities::FOWNER), Kind::Fifo, 0), Ok(()));
    let closed = inode(Kind::Directory, 0o755, 9, 9);
    assert_eq!(may_link(&owner, &closed, &inode(Kind::File, 0o666, 1, 1)), Err(Denied::Mode));
}

#[test]
fn a_directory_moves_to_another_parent_if_it_is_writable_itself() {
    let (here, there) =
        (inode(Kind::Directory, 0o777, 9, 9), Attributes { ino: Ino(8), ..inode(Kind::Directory, 0o777, 9, 9) });
    let caller = Caller::new(1, 1);
    let rename = |new_directory, moved: &Attributes, target: Option<&Attributes>, is_exchange| {
        let renaming = Renaming { old_directory: &here, moved, new_directory, target, is_exchange };
        may_rename(&caller, &renaming).map_err(|error| crate::VfsError::from(error).errno())
    };
    let (open, closed) = (inode(Kind::Directory, 0o777, 2, 2), inode(Kind::Directory, 0o755, 2, 2));
    let file = inode(Kind::File, 0, 2, 2);
    assert_eq!(rename(&there, &open, None, false), Ok(()));
    assert_eq!(rename(&there, &closed, None, false), Err(libc::EACCES));
    assert_eq!(rename(&here, &closed, None, false), Ok(()));
    assert_eq!(rename(&there, &file, None, false), Ok(()));
    assert_eq!(rename(&there, &file, Some(&closed), true), Err(libc::EACCES));
    assert_eq!(rename(&here, &file, Some(&closed), true), Ok(()));
    assert_eq!(rename(&there, &closed, Some(&file), false), Err(libc::ENOTDIR), "before its mode");
    assert_eq!(rename(&there, &file, Some(&open), false), Err(libc::EISDIR));
}

#[test]
fn attributes_have_the_rules_of_their_namespaces() {
    let (owner, stranger, administrator) = (Caller::new(1, 1), Caller::new(2, 2), Caller::new(0, 0));
    let file = inode(Kind::File, 0o640, 1, 1);
    let shared = inode(Kind::Directory, 0o1777, 1, 1);
    let read = |caller: &Caller, inode: &Attributes, name: &str| {
        may_read_xattr(caller, inode, name.as_bytes()).map_err(|error| crate::VfsError::from(error).errno())
    };
    let change = |caller: &Caller, inode: &Attributes, name: &str| may_change_xattr(caller, inode, name.as_bytes());
    assert_eq!([read(&owner, &file, "user.a"), read(&stranger, &file, "user.a")], [Ok(()), Err(libc::EACCES)]);
    assert_eq!(read(&stranger, &file, "security.a"), Ok(()));
    assert_eq!(read(&owner, &file, "trusted.a"), Err(libc::ENODATA));
    assert_eq!(read(&administrator, &file, "trusted.a"), Ok(()));
    assert_eq!(read(&owner, &inode(Kind::Symlink, 0o777, 1, 1), "user.a"), Err(libc::ENODATA));
    assert_eq!(change(&owner, &inode(Kind::Fifo, 0o777, 1, 1), "user.a"), Err(Denied::Privilege));
    assert_eq!(
        [change(&owner, &shared, "user.a"), change(&stranger, &shared, "user.a")],
        [Ok(()), Err(Denied::Privilege)]
    );
    for name in ["trusted.a", "security.a", "security.capability"] {
        assert_eq!(
            [change(&owner, &file, name), change(&administrator, &file, name)],
            [Err(Denied::Privilege), Ok(())]
        );
    }
    let setter = owner.with_capabilities(Capabilities::SETFCAP);
    assert_eq!(change(&setter, &file, "security.capability"), Ok(()));
    assert!(!lists_xattr(&setter, b"trusted.a") && lists_xattr(&administrator, b"trusted.a"));
    assert!(lists_xattr(&stranger, b"user.a"));
}
