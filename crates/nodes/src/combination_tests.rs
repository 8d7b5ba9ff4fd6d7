use super::*;

#[test]
fn what_is_too_large_is_refused_before_anything_is_done() {
    let xor = |from: Vec<usize>| Op::Xor { from, to: 1 };
    let program = |ops, temporary_count| Program { input_count: 1, output_count: 1, temporary_count, ops };
    let part = |bytes| Part { starts: vec![0], bytes };
    let cost = |program, parts| Combination { payload_bytes: 100 << 20, program, parts }.cost();
    let one = || program(vec![xor(vec![0])], 0);
    assert!(cost(one(), vec![part(1 << 20)]).is_ok());
    for (what, refused) in [
        ("symbols", cost(program(vec![xor(vec![0])], usize::MAX), vec![])),
        ("coefficients", cost(program(vec![xor(vec![0; TERMS_MAX + 1])], 0), vec![])),
        ("bytes to be sent", cost(one(), vec![part(10 << 20); 7])),
        ("multiplications", cost(program(vec![xor(vec![0; 1 << 10])], 0), vec![part(5 << 20)])),
        ("bytes to be read", {
            // Much is read and nothing sent.
            let silent = Program { input_count: 1, output_count: 0, temporary_count: 0, ops: vec![] };
            cost(silent, vec![part(65 << 20)])
        }),
    ] {
        assert!(matches!(refused, Err(CombinationError::TooLarge { what: found, .. }) if found == what), "{refused:?}");
    }
    let wrong_count = Combination { payload_bytes: 9, program: one(), parts: vec![Part { starts: vec![], bytes: 1 }] };
    assert_eq!(wrong_count.cost(), Err(CombinationError::Inputs { given: 0, expected: 1 }));
    let outside =
        Combination { payload_bytes: 9, program: one(), parts: vec![Part { starts: vec![u64::MAX], bytes: 1 }] };
    assert!(matches!(outside.cost(), Err(CombinationError::Outside { .. })));
}
