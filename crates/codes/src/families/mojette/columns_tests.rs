use super::*;

fn of(count: usize, columns: &[usize]) -> Columns {
    let mut set = Columns::none(count);
    columns.iter().for_each(|&column| set.add(column));
    set
}

#[test]
fn columns_are_moved_within_their_row() {
    for count in [1usize, 3, 63, 64, 65, 128, 200] {
        let columns: Vec<usize> = (0..count).filter(|column| column * column % 7 < 3).collect();
        for by in -(count as isize) - 70..=count as isize + 70 {
            let mut moved = of(count, &[count - 1]);
            moved.add_moved(&of(count, &columns), by);
            let mut right: Vec<usize> = columns
                .iter()
                .filter_map(|&column| column.checked_add_signed(by))
                .filter(|&column| column < count)
                .chain([count - 1])
                .collect();
            right.sort_unstable();
            right.dedup();
            assert_eq!(
                (0..count).filter(|&column| moved.has(column)).collect::<Vec<_>>(),
                right,
                "{count} columns by {by}"
            );
            assert_eq!(moved.len(), right.len());
        }
    }
}
