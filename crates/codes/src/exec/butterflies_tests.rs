use super::*;

/// What the network does, by the definition, to the columns of the identity.
fn matrix_of(network: &Butterflies) -> Matrix {
    let size = network.factors.len() + 1;
    let scale = |index: usize| network.scales.get(index).copied().unwrap_or(1);
    let columns: Vec<Vec<u8>> = (0..size)
        .map(|one| {
            let mut values: Vec<u8> = (0..size).map(|index| u8::from(index == one)).collect();
            if network.is_inverse {
                values.iter_mut().enumerate().for_each(|(index, value)| *value = gf::mul(*value, scale(index)));
                inverse(network, &mut values, 0);
            } else {
                forward(network, &mut values, 0);
                values.iter_mut().enumerate().for_each(|(index, value)| *value = gf::mul(*value, scale(index)));
            }
            values
        })
        .collect();
    Matrix::from_fn(size, size, |row, column| columns[column][row])
}

fn forward(network: &Butterflies, values: &mut [u8], block: usize) {
    if values.len() == 1 {
        return;
    }
    let (a, b) = values.split_at_mut(values.len() / 2);
    for (a, b) in a.iter_mut().zip(b.iter_mut()) {
        *a ^= gf::mul(network.factors[block], *b);
        *b ^= *a;
    }
    forward(network, a, 2 * block + 1);
    forward(network, b, 2 * block + 2);
}

fn inverse(network: &Butterflies, values: &mut [u8], block: usize) {
    if values.len() == 1 {
        return;
    }
    let (a, b) = values.split_at_mut(values.len() / 2);
    inverse(network, a, 2 * block + 1);
    inverse(network, b, 2 * block + 2);
    for (a, b) in a.iter_mut().zip(b.iter_mut()) {
        *b ^= *a;
        *a ^= gf::mul(network.factors[block], *b);
    }
}

#[test]
fn networks_are_found() {
    for size in [4, 8, 16] {
        for is_inverse in [false, true] {
            for seed in 0..200usize {
                let byte = |index: usize| (((seed + 1) * (index * index + 37 * index + 11)) >> 3) as u8;
                let factors: Vec<u8> = (0..size - 1).map(byte).collect();
                let scales = (0..size).map(|index| byte(index + 50).max(1)).collect();
                let scales = if seed % 2 == 0 { scales } else { Vec::new() };
                let network = Butterflies { is_inverse, factors, scales };
                let matrix = matrix_of(&network);
                assert_eq!(network.matrix(), matrix);
                let found = Butterflies::of(&matrix).expect("it is one");
                assert_eq!(matrix_of(&found), matrix);
                let broken = Matrix::from_fn(size, size, |row, column| {
                    matrix.at(row, column) ^ u8::from((row, column) == (seed % size, seed / size % size))
                });
                assert!(Butterflies::of(&broken).is_none_or(|found| matrix_of(&found) == broken));
            }
        }
    }
}

#[test]
fn other_matrices_are_no_networks() {
    assert_eq!(Butterflies::of(&Matrix::zero(8, 8)), None);
    assert_eq!(Butterflies::of(&Matrix::identity(2)), None);
    assert_eq!(Butterflies::of(&Matrix::identity(32)), None);
    assert_eq!(Butterflies::of(&Matrix::zero(4, 8)), None);
    assert_eq!(Butterflies::of(&crate::families::rs::normalised_cauchy(8, 8)), None);
}

/// All transforms of wide codes are found.
#[test]
fn transforms_are_networks() {
    for spec in ["rs:64+64", "rs:128+128", "rs:32+32"] {
        let code = crate::parse(spec).expect(spec);
        for op in &code.encode().ops {
            let coefficients = op.coefficients();
            if (coefficients.rows(), coefficients.columns()) == (MOST_POINTS, MOST_POINTS) {
                assert!(Butterflies::of(&coefficients).is_some(), "{spec}: {coefficients}");
            }
        }
    }
}
