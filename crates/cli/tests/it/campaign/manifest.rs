//! What an observer outside of the volume knows of one file.

use std::collections::BTreeSet;

/// Something done to a file since the last fsync that was acknowledged.
#[derive(Clone, Debug)]
pub enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

/// One file: what must be there, and what may be.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its bytes at the last acknowledged fsync; none before the first.
    synced: Option<Vec<u8>>,
    since: Vec<Change>,
    /// As the program sees it.
    now: Vec<u8>,
    /// A change failed: nobody knows how much of it was done.
    is_in_doubt: bool,
}

impl Known {
    pub fn now(&self) -> &[u8] {
        &self.now
    }

    /// The last change failed. From here on only looking says what the file holds.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Noted before the call is made: it may have any part of its effect.
    pub fn change(&mut self, change: Change) {
        match &change {
            Change::Write { offset, bytes } => {
                assert!(*offset <= self.now.len(), "a load without holes");
                let end = offset + bytes.len();
                self.now.resize(self.now.len().max(end), 0);
                self.now[*offset..end].copy_from_slice(bytes);
            }
            Change::Truncate(length) => self.now.truncate(*length),
        }
        self.since.push(change);
    }

    /// An fsync that began after the last change has returned 0.
    pub fn sync(&mut self) {
        assert!(!self.is_in_doubt, "nobody knows what was synced");
        self.synced = Some(self.now.clone());
        self.since.clear();
    }

    /// Found after everything that could be lost was lost; from now on it is what the file holds.
    pub fn found(&mut self, bytes: Option<Vec<u8>>) -> Result<(), String> {
        let Some(bytes) = bytes else {
            if self.synced.is_some() {
                return Err("it was synced and is gone".into());
            }
            *self = Self::default();
            return Ok(());
        };
        self.check(&bytes)?;
        *self = Self { now: bytes, synced: self.synced.take(), ..Self::default() };
        Ok(())
    }

    /// Every byte is the synced one or one that was written there since, and the file ends where it may.
    fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let synced = self.synced.as_deref().unwrap_or_default();
        let (mut length, mut lengths) = (synced.len(), BTreeSet::from([synced.len()]));
        for change in &self.since {
            length = match change {
                Change::Write { offset, bytes } => length.max(offset + bytes.len()),
                Change::Truncate(to) => length.min(*to),
            };
            lengths.insert(length);
        }
        let (least, most) = (lengths.first().copied().unwrap_or(0), lengths.last().copied().unwrap_or(0));
        if bytes.len() < least || bytes.len() > most {
            return Err(format!(
                "it has {} bytes, and was never shorter than {least} or longer than {most}",
                bytes.len()
            ));
        }
        for (at, byte) in bytes.iter().enumerate() {
            let is_synced = synced.get(at) == Some(byte);
            let is_written = || self.since.iter().any(|change| change.wrote(at, *byte));
            if !is_synced && !is_written() {
                let run = bytes[at..].iter().take_while(|found| *found == byte).count();
                return Err(format!(
                    "byte {at} of {} is {byte} ({run} times), and {:?} was synced there ({} bytes were synced, {} changes since)",
                    bytes.len(),
                    synced.get(at),
                    synced.len(),
                    self.since.len()
                ));
            }
        }
        Ok(())
    }
}

impl Change {
    fn wrote(&self, at: usize, byte: u8) -> bool {
        match self {
            Change::Write { offset, bytes } => at >= *offset && bytes.get(at - offset) == Some(&byte),
            Change::Truncate(_) => false,
        }
    }
}

#[test]
fn the_manifest_finds_bytes_that_nobody_wrote() {
    let mut known = Known::default();
    known.change(Change::Write { offset: 0, bytes: vec![1; 10] });
    assert!(known.clone().found(None).is_ok(), "nothing was promised yet");
    known.sync();
    known.change(Change::Write { offset: 5, bytes: vec![2; 10] });
    assert!(known.clone().found(None).is_err());
    assert!(known.clone().found(Some(vec![1; 10])).is_ok());
    assert!(known.clone().found(Some([[1; 5], [2; 5], [2; 5]].concat())).is_ok());
    assert!(known.clone().found(Some(vec![1; 9])).is_err());
    assert!(known.clone().found(Some([[1; 5], [0; 5]].concat())).is_err());
    assert!(known.clone().found(Some([[1; 5], [2; 5], [0; 5]].concat())).is_err());
    known.change(Change::Truncate(3));
    assert!(known.clone().found(Some(vec![1; 3])).is_ok());
    assert!(known.found(Some(vec![1; 2])).is_err());
}
