//! Each codec as a task: the same symbols in, the same work, by its own fastest way.

use std::fmt;
use tape_reed_solomon::ReedSolomon;
use weft_codes::families::rs;
use weft_codes::measure::{Stripe, Task};
use weft_codes::{Compiled, Matrix, Offer, Offers, Program, Wanted};

/// Name of our own codec.
pub const OURS: &str = "weft";

/// Names of the peers, in the order of the table's columns.
pub const NAMES: [&str; 5] =
    ["ISA-L", "tape-reed-solomon", "rusty_erasure", "reed-solomon-simd", crate::klauspost::NAME];

/// `k` data and `m` parity shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub k: usize,
    pub m: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.k, self.m)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// All parities from the data.
    Encode,
    /// The first m data shards from what is left.
    Decode,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Encode => "encode",
            Operation::Decode => "decode",
        }
    }

    /// Data shards that are lost.
    pub fn lost(self, shape: Shape) -> usize {
        match self {
            Operation::Encode => 0,
            Operation::Decode => shape.m.min(shape.k),
        }
    }
}

/// A codec and what it has to do.
pub struct Contender {
    pub name: &'static str,
    pub task: Task<'static>,
}

type Failure = Box<dyn std::error::Error>;

/// Everyone who runs in this process.
pub fn contenders(shape: Shape, operation: Operation, cell_bytes: usize) -> Result<Vec<Contender>, Failure> {
    let program = our_program(shape, operation)?;
    let isal = isal(&program.to_matrix()?, cell_bytes);
    let stripe = Stripe::of_cells(program.input_count, program.output_count, cell_bytes);
    let ours = Task::of_program(Compiled::new(program)?, stripe, weft_codes::executor());
    let contenders = [
        (OURS, ours),
        ("ISA-L", isal),
        ("tape-reed-solomon", tape(shape, operation, cell_bytes)?),
        ("rusty_erasure", rusty(shape, operation, cell_bytes)?),
        ("reed-solomon-simd", simd(shape, operation, cell_bytes)?),
    ];
    Ok(contenders.map(|(name, task)| Contender { name, task }).into())
}

fn our_program(shape: Shape, operation: Operation) -> Result<Program, Failure> {
    let code = weft_codes::parse(&format!("rs:{shape}"))?;
    if operation == Operation::Encode {
        return Ok(code.encode().clone());
    }
    let lost = operation.lost(shape);
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    let have = Offers((0..shape.k + shape.m).map(|shard| (shard >= lost).then_some(offer)).collect());
    Ok(code.plan(&Wanted::Natives((0..lost).collect()), &have)?.program)
}

#[link(name = "isal")]
unsafe extern "C" {
    fn ec_init_tables(k: i32, rows: i32, matrix: *const u8, tables: *mut u8);
    fn ec_encode_data(len: i32, k: i32, rows: i32, tables: *const u8, data: *const *const u8, coding: *const *mut u8);
}

/// ISA-L takes any matrix: it gets ours.
fn isal(matrix: &Matrix, cell_bytes: usize) -> Task<'static> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let elements: Vec<u8> = (0..rows).flat_map(|row| matrix.row(row)).copied().collect();
    let mut tables = vec![0; 32 * rows * columns];
    // SAFETY: 32 bytes of table for each element, as its documentation asks.
    unsafe { ec_init_tables(columns as i32, rows as i32, elements.as_ptr(), tables.as_mut_ptr()) };
    let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
        assert_eq!((inputs.len(), outputs.len()), (columns, rows), "as many symbols as the matrix has");
        let bytes = inputs[0].len();
        let data: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr()).collect();
        let coding: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        // SAFETY: `columns` readable and `rows` writable symbols of so many bytes, and tables for them.
        unsafe {
            ec_encode_data(bytes as i32, columns as i32, rows as i32, tables.as_ptr(), data.as_ptr(), coding.as_ptr());
        }
    };
    Task { stripe: Stripe::of_cells(columns, rows, cell_bytes), work: Box::new(work) }
}

fn tape(shape: Shape, operation: Operation, cell_bytes: usize) -> Result<Task<'static>, Failure> {
    let coder = ReedSolomon::new(shape.k, shape.m)?;
    let n = shape.k + shape.m;
    if operation == Operation::Encode {
        let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            coder.encode_sep(inputs, outputs).expect("fits");
        };
        return Ok(Task { stripe: Stripe::of_cells(shape.k, shape.m, cell_bytes), work: Box::new(work) });
    }
    let is_present: Vec<bool> = (0..n).map(|shard| shard >= operation.lost(shape)).collect();
    let decoder = coder.prepare_decode(&is_present)?;
    // It wants all shards writable.
    let work = move |_: &[&[u8]], outputs: &mut [&mut [u8]]| {
        let mut shards: Vec<(&mut [u8], bool)> =
            outputs.iter_mut().zip(&is_present).map(|(shard, &is_present)| (&mut **shard, is_present)).collect();
        decoder.reconstruct_data(&mut shards).expect("fits");
    };
    Ok(Task { stripe: Stripe::of_cells(0, n, cell_bytes), work: Box::new(work) })
}

fn rusty(shape: Shape, operation: Operation, cell_bytes: usize) -> Result<Task<'static>, Failure> {
    let Shape { k, m } = shape;
    // Our matrix, in its hands too: the first parity is then a plain sum, if it knows how to use that.
    let whole = Matrix::identity(k).stack(&rs::normalised_cauchy(k, m));
    let elements = (0..k + m).flat_map(|row| whole.row(row).to_vec()).collect();
    let coder =
        rusty_erasure::coder(rusty_erasure::Matrix::from_bytes(k + m, k, elements).map_err(debug)?).map_err(debug)?;
    let lost = operation.lost(shape);
    if operation == Operation::Encode {
        let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| coder.encode(inputs, outputs).expect("fits");
        return Ok(Task { stripe: Stripe::of_cells(k, m, cell_bytes), work: Box::new(work) });
    }
    let is_present: Vec<bool> = (0..k + m).map(|shard| shard >= lost).collect();
    let rebuilt: Vec<usize> = (0..lost).collect();
    let plan = coder.decode_plan(&is_present, &rebuilt).map_err(debug)?;
    let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
        let present = inputs.iter().copied().map(Some);
        let shards: Vec<Option<&[u8]>> = std::iter::repeat_n(None, lost).chain(present).collect();
        coder.recover_with(&plan, &shards, outputs).expect("fits");
    };
    Ok(Task { stripe: Stripe::of_cells(k + m - lost, lost, cell_bytes), work: Box::new(work) })
}

/// It copies shards into memory of its own, and gives results there.
fn simd(shape: Shape, operation: Operation, cell_bytes: usize) -> Result<Task<'static>, Failure> {
    let Shape { k, m } = shape;
    if operation == Operation::Encode {
        let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(k, m, cell_bytes)?;
        let work = move |inputs: &[&[u8]], _: &mut [&mut [u8]]| {
            inputs.iter().for_each(|input| encoder.add_original_shard(input).expect("fits"));
            std::hint::black_box(encoder.encode().expect("fits").recovery(0));
        };
        return Ok(Task { stripe: Stripe::of_cells(k, 0, cell_bytes), work: Box::new(work) });
    }
    let lost = operation.lost(shape);
    let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(k, m, cell_bytes)?;
    let work = move |inputs: &[&[u8]], _: &mut [&mut [u8]]| {
        for (index, input) in inputs.iter().enumerate().map(|(index, input)| (index + lost, input)) {
            let added = match index {
                _ if index < k => decoder.add_original_shard(index, input),
                _ => decoder.add_recovery_shard(index - k, input),
            };
            added.expect("fits");
        }
        std::hint::black_box(decoder.decode().expect("fits").restored_original(0));
    };
    // Exactly as many parities as are needed.
    Ok(Task { stripe: Stripe::of_cells(k, 0, cell_bytes), work: Box::new(work) })
}

fn debug(error: impl fmt::Debug) -> String {
    format!("{error:?}")
}
