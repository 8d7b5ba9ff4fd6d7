use super::*;

fn program(ops: Vec<Op>) -> Program {
    Program { input_count: 2, output_count: 2, temporary_count: 1, ops }
}

fn xor(from: &[SymbolId], to: SymbolId) -> Op {
    Op::Xor { from: from.to_vec(), to }
}

fn dot(from: &[SymbolId], to: &[SymbolId], rows: &[&[u8]]) -> Op {
    let coefficients = Matrix::from_rows(rows[0].len(), rows).expect("rows of equal length");
    Op::Dot { from: from.to_vec(), to: to.to_vec(), coefficients }
}

#[test]
fn a_program_is_printed_and_evaluated() {
    let program = program(vec![xor(&[0, 1], 4), dot(&[4, 1], &[2], &[&[2, 3]]), Op::Copy { from: 4, to: 3 }]);
    assert_eq!(
        program.to_string(),
        "2 inputs, 2 outputs, 1 temporaries\nt0 = i0 + i1\no0 = [2 3] * (t0, i1)\no1 = t0\n"
    );
    assert_eq!(program.to_matrix().map(|m| m.to_string()), Ok("[2 1; 1 1]".to_owned()));
}

/// Outputs that other outputs are made of, an output named twice, and a symbol read twice.
#[test]
fn rows_of_some_outputs_are_those_of_the_matrix() {
    let ops = vec![xor(&[0, 1], 4), dot(&[4, 1], &[2], &[&[2, 3]]), dot(&[2, 4], &[3], &[&[5, 7]])];
    let program = program(ops);
    let matrix = program.to_matrix().expect("valid");
    for outputs in [&[][..], &[0], &[1], &[1, 0, 1]] {
        assert_eq!(program.rows_of(outputs), Ok(matrix.select_rows(outputs)));
    }
}

#[test]
fn a_sum_of_nothing_is_zero() {
    let program = program(vec![xor(&[], 2), xor(&[2, 0], 3)]);
    assert_eq!(program.to_matrix().map(|m| m.to_string()), Ok("[0 0; 1 0]".to_owned()));
    assert!(program.to_string().contains("o0 = 0\n"));
}

#[test]
fn invalid_programs_are_refused() {
    let verify = |ops| program(ops).verify();
    assert_eq!(verify(vec![xor(&[0, 5], 2)]), Err(ProgramError::NoSuchSymbol { op: 0, symbol: 5, symbol_count: 5 }));
    assert_eq!(verify(vec![xor(&[4], 2)]), Err(ProgramError::ReadBeforeWritten { op: 0, symbol: 4 }));
    assert_eq!(verify(vec![xor(&[2, 0], 2)]), Err(ProgramError::ReadBeforeWritten { op: 0, symbol: 2 }));
    assert_eq!(verify(vec![xor(&[0], 1)]), Err(ProgramError::WrittenTwice { op: 0, symbol: 1 }));
    assert_eq!(verify(vec![xor(&[0], 2), xor(&[1], 2)]), Err(ProgramError::WrittenTwice { op: 1, symbol: 2 }));
    assert_eq!(verify(vec![dot(&[0], &[2, 2], &[&[1], &[2]])]), Err(ProgramError::WrittenTwice { op: 0, symbol: 2 }));
    assert_eq!(
        verify(vec![dot(&[0, 1], &[2], &[&[1]])]),
        Err(ProgramError::WrongCoefficients { op: 0, rows: 1, columns: 1, targets: 1, sources: 2 })
    );
    assert_eq!(verify(vec![xor(&[0], 2)]), Err(ProgramError::OutputNotWritten { output: 1 }));
    let endless = Program { temporary_count: usize::MAX, ..program(Vec::new()) };
    assert!(matches!(endless.verify(), Err(ProgramError::TooManySymbols { input_count: 2, output_count: 2, .. })));
}
