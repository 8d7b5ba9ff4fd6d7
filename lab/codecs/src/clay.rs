//! Clay codes, beside the crate clay-codes: encode, and repair of shard 0 from the least that has to be read.

use clay_codes::ClayCode;
use std::time::Instant;
use weft_codes::measure::{self, Effort, Memory, PLACES, Stripe, Task};

/// One more table: GB/s of data for encode, of rebuilt bytes for repair.
pub fn table(memory: &mut Memory) -> Result<(), Box<dyn std::error::Error>> {
    println!("\n| code | what | cells | ours | clay-codes | times |\n|---|---|---|---|---|---|");
    for (k, m) in [(4, 2), (8, 4), (10, 4)] {
        for place in &PLACES[..3] {
            let effort = Effort::default();
            let start = Instant::now();
            let clock = || start.elapsed();
            let ours = match weft_codes::parse(&format!("clay:{k}+{m}")) {
                Ok(code) => measure::code(&*code, weft_codes::executor(), place, effort, memory, &clock).ok(),
                Err(_) => None,
            };
            let peer = ClayCode::new_default(k, m)?;
            let cell_bytes = peer.chunk_size(k * place.cell_bytes);
            let data = vec![7; k * place.cell_bytes];
            let mut chunks = vec![vec![0; cell_bytes]; k + m];
            let mut rows: Vec<&mut [u8]> = chunks.iter_mut().map(Vec::as_mut_slice).collect();
            peer.encode_into(&data, &mut rows)?;

            let helpers: Vec<usize> = (1..k + m).collect();
            let sub_bytes = cell_bytes / peer.sub_chunk_no;
            let mut partials: Vec<Option<Vec<u8>>> = vec![None; k + m];
            for (helper, subs) in peer.minimum_to_repair(0, &helpers)? {
                let read = |sub: &usize| chunks[helper][sub * sub_bytes..(sub + 1) * sub_bytes].to_vec();
                partials[helper] = Some(subs.iter().flat_map(read).collect());
            }
            let partials: Vec<Option<&[u8]>> = partials.iter().map(Option::as_deref).collect();
            let encode = |_: &[&[u8]], outputs: &mut [&mut [u8]]| peer.encode_into(&data, outputs).expect("fits");
            let repair = |_: &[&[u8]], _: &mut [&mut [u8]]| {
                std::hint::black_box(peer.repair_rows(0, &partials, cell_bytes).expect("fits"));
            };
            let mut tasks = [
                Task { stripe: Stripe::of_cells(0, k + m, cell_bytes), work: Box::new(encode) },
                Task { stripe: Stripe::of_cells(0, 0, cell_bytes), work: Box::new(repair) },
            ];
            let seconds = measure::race(&mut tasks, place, effort, memory, &clock);
            let theirs = [data.len() as f64 / seconds[0] / 1e9, cell_bytes as f64 / seconds[1] / 1e9];
            let ours = ours.and_then(|speeds| Some([speeds.encode?.gigabytes(), speeds.repair?.gigabytes()]));
            for (index, what) in ["encode", "repair"].into_iter().enumerate() {
                let (own, times) = match ours {
                    Some(ours) => (format!("{:.1}", ours[index]), format!("{:.1}", ours[index] / theirs[index])),
                    None => ("-".to_owned(), "-".to_owned()),
                };
                println!("| {k}+{m} | {what} | {} | {own} | {:.1} | {times} |", place.name, theirs[index]);
            }
        }
    }
    Ok(())
}
