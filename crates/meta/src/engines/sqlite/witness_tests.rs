use super::*;

const HERE: Identity = Identity { inode: 12, birth_ns: 1_700_000_000_123_456_789 };

#[test]
fn finding_05_a_testimony_is_one_sector_and_reads_back_or_not_at_all() {
    let testimony = Testimony { identity: HERE, commits: 345 };
    let line = testimony.to_line();
    let text = "weft store inode 12 born 1700000000123456789 commits 345 sum 2230ec5aabc02c55";
    assert_eq!(str::from_utf8(&line).unwrap(), format!("{text:<127}\n"));
    assert_eq!(Testimony::from_line(&line), Some(testimony));
    let most = Identity { inode: u64::MAX, birth_ns: u128::from(u64::MAX) * 1_000_000_000 + 999_999_999 };
    let most = Testimony { identity: most, commits: u64::MAX };
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
    let said = |identity, commits| Some(Testimony { identity, commits });
    for (commits, is_clean, testimony, verdict) in [
        (5, false, said(HERE, 5), Verdict::Home),
        (5, false, said(HERE, 4), Verdict::Home),
        (5, true, said(HERE, 5), Verdict::Home),
        (5, false, said(HERE, 6), Verdict::Older { durable: 6 }),
        (5, true, said(HERE, 6), Verdict::Older { durable: 6 }),
        (5, false, said(elsewhere, 5), Verdict::Copy),
        (5, false, None, Verdict::Unknown),
        (5, true, said(elsewhere, 9), Verdict::Whole),
        (5, true, None, Verdict::Whole),
    ] {
        assert_eq!(judge(commits, is_clean, HERE, testimony), verdict, "{commits} {is_clean} {testimony:?}");
    }
    let again = Identity { birth_ns: 1, ..HERE };
    assert_eq!(judge(5, false, HERE, said(again, 5)), Verdict::Copy, "an inode number that is used again");
}
