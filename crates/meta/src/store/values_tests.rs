use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes() {
    assert_eq!(hex(&mark()), "01");
    assert_eq!(hex(&number(4096)), "010000000000001000");
    let dirent = Dirent { ino: Ino(7), kind: Kind::Directory, cookie: 17 };
    assert_eq!(hex(&dirent.encode()), "010200000000000000070000000000000011");
    assert_eq!(hex(&entry(Ino(7), b"ab")), "0100000000000000076162");
    let run = Extent { file_offset: 4096, length: 4096, segment: SegmentId(0xff), segment_offset: 65536 };
    let (key, value) = extent(Ino(3), &run);
    assert_eq!(key, Key::Extent(Ino(3), 8192));
    assert_eq!(hex(&value), "010000000000001000000000000000000000000000000000ff0000000000010000");
    let page = JournalPage { page: 5, ranges: vec![(1, vec![0xaa]), (4095, vec![0xbb])] };
    assert_eq!(hex(&journal_page(&page)), "0100010001aa0fff0001bb");
    let usage = Usage { inodes: 2, live_bytes: 3 };
    assert_eq!(hex(&usage.encode()), "0100000000000000020000000000000003");
    assert_eq!(hex(&segment(SegmentId(0xff))), "01000000000000000000000000000000ff");

    assert_eq!(decode_segment(&Key::Usage, &segment(SegmentId(0xff))).unwrap(), SegmentId(0xff));
    assert_eq!(decode_mark(&Key::Usage, &mark()).ok(), Some(()));
    assert_eq!(decode_number(&Key::Usage, &number(4096)).unwrap(), 4096);
    assert_eq!(Dirent::decode(&Key::Usage, &dirent.encode()).unwrap(), dirent);
    assert_eq!(decode_entry(&Key::Usage, &entry(Ino(7), b"ab")).unwrap(), (Ino(7), &b"ab"[..]));
    assert_eq!(decode_extent(&key, &value).unwrap(), run);
    assert_eq!(decode_journal_page(&Key::Journal(Ino(3), 5), &journal_page(&page)).unwrap(), page);
    assert_eq!(Usage::decode(&usage.encode()).unwrap(), usage);
}

#[test]
fn other_versions_are_refused_with_a_sentence() {
    let error = decode_number(&Key::Usage, &[2, 0]).unwrap_err();
    let sentence = "metadata record usage is damaged (it has version 2, this program reads version 1); run `weft fsck`";
    assert_eq!(error.to_string(), sentence);
}

/// Any bytes are an answer, never a panic.
#[test]
fn any_bytes_decode_or_are_refused() {
    let mut random = crate::store::fixture::Random(11);
    for _ in 0..20_000 {
        let length = random.below(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if let Some(first) = bytes.first_mut().filter(|_| random.below(4) > 0) {
            *first = VERSION;
        }
        drop(decode_mark(&Key::Usage, &bytes));
        drop(Dirent::decode(&Key::Usage, &bytes));
        drop(decode_entry(&Key::Usage, &bytes));
        drop(decode_segment(&Key::Usage, &bytes));
        drop(decode_extent(&Key::Extent(Ino(1), random.next()), &bytes));
        drop(decode_journal_page(&Key::Journal(Ino(1), random.next()), &bytes));
        drop(Usage::decode(&bytes));
    }
}

#[test]
fn pages_that_are_not_sound() {
    let page = |ranges| JournalPage { page: 0, ranges };
    assert!(page_is_sound(&page(vec![(0, vec![0; 4096])])));
    assert!(page_is_sound(&page(vec![(0, vec![0]), (2, vec![0])])));
    assert!(!page_is_sound(&page(vec![(0, vec![0; 4097])])));
    assert!(!page_is_sound(&page(vec![(0, vec![0]), (1, vec![0])])));
    assert!(!page_is_sound(&page(vec![(65535, vec![0])])));
    assert!(!page_is_sound(&page(vec![(0, vec![])])));
}
