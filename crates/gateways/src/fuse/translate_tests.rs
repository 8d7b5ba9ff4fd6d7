use super::*;

#[test]
fn a_time_goes_to_the_kernel_and_back() {
    for (seconds, nanoseconds) in
        [(0, 0), (0, 1), (1_700_000_000, 999_999_999), (-1, 0), (-2, 800_000_000), (1 << 40, 7)]
    {
        let time = Timestamp { seconds, nanoseconds };
        let shown = system_time(time);
        let offset = match shown.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        assert_eq!(offset, i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds));
    }
}

#[test]
fn a_time_before_the_epoch_keeps_its_nanoseconds_through_fuser() {
    // What fuser hands over for (-2 s, +0.8 s): 2.8 s before the epoch.
    let from_fuser = UNIX_EPOCH - Duration::new(2, 800_000_000);
    assert_eq!(timestamp(from_fuser), Timestamp { seconds: -2, nanoseconds: 800_000_000 });
    assert_eq!(timestamp(UNIX_EPOCH + Duration::new(2, 5)), Timestamp { seconds: 2, nanoseconds: 5 });
}

#[test]
fn a_time_that_cannot_be_expressed_is_no_panic() {
    system_time(Timestamp { seconds: i64::MAX, nanoseconds: 999_999_999 });
    system_time(Timestamp { seconds: i64::MIN, nanoseconds: 0 });
}

#[test]
fn mknod_makes_what_its_type_bits_say() {
    assert_eq!(node_kind(0o644), Some(Kind::File));
    assert_eq!(node_kind(libc::S_IFREG | 0o644), Some(Kind::File));
    assert_eq!(node_kind(libc::S_IFIFO | 0o644), Some(Kind::Fifo));
    assert_eq!(node_kind(libc::S_IFSOCK), Some(Kind::Socket));
    assert_eq!(node_kind(libc::S_IFCHR), Some(Kind::CharDevice));
    assert_eq!(node_kind(libc::S_IFBLK), Some(Kind::BlockDevice));
    assert_eq!(node_kind(libc::S_IFDIR), None);
    assert_eq!(mode_bits(libc::S_IFREG | 0o6755), 0o6755);
}

#[test]
fn unknown_flags_are_refused() {
    let owner = Owner { uid: 1, gid: 2 };
    assert_eq!(rename_flags(fuser::RenameFlags::from_bits_retain(8), owner), None);
    let swap = rename_flags(fuser::RenameFlags::RENAME_EXCHANGE, owner);
    assert_eq!(swap, Some(RenameFlags { no_replace: false, exchange: true, whiteout: None }));
    assert_eq!(xattr_mode(libc::XATTR_CREATE | libc::XATTR_REPLACE), None);
    assert_eq!(xattr_mode(libc::XATTR_REPLACE), Some(XattrMode::Replace));
}

#[test]
fn direct_files_go_around_the_page_cache_and_only_they() {
    let of_owner = |flags| open_reply(flags, Others::Nobody);
    assert!(of_owner(libc::O_RDWR | libc::O_DIRECT).contains(FopenFlags::FOPEN_DIRECT_IO));
    assert!(!of_owner(libc::O_RDWR | libc::O_DIRECT).contains(FopenFlags::FOPEN_KEEP_CACHE));
    assert_eq!(of_owner(libc::O_RDWR), FopenFlags::FOPEN_KEEP_CACHE);
    assert!(of_owner(libc::O_RDONLY).contains(FopenFlags::FOPEN_NOFLUSH));
    assert_eq!(
        open_reply(libc::O_RDONLY, Others::Owner),
        FopenFlags::FOPEN_NOFLUSH,
        "beside the owner nothing is kept"
    );
    let beside_mounts = |flags| open_reply(flags, Others::Mounts);
    assert_eq!(beside_mounts(libc::O_RDONLY), FopenFlags::empty(), "a lock of it must end with it");
    assert_eq!(beside_mounts(libc::O_RDWR), FopenFlags::empty());
    assert_eq!(beside_mounts(libc::O_WRONLY | libc::O_APPEND), FopenFlags::FOPEN_DIRECT_IO);
    assert_eq!(beside_mounts(libc::O_RDONLY | libc::O_APPEND), FopenFlags::empty());
}

#[test]
fn a_handle_tells_whether_its_file_goes_around_the_page_cache() {
    for (flags, direct) in [(libc::O_RDWR | libc::O_DIRECT, true), (libc::O_RDWR, false)] {
        let given = file_handle(Handle(7), flags, Others::Nobody);
        assert_eq!((handle(given), is_direct(given)), (Handle(7), direct));
    }
}

#[test]
fn files_opened_for_reading_count_as_read() {
    assert!(counts_as_read(libc::O_RDONLY) && counts_as_read(libc::O_RDWR));
    assert!(!counts_as_read(libc::O_WRONLY) && !counts_as_read(libc::O_RDONLY | libc::O_NOATIME));
}
