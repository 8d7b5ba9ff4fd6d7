//! Every short sequence of what can happen to a file, with a look at what a crash would leave after each step, against what
//! SEMANTICS.md allows.
//!
//! The decisions are the buffer's own; the store is modelled: what it has after a commit is durable whenever it likes, and after an
//! fsync at the latest, so after each step a crash leaves what it has then, or what was checked before.

use super::*;

/// The file's bytes of interest: two at the end of a journal page, two at the beginning of the next. Before them is a hole.
const CELLS: usize = 4;
const BASE: u64 = JOURNAL_PAGE_BYTES - 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many cells from this one on get a new value.
    Write(usize, usize),
    /// By the journal: only while nothing is in flight, as the write-back does it.
    Fsync,
    /// The same, but it fails after this many pages at most.
    FsyncFails(usize),
    /// By segments, which are all committed.
    FsyncBySegments,
    /// So many dirty bytes are staged at most.
    Stage(u64),
    /// The segment that was staged first is committed, or was not written.
    Complete,
    Fail,
    Truncate(usize),
    Punch(usize, usize),
    Crash,
}

const STEPS: [Step; 18] = [
    Step::Write(0, 2),
    Step::Write(1, 1),
    Step::Write(1, 2),
    Step::Write(2, 2),
    Step::Fsync,
    Step::FsyncFails(1),
    Step::FsyncFails(2),
    Step::FsyncBySegments,
    Step::Stage(1),
    Step::Stage(u64::MAX),
    Step::Complete,
    Step::Fail,
    Step::Truncate(0),
    Step::Truncate(1),
    Step::Truncate(4),
    Step::Punch(1, 1),
    Step::Punch(0, 3),
    Step::Crash,
];

/// What the file's extents and journal pages say of a cell, and its size in cells.
#[derive(Clone, Debug, Default)]
struct Disk {
    extents: [Option<u8>; CELLS],
    journal: [Option<u8>; CELLS],
    size: usize,
}

fn offset(cell: usize) -> u64 {
    BASE + cell as u64
}

fn cell(offset: u64) -> usize {
    (offset - BASE) as usize
}

impl Disk {
    /// What is read after a crash.
    fn recovered(&self) -> Vec<u8> {
        (0..self.size).map(|i| self.journal[i].or(self.extents[i]).unwrap_or(0)).collect()
    }

    fn commit(&mut self, completion: &Completion, data: &[u8]) {
        for extent in &completion.extents {
            for i in 0..extent.length {
                let at = extent.file_offset + i;
                self.extents[cell(at)] = Some(data[(extent.segment_offset + i) as usize]);
                if completion.journal_pages.contains(&(at / JOURNAL_PAGE_BYTES)) {
                    self.journal[cell(at)] = None;
                }
            }
        }
        self.size = cell(completion.size);
    }

    fn journal(&mut self, pages: &[JournalPage], size: u64) {
        for page in pages {
            let start = page.page * JOURNAL_PAGE_BYTES;
            for i in (0..CELLS).filter(|i| offset(*i) / JOURNAL_PAGE_BYTES == page.page) {
                self.journal[i] = None;
            }
            for (within, bytes) in &page.ranges {
                for (i, byte) in bytes.iter().enumerate() {
                    self.journal[cell(start + u64::from(*within) + i as u64)] = Some(*byte);
                }
            }
        }
        self.size = cell(size);
    }

    fn clear(&mut self, from: usize, to: usize) {
        self.extents[from..to].fill(None);
        self.journal[from..to].fill(None);
    }

    fn pages(&self) -> Vec<JournalPage> {
        let page = |i: usize| offset(i) / JOURNAL_PAGE_BYTES;
        let held = (0..CELLS).filter_map(|i| Some((i, self.journal[i]?)));
        held.map(|(i, byte)| JournalPage {
            page: page(i),
            ranges: vec![((offset(i) % JOURNAL_PAGE_BYTES) as u16, vec![byte])],
        })
        .collect()
    }
}

#[derive(Clone)]
struct World {
    buffer: Buffer,
    disk: Disk,
    /// Segments in flight, in the order of staging, with their data.
    in_flight: Vec<(SegmentId, Vec<u8>)>,
    staged_count: u128,
    next: u8,
    /// The file as programs see it now, ...
    content: Vec<u8>,
    /// ... and as they saw it at each moment since the last fsync.
    seen: Vec<Vec<u8>>,
}

impl World {
    fn new() -> World {
        World {
            buffer: Buffer::new(BASE),
            disk: Disk::default(),
            in_flight: Vec::new(),
            staged_count: 0,
            next: 0,
            content: Vec::new(),
            seen: vec![Vec::new()],
        }
    }

    /// `false`: the step is not possible now, or changes nothing.
    fn apply(&mut self, step: Step) -> bool {
        match step {
            Step::Write(from, count) => {
                self.next += 1;
                self.buffer.write(offset(from), &vec![self.next; count]);
                self.content.resize(self.content.len().max(from + count), 0);
                self.content[from..from + count].fill(self.next);
            }
            Step::Fsync if self.in_flight.is_empty() => {
                self.disk.journal(&self.buffer.to_journal(), self.buffer.size());
                self.buffer.note_journaled();
                self.seen.clear();
            }
            Step::FsyncFails(pages_max) if self.in_flight.is_empty() => {
                let pages = self.buffer.to_journal();
                if pages.is_empty() {
                    return false;
                }
                let end = pages.iter().take(pages_max).map(JournalPage::end).max().unwrap_or(0);
                self.disk.journal(&pages[..pages.len().min(pages_max)], end.max(offset(self.disk.size)));
                self.buffer.found_committed(offset(self.disk.size));
                self.buffer.note_tried(&pages);
            }
            Step::FsyncBySegments => {
                // What comes back sets off again.
                while !self.buffer.is_empty() {
                    self.stage(u64::MAX);
                    while !self.in_flight.is_empty() {
                        self.complete();
                    }
                }
                if self.buffer.committed_size() != self.buffer.size() {
                    // Only the size is left.
                    return self.apply(Step::Fsync);
                }
                self.seen.clear();
            }
            Step::Stage(bytes_max) => {
                if self.buffer.dirty_bytes() == 0 || self.in_flight.len() == 3 {
                    return false;
                }
                self.stage(bytes_max);
            }
            Step::Complete if !self.in_flight.is_empty() => self.complete(),
            Step::Fail if !self.in_flight.is_empty() => {
                let (segment, _) = self.in_flight.remove(0);
                self.buffer.unstage(segment);
            }
            Step::Truncate(cells) if cells != self.content.len() => {
                let stored = self.buffer.size_to_store(offset(cells));
                self.disk.clear(cell(stored), CELLS);
                self.disk.size = cell(stored);
                self.buffer.resized(offset(cells), stored);
                self.content.resize(cells, 0);
            }
            Step::Punch(from, count) => {
                let to = (from + count).min(self.content.len());
                if from >= to {
                    return false;
                }
                self.disk.clear(from, to);
                self.buffer.discard(offset(from)..offset(to));
                self.content[from..to].fill(0);
            }
            Step::Crash => {
                self.buffer = Buffer::new(offset(self.disk.size));
                self.disk.pages().iter().for_each(|page| self.buffer.replay(page));
                self.in_flight.clear();
                self.content = self.disk.recovered();
                self.seen.clear();
            }
            Step::Fsync | Step::FsyncFails(_) | Step::Complete | Step::Fail | Step::Truncate(_) => return false,
        }
        self.seen.push(self.content.clone());
        true
    }

    fn stage(&mut self, bytes_max: u64) {
        self.staged_count += 1;
        let segment = SegmentId(self.staged_count);
        // Others' bytes lie before.
        let data = [vec![99; 2], self.buffer.stage(segment, 2, bytes_max, usize::MAX).concat()].concat();
        if data.len() > 2 {
            self.in_flight.push((segment, data));
        }
    }

    fn complete(&mut self) {
        let (segment, data) = self.in_flight.remove(0);
        let completion = self.buffer.completion(segment);
        if completion.extents.is_empty() {
            self.buffer.unstage(segment);
        } else {
            // A large commit is several transactions: extent by extent, and the journal last.
            let mut part = self.disk.clone();
            for extent in &completion.extents {
                let size = completion.size.min(extent.end()).max(offset(part.size));
                part.commit(&Completion { extents: vec![*extent], size, ..Completion::default() }, &data);
                self.check_crash(&part, &[Step::Complete]);
            }
            self.disk.commit(&completion, &data);
            self.buffer.complete(segment, &completion);
        }
    }

    /// What programs read, and what they would after a crash.
    fn check(&self, steps: &[Step]) {
        let mut read: Vec<u8> = (0..self.content.len()).map(|i| self.disk.extents[i].unwrap_or(0)).collect();
        for (at, bytes) in self.buffer.overlapping(BASE..BASE + CELLS as u64) {
            read[cell(at)..cell(at) + bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(read, self.content, "what is read after {steps:?}");
        self.check_crash(&self.disk, steps);
        assert_eq!(offset(self.disk.size), self.buffer.committed_size(), "after {steps:?}");
    }

    /// What a crash leaves was there at some moment since the last fsync, byte by byte.
    fn check_crash(&self, disk: &Disk, steps: &[Step]) {
        let found = disk.recovered();
        let sizes = self.seen.iter().map(Vec::len);
        let fits = sizes.clone().min() <= Some(found.len()) && Some(found.len()) <= sizes.max();
        let was_there = |(i, byte): (usize, &u8)| self.seen.iter().any(|content| content.get(i) == Some(byte));
        assert!(
            fits && found.iter().enumerate().all(was_there),
            "after {steps:?} a crash leaves {found:?}, and the file was one of {:?}",
            self.seen
        );
    }

    /// In the end everything gets there.
    fn check_end(mut self, steps: &[Step]) {
        while !self.in_flight.is_empty() {
            self.complete();
        }
        assert!(self.apply(Step::FsyncBySegments) && self.apply(Step::Fsync));
        assert_eq!(self.disk.recovered(), self.content, "in the end, after {steps:?}");
        assert_eq!(self.disk.journal, [None; CELLS], "the journal is empty in the end, after {steps:?}");
    }
}

fn explore(world: &World, steps: &mut Vec<Step>, depth: usize) {
    if depth == 0 {
        return world.clone().check_end(steps);
    }
    for step in STEPS {
        let mut next = world.clone();
        if next.apply(step) {
            steps.push(step);
            next.check(steps);
            explore(&next, steps, depth - 1);
            steps.pop();
        }
    }
}

fn explore_after(begin: &[Step], depth: usize) {
    let mut world = World::new();
    for step in begin {
        assert!(world.apply(*step));
    }
    world.check(begin);
    explore(&world, &mut begin.to_vec(), depth);
}

#[test]
fn finding_01_no_crash_takes_synced_bytes_nor_shows_holes_that_nobody_made() {
    explore_after(&[], 5);
    let written = [Step::Write(0, 2), Step::Write(1, 2)];
    for begin in [
        &[Step::Fsync][..],
        &[Step::FsyncBySegments],
        &[Step::Fsync, Step::Stage(u64::MAX)],
        &[Step::Stage(1), Step::Stage(1)],
        &[Step::Fsync, Step::Write(1, 1), Step::Stage(u64::MAX), Step::Write(2, 2)],
        &[Step::Stage(1), Step::Write(2, 2), Step::Stage(u64::MAX)],
    ] {
        explore_after(&[&written, begin].concat(), 4);
    }
}

/// Longer ones, by chance.
#[test]
fn finding_01_nor_after_many_steps() {
    let mut chance = 1u64;
    for _ in 0..2000 {
        let (mut world, mut steps) = (World::new(), Vec::new());
        while steps.len() < 30 {
            // Knuth's MMIX generator; its high bits are good.
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let step = STEPS[(chance >> 33) as usize % STEPS.len()];
            if world.apply(step) {
                steps.push(step);
                world.check(&steps);
            }
        }
        world.check_end(&steps);
    }
}
