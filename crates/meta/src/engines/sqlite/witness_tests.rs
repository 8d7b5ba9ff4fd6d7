use super::*;

const HERE: Identity = Identity { inode: 12, birth_ns: 1_700_000_000_123_456_789 };

#[test]
fn finding_05_a_testimony_is_one_sector_and_reads_back_or_not_at_all() {
    let testimony = Testimony { identity: HERE, commits: 345, intents: 67 };
    let line = testimony.to_line();
    let text = "weft store inode 12 born 1700000000123456789 commits 345 intents 67 sum b07faf796afa69f8";
    assert_eq!(str::from_utf8(&line).unwrap(), format!("{text:<255}\n"));
    assert_eq!(Testimony::from_line(&line), Some(testimony));
    let most = Identity { inode: u64::MAX, birth_ns: u128::from(u64::MAX) * 1_000_000_000 + 999_999_999 };
    let most = Testimony { identity: most, commits: u64::MAX, intents: u64::MAX };
    assert_eq!(most.to_line().len(), WITNESS_BYTES);
    assert_eq!(Testimony::from_line(&most.to_line()), Some(most));
    for at in 0..text.len() {
        let mut torn = line.clone();
        torn[at] ^= 1;
        assert_eq!(Testimony::from_line(&torn), None, "byte {at}");
    }
    for none in [&b""[..], b"process 12\n", &[b' '; WITNESS_BYTES], &[0xff; WITNESS_BYTES]] {
        assert_eq!(Testimony::from_line(none), None);
    }
}

#[test]
fn finding_05_only_what_was_left_here_or_is_whole_is_written() {
    let elsewhere = Identity { inode: 13, ..HERE };
    let said = |identity, commits, intents| Some(Testimony { identity, commits, intents });
    for (commits, is_clean, testimony, verdict) in [
        (5, false, said(HERE, 5, 3), Verdict::Home),
        (5, false, said(HERE, 4, 2), Verdict::Home),
        (5, true, said(HERE, 5, 3), Verdict::Home),
        (5, false, said(HERE, 6, 3), Verdict::Older { durable: 6 }),
        (5, true, said(HERE, 6, 3), Verdict::Older { durable: 6 }),
        (5, false, said(HERE, 5, 4), Verdict::Cut { durable: 4 }),
        (5, false, said(elsewhere, 5, 3), Verdict::Copy),
        (5, false, None, Verdict::Unknown),
        (5, true, said(elsewhere, 9, 9), Verdict::Whole),
        (5, true, None, Verdict::Whole),
    ] {
        let reach = Reach { commits, intents: 3, is_clean };
        assert_eq!(judge(reach, HERE, testimony), verdict, "{commits} {is_clean} {testimony:?}");
    }
    let again = Identity { birth_ns: 1, ..HERE };
    let reach = Reach { commits: 5, intents: 3, is_clean: false };
    assert_eq!(judge(reach, HERE, said(again, 5, 3)), Verdict::Copy, "an inode number that is used again");
}
