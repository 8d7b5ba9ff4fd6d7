//! GF(2^8): polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), generator 2. Addition is XOR.
//!
//! All tables are made at compile time; the largest is 64 KiB.

/// The field's polynomial.
pub(crate) const POLYNOMIAL: u16 = 0x11d;

/// `EXP[i]` is 2^i; twice the period long, so that a sum of two logarithms needs no reduction.
pub(crate) const EXP: [u8; 510] = exp_table();

/// `LOG[a]` is the `i` in `0..255` with 2^i = a; `LOG[0]` is meaningless.
pub(crate) const LOG: [u8; 256] = log_table();

/// `MUL[a][b]` is the product of `a` and `b`.
pub(crate) static MUL: [[u8; 256]; 256] = mul_table();

/// The product of `a` and `b`.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] as usize + LOG[b as usize] as usize] }
}

/// The inverse of `a`; `None` for 0.
#[must_use]
pub const fn inverse(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(EXP[255 - LOG[a as usize] as usize]) }
}

/// `a / b`; `None` where `b` is 0.
#[must_use]
pub const fn divide(a: u8, b: u8) -> Option<u8> {
    match inverse(b) {
        Some(inverse) => Some(mul(a, inverse)),
        None => None,
    }
}

/// 2^`exponent`.
#[must_use]
pub const fn power_of_two(exponent: usize) -> u8 {
    EXP[exponent % 255]
}

/// `target += factor * source`, element by element over the shorter of the two.
pub(crate) fn add_multiple(target: &mut [u8], source: &[u8], factor: u8) {
    let products = &MUL[factor as usize];
    for (t, &s) in target.iter_mut().zip(source) {
        *t ^= products[s as usize];
    }
}

/// `row *= factor`.
pub(crate) fn scale(row: &mut [u8], factor: u8) {
    let products = &MUL[factor as usize];
    for element in row {
        *element = products[*element as usize];
    }
}

/// The factor that turns the first elements into the second ones, which are as many; `None` if no single factor does.
pub(crate) fn ratio(from: impl Iterator<Item = u8> + Clone, to: impl Iterator<Item = u8> + Clone) -> Option<u8> {
    let factor = from.clone().zip(to.clone()).find_map(|(from, to)| divide(to, from)).unwrap_or(0);
    from.zip(to).all(|(from, to)| mul(factor, from) == to).then_some(factor)
}

const fn exp_table() -> [u8; 510] {
    let mut table = [0; 510];
    let mut value: u16 = 1;
    let mut i = 0;
    while i < 510 {
        table[i] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

const fn mul_table() -> [[u8; 256]; 256] {
    let mut table = [[0; 256]; 256];
    let mut a = 1;
    while a < 256 {
        let mut b = 1;
        while b < 256 {
            table[a][b] = EXP[LOG[a] as usize + LOG[b] as usize];
            b += 1;
        }
        a += 1;
    }
    table
}

#[cfg(test)]
#[path = "gf_tests.rs"]
mod tests;
