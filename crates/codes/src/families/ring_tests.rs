use super::*;
use crate::reference;

/// A word of even parity, one byte a strip, and its stored strips.
fn made_up(strip_count: usize, seed: usize) -> Vec<u8> {
    let mut word: Vec<u8> = (0..strip_count - 1).map(|place| (place * 37 + seed * 101 + place * seed) as u8).collect();
    word.push(word.iter().fold(0, |sum, strip| sum ^ strip));
    word
}

fn product(word: &[u8], exponents: &[usize]) -> Vec<u8> {
    let count = word.len();
    (0..count).map(|i| exponents.iter().fold(0, |sum, s| sum ^ word[(i + count - s % count) % count])).collect()
}

#[test]
fn quotients_times_divisors_are_the_dividends() {
    for count in [3usize, 5, 7, 11, 25] {
        for (a, b) in [(1, 0), (0, 1), (2, 1), (1, 3), (4, 2), (3, 7)] {
            // Differences here are 1, 2 and 4: prime to every odd count.
            let (p, q) = (made_up(count, 1), made_up(count, 2));
            let mut builder = Builder::new(count, 2 * (count - 1), count - 1);
            let (x, y) = (builder.input(0), builder.input(count - 1));
            let quotient = builder.quotient(&[x, Word::zero(), y.shifted(3)], a, b);
            (0..count - 1).for_each(|place| builder.output(place, std::slice::from_ref(&quotient), place));
            let inputs: Vec<Vec<u8>> = p[..count - 1].iter().chain(&q[..count - 1]).map(|&strip| vec![strip]).collect();
            let mut result: Vec<u8> = reference::run(&builder.finish(), &inputs).concat();
            result.push(result.iter().fold(0, |sum, strip| sum ^ strip));
            let dividend: Vec<u8> = product(&p, &[0]).iter().zip(product(&q, &[3])).map(|(x, y)| x ^ y).collect();
            assert_eq!(product(&result, &[a, b]), dividend, "{count} strips over z^{a} + z^{b}");
        }
    }
}

#[test]
fn sums_and_shifts() {
    let (p, q) = (made_up(5, 3), made_up(5, 4));
    let mut builder = Builder::new(5, 8, 4);
    let (x, y) = (builder.input(0), builder.input(4));
    let sum = builder.sum(&[x.shifted(2), y.shifted(9)]);
    assert_eq!(builder.sum(&[Word::zero(), sum.clone()]), sum);
    (0..4).for_each(|place| builder.output(place, &[sum.clone(), x.clone()], place));
    let inputs: Vec<Vec<u8>> = p[..4].iter().chain(&q[..4]).map(|&strip| vec![strip]).collect();
    let right: Vec<u8> = product(&p, &[0, 2]).iter().zip(product(&q, &[9])).map(|(x, y)| x ^ y).collect();
    assert_eq!(reference::run(&builder.finish(), &inputs).concat(), right[..4]);
}

#[test]
fn polynomials_through_points_have_the_values() {
    let (count, exponents) = (11, [4usize, 0, 9, 2]);
    let values: Vec<Vec<u8>> = (0..4).map(|seed| made_up(count, seed)).collect();
    let mut builder = Builder::new(count, 4 * (count - 1), 4 * (count - 1));
    let words: Vec<Word> = (0..4).map(|word| builder.input(word * (count - 1))).collect();
    let coefficients = builder.interpolated(&exponents, words);
    for (index, &exponent) in exponents.iter().enumerate() {
        let value = builder.evaluated(&coefficients, exponent);
        (0..count - 1)
            .for_each(|place| builder.output(index * (count - 1) + place, std::slice::from_ref(&value), place));
    }
    let inputs: Vec<Vec<u8>> = values.iter().flat_map(|word| &word[..count - 1]).map(|&strip| vec![strip]).collect();
    assert_eq!(reference::run(&builder.finish(), &inputs), inputs);
}
