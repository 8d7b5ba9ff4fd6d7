use super::*;

#[test]
fn lengths_of_time() {
    for (text, ms) in
        [("0", 0), ("7", 7000), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000), ("5ms", 5)]
    {
        assert_eq!(parse_duration(text), Ok(ms), "{text}");
    }
    for text in ["", "m", "-1s", "1w", "1.5h", "99999999999999999999", "9999999999999999d", " 1s"] {
        assert!(parse_duration(text).is_err_and(|error| error.contains("is not a duration")), "{text}");
    }
}

#[test]
fn durations_read_well() {
    let shown = [5, 1500, 61_000, 7_500_000, 90_000_000].map(duration);
    assert_eq!(shown, ["5 ms", "1 s", "1 min 1 s", "2 h 5 min", "1 d 1 h"]);
}

#[test]
fn the_first_line_of_status() {
    let tally = Tally { segment_count: 4, whole_count: 4, margin: Some(2), ..Tally::default() };
    assert_eq!(survival(&tally), "every file survives the loss of any 2 more nodes");
    let same = Tally { unit_margin: Some(2), ..tally.clone() };
    assert_eq!(survival(&same), "every file survives the loss of any 2 more nodes");
    let shared = Tally { unit_margin: Some(1), ..tally.clone() };
    assert_eq!(survival(&shared), "every file survives the loss of any 2 more nodes, or of any 1 failure unit");
    let tally = Tally { margin: Some(1), ..tally };
    assert_eq!(survival(&tally), "every file survives the loss of any 1 more node");
    let bare = Tally { margin: Some(0), ..tally.clone() };
    assert_eq!(
        survival(&bare),
        "every file survives the loss of 0 more nodes: the next one lost may take data with it"
    );
    let lost_paths = ["/a".to_owned(), "/b".to_owned(), "/c".to_owned()].into();
    let lost = Tally { lost_count: 2, lost_paths, ..tally.clone() };
    assert_eq!(
        survival(&lost),
        "3 files are LOST in part or whole; every other file survives the loss of any 1 more node"
    );
    let away = Tally { out_of_reach_count: 1, out_of_reach_paths: ["/a".to_owned()].into(), margin: None, ..tally };
    assert_eq!(survival(&away), "1 file cannot be read until nodes answer again");
    assert_eq!(survival(&Tally::default()), "there are no stored files yet");
}

#[test]
fn progress_reads_as_one_line() {
    let progress = Progress {
        phase: "rebuilding".into(),
        segments_done: 12,
        segments_total: 40,
        bytes_done: 1 << 20,
        bytes_total: 4 << 20,
        bytes_read: 4 << 20,
        bytes_written: 1 << 20,
        worked_ms: 1000,
        ..Progress::default()
    };
    assert_eq!(
        progress_line(&progress),
        "rebuilding: 12 of 40 segments, 1.0 MiB of 4.0 MiB, 1.0 MiB/s, 3 s left, read 4.0 MiB, written 1.0 MiB"
    );
}

#[test]
fn progress_before_anything_is_known_is_a_word() {
    assert_eq!(progress_line(&Job::new(&weft_engine::Env::system().clock).progress()), "beginning");
}

/// A terminal of 100 columns, which remembers what is drawn.
#[derive(Clone, Debug, Default)]
struct Terminal(std::sync::Arc<parking_lot::Mutex<String>>);

impl indicatif::TermLike for Terminal {
    fn width(&self) -> u16 {
        100
    }
    fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn write_line(&self, line: &str) -> std::io::Result<()> {
        self.write_str(&format!("{line}\n"))
    }
    fn write_str(&self, text: &str) -> std::io::Result<()> {
        self.0.lock().push_str(text);
        Ok(())
    }
    fn clear_line(&self) -> std::io::Result<()> {
        self.write_str("\n")
    }
    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn files_of_many_degraded_segments_are_not_all_known() {
    let paths = BTreeSet::from(["/file".to_owned()]);
    let said =
        |degraded_count| troubles(&Tally { degraded_count, degraded_paths: paths.clone(), ..Tally::default() }, 1);
    assert_eq!(said(1000)[0], "1000 segments degraded, of 1 file:");
    assert_eq!(said(1001)[0], "1001 segments degraded, of at least 1 file:");
}

#[test]
fn finding_32_progress_does_not_wrap() {
    let terminal = Terminal::default();
    let target = indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    let bar = progress_bar();
    bar.set_draw_target(target);
    let paths = vec!["/some/long/name/of/a/file/in/the/volume".to_owned(); 3];
    draw(
        &bar,
        &Progress {
            segments_done: 12,
            segments_total: 40,
            bytes_done: 1 << 20,
            bytes_total: 4 << 20,
            paths,
            ..Progress::default()
        },
    );
    bar.tick();
    let drawn = terminal.0.lock().clone();
    assert!(drawn.contains("12 of 40 segments"), "{drawn}");
    // Two lines of the terminal, one after the other.
    assert!(drawn.lines().all(|lines| lines.trim_end().chars().count() <= 200), "{drawn}");
}
