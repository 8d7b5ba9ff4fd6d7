//! Graphs: the data blocks that each check sums, and how graphs are written in specs and files.

use crate::families::parameters::{Problem, count, data_and_parity, require};
use crate::row::{Bits, Row};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Data blocks, and checks that are each the XOR of some of them. Blocks are numbered: data first, then checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    data_count: usize,
    /// By check: the data blocks it sums, ascending.
    checks: Vec<Vec<usize>>,
}

/// The algebra would allow more, but the cost of proving a tolerance grows with a power of this.
const MOST_BLOCKS: usize = 1024;

impl Graph {
    /// A graph of `data_count` data blocks, with the data blocks of each check in any order.
    ///
    /// # Errors
    /// [`Problem::Impossible`]: too few or too many blocks, a check of no blocks or of blocks that do not exist, a data
    /// block that is in no check.
    pub fn new(data_count: usize, mut checks: Vec<Vec<usize>>) -> Result<Graph, Problem> {
        require(data_count >= 1, || "at least 1 data block is needed".to_owned())?;
        require(!checks.is_empty(), || "at least 1 check is needed".to_owned())?;
        let blocks = data_count.saturating_add(checks.len());
        require(blocks <= MOST_BLOCKS, || format!("a graph has at most {MOST_BLOCKS} blocks, not {blocks}"))?;
        let mut is_covered = vec![false; data_count];
        for (index, check) in checks.iter_mut().enumerate() {
            check.sort_unstable();
            require(!check.is_empty(), || format!("check {index} sums no data block"))?;
            for (place, &data) in check.iter().enumerate() {
                let last = data_count - 1;
                require(data < data_count, || format!("check {index} sums data block {data}, but the last is {last}"))?;
                require(place == 0 || check[place - 1] != data, || {
                    format!("check {index} sums data block {data} twice")
                })?;
                is_covered[data] = true;
            }
        }
        match is_covered.iter().position(|&covered| !covered) {
            Some(data) => Err(Problem::Impossible(format!("data block {data} is in no check, so its loss is final"))),
            None => Ok(Graph { data_count, checks }),
        }
    }

    /// The graph whose check `c` sums the data blocks whose bits are set in `masks[c]`.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn from_masks(data_count: usize, masks: &[u64]) -> Result<Graph, Problem> {
        let bits = |mask: &u64| (0..u64::BITS as usize).filter(|bit| mask >> bit & 1 == 1).collect();
        Graph::new(data_count, masks.iter().map(bits).collect())
    }

    /// Reads `data+checks:mask,mask,...`: per check a hexadecimal mask, bit `i` of it is data block `i`.
    ///
    /// # Errors
    /// [`Problem::Syntax`], or as [`Graph::new`].
    pub fn from_spec(text: &str) -> Result<Graph, Problem> {
        let (counts, masks) = text.split_once(':').ok_or(Problem::Syntax)?;
        let (data_count, check_count) = data_and_parity(counts)?;
        let checks: Vec<Vec<usize>> = masks.split(',').map(bits_of_hexadecimal).collect::<Result<_, _>>()?;
        Graph::checked(data_count, check_count, checks)
    }

    /// Reads a graph file: a line `data+checks`, then a line per check with the numbers of its data blocks. Empty lines
    /// and everything after a `#` are skipped.
    ///
    /// # Errors
    /// [`Problem::Impossible`] with the line that is wrong, or as [`Graph::new`].
    pub fn from_file(text: &str) -> Result<Graph, Problem> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let unread = |number: usize, what: &str| Problem::Impossible(format!("line {number} is not {what}"));
        let Some((number, counts)) = lines.next() else {
            return Err(Problem::Impossible("the file has no line with data+checks, as in 8+6".to_owned()));
        };
        let (data_count, check_count) =
            data_and_parity(counts).map_err(|_| unread(number, "a count of data blocks and checks, as in 8+6"))?;
        let check = |(number, line): (usize, &str)| {
            let blocks: Result<Vec<usize>, Problem> = line.split_whitespace().map(count).collect();
            blocks.map_err(|_| unread(number, "a list of data blocks, as in 0 2 4"))
        };
        let checks: Vec<Vec<usize>> = lines.map(check).collect::<Result<_, _>>()?;
        Graph::checked(data_count, check_count, checks)
    }

    fn checked(data_count: usize, check_count: usize, checks: Vec<Vec<usize>>) -> Result<Graph, Problem> {
        let given = checks.len();
        require(given == check_count, || format!("{check_count} checks are announced, but {given} given"))?;
        Graph::new(data_count, checks)
    }

    /// The canonical parameters of this graph, as [`Graph::from_spec`] reads them.
    #[must_use]
    pub fn to_spec(&self) -> String {
        let masks: Vec<String> = self.checks.iter().map(|check| hexadecimal_of_bits(check)).collect();
        format!("{}+{}:{}", self.data_count, self.checks.len(), masks.join(","))
    }

    /// The number of data blocks.
    #[must_use]
    pub fn data_count(&self) -> usize {
        self.data_count
    }

    /// By check: the data blocks it sums, ascending.
    #[must_use]
    pub fn checks(&self) -> &[Vec<usize>] {
        &self.checks
    }

    /// Data blocks and checks together.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.data_count + self.checks.len()
    }

    /// By check: the blocks whose XOR is zero, that is its data blocks and itself.
    pub(super) fn equations(&self) -> Vec<Vec<usize>> {
        let with_check =
            |(index, check): (usize, &Vec<usize>)| check.iter().copied().chain([self.data_count + index]).collect();
        self.checks.iter().enumerate().map(with_check).collect()
    }

    /// The block as a sum of data blocks.
    pub(super) fn row(&self, block: usize) -> Bits {
        let mut row = Bits::zeros(self.data_count);
        match block.checked_sub(self.data_count) {
            None => row.set(block),
            Some(check) => self.checks[check].iter().for_each(|&data| row.set(data)),
        }
        row
    }
}

fn bits_of_hexadecimal(text: &str) -> Result<Vec<usize>, Problem> {
    let mut bits = Vec::new();
    for (place, digit) in text.chars().rev().enumerate() {
        let value = digit.to_digit(16).ok_or(Problem::Syntax)?;
        bits.extend((0..4).filter(|bit| value >> bit & 1 == 1).map(|bit| 4 * place + bit));
    }
    Ok(bits)
}

fn hexadecimal_of_bits(bits: &[usize]) -> String {
    let digit_count = bits.last().map_or(1, |last| last / 4 + 1);
    let mut digits = vec![0; digit_count];
    for bit in bits {
        digits[digit_count - 1 - bit / 4] |= 1 << (bit % 4);
    }
    digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)).collect()
}
