//! Each codec as a task: the same symbols in, the same work, by its own fastest way.

use std::fmt;
use tape_reed_solomon::ReedSolomon;
use weft_codes::measure::{Stripe, Task};
use weft_codes::{Compiled, Executor, Matrix, Offer, Offers, Program, Wanted};

/// Names of the peers, in the order of the table's columns. All take the best instructions that the machine has; `ISA-L AVX2`
/// takes no others than that.
pub const NAMES: [&str; 6] =
    ["ISA-L", ISA_L_AVX2, "tape-reed-solomon", "rusty_erasure", "reed-solomon-simd", crate::klauspost::NAME];

const ISA_L_AVX2: &str = "ISA-L AVX2";

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
    /// The first data shard from the others and the first parity: where that is their sum, a plain sum.
    DecodeOne,
    /// The P and Q of RAID-6, beside ISA-L's own function for them.
    PAndQ,
}

impl Operation {
    /// What there is to do with such shards.
    pub fn of(shape: Shape) -> impl Iterator<Item = Operation> {
        let all = [Operation::Encode, Operation::Decode, Operation::DecodeOne, Operation::PAndQ];
        all.into_iter().filter(move |&operation| match operation {
            Operation::Encode | Operation::Decode => true,
            Operation::DecodeOne => shape.m < 50,
            Operation::PAndQ => shape.m == 2,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Operation::Encode => "encode",
            Operation::Decode => "decode",
            Operation::DecodeOne => "decode one",
            Operation::PAndQ => "P+Q",
        }
    }

    /// Data shards that are lost.
    pub fn lost(self, shape: Shape) -> usize {
        match self {
            Operation::Encode | Operation::PAndQ => 0,
            Operation::Decode => shape.m.min(shape.k),
            Operation::DecodeOne => 1,
        }
    }

    /// Shards that are computed.
    pub fn outputs(self, shape: Shape) -> usize {
        match self {
            Operation::Encode | Operation::PAndQ => shape.m,
            Operation::Decode | Operation::DecodeOne => self.lost(shape),
        }
    }
}

/// A codec and what it has to do.
pub struct Contender<'a> {
    pub name: &'static str,
    pub task: Task<'a>,
}

type Failure = Box<dyn std::error::Error>;

/// Everyone who runs in this process: each of our sets of kernels, by its name, then the peers.
pub fn contenders<'a>(
    executors: &'a [Executor],
    shape: Shape,
    operation: Operation,
    cell_bytes: usize,
) -> Result<Vec<Contender<'a>>, Failure> {
    let program = our_program(shape, operation)?;
    let matrix = program.to_matrix()?;
    let stripe = Stripe::of_cells(program.input_count, program.output_count, cell_bytes);
    let compiled = Compiled::new(program)?;
    let ours = executors.iter().map(|executor| {
        let task = Task::of_program(compiled.clone(), stripe.clone(), executor);
        Contender { name: executor.name(), task }
    });
    let mut contenders: Vec<Contender<'a>> = ours.collect();
    if operation == Operation::PAndQ {
        contenders.push(Contender { name: "ISA-L", task: isal_p_and_q(shape, cell_bytes) });
        return Ok(contenders);
    }
    let is_sum = matrix.rows() == 1 && matrix.row(0).iter().all(|&element| element == 1);
    let peers = [
        ("ISA-L", if is_sum { isal_sum(shape.k, cell_bytes) } else { isal(&matrix, cell_bytes, ec_encode_data) }),
        ("tape-reed-solomon", tape(shape, operation, cell_bytes)?),
        ("rusty_erasure", rusty(shape, operation, cell_bytes)?),
        ("reed-solomon-simd", simd(shape, operation, cell_bytes)?),
    ];
    contenders.extend(peers.map(|(name, task)| Contender { name, task }));
    if std::arch::is_x86_feature_detected!("avx2") && !is_sum {
        contenders.push(Contender { name: ISA_L_AVX2, task: isal(&matrix, cell_bytes, ec_encode_data_avx2) });
    }
    Ok(contenders)
}

fn our_program(shape: Shape, operation: Operation) -> Result<Program, Failure> {
    let code = match operation {
        Operation::PAndQ => weft_codes::parse(&format!("raid6:{}", shape.k + 2))?,
        _ => weft_codes::parse(&format!("rs:{shape}"))?,
    };
    if matches!(operation, Operation::Encode | Operation::PAndQ) {
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
    fn ec_encode_data_avx2(
        len: i32,
        k: i32,
        rows: i32,
        tables: *const u8,
        data: *const *const u8,
        coding: *const *mut u8,
    );
    fn pq_gen(count: i32, len: i32, shards: *const *mut u8) -> i32;
    fn xor_gen(count: i32, len: i32, shards: *const *mut u8) -> i32;
}

type Encode = unsafe extern "C" fn(i32, i32, i32, *const u8, *const *const u8, *const *mut u8);

/// ISA-L takes any matrix: it gets ours.
fn isal(matrix: &Matrix, cell_bytes: usize, encode: Encode) -> Task<'static> {
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
        unsafe { encode(bytes as i32, columns as i32, rows as i32, tables.as_ptr(), data.as_ptr(), coding.as_ptr()) };
    };
    Task { stripe: Stripe::of_cells(columns, rows, cell_bytes), work: Box::new(work) }
}

/// All shards, inputs first, as its sums take them.
fn shards(inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Vec<*mut u8> {
    let inputs = inputs.iter().map(|input| input.as_ptr().cast_mut());
    inputs.chain(outputs.iter_mut().map(|output| output.as_mut_ptr())).collect()
}

fn isal_p_and_q(shape: Shape, cell_bytes: usize) -> Task<'static> {
    let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
        let (bytes, all) = (inputs[0].len(), shards(inputs, outputs));
        // SAFETY: all shards have `bytes` bytes, the last two writable, all aligned as it asks.
        assert_eq!(unsafe { pq_gen(all.len() as i32, bytes as i32, all.as_ptr()) }, 0, "fits");
    };
    Task { stripe: Stripe::of_cells(shape.k, 2, cell_bytes), work: Box::new(work) }
}

fn isal_sum(k: usize, cell_bytes: usize) -> Task<'static> {
    let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
        let (bytes, all) = (inputs[0].len(), shards(inputs, outputs));
        // SAFETY: all shards have `bytes` bytes, the last writable, all aligned as it asks.
        assert_eq!(unsafe { xor_gen(all.len() as i32, bytes as i32, all.as_ptr()) }, 0, "fits");
    };
    Task { stripe: Stripe::of_cells(k, 1, cell_bytes), work: Box::new(work) }
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
    let code = weft_codes::parse(&format!("rs:{k}+{m}")).map_err(debug)?;
    let whole = weft_codes::linear::generator(&*code).map_err(debug)?;
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
