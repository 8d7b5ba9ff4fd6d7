//! Vector instructions are instructions: in an optimised build none of the functions that stand for them is left, nor any
//! part of a kernel. One that the compiler does not inline, as a closure that does not have its kernel's instructions, makes
//! each instruction a call, and the kernel ten to fifty times slower, with the same bytes.
//!
//! Read from the symbols of this program, which therefore contains the crate and the standard library alone. The crate is
//! optimised in all builds of this workspace.
#![cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]

use std::ops::Range;
use weft_codes::Executor;

/// The section of symbols, and what it may have between it and its names.
const SYMBOL_TABLE: u32 = 2;

/// Names of all symbols of an ELF file of 64 bits, little-endian; none where it has none.
fn symbol_names(elf: &[u8]) -> Vec<&str> {
    let number = |range: Range<usize>| elf[range].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte));
    let (first, size, count) = (number(0x28..0x30), number(0x3a..0x3c), number(0x3c..0x3e));
    let section = |index: usize| first + index * size;
    let is_symbols = |&header: &usize| number(header + 4..header + 8) == SYMBOL_TABLE as usize;
    let Some(symbols) = (0..count).map(section).find(is_symbols) else {
        return Vec::new();
    };
    let names = section(number(symbols + 0x28..symbols + 0x2c));
    let (start, bytes) = (number(names + 0x18..names + 0x20), number(names + 0x20..names + 0x28));
    elf[start..start + bytes].split(|&byte| byte == 0).filter_map(|name| str::from_utf8(name).ok()).collect()
}

/// Is it a function for one instruction of vectors? The standard library has some for the kind of processor.
fn is_instruction(name: &str) -> bool {
    name.contains("core_arch") && !name.contains("cpuid") && !name.contains("xgetbv")
}

/// Is it a part of a kernel, which belongs into the functions that have its instructions?
fn is_part(name: &str) -> bool {
    name.contains("weft_codes") && name.contains("kernels")
}

#[test]
fn no_vector_instruction_is_a_call() {
    // Without a use of the crate it would not be linked.
    assert!(!Executor::all().is_empty());
    let program = std::env::current_exe().and_then(std::fs::read).expect("this program can read itself");
    let names = symbol_names(&program);
    let kernels = names.iter().filter(|name| name.contains("weft_codes") && name.contains("KERNELS")).count();
    assert!(kernels > 0 || cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))), "symbols were stripped");
    let left: Vec<&&str> = names.iter().filter(|name| is_instruction(name) || is_part(name)).collect();
    assert!(left.is_empty(), "these are to be inlined into kernels, but are functions: {left:#?}");
}
