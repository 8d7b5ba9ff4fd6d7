use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Dirty,
    /// In the upload of this number.
    InFlight(usize),
    Durable,
}

/// A file of some blocks, as a buffer has it.
#[derive(Debug)]
struct Model {
    blocks: Vec<(Where, bool)>,
    committed_size: u64,
    uploads: usize,
    unstaged_count: u64,
    journal_blocks_max: usize,
}

impl Model {
    fn count(&self, is: impl Fn(Where) -> bool) -> usize {
        self.blocks.iter().filter(|(block, _)| is(*block)).count()
    }

    fn standing(&self) -> Standing {
        let dirty = self.count(|block| block == Where::Dirty);
        Standing {
            size: self.blocks.len() as u64,
            committed_size: self.committed_size,
            unjournaled_bytes: dirty as u64,
            unsaved: self.committed_size != self.blocks.len() as u64,
            is_in_flight: self.count(|block| matches!(block, Where::InFlight(_))) > 0,
            unstaged_count: self.unstaged_count,
            fits_journal: dirty <= self.journal_blocks_max,
        }
    }

    /// Somebody else writes a block; what it replaces is owed to nobody any more.
    fn write(&mut self, at: usize) {
        match self.blocks.get_mut(at) {
            Some(block) => *block = (Where::Dirty, false),
            None => self.blocks.push((Where::Dirty, false)),
        }
    }

    /// All that is dirty goes into one upload.
    fn send(&mut self) {
        let upload = self.uploads;
        self.uploads += 1;
        self.blocks.iter_mut().filter(|(block, _)| *block == Where::Dirty).for_each(|(block, _)| {
            *block = Where::InFlight(upload);
        });
    }

    /// The first of the uploads in flight settles: committed up to the first block before it that is not durable and lay beyond the
    /// committed end, or dirty again.
    fn settle(&mut self, is_committed: bool) {
        let in_flight = self.blocks.iter().filter_map(|(block, _)| match block {
            Where::InFlight(upload) => Some(*upload),
            _ => None,
        });
        let Some(first) = in_flight.min() else { return };
        let ours = Where::InFlight(first);
        let beyond = self.blocks.iter().enumerate().skip(self.committed_size as usize);
        let limit =
            beyond.filter(|(_, (block, _))| *block != ours && *block != Where::Durable).map(|(at, _)| at).next();
        let limit = if is_committed { limit.unwrap_or(usize::MAX) } else { 0 };
        let mut is_any_back = false;
        for (at, (block, _)) in self.blocks.iter_mut().enumerate().filter(|(_, (block, _))| *block == ours) {
            is_any_back |= at >= limit;
            *block = if at < limit { Where::Durable } else { Where::Dirty };
        }
        self.unstaged_count += u64::from(is_any_back);
        let size = self.committed_size as usize;
        let more = self.blocks[size..].iter().take_while(|(block, _)| *block == Where::Durable).count();
        self.committed_size += more as u64;
    }
}

proptest! {
    /// Others write and upload, uploads fail: what was written before is durable when it is done, and it ends once nothing fails.
    #[test]
    fn what_was_written_before_is_durable(
        blocks in prop::collection::vec(0..3_u8, 0..6),
        committed_size in 0..7_u64,
        journal_blocks_max in 0..4_usize,
        chance in prop::collection::vec((0..6_u8, 0..8_usize), 0..40),
    ) {
        let committed_size = committed_size.min(blocks.len() as u64);
        let mut model = Model { blocks: Vec::new(), committed_size, uploads: 0, unstaged_count: 0, journal_blocks_max };
        for (at, block) in (0..).zip(blocks) {
            let block = match block {
                0 => Where::InFlight(model.uploads),
                1 if at < committed_size => Where::Durable,
                _ => Where::Dirty,
            };
            model.uploads += usize::from(block != Where::Dirty);
            model.blocks.push((block, true));
        }
        let owed_size = model.blocks.len() as u64;
        let mut durable = Durable::new(model.blocks.len() as u64);
        let mut chance = chance.into_iter();
        for round in 0.. {
            prop_assert!(round < 100, "it ends: {model:?}");
            match durable.next(&model.standing()) {
                Step::Done => break,
                Step::Journal => {
                    prop_assert_eq!(model.count(|block| matches!(block, Where::InFlight(_))), 0);
                    model.blocks.iter_mut().for_each(|(block, _)| *block = Where::Durable);
                    model.committed_size = model.blocks.len() as u64;
                    break;
                }
                Step::Wait { sends } => {
                    if sends {
                        model.send();
                    }
                    let last = model.uploads;
                    let awaits = |block: Where| matches!(block, Where::InFlight(upload) if upload < last);
                    while model.count(awaits) > 0 {
                        match chance.next() {
                            Some((0, at)) => model.write(at),
                            Some((1, _)) => model.send(),
                            Some((2, _)) => model.settle(false),
                            // A cut has failed after the store had made it.
                            Some((3, at)) => model.committed_size = model.committed_size.min(at as u64),
                            _ => model.settle(true),
                        }
                    }
                }
            }
        }
        prop_assert!(model.committed_size >= owed_size, "{:?}", model);
        prop_assert!(model.blocks.iter().all(|(block, is_owed)| !is_owed || *block == Where::Durable), "{:?}", model);
    }
}

#[test]
fn few_bytes_are_journaled_and_many_uploaded() {
    let alone = Standing {
        size: 10,
        committed_size: 0,
        unjournaled_bytes: 10,
        unsaved: true,
        is_in_flight: false,
        unstaged_count: 0,
        fits_journal: true,
    };
    assert_eq!(Durable::new(10).next(&alone), Step::Journal);
    let clean = Standing { committed_size: 10, unjournaled_bytes: 0, unsaved: false, ..alone };
    assert_eq!(Durable::new(10).next(&clean), Step::Done);
    let large = Standing { fits_journal: false, ..alone };
    assert_eq!(Durable::new(10).next(&large), Step::Wait { sends: true });

    // While others write, something is always in flight: the second time all is sent.
    let busy = Standing { is_in_flight: true, ..alone };
    let mut durable = Durable::new(10);
    assert_eq!(durable.next(&busy), Step::Wait { sends: false });
    assert_eq!(durable.next(&busy), Step::Wait { sends: true });
    assert_eq!(durable.next(&Standing { committed_size: 10, unstaged_count: 1, ..busy }), Step::Wait { sends: true });
    assert_eq!(durable.next(&Standing { committed_size: 10, unstaged_count: 1, ..busy }), Step::Done);
}
