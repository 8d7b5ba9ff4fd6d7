use super::*;

/// Notes the length of each write.
#[derive(Default)]
struct Tape {
    blocks: Vec<usize>,
    bytes: Vec<u8>,
}

impl Write for &mut Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.blocks.push(bytes.len());
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_tape_gets_blocks_of_one_length() {
    for (lengths, blocks) in
        [(vec![], 0), (vec![1], 1), (vec![BLOCK_BYTES], 1), (vec![512, BLOCK_BYTES - 512, 1], 2), (vec![200_000], 4)]
    {
        let mut tape = Tape::default();
        let pieces: Vec<Vec<u8>> = lengths.iter().map(|length| vec![7; *length]).collect();
        let mut writer = Blocks::new(&mut tape);
        pieces.iter().for_each(|piece| writer.write(piece).expect("written"));
        writer.finish().expect("written");
        assert_eq!(tape.blocks, vec![BLOCK_BYTES; blocks], "{lengths:?}");
        let (data, padding) = tape.bytes.split_at(lengths.iter().sum());
        assert!(data.iter().all(|byte| *byte == 7) && padding.iter().all(|byte| *byte == 0), "{lengths:?}");
    }
}
